//! The first page of an image. It is written last, so that an unfinished image has none.

use super::error::{Error, Part};
use super::fields::{Fields, check_crc, check_length};
use super::plan::{Identity, Plan, Recipe};
use super::{PAGE, VERSION};
use crate::rtp::HEADER_LENGTH;

const MAGIC: &[u8; 8] = b"WIREPATH";

/// Where the header's own checksum is.
const CRC_AT: usize = PAGE as usize - 4;

/// The longest duration, in microseconds, of which every departure still fits 64 bits of 27 MHz ticks.
const MAX_DURATION_US: u64 = u64::MAX / 27;

/// What the image holds, and where its table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How it was made.
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

/// Where the table lies in the file: from `offset` to the file's end.
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
        let mut page = [0; PAGE as usize];
        let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &self.plan.recipe.burst_us.to_le_bytes());
        put(16, &self.plan.identity.size.to_le_bytes());
        put(24, &self.plan.identity.mtime_ns.to_le_bytes());
        put(32, &self.plan.identity.inode.to_le_bytes());
        put(40, &self.plan.identity.device.to_le_bytes());
        put(48, &self.plan.ssrc.to_le_bytes());
        put(52, &self.plan.timestamp.to_le_bytes());
        put(56, &self.plan.sequence.to_le_bytes());
        put(58, &self.plan.recipe.ts_per_packet.to_le_bytes());
        put(60, &u32::from(self.plan.recipe.packet_size()).to_le_bytes());
        put(64, &self.packets.to_le_bytes());
        put(72, &self.payload_bytes.to_le_bytes());
        put(80, &self.duration_us.to_le_bytes());
        put(88, &self.table.offset.to_le_bytes());
        put(96, &self.table.length.to_le_bytes());
        put(104, &self.table.crc.to_le_bytes());
        let crc = crc32c::crc32c(&page[..CRC_AT]);
        page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// Reads the first page of a file of `file_length` bytes.
    ///
    /// # Errors
    /// [`Error`] where it is not an image, is damaged, or contradicts itself or the length of the file.
    pub fn decode(page: &[u8], file_length: u64) -> Result<Self, Error> {
        if !page.starts_with(MAGIC) {
            return Err(Error::NotAnImage);
        }
        check_length(Part::Header, page, PAGE)?;
        let fields = Fields::new(Part::Header, 0, page);
        if fields.u32(8) != VERSION {
            return Err(Error::Version { found: fields.u32(8) });
        }
        check_crc(Part::Header, &page[..CRC_AT], fields.u32(CRC_AT))?;
        let header = Self::read(fields);
        header.check(fields, file_length)?;
        Ok(header)
    }

    fn read(fields: Fields<'_>) -> Self {
        let identity = Identity {
            size: fields.u64(16),
            mtime_ns: fields.i64(24),
            inode: fields.u64(32),
            device: fields.u64(40),
        };
        let recipe = Recipe { ts_per_packet: fields.u16(58), burst_us: fields.u32(12) };
        let plan = Plan {
            identity,
            recipe,
            ssrc: fields.u32(48),
            sequence: fields.u16(56),
            timestamp: fields.u32(52),
        };
        let table = TableExtent { offset: fields.u64(88), length: fields.u64(96), crc: fields.u32(104) };
        Self {
            plan,
            packets: fields.u64(64),
            payload_bytes: fields.u64(72),
            duration_us: fields.u64(80),
            table,
        }
    }

    fn check(&self, fields: Fields<'_>, file_length: u64) -> Result<(), Error> {
        let (recipe, table) = (self.plan.recipe, self.table);
        fields.check(
            recipe.check().is_ok(),
            58,
            "packets per RTP packet",
            recipe.ts_per_packet,
            "1 to 47 fit, in a burst of 500,000 µs at most",
        )?;
        let size = fields.u32(60);
        fields.check(
            size == u32::from(recipe.packet_size()),
            60,
            "packet size",
            size,
            "12 and 188 a packet make another",
        )?;
        let payload = recipe.payload_length() as u64;
        let packets = self.payload_bytes.div_ceil(payload);
        fields.check(
            self.packets > 0 && self.packets == packets,
            64,
            "number of packets",
            self.packets,
            "the payload makes another",
        )?;
        fields.check(
            self.payload_bytes.is_multiple_of(188),
            72,
            "payload",
            self.payload_bytes,
            "it is whole packets of 188 bytes",
        )?;
        let size = self.plan.identity.size;
        fields.check(
            self.payload_bytes <= size,
            72,
            "payload",
            self.payload_bytes,
            "the asset is shorter",
        )?;
        fields.check(
            self.duration_us <= MAX_DURATION_US,
            80,
            "duration",
            self.duration_us,
            "no clock runs for so long",
        )?;
        let enough = (self.payload_bytes).checked_add(self.packets * HEADER_LENGTH as u64 + PAGE);
        let placed = table.offset.is_multiple_of(PAGE) && enough.is_some_and(|enough| enough <= table.offset);
        fields.check(
            placed,
            88,
            "offset of the table",
            table.offset,
            "it is whole pages after all packets",
        )?;
        let end = table.offset.checked_add(table.length);
        fields.check(
            end == Some(file_length),
            96,
            "length of the table",
            table.length,
            "it ends with the file",
        )
    }
}
