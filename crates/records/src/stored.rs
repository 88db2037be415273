//! Stored records: the schema of an Arrow IPC file or stream, and its messages. Bodies are not read.

use std::io;
use std::ops::Range;

use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::{self as ipc, MetadataVersion, Type};
use arrow_schema::Schema;
use flatbuffers::VerifierOptions;

use crate::batch::Batch;
use crate::error::{RecordsError, Result};
use crate::layout::{Layout, unsound};

/// Marks of a file: at its beginning, before two bytes of padding, and at its end.
pub(crate) const MAGIC: &[u8; 6] = b"ARROW1";

/// Mark of a message.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

/// Mark, and length of the metadata.
const PREFIX: u64 = 8;

/// Length of the footer, and the mark behind it.
const TRAILER: u64 = 10;

/// Most bytes of the metadata of a message, and of a footer.
const METADATA_LIMIT: u64 = 4 << 20;

/// Most messages of a file.
pub(crate) const MOST_MESSAGES: usize = 1 << 16;

/// Limits of metadata: about 20,000 columns.
const LIMITS: VerifierOptions = VerifierOptions {
    max_depth: 64,
    max_tables: 1 << 16,
    max_apparent_size: 64 << 20,
    ignore_missing_null_terminator: false,
};

/// Form of Arrow IPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Messages in order.
    Stream,
    /// Messages with a footer that says where they are.
    File,
}

impl Form {
    /// Its name in queries.
    pub fn name(self) -> &'static str {
        match self {
            Form::Stream => "stream",
            Form::File => "file",
        }
    }

    /// Its registered content type.
    pub fn content_type(self) -> &'static str {
        match self {
            Form::Stream => "application/vnd.apache.arrow.stream",
            Form::File => "application/vnd.apache.arrow.file",
        }
    }
}

/// Stored records.
#[derive(Debug)]
pub struct Stored {
    /// Form of the file.
    pub form: Form,
    /// Its schema.
    pub schema: Schema,
    pub(crate) layouts: Vec<Layout>,
    source: Source,
}

/// Place of the messages behind the schema.
#[derive(Debug)]
enum Source {
    /// Blocks of the footer: those of dictionaries first.
    Blocks(Vec<Range<u64>>),
    /// Messages one behind the other, in this range of bytes.
    Stream(Range<u64>),
}

/// A message.
#[derive(Debug)]
pub(crate) struct Message {
    /// Place of its metadata.
    pub(crate) at: u64,
    /// Place of its body.
    pub(crate) body: Range<u64>,
    /// The dictionary whose values it has; none of records.
    pub(crate) dictionary: Option<Dictionary>,
    pub(crate) batch: Batch,
}

/// Identifier of a dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dictionary {
    pub(crate) id: i64,
    /// Its values follow those that were before.
    pub(crate) is_delta: bool,
}

/// Function that fills a buffer from a place in a file.
pub(crate) trait ReadAt: Fn(&mut [u8], u64) -> io::Result<()> {}

impl<F: Fn(&mut [u8], u64) -> io::Result<()>> ReadAt for F {}

/// Reads `bytes` at a place of a file of `size` bytes.
pub(crate) struct Reader<R> {
    pub(crate) size: u64,
    pub(crate) read: R,
}

impl<R: ReadAt> Reader<R> {
    pub(crate) fn bytes(&self, range: Range<u64>) -> Result<Vec<u8>> {
        debug_assert!(range.end <= self.size && range.end - range.start <= METADATA_LIMIT + PREFIX);
        let mut bytes = vec![0; (range.end - range.start) as usize];
        (self.read)(&mut bytes, range.start)?;
        Ok(bytes)
    }

    /// Reads the metadata of a message before `end`; none at the end of a stream.
    fn metadata(&self, at: u64, end: u64) -> Result<Option<Vec<u8>>> {
        if at == end {
            return Ok(None);
        }
        if end - at < PREFIX {
            return Err(RecordsError::invalid(at, "a message that is cut off"));
        }
        let prefix = self.bytes(at..at + PREFIX)?;
        if prefix[..4] != CONTINUATION {
            return Err(RecordsError::invalid(
                at,
                "no message (streams of Arrow before 0.15 are not served)",
            ));
        }
        let length = u64::from(u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]));
        if length == 0 {
            return Ok(None);
        }
        if length > METADATA_LIMIT {
            let why =
                format!("a message with {length} bytes of metadata; at most {METADATA_LIMIT} are allowed");
            return Err(RecordsError::Unsupported(why));
        }
        if length > end - at - PREFIX {
            return Err(RecordsError::invalid(at, "a message that is cut off"));
        }
        self.bytes(at + PREFIX..at + PREFIX + length).map(Some)
    }
}

