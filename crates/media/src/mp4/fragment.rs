//! Movie fragments (ISO/IEC 14496-12 section 8.8): runs of samples in a `moof` box.

use bytes::Bytes;

use super::boxes::MemoryBox;
use super::track::{Defaults, NON_SYNC};
use super::{Error, Extent};
use crate::track::Fields;

/// Flags of `tfhd` and `trun` for optional fields.
mod flag {
    pub(super) const BASE_OFFSET: u32 = 0x1;
    pub(super) const DESCRIPTION: u32 = 0x2;
    pub(super) const DEFAULT_DURATION: u32 = 0x8;
    pub(super) const DEFAULT_SIZE: u32 = 0x10;
    pub(super) const DEFAULT_FLAGS: u32 = 0x20;
    pub(super) const BASE_IS_MOOF: u32 = 0x2_0000;

    pub(super) const DATA_OFFSET: u32 = 0x1;
    pub(super) const FIRST_FLAGS: u32 = 0x4;
    pub(super) const DURATION: u32 = 0x100;
    pub(super) const SIZE: u32 = 0x200;
    pub(super) const FLAGS: u32 = 0x400;
    pub(super) const COMPOSITION: u32 = 0x800;
}

/// Consecutive samples of a track (`trun`).
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) track_id: u32,
    /// Decode time of the first sample, if there is a `tfdt` box.
    pub(super) start: Option<u64>,
    entries: Bytes,
    flags: u32,
    left: u32,
    defaults: Defaults,
    first_flags: Option<u32>,
    /// Offset of the next sample.
    offset: u64,
}

/// Fields of a sample in a run, with the defaults of the track.
struct Entry {
    duration: u32,
    size: u32,
    flags: Option<u32>,
    composition_offset: i64,
}

/// Lengths of a run in time, both from the decode time of its first sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunLength {
    /// To the decode time of the next run.
    pub(super) decoded: u64,
    /// To the end of the sample that is shown last.
    pub(super) shown: u64,
}

/// Sample of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSample {
    pub(super) extent: Extent,
    pub(super) duration: u32,
    pub(super) composition_offset: i64,
    pub(super) sync: bool,
}

/// Reads the runs of a `moof` box. `defaults`: default values of a track.
pub(super) fn runs(moof: &MemoryBox, defaults: impl Fn(u32) -> Defaults) -> Result<Vec<Run>, Error> {
    let mut runs = Vec::new();
    // End of the data of the previous track fragment.
    let mut end = moof.offset;
    for traf in moof.children() {
        let traf = traf?;
        if traf.kind.0 != *b"traf" {
            continue;
        }
        let header = traf.need(b"tfhd", "no tfhd box")?;
        let mut header = header.fields(|fields| Header::read(fields, &defaults))?;
        let base = header.base.unwrap_or(if header.base_is_moof { moof.offset } else { end });
        end = base;
        if let Some(tfdt) = traf.child(b"tfdt")? {
            header.start = Some(tfdt.fields(|fields| {
                let (version, _) = fields.version()?;
                fields.long(version)
            })?);
        }
        for trun in traf.children() {
            let trun = trun?;
            if trun.kind.0 == *b"trun" {
                let run = header.run(&trun, base, end)?;
                end = run.offset.saturating_add(run.length());
                header.start = None; // The next run follows this one.
                runs.push(run);
            }
        }
    }
    Ok(runs)
}

/// Default values of a track fragment for all its runs.
struct Header {
    track_id: u32,
    base: Option<u64>,
    base_is_moof: bool,
    defaults: Defaults,
    start: Option<u64>,
}

impl Header {
    fn read(fields: &mut Fields<'_>, defaults: impl Fn(u32) -> Defaults) -> Option<Self> {
        let (_, flags) = fields.version()?;
        let track_id = fields.u32()?;
        let base = if flags & flag::BASE_OFFSET != 0 { Some(fields.u64()?) } else { None };
        if flags & flag::DESCRIPTION != 0 {
            fields.u32()?;
        }
        let mut defaults = defaults(track_id);
        let given = [
            (flag::DEFAULT_DURATION, &mut defaults.duration),
            (flag::DEFAULT_SIZE, &mut defaults.size),
            (flag::DEFAULT_FLAGS, &mut defaults.flags),
        ];
        for (flag, value) in given {
            if flags & flag != 0 {
                *value = fields.u32()?;
            }
        }
        let base_is_moof = flags & flag::BASE_IS_MOOF != 0;
        Some(Self { track_id, base, base_is_moof, defaults, start: None })
    }

