//! Sample tables (ISO/IEC 14496-12 sections 8.6 and 8.7). Entries are decoded from the bytes of the `moov`
//! box when they are needed.

use bytes::Bytes;

use super::boxes::MemoryBox;
use super::{Error, Extent};
use crate::track::Fields;

/// Sample table of a track.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// `stts`: counts and durations.
    durations: Entries,
    /// `ctts`: counts and composition offsets.
    compositions: Option<Entries>,
    /// `stsc`: first chunk, samples in each chunk, sample description.
    chunks: Entries,
    /// `stco` or `co64`: offsets of chunks.
    places: Entries,
    /// `stss`: numbers of random access points; without it, all samples are random access points.
    sync: Option<Entries>,
    sizes: Sizes,
    pub(super) samples: u32,
}

/// Consecutive entries of one length.
#[derive(Clone, Debug, Default)]
struct Entries {
    bytes: Bytes,
    length: usize,
}

#[derive(Clone, Debug)]
enum Sizes {
    All(u32),
    /// Sizes of 4, 8, 16 or 32 bits each.
    Each {
        bits: u8,
        bytes: Bytes,
    },
}

/// Reason why the next sample cannot be read.
pub(super) type Fault = &'static str;

impl Entries {
    /// Reads the entries of a full box that begins with their number.
    fn read(found: &MemoryBox, length: usize) -> Result<Self, Error> {
        let bytes = found.fields(|fields| {
            fields.version()?;
            let count = fields.u32()? as usize;
            let bytes = fields.bytes(count.checked_mul(length)?);
            Some(bytes.map(|bytes| found.slice(bytes)))
        })?;
        let bytes = bytes.ok_or_else(|| found.error("it has fewer entries than it says"))?;
        Ok(Self { bytes, length })
    }

    fn get(&self, index: usize) -> Option<Fields<'_>> {
        let start = index.checked_mul(self.length)?;
        self.bytes.get(start..start + self.length).map(Fields)
    }

    /// First two numbers of an entry.
    fn pair(&self, index: usize) -> Option<(u32, u32)> {
        let mut entry = self.get(index)?;
        Some((entry.u32()?, entry.u32()?))
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Sizes {
    fn read(stbl: &MemoryBox) -> Result<(Self, u32), Error> {
        let Some(found) = stbl.child(b"stsz")? else {
            let found = stbl.need(b"stz2", "no stsz or stz2 box: the sizes of samples are missing")?;
            return Self::compact(&found);
        };
        let (size, count, bytes) = found.fields(|fields| {
            fields.version()?;
            let (size, count) = (fields.u32()?, fields.u32()?);
            Some((size, count, fields.bytes(count as usize * 4).map(|bytes| found.slice(bytes))))
        })?;
        match (size, bytes) {
            (0, Some(bytes)) => Ok((Self::Each { bits: 32, bytes }, count)),
            (0, None) => Err(found.error("it has fewer entries than it says")),
            (size, _) => Ok((Self::All(size), count)),
        }
    }

    fn compact(found: &MemoryBox) -> Result<(Self, u32), Error> {
        let (bits, count, bytes) = found.fields(|fields| {
            fields.version()?;
            let (bits, count) = (fields.u32()? as u8, fields.u32()?);
            let bytes = fields.bytes((count as usize * usize::from(bits)).div_ceil(8));
            Some((bits, count, bytes.map(|bytes| found.slice(bytes))))
        })?;
        match bytes {
            _ if !matches!(bits, 4 | 8 | 16) => Err(found.error("sizes have 4, 8 or 16 bits")),
            Some(bytes) => Ok((Self::Each { bits, bytes }, count)),
            None => Err(found.error("it has fewer entries than it says")),
        }
    }

    /// Size of the sample at `index`.
    fn get(&self, index: usize) -> Option<u32> {
        let Self::Each { bits, bytes } = self else {
            let Self::All(size) = self else { return None };
            return Some(*size);
        };
        match bits {
            32 => Fields(bytes.get(index * 4..)?).u32(),
            16 => Fields(bytes.get(index * 2..)?).u16().map(u32::from),
            8 => bytes.get(index).map(|size| u32::from(*size)),
            _ => bytes
                .get(index / 2)
                .map(|both| u32::from(if index.is_multiple_of(2) { both >> 4 } else { both & 15 })),
        }
    }
}

impl Table {
    /// Sets the size of samples of linear PCM. QuickTime writes 1 as their size.
    pub(super) fn set_frame_length(&mut self, length: u32) {
        if matches!(self.sizes, Sizes::All(1)) {
            self.sizes = Sizes::All(length.max(1));
        }
    }

    /// Reads the `stbl` box.
    pub(super) fn read(stbl: &MemoryBox) -> Result<Self, Error> {
        let entries = |kind, length| match stbl.child(kind)? {
            Some(found) => Entries::read(&found, length).map(Some),
            None => Ok(None),
        };
        let (sizes, samples) = Sizes::read(stbl)?;
        let table = Self {
            durations: entries(b"stts", 8)?.unwrap_or_default(),
            compositions: entries(b"ctts", 8)?,
            chunks: entries(b"stsc", 12)?.unwrap_or_default(),
            places: match entries(b"stco", 4)? {
                Some(places) => places,
                None => entries(b"co64", 8)?.unwrap_or_default(),
            },
            sync: entries(b"stss", 4)?,
            sizes,
            samples,
        };
        let missing = |what: &Entries, reason| {
            if samples > 0 && what.is_empty() { Err(stbl.error(reason)) } else { Ok(()) }
        };
        missing(&table.durations, "no entries of stts: the times of samples are missing")?;
        missing(&table.chunks, "no entries of stsc: the chunks of samples are missing")?;
        missing(&table.places, "no entries of stco or co64: the places of chunks are missing")?;
        Ok(table)
    }
}

/// Reader of the samples of a table, in order.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    table: Table,
    /// Most samples of one [`Entry`].
    together: u32,
    /// Index of the next sample.
    next: u32,
    decode_time: u64,
    durations: Counted,
    compositions: Counted,
    chunk: ChunkCursor,
    /// Index of the next entry of `stss`.
    sync: usize,
}

