//! First page of an image. It is written last, so that an unfinished image has no header.

use super::error::{Error, Part};
use super::fields::{Record, check_crc, check_length, put};
use super::plan::{Identity, MAX_STREAMS, PayloadRecipe, Plan, Recipe, StreamPlan, Streams};
use super::{PAGE, VERSION};
use crate::rtp::{CLOCK_HZ, HEADER_LENGTH};
use crate::ts::PACKET_LENGTH;

const MAGIC: &[u8; 8] = b"WIREPATH";

/// Fields of the page.
mod field {
    use crate::image::fields::Field;

    pub(super) const VERSION: Field<u32> = Field::new(8, "version");
    pub(super) const BURST_US: Field<u32> = Field::new(12, "burst");
    pub(super) const SIZE: Field<u64> = Field::new(16, "size of the asset");
    pub(super) const MTIME_NS: Field<i64> = Field::new(24, "modification time of the asset");
    pub(super) const INODE: Field<u64> = Field::new(32, "inode of the asset");
    pub(super) const DEVICE: Field<u64> = Field::new(40, "device of the asset");
    pub(super) const STREAMS: Field<u16> = Field::new(48, "number of streams");
    pub(super) const FRAMES: Field<u16> = Field::new(50, "frames in a packet");
    pub(super) const TS_PER_PACKET: Field<u16> = Field::new(58, "TS packets per RTP packet");
    pub(super) const PACKET_SIZE: Field<u32> = Field::new(60, "packet size");
    pub(super) const PACKETS: Field<u64> = Field::new(64, "number of packets");
    pub(super) const PAYLOAD: Field<u64> = Field::new(72, "payload");
    pub(super) const DURATION_US: Field<u64> = Field::new(80, "duration");
    pub(super) const TABLE_OFFSET: Field<u64> = Field::new(88, "offset of the table");
    pub(super) const TABLE_LENGTH: Field<u64> = Field::new(96, "length of the table");
    pub(super) const TABLE_CRC: Field<u32> = Field::new(104, "checksum of the table");
    /// Offset of the streams.
    pub(super) const STREAMS_OFFSET: usize = 112;
    /// Offset of the page's checksum.
    pub(super) const CRC_OFFSET: usize = crate::image::PAGE as usize - 4;
    pub(super) const CRC: Field<u32> = Field::new(CRC_OFFSET, "checksum");
}

/// Fields of a stream.
mod stream {
    use crate::image::fields::Field;

    pub(super) const SSRC: Field<u32> = Field::new(0, "SSRC");
    pub(super) const TIMESTAMP: Field<u32> = Field::new(4, "first timestamp");
    pub(super) const CLOCK_HZ: Field<u32> = Field::new(8, "clock rate");
    pub(super) const SEQUENCE: Field<u16> = Field::new(12, "first sequence number");
    pub(super) const PAYLOAD_TYPE: Field<u16> = Field::new(14, "payload type");
}

/// Length of a stream's record in the page.
const STREAM_LENGTH: usize = 16;

/// Longest duration in microseconds whose departures fit 64 bits in ticks of 27 MHz.
const MAX_DURATION_US: u64 = u64::MAX / 27;

/// Header: contents of the image, and extent of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Plan of the image.
    pub plan: Plan,
    /// Number of packets, at least 1.
    pub packets: u64,
    /// Bytes of payload in all packets.
    pub payload_bytes: u64,
    /// Microseconds from the departure of the first packet to the end of the last packet's payload.
    pub duration_us: u64,
    /// Extent of the table.
    pub table: TableExtent,
}

/// Extent of the table: from `offset` to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableExtent {
    /// File offset in bytes, a multiple of the page length.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// CRC-32C.
    pub crc: u32,
}

/// Flag in the field of the number of frames: the asset is a transport stream.
const DEMUXED: u16 = 0x8000;

