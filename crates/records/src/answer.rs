//! Answers: records of a file in the format that a client asks for.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;

use crate::assembly::{Assembly, Made, long};
use crate::batch::{Computed, Extent, Part, Piece};
use crate::decode::{BatchLimits, Decoder};
use crate::error::{RecordsError, Result};
use crate::evaluate::{evaluate, uncomputed};
use crate::expression::Expression;
use crate::limits::Limits;
use crate::plan::{Plan, Source};
use crate::query::Format;
use crate::stored::{Dictionary, Form, Message, ReadAt, Reader, Stored};

/// Most columns with their children, counted in each record batch, of an answer that is made where that must not take
/// long.
const SHORT: usize = 4096;

/// Most values, counted in each step of computing, of an answer that is made there.
const VALUES_AT_ONCE: i64 = 1 << 18;

/// An answer that is ready to be sent.
pub struct Answered {
    pub(crate) assembly: Assembly,
    /// Its form.
    pub form: Form,
}

impl Answered {
    /// Bytes of the answer.
    pub fn bytes(&self) -> u64 {
        self.assembly.bytes()
    }

    /// Writes the answer; `read` fills a buffer from a place in the file.
    ///
    /// # Errors
    /// Those of `read` and of reading what was made.
    pub fn write_to(
        self,
        out: &mut Vec<u8>,
        read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        self.assembly.write_to(out, read)
    }
}

/// Reads the records of a file of `size` bytes in this format, within limits. `read` fills a buffer from a place in the
/// file.
///
/// # Errors
/// See [`RecordsError`].
pub fn answer(
    stored: &Stored,
    format: &Format,
    size: u64,
    limits: &Limits,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Result<Answered> {
    let plan = Plan::new(stored, format)?;
    assemble(stored, &plan, limits, &Reader { size, read })
}

fn assemble<R: ReadAt>(
    stored: &Stored,
    plan: &Plan<'_>,
    limits: &Limits,
    reader: &Reader<R>,
) -> Result<Answered> {
    if plan.is_projection() {
        return Ok(Answered { assembly: project(stored, plan, limits, reader)?, form: plan.form });
    }
    // Buffers are checked before they are decoded; what is not found then, the library may meet by a panic.
    let computed = catch_unwind(AssertUnwindSafe(|| match plan.filter {
        Some(_) => filtered(stored, plan, limits, reader),
        None => derive(stored, plan, limits, reader),
    }));
    let damaged = |_| RecordsError::invalid(0, "columns that contradict each other");
    Ok(Answered { assembly: computed.map_err(damaged)??, form: plan.form })
}

/// As [`answer`], if the file has few record batches and little has to be computed. `read` fails if it would wait.
pub(crate) fn answer_at_once(
    stored: &Stored,
    format: &Format,
    size: u64,
    limits: &Limits,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Option<Answered> {
    let messages = stored.known_messages()?.max(1);
    let is_short = |arrays: usize| messages * arrays <= SHORT;
    // A look-up for each of many names takes long, too.
    if !is_short(format.fields.len()) {
        return None;
    }
    let mut plan = Plan::new(stored, format).ok()?;
    if !is_short(plan.arrays(stored)) {
        return None;
    }
    if !plan.is_projection() {
        let most_rows = VALUES_AT_ONCE / (messages * plan.operations()) as i64;
        plan.limits = BatchLimits { most_rows, decompresses: false };
    }
    assemble(stored, &plan, limits, &Reader { size, read }).ok()
}

/// Some columns of all records: metadata is made, and bodies are extents of the file.
fn project<R: ReadAt>(
    stored: &Stored,
    plan: &Plan<'_>,
    limits: &Limits,
    reader: &Reader<R>,
) -> Result<Assembly> {
    let columns = plan.columns();
    let mut assembly = Assembly::new(plan.form, plan.schema(stored, Vec::new()), limits)?;
    let mut dictionaries = Dictionaries::new(stored, &columns, plan.form);
    for message in stored.messages(reader) {
        limits.check()?;
        let message = message?;
        if let Some(dictionary) = message.dictionary {
            dictionaries.add(&mut assembly, &message, dictionary, reader)?;
            continue;
        }
        let parts = columns.iter().map(|&column| Part::Column(column));
        let (batch, body) = message.batch.project(parts, &stored.layouts, &message.body, message.at)?;
        assembly.add(&batch, None, body, reader)?;
    }
    assembly.end()
}

/// All records, with fields that are computed: these are made, and the others are extents of the file.
fn derive<R: ReadAt>(
    stored: &Stored,
    plan: &Plan<'_>,
    limits: &Limits,
    reader: &Reader<R>,
) -> Result<Assembly> {
    let columns = plan.columns();
    let mut decoder = Decoder::new(stored, plan.computed_from(stored)?, plan.limits);
    let schema = plan.schema(stored, derived_fields(plan, &decoder.none())?);
    let mut assembly = Assembly::new(plan.form, schema, limits)?;
    let mut dictionaries = Dictionaries::new(stored, &columns, plan.form);
    for message in stored.messages(reader) {
        limits.check()?;
        let message = message?;
        if let Some(dictionary) = message.dictionary {
            decoder.add_dictionary(&message, dictionary, reader)?;
            dictionaries.add(&mut assembly, &message, dictionary, reader)?;
            continue;
        }
        let records = decoder.read(&message, reader)?;
        let computed = |field: &Source<'_>| match field {
            Source::Stored { .. } => Ok(None),
            Source::Derived { value, .. } => {
                field_values(value, &records).map(|array| Some(Computed::of(&array)))
            }
        };
        let computed = plan.fields.iter().map(computed).collect::<Result<Vec<_>>>()?;
        let parts = plan.fields.iter().zip(&computed).filter_map(|(field, computed)| match field {
            Source::Stored { column, .. } => Some(Part::Column(*column)),
            Source::Derived { .. } => computed.as_ref().map(Part::Computed),
        });
        let (batch, body) = message.batch.project(parts, &stored.layouts, &message.body, message.at)?;
        assembly.add(&batch, None, body, reader)?;
    }
    assembly.end()
}

/// The records for which the filter is true, batch by batch.
fn filtered<R: ReadAt>(
    stored: &Stored,
    plan: &Plan<'_>,
    limits: &Limits,
    reader: &Reader<R>,
) -> Result<Assembly> {
    let mut columns = [plan.columns(), plan.computed_from(stored)?].concat();
    columns.sort_unstable();
    columns.dedup();
    let place = |column| columns.binary_search(&column).expect("it is one of them");
    let mut decoder = Decoder::new(stored, columns.clone(), plan.limits);
    let schema = Arc::new(plan.schema(stored, derived_fields(plan, &decoder.none())?));
    Assembly::whole(limits, |made| {
        let mut writer = Writer::new(plan.form, made, &schema)?;
        for message in stored.messages(reader) {
            limits.check()?;
            let message = message?;
            if let Some(dictionary) = message.dictionary {
                decoder.add_dictionary(&message, dictionary, reader)?;
                continue;
            }
            let records = chosen(plan, &decoder.read(&message, reader)?)?;
            if records.num_rows() == 0 {
                continue;
            }
            let values = plan.fields.iter().map(|field| match field {
                Source::Stored { column, .. } => Ok(Arc::clone(records.column(place(*column)))),
                Source::Derived { value, .. } => field_values(value, &records),
            });
            let options = RecordBatchOptions::new().with_row_count(Some(records.num_rows()));
            let values = values.collect::<Result<Vec<_>>>()?;
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), values, &options);
            writer.write(&batch.map_err(uncomputed)?)?;
        }
        writer.finish()
    })
}

