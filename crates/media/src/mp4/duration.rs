//! Duration of a movie: from its first sample to the end of its last one.
//!
//! The `moov` box of a fragmented movie often has no duration, since it is written before the fragments. Then
//! the duration is that of a segment index (`sidx`), or the end of the last fragment, which is found near the
//! end of the file. Nothing else of the file is read.

use bytes::Bytes;

use super::boxes::{BoxHeader, MAX_HEADER_LENGTH, MemoryBox};
use super::fragment;
use super::movie::Movie;
use super::reader::Walk;
use super::samples::MAX_FRAGMENT_BYTES;
use super::track::Defaults;
use super::{Extent, Track};
use crate::track::{Fields, STATED_FROM_US, duration_from, last_places, tail};

/// Most boxes that are read for the first fragment.
const MAX_BOXES: usize = 32;

/// Longest indexes that are read: `sidx` and `mfra`.
const MAX_INDEX_BYTES: u64 = 1 << 20;

/// Reader of the duration of a movie.
#[derive(Clone, Debug)]
pub struct DurationReader {
    tracks: Vec<(Track, Defaults)>,
    /// End of the `moov` box.
    after_movie: u64,
    size: u64,
    walk: Walk,
    boxes: usize,
    step: Step,
    has_fragment: bool,
    /// Time of the first sample, in microseconds.
    begin_us: Option<u64>,
    /// End of the samples of the tables, and of the whole movie, in microseconds.
    tables_us: Option<u64>,
    end_us: Option<u64>,
    /// Duration from the description of the movie.
    stated_us: Option<u64>,
    /// Duration from a segment index: from the first sample.
    indexed_us: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Header of a box after the `moov` box.
    Header(Extent),
    SegmentIndex(Extent),
    FirstFragment(Extent),
    /// Bytes at the end of the file, by the index of their extent.
    Tail(usize, Extent),
    /// Random access index, then header and contents of the last fragment in it; and the tail to read
    /// otherwise.
    AccessIndex(usize, Extent),
    LastHeader(usize, Extent),
    LastFragment(usize, Extent),
    Done,
}

/// Times of the samples of a fragment in microseconds.
#[derive(Clone, Copy, Debug)]
struct Span {
    begin_us: Option<u64>,
    end_us: u64,
}

impl Movie {
    /// Returns a reader of the duration.
    pub fn duration(&self) -> DurationReader {
        let defaults = self.places.iter().map(|places| places.defaults);
        let tracks = self.tracks.iter().cloned().zip(defaults).filter(|(track, _)| !track.external);
        let tabled = self.tracks.iter().zip(&self.places).filter(|(_, places)| places.table.samples > 0);
        let begin_us = tabled.map(|(track, _)| track.movie_us(0)).min();
        let tables_us = self.tracks.iter().filter_map(Track::duration_us).max();
        let mut reader = DurationReader {
            tracks: tracks.collect(),
            after_movie: self.extent.end(),
            size: self.size,
            walk: self.rest.clone(),
            boxes: 0,
            step: Step::Done,
            has_fragment: false,
            begin_us,
            tables_us,
            end_us: None,
            stated_us: self.stated_us,
            indexed_us: None,
        };
        match self.fragmented {
            true => reader.step = reader.next_box(),
            false => reader.end_us = tables_us,
        }
        reader
    }
}