impl Header {
    /// Encodes the page.
    pub fn encode(&self) -> [u8; PAGE as usize] {
        let Plan { identity, recipe, streams } = self.plan;
        let (ts_per_packet, frames) = match recipe.payload {
            PayloadRecipe::TransportStream { ts_per_packet } => (ts_per_packet, 0),
            PayloadRecipe::Tracks { frames, demuxed, .. } => {
                (0, u16::from(frames) | if demuxed { DEMUXED } else { 0 })
            }
        };
        let mut page = [0; PAGE as usize];
        page[..MAGIC.len()].copy_from_slice(MAGIC);
        put(&mut page, field::VERSION, VERSION);
        put(&mut page, field::BURST_US, recipe.burst_us);
        put(&mut page, field::SIZE, identity.size);
        put(&mut page, field::MTIME_NS, identity.mtime_ns);
        put(&mut page, field::INODE, identity.inode);
        put(&mut page, field::DEVICE, identity.device);
        put(&mut page, field::STREAMS, streams.len() as u16);
        put(&mut page, field::FRAMES, frames);
        put(&mut page, field::TS_PER_PACKET, ts_per_packet);
        put(&mut page, field::PACKET_SIZE, recipe.packet_size().into());
        put(&mut page, field::PACKETS, self.packets);
        put(&mut page, field::PAYLOAD, self.payload_bytes);
        put(&mut page, field::DURATION_US, self.duration_us);
        put(&mut page, field::TABLE_OFFSET, self.table.offset);
        put(&mut page, field::TABLE_LENGTH, self.table.length);
        put(&mut page, field::TABLE_CRC, self.table.crc);
        let records = page[field::STREAMS_OFFSET..].chunks_exact_mut(STREAM_LENGTH);
        streams.iter().zip(records).for_each(|(stream, record)| stream.encode(record));
        let crc = crc32c::crc32c(&page[..field::CRC_OFFSET]);
        put(&mut page, field::CRC, crc);
        page
    }

    /// Decodes the first page of a file of `file_length` bytes.
    pub fn decode(page: &[u8], file_length: u64) -> Result<Self, Error> {
        if !page.starts_with(MAGIC) {
            return Err(Error::NotAnImage);
        }
        check_length(Part::Header, page, PAGE)?;
        let record = Record::new(Part::Header, 0, page);
        let version = record.get(field::VERSION);
        if version != VERSION {
            return Err(Error::Version { found: version });
        }
        check_crc(Part::Header, &page[..field::CRC_OFFSET], record.get(field::CRC))?;
        let count = usize::from(record.get(field::STREAMS));
        record.check((1..=MAX_STREAMS).contains(&count), field::STREAMS, "1 to 16 are possible")?;
        let streams = &page[field::STREAMS_OFFSET..][..count * STREAM_LENGTH];
        let header = Self::read(record, streams);
        header.check(record, file_length)?;
        header.check_streams(streams)?;
        Ok(header)
    }

    fn read(record: Record<'_>, streams: &[u8]) -> Self {
        let identity = Identity {
            size: record.get(field::SIZE),
            mtime_ns: record.get(field::MTIME_NS),
            inode: record.get(field::INODE),
            device: record.get(field::DEVICE),
        };
        let payload = match record.get(field::TS_PER_PACKET) {
            0 => PayloadRecipe::Tracks {
                limit: record.get(field::PACKET_SIZE).saturating_sub(HEADER_LENGTH as u32) as u16,
                frames: record.get(field::FRAMES) as u8,
                demuxed: record.get(field::FRAMES) & DEMUXED != 0,
            },
            ts_per_packet => PayloadRecipe::TransportStream { ts_per_packet },
        };
        let recipe = Recipe { payload, burst_us: record.get(field::BURST_US) };
        let streams: Vec<StreamPlan> = stream_records(streams).map(StreamPlan::read).collect();
        let table = TableExtent {
            offset: record.get(field::TABLE_OFFSET),
            length: record.get(field::TABLE_LENGTH),
            crc: record.get(field::TABLE_CRC),
        };
        let streams = Streams::new(&streams).unwrap_or(StreamPlan::default().into());
        let plan = Plan { identity, recipe, streams };
        Self {
            plan,
            packets: record.get(field::PACKETS),
            payload_bytes: record.get(field::PAYLOAD),
            duration_us: record.get(field::DURATION_US),
            table,
        }
    }

