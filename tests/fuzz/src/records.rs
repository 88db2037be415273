//! Arrow records, queries and format descriptions for them: no bytes make their readers panic, an answer has the
//! length that was announced and refers to no byte outside its file, and an answer can be asked again.

use std::io;
use std::time::Duration;

use wirepath_records::{Budget, Format, Limits, Question, RecordsError, Stored, answer};

/// Takes a query or a format description up to the first NUL, and a file.
pub fn fuzz(data: &[u8]) {
    let middle = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (question, file) = data.split_at(middle);
    let file = file.get(1..).unwrap_or_default();
    let text = String::from_utf8_lossy(question);
    let format = match text.trim_start().starts_with(['<', '{']) {
        true => Format::describe(question),
        false => Question::parse(&text).map(|question| match question {
            Question::Format(format) => format,
            Question::Whole | Question::Schema => all(),
        }),
    };
    let format = format.unwrap_or_else(|error| {
        assert!(!error.to_string().is_empty());
        all()
    });
    match ask(file, &format) {
        // What is answered are records again, in the same columns.
        Ok(made) => drop(ask(&made, &all()).expect("an answer of our own")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn all() -> Format {
    match Question::parse("select=*") {
        Ok(Question::Format(format)) => format,
        other => panic!("{other:?}"),
    }
}

fn ask(file: &[u8], format: &Format) -> Result<Vec<u8>, RecordsError> {
    let read = |bytes: &mut [u8], at: u64| {
        let found = usize::try_from(at).ok().and_then(|at| file.get(at..at.checked_add(bytes.len())?));
        bytes.copy_from_slice(found.expect("nothing outside the file is read"));
        io::Result::Ok(())
    };
    let stored = Stored::open(file.len() as u64, read)?;
    let limits = Limits::new(Budget::new(1 << 30), Duration::from_secs(60));
    let answered = answer(&stored, format, file.len() as u64, &limits, read)?;
    let (mut made, announced) = (Vec::new(), answered.bytes());
    // Columns may be asked for many times, so an answer may be long.
    if announced < 16 << 20 {
        answered.write_to(&mut made, read)?;
        assert_eq!(made.len() as u64, announced);
        return Ok(made);
    }
    Err(RecordsError::Long("too long to be looked at here".into()))
}
