//! Answer that is being put together: bytes that are made, and extents of the file between them.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::ops::Range;
use std::sync::{Arc, Weak};

use arrow_ipc::Block;
use arrow_schema::Schema;
use bytes::Bytes;
use tempfile::{SpooledData, SpooledTempFile};
use wirepath_streams::{Extents, ObjectPart};

use crate::batch::{ALIGNMENT, Batch, Extent, Piece};
use crate::encode;
use crate::error::{RecordsError, Result};
use crate::limits::{Held, Limits};
use crate::stored::{Dictionary, Form, MAGIC, ReadAt, Reader};

/// Made bytes of an answer that stay in memory; more of them go to a temporary file.
const IN_MEMORY: usize = 1 << 20;

/// Runs of fewer bytes of the file are read and sent with the metadata before them: that costs less than a reference.
const SHORT: u64 = 4096;

/// Most bytes that are made for an answer.
const MOST_MADE: u64 = 1 << 30;

/// Most extents of an answer, and most runs of bytes that are made.
const MOST_EXTENTS: usize = 1 << 20;

/// Bytes that are made for an answer: in memory, then in a temporary file.
pub(crate) struct Made {
    file: SpooledTempFile,
    bytes: u64,
    held: Held,
}

impl Write for Made {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes + bytes.len() as u64 > MOST_MADE {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.held.grow(bytes.len() as u64).map_err(io::Error::other)?;
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Part of an answer.
enum Segment {
    /// So many of the bytes that are made.
    Made(u64),
    /// Extents of the file.
    Stored(Vec<Range<u64>>),
}

/// An answer of Arrow IPC that is being put together.
pub(crate) struct Assembly {
    form: Form,
    schema: Schema,
    made: Made,
    segments: Vec<Segment>,
    extents: usize,
    bytes: u64,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Assembly {
    /// Begins with a schema.
    pub(crate) fn new(form: Form, schema: Schema, limits: &Limits) -> Result<Assembly> {
        let mut assembly = Assembly::empty(form, schema, limits);
        if form == Form::File {
            assembly.make(&[&MAGIC[..], &[0; 2]].concat())?;
        }
        let head = encode::schema(&assembly.schema);
        assembly.make(&head)?;
        Ok(assembly)
    }

    fn empty(form: Form, schema: Schema, limits: &Limits) -> Assembly {
        let made = Made { file: SpooledTempFile::new(IN_MEMORY), bytes: 0, held: limits.hold() };
        let (dictionaries, batches) = (Vec::new(), Vec::new());
        Assembly { form, schema, made, segments: Vec::new(), extents: 0, bytes: 0, dictionaries, batches }
    }

    /// An answer that `write` makes as a whole.
    pub(crate) fn whole(limits: &Limits, write: impl FnOnce(&mut Made) -> Result<()>) -> Result<Assembly> {
        let mut assembly = Assembly::empty(Form::Stream, Schema::empty(), limits);
        write(&mut assembly.made)?;
        assembly.bytes = assembly.made.bytes;
        assembly.segments.push(Segment::Made(assembly.bytes));
        Ok(assembly)
    }

    /// Adds a record batch, or values of a dictionary, with its body.
    pub(crate) fn add<R: ReadAt>(
        &mut self,
        batch: &Batch,
        of: Option<Dictionary>,
        body: Vec<Piece<'_>>,
        reader: &Reader<R>,
    ) -> Result<()> {
        let all: u64 = body.iter().map(Piece::length).sum();
        // Bodies end at a multiple of the alignment, or the next message would not begin at one.
        let padding = all.next_multiple_of(ALIGNMENT) - all;
        let head = encode::batch(batch, of, all + padding);
        let block = Block::new(self.bytes as i64, head.len() as i32, (all + padding) as i64);
        if of.is_some() { &mut self.dictionaries } else { &mut self.batches }.push(block);
        self.make(&head)?;
        let mut run = 0..0;
        for piece in body {
            match piece {
                Piece::Stored(Extent { range, zeros }) => {
                    if run.end == range.start {
                        run.end = range.end;
                    } else {
                        self.store(std::mem::replace(&mut run, range), reader)?;
                    }
                    if zeros > 0 {
                        self.store(std::mem::take(&mut run), reader)?;
                        self.pad(zeros)?;
                    }
                }
                Piece::Made { prefix, bytes } => {
                    self.store(std::mem::take(&mut run), reader)?;
                    self.make(prefix)?;
                    self.make(bytes)?;
                    let length = (prefix.len() + bytes.len()) as u64;
                    self.pad(length.next_multiple_of(ALIGNMENT) - length)?;
                }
            }
        }
        self.store(run, reader)?;
        self.pad(padding)
    }

    /// Adds a range of the file: a reference, or its bytes if they are few.
    fn store<R: ReadAt>(&mut self, range: Range<u64>, reader: &Reader<R>) -> Result<()> {
        if range.end - range.start < SHORT {
            let bytes = reader.bytes(range)?;
            return self.make(&bytes);
        }
        self.refer(range)
    }

    fn pad(&mut self, zeros: u64) -> Result<()> {
        self.make(&[0; ALIGNMENT as usize][..zeros as usize])
    }

    fn make(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.made.write_all(bytes).map_err(long)?;
        self.bytes += bytes.len() as u64;
        match self.segments.last_mut() {
            Some(Segment::Made(length)) => *length += bytes.len() as u64,
            _ => self.segments.push(Segment::Made(bytes.len() as u64)),
        }
        Ok(())
    }

    fn refer(&mut self, range: Range<u64>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.bytes += range.end - range.start;
        match self.segments.last_mut() {
            Some(Segment::Stored(ranges)) => match ranges.last_mut() {
                Some(last) if last.end == range.start => {
                    last.end = range.end;
                    return Ok(());
                }
                _ => ranges.push(range),
            },
            _ => self.segments.push(Segment::Stored(vec![range])),
        }
        self.extents += 1;
        if self.extents > MOST_EXTENTS {
            return Err(RecordsError::Long(format!("more than {MOST_EXTENTS} extents of the file")));
        }
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ends the answer.
    pub(crate) fn end(mut self) -> Result<Assembly> {
        self.make(&encode::END)?;
        if self.form == Form::File {
            let footer = encode::footer(&self.schema, &self.dictionaries, &self.batches);
            self.make(&footer)?;
        }
        Ok(self)
    }

    /// Writes the answer; `read` fills a buffer from a place in the file.
    pub(crate) fn write_to(
        self,
        out: &mut Vec<u8>,
        read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let Assembly { made: Made { mut file, .. }, segments, .. } = self;
        file.rewind()?;
        for segment in segments {
            match segment {
                Segment::Made(length) => drop((&mut file).take(length).read_to_end(out)?),
                Segment::Stored(ranges) => {
                    for range in ranges {
                        let start = out.len();
                        out.resize(start + (range.end - range.start) as usize, 0);
                        read(&mut out[start..], range.start)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The parts of the answer, of this file.
    pub(crate) fn parts(self, stored: &Arc<File>) -> Vec<ObjectPart> {
        let Assembly { made, segments, .. } = self;
        let Made { file, held, .. } = made;
        let mut made = match file.into_inner() {
            SpooledData::InMemory(cursor) => {
                let bytes = cursor.into_inner();
                Source::Memory(Bytes::from_owner(InMemory { bytes, _held: held }))
            }
            SpooledData::OnDisk(file) => {
                let file = Arc::new(file);
                let owner: Weak<File> = Arc::downgrade(&file);
                held.until_dropped(owner);
                Source::File(file, 0)
            }
        };
        let part = |segment| match segment {
            Segment::Made(length) => made.take(length),
            Segment::Stored(ranges) if ranges.len() == 1 => {
                ObjectPart::Extent { file: Arc::clone(stored), range: ranges[0].clone() }
            }
            Segment::Stored(ranges) => {
                let length = ranges.iter().map(|range| range.end - range.start).sum();
                ObjectPart::Extents(Extents::new(Arc::clone(stored), length, ranges))
            }
        };
        segments.into_iter().map(part).collect()
    }
}

/// Made bytes, and their part of the budget.
struct InMemory {
    bytes: Vec<u8>,
    _held: Held,
}

impl AsRef<[u8]> for InMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Made bytes that are not yet part of the answer.
enum Source {
    Memory(Bytes),
    /// From this byte on.
    File(Arc<File>, u64),
}

impl Source {
    fn take(&mut self, length: u64) -> ObjectPart {
        match self {
            Source::Memory(bytes) => ObjectPart::Bytes(bytes.split_to(length as usize)),
            Source::File(file, at) => {
                let range = *at..*at + length;
                *at = range.end;
                ObjectPart::Extent { file: Arc::clone(file), range }
            }
        }
    }
}

/// Error of a write of what is made.
pub(crate) fn long(error: io::Error) -> RecordsError {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            RecordsError::Long(format!("more than {MOST_MADE} bytes have to be made"))
        }
        // A limit that was passed.
        _ => error.downcast().unwrap_or_else(RecordsError::Read),
    }
}