    fn check(&self, record: Record<'_>, file_length: u64) -> Result<(), Error> {
        let (recipe, table) = (self.plan.recipe, self.table);
        let rule = "1 to 47 fit, or tracks have 64 bytes or more, in a burst of 500,000 µs at most";
        record.check(recipe.check().is_ok(), field::TS_PER_PACKET, rule)?;
        let size = record.get(field::PACKET_SIZE) == u32::from(recipe.packet_size());
        record.check(size, field::PACKET_SIZE, "the recipe makes another")?;
        match recipe.payload {
            PayloadRecipe::TransportStream { .. } => self.check_transport_stream(record)?,
            PayloadRecipe::Tracks { frames, .. } => {
                let frames = record.get(field::FRAMES) & !DEMUXED == u16::from(frames);
                record.check(frames, field::FRAMES, "255 are the most")?;
                // Trains may be separated by a padding byte.
                let least = self.payload_bytes.div_ceil(recipe.payload_length() as u64 + 1);
                let all = self.packets > 0 && self.packets >= least;
                record.check(all, field::PACKETS, "the payload makes more")?;
            }
        }
        let short = self.duration_us <= MAX_DURATION_US;
        record.check(short, field::DURATION_US, "no clock runs for so long")?;
        let placed = table.offset.is_multiple_of(PAGE) && table.offset > PAGE;
        record.check(placed, field::TABLE_OFFSET, "it is whole pages after the segments")?;
        let at_end = table.offset.checked_add(table.length) == Some(file_length);
        record.check(at_end, field::TABLE_LENGTH, "it ends with the file")
    }

    fn check_transport_stream(&self, record: Record<'_>) -> Result<(), Error> {
        let one = self.plan.streams.len() == 1 && record.get(field::FRAMES) == 0;
        record.check(one, field::STREAMS, "a transport stream is one")?;
        let packets = self.payload_bytes.div_ceil(self.plan.recipe.payload_length() as u64);
        let all = self.packets > 0 && self.packets == packets;
        record.check(all, field::PACKETS, "the payload makes another")?;
        let whole = self.payload_bytes.is_multiple_of(PACKET_LENGTH as u64);
        record.check(whole, field::PAYLOAD, "it is whole packets of 188 bytes")?;
        let of_asset = self.payload_bytes <= self.plan.identity.size;
        record.check(of_asset, field::PAYLOAD, "the asset is shorter")
    }

    fn check_streams(&self, streams: &[u8]) -> Result<(), Error> {
        let is_transport_stream = self.plan.recipe.is_transport_stream();
        for (stream, record) in self.plan.streams.iter().zip(stream_records(streams)) {
            let expected = |range: std::ops::RangeInclusive<u8>| {
                record.get(stream::PAYLOAD_TYPE) <= 127 && range.contains(&stream.payload_type)
            };
            let of_type = if is_transport_stream { expected(33..=33) } else { expected(0..=127) };
            record.check(of_type, stream::PAYLOAD_TYPE, "the recipe makes another")?;
            let rate = stream.clock_hz;
            let runs = if is_transport_stream { rate == CLOCK_HZ } else { rate > 0 };
            record.check(runs, stream::CLOCK_HZ, "the recipe makes another")?;
        }
        Ok(())
    }
}

fn stream_records(streams: &[u8]) -> impl Iterator<Item = Record<'_>> {
    Record::each(Part::Header, field::STREAMS_OFFSET, streams, STREAM_LENGTH)
}

impl StreamPlan {
    fn encode(&self, record: &mut [u8]) {
        put(record, stream::SSRC, self.ssrc);
        put(record, stream::TIMESTAMP, self.timestamp);
        put(record, stream::CLOCK_HZ, self.clock_hz);
        put(record, stream::SEQUENCE, self.sequence);
        put(record, stream::PAYLOAD_TYPE, u16::from(self.payload_type));
    }

    fn read(record: Record<'_>) -> Self {
        Self {
            ssrc: record.get(stream::SSRC),
            sequence: record.get(stream::SEQUENCE),
            timestamp: record.get(stream::TIMESTAMP),
            payload_type: record.get(stream::PAYLOAD_TYPE) as u8,
            clock_hz: record.get(stream::CLOCK_HZ),
        }
    }
}