    /// Reads a run. Its data begins at an offset from `base`, or at the end of the previous run.
    fn run(&self, trun: &MemoryBox, base: u64, end: u64) -> Result<Run, Error> {
        let run = trun.fields(|fields| {
            let (_, flags) = fields.version()?;
            let left = fields.u32()?;
            let offset = match flags & flag::DATA_OFFSET {
                0 => Some(end),
                _ => base.checked_add_signed((fields.u32()? as i32).into()),
            };
            let first_flags = if flags & flag::FIRST_FLAGS != 0 { Some(fields.u32()?) } else { None };
            let length = (left as usize).checked_mul(entry_length(flags))?;
            // Copied, so that the rest of the box is not kept in memory.
            let entries = fields.bytes(length).map(Bytes::copy_from_slice);
            Some((flags, left, offset, first_flags, entries))
        })?;
        let (flags, left, offset, first_flags, entries) = run;
        let entries = entries.ok_or_else(|| trun.error("it has fewer entries than it says"))?;
        let offset = offset.ok_or_else(|| trun.error("its data is outside of the file"))?;
        let Self { track_id, defaults, start, .. } = *self;
        if flags & flag::SIZE == 0 && defaults.size == 0 && left > 0 {
            return Err(trun.error("the size of its samples is missing"));
        }
        Ok(Run { track_id, start, entries, flags, left, defaults, first_flags, offset })
    }
}

/// Length of a sample's fields in bytes.
fn entry_length(flags: u32) -> usize {
    let fields = [flag::DURATION, flag::SIZE, flag::FLAGS, flag::COMPOSITION];
    4 * fields.iter().filter(|field| flags & **field != 0).count()
}

impl Run {
    /// Bytes of memory of the entries.
    pub(super) fn held_bytes(&self) -> usize {
        self.entries.len()
    }

    /// Length of the run in time.
    pub(super) fn duration(&self) -> RunLength {
        if self.flags & (flag::DURATION | flag::COMPOSITION) == 0 {
            let decoded = u64::from(self.left) * u64::from(self.defaults.duration);
            return RunLength { decoded, shown: decoded };
        }
        self.fields().fold(RunLength::default(), |length, entry| {
            let decoded = length.decoded + u64::from(entry.duration);
            let shown = decoded.saturating_add_signed(entry.composition_offset.max(0));
            RunLength { decoded, shown: length.shown.max(shown) }
        })
    }

    /// Offset of the end of the last sample in the file.
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length())
    }

    /// Bytes of all samples of the run.
    fn length(&self) -> u64 {
        if self.flags & flag::SIZE == 0 {
            return u64::from(self.left) * u64::from(self.defaults.size);
        }
        self.fields().map(|entry| u64::from(entry.size)).sum()
    }

    /// Fields of all samples. A sample has at least one.
    fn fields(&self) -> impl Iterator<Item = Entry> {
        self.entries.chunks_exact(entry_length(self.flags)).map(|entry| self.entry(entry))
    }

    /// Fields of a sample.
    fn entry(&self, entry: &[u8]) -> Entry {
        let mut fields = Fields(entry);
        let mut field = |flag| if self.flags & flag != 0 { fields.u32() } else { None };
        Entry {
            duration: field(flag::DURATION).unwrap_or(self.defaults.duration),
            size: field(flag::SIZE).unwrap_or(self.defaults.size),
            flags: field(flag::FLAGS),
            composition_offset: i64::from(field(flag::COMPOSITION).unwrap_or_default() as i32),
        }
    }
}

impl Iterator for Run {
    type Item = RunSample;

    fn next(&mut self) -> Option<RunSample> {
        self.left = self.left.checked_sub(1)?;
        let length = entry_length(self.flags);
        let entry = self.entry(self.entries.get(..length)?);
        let Entry { duration, size, flags, composition_offset } = entry;
        let flags = flags.or(self.first_flags).unwrap_or(self.defaults.flags);
        self.first_flags = None;
        self.entries = self.entries.slice(length..);
        let extent = Extent { offset: self.offset, length: size.into() };
        self.offset = extent.end();
        Some(RunSample { extent, duration, composition_offset, sync: flags & NON_SYNC == 0 })
    }
}