impl Stored {
    /// Reads the schema of a file of `size` bytes. `read` fills a buffer from a place in the file.
    ///
    /// # Errors
    /// See [`RecordsError`].
    pub fn open(size: u64, read: impl Fn(&mut [u8], u64) -> io::Result<()>) -> Result<Stored> {
        let reader = Reader { size, read };
        let head = reader.bytes(0..size.min(PREFIX))?;
        if head.starts_with(MAGIC) {
            Stored::open_file(&reader)
        } else if head.starts_with(&CONTINUATION) {
            Stored::open_stream(&reader)
        } else {
            Err(RecordsError::Unsupported("neither an Arrow IPC file nor a stream".into()))
        }
    }

    fn open_file<R: ReadAt>(reader: &Reader<R>) -> Result<Stored> {
        let size = reader.size;
        let end = size.saturating_sub(TRAILER);
        let cut_off = |at| RecordsError::invalid(at, "no footer: the file is cut off");
        if size < PREFIX + TRAILER {
            return Err(cut_off(size));
        }
        let trailer = reader.bytes(end..size)?;
        let length = u64::from(u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]));
        if trailer[4..] != MAGIC[..] || length > end - PREFIX {
            return Err(cut_off(end));
        }
        if length > METADATA_LIMIT {
            let why = format!("a footer of {length} bytes; at most {METADATA_LIMIT} are allowed");
            return Err(RecordsError::Unsupported(why));
        }
        let start = end - length;
        let bytes = reader.bytes(start..end)?;
        let footer = ipc::root_as_footer_with_opts(&LIMITS, &bytes)
            .map_err(|error| RecordsError::invalid(start, error.to_string()))?;
        let schema =
            footer.schema().ok_or_else(|| RecordsError::invalid(start, "a footer without a schema"))?;
        let blocks =
            footer.dictionaries().into_iter().flatten().chain(footer.recordBatches().into_iter().flatten());
        let place = |block: &ipc::Block| {
            let (at, metadata) =
                (u64::try_from(block.offset()).ok()?, u64::try_from(block.metaDataLength()).ok()?);
            let length = metadata.checked_add(u64::try_from(block.bodyLength()).ok()?)?;
            let range = at..at.checked_add(length)?;
            (at >= PREFIX && range.end <= start && length >= PREFIX).then_some(range)
        };
        let blocks: Option<Vec<_>> = blocks.map(place).collect();
        let blocks = blocks.ok_or_else(|| RecordsError::invalid(start, "a record batch outside the file"))?;
        if blocks.len() > MOST_MESSAGES {
            return Err(too_many());
        }
        // Or a small file could be read and answered many thousand times over.
        let all = blocks.iter().try_fold(0, |all: u64, block| all.checked_add(block.end - block.start));
        if all.is_none_or(|all| all > size) {
            return Err(RecordsError::invalid(start, "record batches that overlap"));
        }
        Stored::new(Form::File, footer.version(), schema, start, Source::Blocks(blocks))
    }

    fn open_stream<R: ReadAt>(reader: &Reader<R>) -> Result<Stored> {
        let bytes = reader.metadata(0, reader.size)?;
        let bytes = bytes.ok_or_else(|| RecordsError::invalid(0, "a stream without a schema"))?;
        let message = ipc::root_as_message_with_opts(&LIMITS, &bytes)
            .map_err(|error| RecordsError::invalid(0, error.to_string()))?;
        let schema = message.header_as_schema();
        let schema =
            schema.ok_or_else(|| RecordsError::invalid(0, "a stream that begins without a schema"))?;
        let rest = Source::Stream(PREFIX + bytes.len() as u64..reader.size);
        Stored::new(Form::Stream, message.version(), schema, 0, rest)
    }

    fn new(
        form: Form,
        version: MetadataVersion,
        schema: ipc::Schema<'_>,
        at: u64,
        source: Source,
    ) -> Result<Stored> {
        if version != MetadataVersion::V5 {
            return Err(RecordsError::Unsupported("an Arrow format before 1.0".into()));
        }
        if schema.endianness() != ipc::Endianness::Little {
            return Err(RecordsError::Unsupported("values in big-endian order".into()));
        }
        if schema.fields().into_iter().flatten().any(has_wide_union) {
            return Err(RecordsError::Unsupported("a union of more than 128 types".into()));
        }
        let schema =
            try_fb_to_schema(schema).map_err(|error| RecordsError::invalid(at, error.to_string()))?;
        if let Some(why) = schema.fields().iter().find_map(|field| unsound(field)) {
            return Err(RecordsError::invalid(at, why));
        }
        let layouts = schema.fields().iter().map(|field| Layout::of(field)).collect();
        Ok(Stored { form, schema, layouts, source })
    }

    /// Number of messages, where it is known before they are read.
    pub(crate) fn known_messages(&self) -> Option<usize> {
        match &self.source {
            Source::Blocks(blocks) => Some(blocks.len()),
            Source::Stream(_) => None,
        }
    }

    /// The messages behind the schema, in order. An error is the last.
    pub(crate) fn messages<'a, R: ReadAt>(
        &'a self,
        reader: &'a Reader<R>,
    ) -> Box<dyn Iterator<Item = Result<Message>> + 'a> {
        match &self.source {
            Source::Blocks(blocks) => Box::new(blocks.iter().map(|block| {
                let cut_off = || {
                    RecordsError::invalid(
                        block.start,
                        "the end of the stream where a record batch is said to be",
                    )
                };
                let metadata = reader.metadata(block.start, block.end)?.ok_or_else(cut_off)?;
                Message::read(&metadata, block.start, block.end)
            })),
            Source::Stream(range) => {
                let (mut at, end, mut count) = (range.start, range.end, 0);
                Box::new(std::iter::from_fn(move || {
                    let message = reader.metadata(at, end).transpose()?;
                    let message = message.and_then(|metadata| Message::read(&metadata, at, end));
                    count += 1;
                    at = message.as_ref().map_or(end, |message| message.body.end);
                    Some(if count > MOST_MESSAGES { Err(too_many()) } else { message })
                }))
            }
        }
    }
}

