//! A custom handler: passes lines that contain a word, and counts them, without a copy.

use std::error::Error;
use std::os::fd::AsFd;

use wirepath_streams::{
    Common, Framing, Handler, HandlerError, Object, Piece, Reach, Read, StreamBuilder, Verdict,
};

/// Lets lines pass that contain a word.
struct Containing {
    word: Vec<u8>,
    passed: u64,
}

impl Common for Containing {
    fn name(&self) -> &'static str {
        "containing"
    }

    // A word may lie across two pieces of a line, so this handler needs whole lines. The limit bounds the
    // bytes that are gathered for it.
    fn reach(&self) -> Reach {
        Reach::Records { limit: 64 * 1024 }
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("passed", self.passed)]
    }
}

impl Read for Containing {
    fn read(&mut self, line: Piece<'_>) -> Result<Verdict, HandlerError> {
        let is_there = line.bytes.windows(self.word.len()).any(|window| window == self.word);
        self.passed += u64::from(is_there);
        Ok(if is_there { Verdict::Pass } else { Verdict::Drop })
    }
}

/// `grep` as a stream: copies the lines of `input` that contain `word` to `output`. Returns the reports of
/// handlers.
pub(crate) fn grep(word: &str, input: Object, output: Object) -> Result<Vec<Report>, Box<dyn Error>> {
    if word.is_empty() {
        return Err("the word is empty".into());
    }
    let containing = Containing { word: word.into(), passed: 0 };
    let mut stream = StreamBuilder::default()
        .handler(Handler::Read(Box::new(containing)))
        .input(input, Framing::lines(64 * 1024))
        .output(output)
        .build();
    stream.run()?;
    Ok(stream.status().reports)
}

/// Name of a handler, name of a number, and the number.
type Report = (&'static str, &'static str, u64);

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).ok_or("usage: own_handler WORD")?;
    let input = Object::stream("standard input", std::io::stdin().as_fd().try_clone_to_owned()?)?;
    let output = Object::stream("standard output", std::io::stdout().as_fd().try_clone_to_owned()?)?;
    eprintln!("{:?}", grep(&word, input, output)?);
    Ok(())
}
