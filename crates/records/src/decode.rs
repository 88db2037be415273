//! Decoding of the columns that have to be computed with. All else stays in the file.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{self as ipc, MetadataVersion};
use arrow_schema::{Field, Schema, SchemaRef};

use crate::batch::{Batch, Extent, Part, Piece};
use crate::compression::decompress;
use crate::encode;
use crate::error::{RecordsError, Result};
use crate::stored::{Dictionary, Message, ReadAt, Reader, Stored};

/// Most bytes of a record batch that are read for computing, and that they have without compression.
const MOST_BYTES: u64 = 256 << 20;

/// Bytes before the metadata of a message that is made.
const PREFIX: usize = 8;

/// Decoder of some columns of stored records, and their dictionaries so far.
pub(crate) struct Decoder<'a> {
    stored: &'a Stored,
    columns: Vec<usize>,
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    limits: BatchLimits,
}

/// Limits of a record batch that is computed with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchLimits {
    pub(crate) most_rows: i64,
    /// It may be compressed.
    pub(crate) decompresses: bool,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(stored: &'a Stored, columns: Vec<usize>, limits: BatchLimits) -> Decoder<'a> {
        let fields: Vec<Field> = columns.iter().map(|&column| stored.schema.field(column).clone()).collect();
        Decoder {
            stored,
            columns,
            schema: Arc::new(Schema::new(fields)),
            dictionaries: HashMap::new(),
            limits,
        }
    }

    /// Records without rows.
    pub(crate) fn none(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.schema))
    }

    /// Reads the columns of a record batch.
    pub(crate) fn read<R: ReadAt>(&self, message: &Message, reader: &Reader<R>) -> Result<RecordBatch> {
        self.limits.check(&message.batch)?;
        let parts = self.columns.iter().map(|&column| Part::Column(column));
        let (batch, body) = message.batch.project(parts, &self.stored.layouts, &message.body, message.at)?;
        let layouts = self.columns.iter().map(|&column| &self.stored.layouts[column]);
        let (batch, body) = decompress(batch, read_body(&body, reader)?, MOST_BYTES, message.at)?;
        batch.check_lengths(layouts, message.at)?;
        let head = encode::batch(&batch, None, body.len() as u64);
        let undecoded = |why: String| RecordsError::invalid(message.at, why);
        let head = ipc::root_as_message(&head[PREFIX..]).map_err(|error| undecoded(error.to_string()))?;
        let head = head.header_as_record_batch().ok_or_else(|| undecoded("no record batch".into()))?;
        let (schema, version) = (Arc::clone(&self.schema), MetadataVersion::V5);
        read_record_batch(&body, head, schema, &self.dictionaries, None, &version)
            .map_err(|error| undecoded(error.to_string()))
    }

    /// Reads the values of a dictionary, if one of the columns has it.
    pub(crate) fn add_dictionary<R: ReadAt>(
        &mut self,
        message: &Message,
        dictionary: Dictionary,
        reader: &Reader<R>,
    ) -> Result<()> {
        let layouts = self.columns.iter().map(|&column| &self.stored.layouts[column]);
        let mut all = layouts.flat_map(|layout| layout.dictionaries.iter().zip(&layout.values));
        // The first is the one whose type the library takes.
        let Some((_, values)) = all.find(|(id, _)| **id == dictionary.id) else { return Ok(()) };
        self.limits.check(&message.batch)?;
        let body = [Piece::Stored(Extent { range: message.body.clone(), zeros: 0 })];
        let body = read_body(&body, reader)?;
        let (batch, body) = decompress(message.batch.clone(), body, MOST_BYTES, message.at)?;
        batch.check_lengths(std::iter::once(values), message.at)?;
        let head = encode::batch(&batch, Some(dictionary), body.len() as u64);
        let undecoded = |why: String| RecordsError::invalid(message.at, why);
        let head = ipc::root_as_message(&head[PREFIX..]).map_err(|error| undecoded(error.to_string()))?;
        let head = head.header_as_dictionary_batch().ok_or_else(|| undecoded("no dictionary".into()))?;
        read_dictionary(&body, head, &self.schema, &mut self.dictionaries, &MetadataVersion::V5)
            .map_err(|error| undecoded(error.to_string()))
    }
}

impl BatchLimits {
    /// Refuses what cannot be computed with.
    fn check(self, batch: &Batch) -> Result<()> {
        let BatchLimits { most_rows, decompresses } = self;
        if batch.compression.is_some() && !decompresses {
            return Err(RecordsError::Unsupported("compressed records".into()));
        }
        let mut lengths = batch.nodes.iter().map(|node| node.length()).chain([batch.rows]);
        if lengths.any(|length| length > most_rows) {
            let why = format!(
                "computing this with record batches of more than {most_rows} values; compute less, or store shorter ones"
            );
            return Err(RecordsError::Unsupported(why));
        }
        Ok(())
    }
}

/// Reads the pieces of a body, neighbours together.
fn read_body<R: ReadAt>(body: &[Piece<'_>], reader: &Reader<R>) -> Result<Buffer> {
    let length: u64 = body.iter().map(Piece::length).sum();
    if length > MOST_BYTES {
        let why =
            format!("computing with record batches of more than {MOST_BYTES} bytes; store shorter ones");
        return Err(RecordsError::Unsupported(why));
    }
    let mut buffer = MutableBuffer::from_len_zeroed(length as usize);
    let (mut at, mut run): (usize, Option<(usize, Range<u64>)>) = (0, None);
    for piece in body {
        if let Piece::Stored(Extent { range, .. }) = piece {
            match &mut run {
                Some((start, before))
                    if before.end == range.start
                        && *start as u64 + (before.end - before.start) == at as u64 =>
                {
                    before.end = range.end;
                }
                _ => {
                    fill(&mut buffer, run.replace((at, range.clone())), reader)?;
                }
            }
        }
        at += piece.length() as usize;
    }
    fill(&mut buffer, run, reader)?;
    Ok(buffer.into())
}

/// Reads a range of the file to a place of the buffer.
fn fill<R: ReadAt>(
    buffer: &mut MutableBuffer,
    run: Option<(usize, Range<u64>)>,
    reader: &Reader<R>,
) -> Result<()> {
    let Some((at, range)) = run.filter(|(_, range)| !range.is_empty()) else { return Ok(()) };
    let length = (range.end - range.start) as usize;
    (reader.read)(&mut buffer.as_slice_mut()[at..at + length], range.start)?;
    Ok(())
}
