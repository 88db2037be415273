//! The first page of an image. It is written last, so that an unfinished image has none.

use super::error::{Error, Part};
use super::fields::{Record, check_crc, check_length, put};
use super::plan::{Identity, Plan, Recipe};
use super::{PAGE, VERSION};
use crate::ts::PACKET_LENGTH;

const MAGIC: &[u8; 8] = b"WIREPATH";

/// The fields of the page.
mod field {
    use crate::image::fields::Field;

    pub(super) const VERSION: Field<u32> = Field::new(8, "version");
    pub(super) const BURST_US: Field<u32> = Field::new(12, "burst");
    pub(super) const SIZE: Field<u64> = Field::new(16, "size of the asset");
    pub(super) const MTIME_NS: Field<i64> = Field::new(24, "modification time of the asset");
    pub(super) const INODE: Field<u64> = Field::new(32, "inode of the asset");
    pub(super) const DEVICE: Field<u64> = Field::new(40, "device of the asset");
    pub(super) const SSRC: Field<u32> = Field::new(48, "SSRC");
    pub(super) const TIMESTAMP: Field<u32> = Field::new(52, "first timestamp");
    pub(super) const SEQUENCE: Field<u16> = Field::new(56, "first sequence number");
    pub(super) const TS_PER_PACKET: Field<u16> = Field::new(58, "TS packets per RTP packet");
    pub(super) const PACKET_SIZE: Field<u32> = Field::new(60, "packet size");
    pub(super) const PACKETS: Field<u64> = Field::new(64, "number of packets");
    pub(super) const PAYLOAD: Field<u64> = Field::new(72, "payload");
    pub(super) const DURATION_US: Field<u64> = Field::new(80, "duration");
    pub(super) const TABLE_OFFSET: Field<u64> = Field::new(88, "offset of the table");
    pub(super) const TABLE_LENGTH: Field<u64> = Field::new(96, "length of the table");
    pub(super) const TABLE_CRC: Field<u32> = Field::new(104, "checksum of the table");
    /// Offset of the page's own checksum.
    pub(super) const CRC_OFFSET: usize = crate::image::PAGE as usize - 4;
    pub(super) const CRC: Field<u32> = Field::new(CRC_OFFSET, "checksum");
}

/// The longest duration, in microseconds, of which every departure still fits 64 bits of 27 MHz ticks.
const MAX_DURATION_US: u64 = u64::MAX / 27;

/// Contents of the image, and place of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Plan it was packed by.
    pub plan: Plan,
    /// Number of packets, at least 1.
    pub packets: u64,
    /// Bytes of payload in all packets.
    pub payload_bytes: u64,
    /// From the first packet's departure to the end of the last one's payload, in microseconds.
    pub duration_us: u64,
    /// The table.
    pub table: TableExtent,
}

/// Place of the table: from `offset` to the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableExtent {
    /// Offset in the file, in bytes; whole pages.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// CRC-32C.
    pub crc: u32,
}

impl Header {
    /// The page.
    pub fn encode(&self) -> [u8; PAGE as usize] {
        let Plan { identity, recipe, .. } = self.plan;
        let mut page = [0; PAGE as usize];
        page[..MAGIC.len()].copy_from_slice(MAGIC);
        put(&mut page, field::VERSION, VERSION);
        put(&mut page, field::BURST_US, recipe.burst_us);
        put(&mut page, field::SIZE, identity.size);
        put(&mut page, field::MTIME_NS, identity.mtime_ns);
        put(&mut page, field::INODE, identity.inode);
        put(&mut page, field::DEVICE, identity.device);
        put(&mut page, field::SSRC, self.plan.ssrc);
        put(&mut page, field::TIMESTAMP, self.plan.timestamp);
        put(&mut page, field::SEQUENCE, self.plan.sequence);
        put(&mut page, field::TS_PER_PACKET, recipe.ts_per_packet);
        put(&mut page, field::PACKET_SIZE, recipe.packet_size().into());
        put(&mut page, field::PACKETS, self.packets);
        put(&mut page, field::PAYLOAD, self.payload_bytes);
        put(&mut page, field::DURATION_US, self.duration_us);
        put(&mut page, field::TABLE_OFFSET, self.table.offset);
        put(&mut page, field::TABLE_LENGTH, self.table.length);
        put(&mut page, field::TABLE_CRC, self.table.crc);
        let crc = crc32c::crc32c(&page[..field::CRC_OFFSET]);
        put(&mut page, field::CRC, crc);
        page
    }

    /// Reads the first page of a file of `file_length` bytes.
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
        let header = Self::read(record);
        header.check(record, file_length)?;
        Ok(header)
    }

    fn read(record: Record<'_>) -> Self {
        let identity = Identity {
            size: record.get(field::SIZE),
            mtime_ns: record.get(field::MTIME_NS),
            inode: record.get(field::INODE),
            device: record.get(field::DEVICE),
        };
        let recipe =
            Recipe { ts_per_packet: record.get(field::TS_PER_PACKET), burst_us: record.get(field::BURST_US) };
        let table = TableExtent {
            offset: record.get(field::TABLE_OFFSET),
            length: record.get(field::TABLE_LENGTH),
            crc: record.get(field::TABLE_CRC),
        };
        let plan = Plan {
            identity,
            recipe,
            ssrc: record.get(field::SSRC),
            sequence: record.get(field::SEQUENCE),
            timestamp: record.get(field::TIMESTAMP),
        };
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
        let rule = "1 to 47 fit, in a burst of 500,000 µs at most";
        record.check(recipe.check().is_ok(), field::TS_PER_PACKET, rule)?;
        let size = record.get(field::PACKET_SIZE) == u32::from(recipe.packet_size());
        record.check(size, field::PACKET_SIZE, "12 and 188 a packet make another")?;
        let packets = self.payload_bytes.div_ceil(recipe.payload_length() as u64);
        let all = self.packets > 0 && self.packets == packets;
        record.check(all, field::PACKETS, "the payload makes another")?;
        let whole = self.payload_bytes.is_multiple_of(PACKET_LENGTH as u64);
        record.check(whole, field::PAYLOAD, "it is whole packets of 188 bytes")?;
        let of_asset = self.payload_bytes <= self.plan.identity.size;
        record.check(of_asset, field::PAYLOAD, "the asset is shorter")?;
        let short = self.duration_us <= MAX_DURATION_US;
        record.check(short, field::DURATION_US, "no clock runs for so long")?;
        let placed = table.offset.is_multiple_of(PAGE) && table.offset > PAGE;
        record.check(placed, field::TABLE_OFFSET, "it is whole pages after the segments")?;
        let at_end = table.offset.checked_add(table.length) == Some(file_length);
        record.check(at_end, field::TABLE_LENGTH, "it ends with the file")
    }
}
