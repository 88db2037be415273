//! Messages of Arrow IPC that are made: schemas, heads of record batches and dictionaries, footers.

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::writer::DictionaryTracker;
use arrow_ipc::{self as ipc, MessageHeader, MetadataVersion};
use arrow_schema::Schema;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use crate::batch::{ALIGNMENT, Batch};
use crate::stored::{CONTINUATION, Dictionary, MAGIC};

/// End of a stream: a message without metadata.
pub(crate) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Bytes before and behind metadata of a message in a file or stream.
fn framed(metadata: &[u8]) -> Vec<u8> {
    let length = metadata.len().next_multiple_of(ALIGNMENT as usize);
    let mut bytes = Vec::with_capacity(8 + length);
    bytes.extend_from_slice(&CONTINUATION);
    bytes.extend_from_slice(&(length as u32).to_le_bytes());
    bytes.extend_from_slice(metadata);
    bytes.resize(8 + length, 0);
    bytes
}

fn message<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    kind: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    body: u64,
) -> Vec<u8> {
    let arguments = ipc::MessageArgs {
        version: MetadataVersion::V5,
        header_type: kind,
        header: Some(header),
        bodyLength: body as i64,
        custom_metadata: None,
    };
    let message = ipc::Message::create(builder, &arguments);
    builder.finish(message, None);
    framed(builder.finished_data())
}

/// Message of a schema, whose dictionaries are numbered from 0, those of children first.
pub(crate) fn schema(schema: &Schema) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let mut tracker = DictionaryTracker::new(false);
    let header = IpcSchemaEncoder::new()
        .with_dictionary_tracker(&mut tracker)
        .schema_to_fb_offset(&mut builder, schema);
    message(&mut builder, MessageHeader::Schema, header.as_union_value(), 0)
}

/// Message of a record batch, or of a dictionary's values, without its body of `body` bytes.
pub(crate) fn batch(batch: &Batch, dictionary: Option<Dictionary>, body: u64) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let nodes = builder.create_vector(&batch.nodes);
    let buffers = builder.create_vector(&batch.buffers);
    let views = (!batch.views.is_empty()).then(|| builder.create_vector(&batch.views));
    let compression = batch.compression.map(|codec| {
        let method = ipc::BodyCompressionMethod::BUFFER;
        ipc::BodyCompression::create(&mut builder, &ipc::BodyCompressionArgs { codec, method })
    });
    let arguments = ipc::RecordBatchArgs {
        length: batch.rows,
        nodes: Some(nodes),
        buffers: Some(buffers),
        compression,
        variadicBufferCounts: views,
    };
    let records = ipc::RecordBatch::create(&mut builder, &arguments);
    let Some(Dictionary { id, is_delta }) = dictionary else {
        return message(&mut builder, MessageHeader::RecordBatch, records.as_union_value(), body);
    };
    let arguments = ipc::DictionaryBatchArgs { id, data: Some(records), isDelta: is_delta };
    let values = ipc::DictionaryBatch::create(&mut builder, &arguments);
    message(&mut builder, MessageHeader::DictionaryBatch, values.as_union_value(), body)
}

/// End of a file: the footer that says where its messages are.
pub(crate) fn footer(schema: &Schema, dictionaries: &[ipc::Block], batches: &[ipc::Block]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let mut tracker = DictionaryTracker::new(false);
    let schema = IpcSchemaEncoder::new()
        .with_dictionary_tracker(&mut tracker)
        .schema_to_fb_offset(&mut builder, schema);
    let dictionaries = builder.create_vector(dictionaries);
    let batches = builder.create_vector(batches);
    let arguments = ipc::FooterArgs {
        version: MetadataVersion::V5,
        schema: Some(schema),
        dictionaries: Some(dictionaries),
        recordBatches: Some(batches),
        custom_metadata: None,
    };
    let footer = ipc::Footer::create(&mut builder, &arguments);
    builder.finish(footer, None);
    let mut bytes = builder.finished_data().to_vec();
    let length = bytes.len() as u32;
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(MAGIC);
    bytes
}