impl DurationReader {
    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self.step {
            Step::Header(extent)
            | Step::SegmentIndex(extent)
            | Step::FirstFragment(extent)
            | Step::Tail(_, extent)
            | Step::AccessIndex(_, extent)
            | Step::LastHeader(_, extent)
            | Step::LastFragment(_, extent) => Some(extent),
            Step::Done => None,
        }
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        let wanted = self.wanted().map_or(0, |wanted| wanted.length);
        assert_eq!(bytes.len() as u64, wanted, "the bytes that were wanted");
        self.step = match self.step {
            Step::Header(_) => self.header(&bytes),
            Step::SegmentIndex(extent) => {
                let indexed_us = segment_index_us(bytes, extent.offset, self.size);
                self.indexed_us = self.indexed_us.or(indexed_us);
                self.next_box()
            }
            Step::FirstFragment(extent) => {
                let fragment = MemoryBox::read(bytes, extent.offset).ok();
                // Without a time, samples follow those of the tables.
                let first = self.begin_us.is_none().then_some(0);
                if let Some(span) = fragment.and_then(|fragment| self.span(&fragment, first)) {
                    self.begin_us = self.begin_us.into_iter().chain(span.begin_us).min();
                }
                self.after_first()
            }
            Step::Tail(index, extent) => self.search(index, extent, &bytes),
            Step::AccessIndex(index, extent) => self.last_header(index, bytes, extent.offset),
            Step::LastHeader(index, extent) => {
                let header =
                    BoxHeader::read(&bytes, extent.offset).ok().filter(|found| found.kind.0 == *b"moof");
                let length = header.and_then(|header| header.length);
                let end = length.and_then(|length| extent.offset.checked_add(length));
                match length
                    .zip(end)
                    .filter(|(length, end)| *length <= MAX_FRAGMENT_BYTES && *end <= self.size)
                {
                    Some((length, _)) => Step::LastFragment(index, Extent { length, ..extent }),
                    None => self.tail(index + 1),
                }
            }
            Step::LastFragment(index, extent) => {
                let fragment = MemoryBox::read(bytes, extent.offset).ok();
                self.end_at(fragment.and_then(|fragment| self.span(&fragment, None)))
                    .unwrap_or(self.tail(index + 1))
            }
            Step::Done => Step::Done,
        };
    }

    /// Returns the duration in microseconds; `None` if the file does not tell it. Call it when no more bytes
    /// are wanted.
    pub fn finish(self) -> Option<u64> {
        let begin_us = self.begin_us.unwrap_or(0);
        let stated_us = || duration_from(begin_us, None, self.stated_us);
        duration_from(begin_us, self.end_us, None).or(self.indexed_us).or_else(stated_us)
    }

    /// Continues with the next box, for the first fragment.
    fn next_box(&mut self) -> Step {
        self.boxes += 1;
        match self.walk.wanted().filter(|_| self.boxes <= MAX_BOXES) {
            Some(wanted) => Step::Header(wanted),
            None => self.after_first(),
        }
    }

    fn header(&mut self, bytes: &Bytes) -> Step {
        let Ok(found) = self.walk.take(bytes) else { return self.after_first() };
        self.has_fragment |= found.kind.0 == *b"moof";
        match &found.kind.0 {
            b"sidx" if !found.cut && found.extent.length <= MAX_INDEX_BYTES => {
                Step::SegmentIndex(found.extent)
            }
            b"moof" if !found.cut && found.extent.length <= MAX_FRAGMENT_BYTES => {
                Step::FirstFragment(found.extent)
            }
            b"moof" => self.after_first(),
            _ => self.next_box(),
        }
    }

    /// Continues at the end of the file, unless the duration is known: for some writers the stated one counts
    /// from the first sample, for others from time 0, which differ only if the first sample is late.
    fn after_first(&mut self) -> Step {
        if !self.has_fragment && self.walk.wanted().is_none() {
            self.end_us = self.tables_us;
            return Step::Done;
        }
        let is_stated = self.stated_us.is_some() && self.begin_us.unwrap_or(0) < STATED_FROM_US;
        if is_stated || self.indexed_us.is_some() { Step::Done } else { self.tail(0) }
    }

    fn tail(&self, index: usize) -> Step {
        tail(index, self.after_movie, self.size).map_or(Step::Done, |extent| Step::Tail(index, extent))
    }

    /// Searches the last fragment, or an index that lists it, at the end of the file.
    fn search(&mut self, index: usize, extent: Extent, bytes: &Bytes) -> Step {
        for at in last_places(bytes, b"moof") {
            let Some(at) = at.checked_sub(4) else { continue };
            let Ok(fragment) = MemoryBox::read(bytes.slice(at..), extent.offset + at as u64) else {
                continue;
            };
            if let Some(done) = self.end_at(self.span(&fragment, None)) {
                return done;
            }
        }
        let length = access_index_length(bytes);
        let access =
            length.and_then(|length| self.size.checked_sub(length)).filter(|at| *at >= self.after_movie);
        match access.zip(length).filter(|(_, length)| *length <= MAX_INDEX_BYTES) {
            Some((offset, length)) => Step::AccessIndex(index, Extent { offset, length }),
            None => self.tail(index + 1),
        }
    }

    /// Continues with the last fragment in a random access index.
    fn last_header(&self, index: usize, bytes: Bytes, offset: u64) -> Step {
        let last = MemoryBox::read(bytes, offset).ok().and_then(|mfra| last_fragment(&mfra));
        match last.filter(|last| *last >= self.after_movie && *last < self.size) {
            Some(offset) => {
                let length = (self.size - offset).min(MAX_HEADER_LENGTH as u64);
                Step::LastHeader(index, Extent { offset, length })
            }
            None => self.tail(index + 1),
        }
    }

    /// Ends with the last fragment, if its times are known.
    fn end_at(&mut self, last: Option<Span>) -> Option<Step> {
        self.end_us = self.tables_us.max(Some(last?.end_us));
        Some(Step::Done)
    }

    /// Times of the samples of a fragment. `first`: time of a track's first sample, if the fragment has none.
    fn span(&self, moof: &MemoryBox, first: Option<u64>) -> Option<Span> {
        let of = |id| self.tracks.iter().position(|(track, _)| track.id == id);
        let defaults = |id| of(id).map_or(Defaults::default(), |index| self.tracks[index].1);
        let runs = fragment::runs(moof, defaults).ok().filter(|_| moof.kind.0 == *b"moof")?;
        let mut ends = vec![first; self.tracks.len()];
        let (mut begin_us, mut end_us) = (None::<u64>, None);
        for run in &runs {
            let Some(index) = of(run.track_id) else { continue };
            let Some(start) = run.start.or(ends[index]) else { continue };
            let length = run.duration();
            ends[index] = Some(start.saturating_add(length.decoded));
            let track = &self.tracks[index].0;
            begin_us = begin_us.into_iter().chain([track.movie_us(start)]).min();
            end_us = end_us.max(Some(track.movie_us(start.saturating_add(length.shown))));
        }
        Some(Span { begin_us, end_us: end_us? })
    }
}