/// Sample, or several consecutive samples of linear PCM.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) extent: Extent,
    pub(super) decode_time: u64,
    pub(super) duration: u32,
    pub(super) composition_offset: i64,
    pub(super) sync: bool,
    pub(super) count: u32,
}

/// Position in a table of counts and values.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    index: usize,
    left: u32,
    value: u32,
}

impl Counted {
    /// Value of the next samples, and number of samples with this value. The last entry applies to all
    /// further samples.
    fn peek(&mut self, entries: &Entries) -> (u32, u32) {
        while self.left == 0 {
            let Some((count, value)) = entries.pair(self.index) else {
                self.left = u32::MAX;
                break;
            };
            (self.index, self.left, self.value) = (self.index + 1, count, value);
        }
        (self.value, self.left)
    }
}

/// Position in the chunks of a track.
#[derive(Clone, Copy, Debug, Default)]
struct ChunkCursor {
    /// Number of the next chunk, counted from 0.
    next: u32,
    /// Index of the entry of `stsc` after the current entry.
    entry: usize,
    samples_in_each: u32,
    /// Number of samples left in the chunk.
    left: u32,
    /// Offset of the next sample.
    offset: u64,
}

impl ChunkCursor {
    /// Advances to the next chunk with samples.
    fn enter(&mut self, table: &Table) -> Result<(), Fault> {
        while self.left == 0 {
            while let Some((first, samples)) = table.chunks.pair(self.entry) {
                if first.saturating_sub(1) > self.next {
                    break;
                }
                (self.entry, self.samples_in_each) = (self.entry + 1, samples);
            }
            let mut place = table.places.get(self.next as usize).ok_or("its chunk is not in the table")?;
            let offset = if place.0.len() == 8 { place.u64() } else { place.u32().map(u64::from) };
            self.offset = offset.ok_or("its chunk is not in the table")?;
            (self.next, self.left) = (self.next + 1, self.samples_in_each);
        }
        Ok(())
    }
}

impl Cursor {
    pub(super) fn new(table: Table, together: u32) -> Self {
        let (durations, compositions) = (Counted::default(), Counted::default());
        let chunk = ChunkCursor::default();
        Self { table, together, next: 0, decode_time: 0, durations, compositions, chunk, sync: 0 }
    }

    /// Number of the next sample, counted from 1.
    pub(super) fn number(&self) -> u64 {
        u64::from(self.next) + 1
    }

    /// Decode time of the next sample.
    pub(super) fn decode_time(&self) -> u64 {
        self.decode_time
    }

    pub(super) fn next(&mut self) -> Result<Option<Entry>, Fault> {
        if self.next == self.table.samples {
            return Ok(None);
        }
        self.chunk.enter(&self.table)?;
        let (each, same) = self.durations.peek(&self.table.durations);
        let count = match self.table.sizes {
            Sizes::All(size) => {
                let left = same.min(self.chunk.left).min(self.table.samples - self.next);
                left.min(self.together).min(u32::MAX / each.max(size)).max(1)
            }
            Sizes::Each { .. } => 1,
        };
        let composition_offset = match &self.table.compositions {
            // Offsets of version 0 are unsigned in the standard, but signed in many files.
            Some(entries) => i64::from(self.compositions.peek(entries).0 as i32),
            None => 0,
        };
        let size = self.table.sizes.get(self.next as usize).ok_or("its size is not in the table")?;
        let length = u64::from(size) * u64::from(count);
        let extent = Extent { offset: self.chunk.offset, length };
        let duration = each.saturating_mul(count);
        let (decode_time, sync) = (self.decode_time, self.is_sync());
        self.durations.left -= count;
        self.compositions.left = self.compositions.left.saturating_sub(count);
        self.chunk.left -= count;
        self.chunk.offset = extent.end();
        self.decode_time = decode_time.saturating_add(duration.into());
        self.next += count;
        Ok(Some(Entry { extent, decode_time, duration, composition_offset, sync, count }))
    }

    /// Returns whether the next sample is in `stss`, whose numbers ascend.
    fn is_sync(&mut self) -> bool {
        let Some(entries) = &self.table.sync else { return true };
        loop {
            match entries.get(self.sync).and_then(|mut entry| entry.u32()) {
                Some(number) if number <= self.next => self.sync += 1,
                number => return number == Some(self.next + 1),
            }
        }
    }
}