/// The records for which the filter of a plan is true.
fn chosen(plan: &Plan<'_>, records: &RecordBatch) -> Result<RecordBatch> {
    let Some(filter) = plan.filter else { return Ok(records.clone()) };
    let values = evaluate(filter, records)?.into_array(records.num_rows())?;
    let Some(values) = values.as_boolean_opt() else {
        return Err(RecordsError::query("where needs a condition, such as a=1"));
    };
    filter_record_batch(records, values).map_err(uncomputed)
}

/// Values of a computed field: numbers or truth.
fn field_values(value: &Expression, records: &RecordBatch) -> Result<ArrayRef> {
    let values = evaluate(value, records)?.into_array(records.num_rows())?;
    match values.data_type() {
        DataType::Int64 | DataType::Float64 | DataType::Boolean => Ok(values),
        other => {
            Err(RecordsError::query(format!("computed fields are numbers or true and false, not {other}")))
        }
    }
}

/// Computed fields, in order; `none` are records without rows.
fn derived_fields(plan: &Plan<'_>, none: &RecordBatch) -> Result<Vec<Field>> {
    if let Some(filter) = plan.filter {
        evaluate(filter, none)?.into_array(0)?;
        chosen(plan, none)?;
    }
    let derived = plan.fields.iter().filter_map(|field| match field {
        Source::Stored { .. } => None,
        Source::Derived { name, value } => Some((name, value)),
    });
    let field = |(name, value): (&&str, &&Expression)| {
        field_values(value, none).map(|values| Field::new(*name, values.data_type().clone(), true))
    };
    derived.map(field).collect()
}

/// Writer of whole record batches.
enum Writer<'a> {
    File(FileWriter<&'a mut Made>),
    Stream(StreamWriter<&'a mut Made>),
}

impl<'a> Writer<'a> {
    fn new(form: Form, made: &'a mut Made, schema: &Schema) -> Result<Writer<'a>> {
        let writer = match form {
            Form::File => FileWriter::try_new(made, schema).map(Writer::File),
            Form::Stream => StreamWriter::try_new(made, schema).map(Writer::Stream),
        };
        writer.map_err(unwritten)
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let written = match self {
            Writer::File(writer) => writer.write(batch),
            Writer::Stream(writer) => writer.write(batch),
        };
        written.map_err(unwritten)
    }

    fn finish(self) -> Result<()> {
        let finished = match self {
            Writer::File(mut writer) => writer.finish(),
            Writer::Stream(mut writer) => writer.finish(),
        };
        finished.map_err(unwritten)
    }
}

fn unwritten(error: ArrowError) -> RecordsError {
    match error {
        ArrowError::IoError(_, error) => long(error),
        error => uncomputed(error),
    }
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
    pub(crate) fn add<R: ReadAt>(
        &mut self,
        assembly: &mut Assembly,
        message: &Message,
        dictionary: Dictionary,
        reader: &Reader<R>,
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
            let whole = Extent { range: message.body.clone(), zeros: 0 };
            assembly.add(
                &message.batch,
                Some(Dictionary { id: number, is_delta }),
                vec![Piece::Stored(whole)],
                reader,
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