/// Duration from a segment index (section 8.16.3), if it lists everything up to the end of the file.
fn segment_index_us(bytes: Bytes, offset: u64, size: u64) -> Option<u64> {
    let end = offset + bytes.len() as u64;
    let sidx = MemoryBox::read(bytes, offset).ok()?;
    let mut fields = Fields(&sidx.body);
    let (version, _) = fields.version()?;
    fields.u32()?; // the track
    let timescale = fields.u32().filter(|timescale| *timescale > 0)?;
    fields.long(version)?; // the first presentation time
    let first = fields.long(version)?;
    fields.u16()?;
    let count = fields.u16()?;
    let (mut length, mut ticks) = (0, 0);
    for _ in 0..count {
        length += u64::from(fields.u32()? & 0x7fff_ffff);
        ticks += u64::from(fields.u32()?);
        fields.u32()?;
    }
    let covers = end.checked_add(first)?.checked_add(length)? >= size;
    u64::try_from(u128::from(ticks) * 1_000_000 / u128::from(timescale)).ok().filter(|us| covers && *us > 0)
}

/// Length of the random access index (`mfra`), according to the last bytes of the file (section 8.8.11).
pub(super) fn access_index_length(tail: &[u8]) -> Option<u64> {
    let mut fields = Fields(tail.last_chunk::<16>()?);
    let is_offset = fields.u32()? == 16 && fields.four_cc()?.0 == *b"mfro";
    fields.version()?;
    fields.u32().filter(|length| is_offset && *length > 16).map(u64::from)
}

/// Offset of the last fragment in a random access index (section 8.8.10).
fn last_fragment(mfra: &MemoryBox) -> Option<u64> {
    let tables = mfra.children().filter_map(Result::ok).filter(|found| found.kind.0 == *b"tfra");
    let last = tables.filter_map(|tfra| {
        let mut fields = Fields(&tfra.body);
        let (version, _) = fields.version()?;
        fields.u32()?; // the track
        let lengths = fields.u32()?;
        let count = fields.u32()? as usize;
        let numbers: usize = [4, 2, 0].iter().map(|shift| (lengths >> shift & 3) as usize + 1).sum();
        let times = if version == 1 { 16 } else { 8 };
        fields.bytes(count.checked_sub(1)?.checked_mul(times + numbers)?)?;
        fields.long(version)?;
        fields.long(version)
    });
    last.max()
}