fn too_many() -> RecordsError {
    RecordsError::Unsupported(format!("more than {MOST_MESSAGES} record batches; store longer ones"))
}

/// Returns whether a union has more types than the library can number.
fn has_wide_union(field: ipc::Field<'_>) -> bool {
    let is_wide =
        field.type_type() == Type::Union && field.children().is_some_and(|children| children.len() > 128);
    is_wide || field.children().into_iter().flatten().any(has_wide_union)
}

impl Message {
    /// Reads metadata that is at this place; the body ends at `end` at the latest.
    fn read(metadata: &[u8], at: u64, end: u64) -> Result<Message> {
        let message = ipc::root_as_message_with_opts(&LIMITS, metadata)
            .map_err(|error| RecordsError::invalid(at, error.to_string()))?;
        if message.version() != MetadataVersion::V5 {
            return Err(RecordsError::Unsupported("an Arrow format before 1.0".into()));
        }
        let start = at + PREFIX + metadata.len() as u64;
        let length = u64::try_from(message.bodyLength()).ok().filter(|&length| length <= end - start);
        let length =
            length.ok_or_else(|| RecordsError::invalid(at, "a record batch that is longer than the file"))?;
        let (dictionary, batch) = if let Some(batch) = message.header_as_record_batch() {
            (None, Some(batch))
        } else if let Some(batch) = message.header_as_dictionary_batch() {
            (Some(Dictionary { id: batch.id(), is_delta: batch.isDelta() }), batch.data())
        } else {
            (None, None)
        };
        let batch = batch.ok_or_else(|| RecordsError::invalid(at, "a message that has no records"))?;
        let batch = Batch::read(batch, at, length)?;
        Ok(Message { at, body: start..start + length, dictionary, batch })
    }
}
