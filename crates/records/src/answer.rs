//! Answers: records of a file in the format that a client asks for.

use std::io;

use crate::assembly::{Assembly, Piece};
use crate::error::{RecordsError, Result};
use crate::plan::Plan;
use crate::query::Format;
use crate::stored::{Dictionary, Form, Message, Reader, Stored};

/// Most messages of a file whose answer is made at once, where that must not take long.
const SHORT: usize = 256;

/// An answer that is ready to be sent.
pub struct Answered {
    pub(crate) assembly: Assembly,
    /// Its form.
    pub form: Form,
}

/// Reads the records of a file of `size` bytes in this format. `read` fills a buffer from a place in the file.
///
/// # Errors
/// See [`RecordsError`].
pub fn answer(
    stored: &Stored,
    format: &Format,
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Result<Answered> {
    let plan = Plan::new(stored, format)?;
    let reader = Reader { size, read };
    let assembly = project(stored, &plan, &reader)?;
    Ok(Answered { assembly, form: plan.form })
}

/// As [`answer`], if nothing has to be computed and the file has few record batches.
pub(crate) fn answer_at_once(
    stored: &Stored,
    format: &Format,
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Option<Answered> {
    let is_short = stored.known_messages().is_some_and(|count| count <= SHORT);
    let plan = Plan::new(stored, format).ok()?;
    if !is_short || !plan.is_projection() {
        return None;
    }
    let assembly = project(stored, &plan, &Reader { size, read }).ok()?;
    Some(Answered { assembly, form: plan.form })
}

/// Some columns of all records: metadata is made, and bodies are extents of the file.
fn project<R: Fn(&mut [u8], u64) -> io::Result<()>>(
    stored: &Stored,
    plan: &Plan<'_>,
    reader: &Reader<R>,
) -> Result<Assembly> {
    let columns = plan.columns();
    let mut assembly = Assembly::new(plan.form, plan.schema(stored, Vec::new()))?;
    let mut dictionaries = Dictionaries::new(stored, &columns, plan.form);
    for message in stored.messages(reader) {
        let message = message?;
        if let Some(dictionary) = message.dictionary {
            dictionaries.add(&mut assembly, &message, dictionary)?;
            continue;
        }
        let (batch, extents) = message.batch.project(&columns, &stored.layouts, &message.body, message.at)?;
        assembly.add(&batch, None, extents.into_iter().map(Piece::Stored).collect())?;
    }
    assembly.end()
}

/// Dictionaries of the columns of an answer, by their identifiers in the file. In the answer they have others.
pub(crate) struct Dictionaries {
    /// Identifier in the file of each dictionary of the answer.
    of: Vec<i64>,
    /// Those that were there, in a form that takes each once.
    seen: Option<Vec<i64>>,
}

impl Dictionaries {
    pub(crate) fn new(stored: &Stored, columns: &[usize], form: Form) -> Dictionaries {
        let of =
            columns.iter().flat_map(|&column| stored.layouts[column].dictionaries.iter().copied()).collect();
        Dictionaries { of, seen: (form == Form::File).then(Vec::new) }
    }

    /// Adds the values of a dictionary, if the answer has it.
    pub(crate) fn add(
        &mut self,
        assembly: &mut Assembly,
        message: &Message,
        dictionary: Dictionary,
    ) -> Result<()> {
        let Dictionary { id, is_delta } = dictionary;
        if let Some(seen) = &mut self.seen
            && self.of.contains(&id)
        {
            if seen.contains(&id) && !is_delta {
                let why = "a dictionary that is replaced on the way, which the form `file` does not have; use form=stream";
                return Err(RecordsError::Query(why.into()));
            }
            seen.push(id);
        }
        for number in (0..).zip(&self.of).filter(|(_, of)| **of == id).map(|(number, _)| number) {
            let whole = crate::batch::Extent { range: message.body.clone(), zeros: 0 };
            assembly.add(
                &message.batch,
                Some(Dictionary { id: number, is_delta }),
                vec![Piece::Stored(whole)],
            )?;
        }
        Ok(())
    }
}
