//! Samples of all tracks, interleaved by decode time.

use std::collections::VecDeque;

use bytes::Bytes;

use super::boxes::MemoryBox;
use super::fragment::{self, Run};
use super::mark::Mark;
use super::movie::Movie;
use super::reader::{FileBox, Walk};
use super::table::{Cursor, Entry};
use super::track::{Defaults, Places};
use super::{Codec, Error, Extent, Next, Sample, Track, TrackFault, TrackKind};
use crate::track::MAX_SAMPLE_BYTES;

/// Longest `moof` box that is read: a fragment of some hundred thousand samples.
pub(super) const MAX_FRAGMENT_BYTES: u64 = 4 << 20;

/// Most samples of a file: a month of video and audio. Without a limit, there could be as many as the file
/// has bytes, and a sparse file can be long: tables and runs describe samples of one size without bytes for
/// each.
pub(super) const MAX_SAMPLES: u64 = 1 << 28;

/// Most pictures that are decoded before another picture and shown after it: the largest buffer of decoded
/// pictures of H.264 (clause A.3.1) and H.265.
const MAX_REORDERED: usize = 16;

/// Most runs that are kept while a track has no sample yet. Files with a fragment for each track have few
/// runs between a sample of one track and the next sample of another.
const HELD_RUNS: usize = 64;

/// Most bytes of memory of these runs.
const HELD_BYTES: usize = 16 << 20;

/// Samples of a movie in decode order, interleaved over its tracks by decode time.
///
/// Samples of fragments are only interleaved with samples of nearby fragments.
#[derive(Clone, Debug)]
pub struct Samples {
    tracks: Vec<TrackSamples>,
    /// Iterator over boxes that may be fragments; `None` at the end.
    walk: Option<Walk>,
    wanted: Option<Wanted>,
    size: u64,
    truncated: bool,
    faults: Vec<TrackFault>,
    /// Number of samples returned so far, of all tracks.
    pub(super) given: u64,
    /// Mark of the `moov` box.
    mark: Mark,
    /// Present while the file grows.
    growth: Option<Growth>,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Header(Extent),
    Fragment(Extent),
}

/// Growth of a file to which a recorder appends fragments.
#[derive(Clone, Debug, Default)]
struct Growth {
    /// True while the file does not have all of the next box.
    is_cut: bool,
    /// Last fragment, and the end of its samples, while the file does not have all of them.
    waiting: Option<(Vec<Run>, u64)>,
    known: Fragments,
}

/// Fragments of a growing file that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    /// Extent of the last `moof` box.
    pub last: Option<Extent>,
    /// Its mark; before the first fragment, that of the `moov` box.
    pub mark: Option<Mark>,
    /// Its length in microseconds.
    pub last_us: u64,
    /// Length of the longest fragment in microseconds.
    pub longest_us: u64,
}

/// Step before the next sample.
enum ReadOn {
    /// Nothing has to be read.
    Nothing,
    Header(Extent),
    /// The file has to grow.
    Growth,
}

/// Samples of one track.
#[derive(Clone, Debug)]
struct TrackSamples {
    track: Track,
    defaults: Defaults,
    index: usize,
    cursor: Cursor,
    runs: VecDeque<Run>,
    /// End of the last sample, in decode time.
    time: u64,
    /// Number of the last sample, counted from 1.
    number: u64,
    /// Most bytes of all further samples: all samples have at most as many bytes as the file.
    budget: u64,
    /// Sample of the tables of which a growing file does not have all bytes, and its number.
    beyond: Option<(u64, Entry)>,
    /// Next sample, and its decode time in microseconds.
    ahead: Option<(i64, Sample)>,
    /// Samples after `ahead`.
    ready: VecDeque<Sample>,
    /// Samples after the shown media, which a shown sample that is decoded later may need.
    late: VecDeque<Sample>,
    /// True after an error in the track's tables, and at the end of the shown media.
    has_ended: bool,
}

impl Movie {
    /// Returns the samples from the beginning.
    pub fn samples(&self) -> Samples {
        let tracks = self.tracks.iter().zip(&self.places).enumerate();
        let tracks = tracks.map(|(index, (track, places))| {
            TrackSamples::new(track.clone(), places.clone(), index, self.size)
        });
        let tracks = tracks.collect();
        let walk = self.fragmented.then(|| self.rest.clone());
        Samples {
            tracks,
            walk,
            wanted: None,
            size: self.size,
            truncated: false,
            faults: Vec::new(),
            given: 0,
            mark: self.mark,
            growth: None,
        }
    }
}

impl Samples {
    /// Returns the next sample, or the bytes that are needed to find it.
    ///
    /// Not an iterator, because the caller has to read bytes in between.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Next, Error> {
        if let Some(Wanted::Header(extent) | Wanted::Fragment(extent)) = self.wanted {
            return Ok(Next::Read(extent));
        }
        for track in &mut self.tracks {
            match track.look_ahead(self.size, self.growth.is_some()) {
                Ok(cut) => self.truncated |= cut,
                Err(error) => {
                    self.faults.push(TrackFault { track: track.track.id, error });
                    track.has_ended = true;
                }
            }
        }
        // The first fragment may be in the tables. Its media is written after them.
        if self.tracks.iter().any(|track| track.is_read() && track.beyond.is_some()) {
            return Ok(Next::Growth);
        }
        match self.read_on() {
            ReadOn::Nothing => {}
            ReadOn::Header(wanted) => {
                self.wanted = Some(Wanted::Header(wanted));
                return Ok(Next::Read(wanted));
            }
            ReadOn::Growth => return Ok(Next::Growth),
        }
        let first = self.tracks.iter_mut().filter(|track| track.ahead.is_some());
        let first = first.min_by_key(|track| track.ahead.map(|(us, _)| us));
        let Some((_, sample)) = first.and_then(|track| track.ahead.take()) else { return Ok(Next::End) };
        if self.given == MAX_SAMPLES {
            return Err(Error::Limit { what: "more samples", limit: MAX_SAMPLES });
        }
        self.given += 1;
        Ok(Next::Sample(sample))
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let bytes = bytes.into();
        match self.wanted.take() {
            Some(Wanted::Header(extent)) => {
                assert_eq!(bytes.len() as u64, extent.length, "the bytes that were wanted");
                self.header(&bytes)
            }
            Some(Wanted::Fragment(extent)) => {
                assert_eq!(bytes.len() as u64, extent.length, "the bytes that were wanted");
                self.fragment(bytes, extent.offset)
            }
            None => Ok(()),
        }
    }

    /// Samples of a file to which a recorder may still append fragments. They are the same, in the same order, as
    /// those of the finished file: a fragment is read when the file has all of its samples, and
    /// [`Next::Growth`] is returned in place of a sample that a fragment to come may precede.
    #[must_use]
    pub fn growing(mut self) -> Self {
        let known = Fragments { mark: Some(self.mark), ..Fragments::default() };
        self.growth = self.walk.is_some().then(|| Growth { known, ..Growth::default() });
        self
    }

    /// Sets the length of the file, which has grown.
    pub fn grow(&mut self, size: u64) {
        let more = size.saturating_sub(self.size);
        self.size += more;
        self.tracks.iter_mut().for_each(|track| track.budget = track.budget.saturating_add(more));
        self.walk.iter_mut().for_each(|walk| walk.grow(size));
        let Some(growth) = &mut self.growth else { return };
        growth.is_cut = false;
        if let Some((runs, _)) = growth.waiting.take_if(|(_, end)| *end <= self.size) {
            self.add(runs);
        }
    }

    /// Ends the growth: further samples are those of a finished file.
    pub fn end_growth(&mut self) {
        if let Some((runs, _)) = self.growth.take().and_then(|growth| growth.waiting) {
            self.add(runs);
        }
    }

    /// Fragments that were read, while the file grows.
    pub fn fragments(&self) -> Fragments {
        self.growth.as_ref().map_or(Fragments::default(), |growth| growth.known)
    }

    /// Ends the file at a damaged place. Samples found before it are still returned.
    pub fn end(&mut self) {
        (self.walk, self.wanted, self.growth) = (None, None, None);
    }

    /// Takes the errors since the last call. Each ended its track, but no other.
    pub fn take_faults(&mut self) -> Vec<TrackFault> {
        std::mem::take(&mut self.faults)
    }

    /// Returns whether the file ends within a fragment: it was truncated, or is still being written.
    pub fn truncated(&self) -> bool {
        self.truncated
    }

    /// Bytes of memory of the runs that are kept.
    pub fn held_bytes(&self) -> usize {
        let waiting = self.growth.iter().flat_map(|growth| &growth.waiting).flat_map(|(runs, _)| runs);
        self.found_bytes() + waiting.map(Run::held_bytes).sum::<usize>()
    }

    /// Bytes of memory of the runs whose samples can be returned.
    fn found_bytes(&self) -> usize {
        self.tracks.iter().flat_map(|track| &track.runs).map(Run::held_bytes).sum()
    }

    /// Reads on if a further fragment is needed to determine the next sample.
    fn read_on(&mut self) -> ReadOn {
        let Some(walk) = &self.walk else { return ReadOn::Nothing };
        let starved = |track: &TrackSamples| track.ahead.is_none() && track.is_read();
        let runs: usize = self.tracks.iter().map(|track| track.runs.len()).sum();
        if !self.tracks.iter().any(starved) || runs >= HELD_RUNS || self.found_bytes() >= HELD_BYTES {
            return ReadOn::Nothing;
        }
        if let Some(growth) = &self.growth {
            let is_cut = growth.is_cut || growth.waiting.is_some();
            return walk.wanted_of_growing().filter(|_| !is_cut).map_or(ReadOn::Growth, ReadOn::Header);
        }
        match walk.wanted() {
            Some(wanted) => ReadOn::Header(wanted),
            None => {
                self.walk = None;
                ReadOn::Nothing
            }
        }
    }

    fn header(&mut self, bytes: &Bytes) -> Result<(), Error> {
        let Some(walk) = &mut self.walk else { return Ok(()) };
        let found = match &mut self.growth {
            None => walk.take(bytes)?,
            Some(growth) => {
                let Some(found) = walk.take_whole(bytes)? else {
                    growth.is_cut = true;
                    return Ok(());
                };
                found
            }
        };
        if found.ends_recording() {
            self.growth = None;
        }
        self.truncated |= found.cut;
        if found.kind.0 != *b"moof" || found.cut {
            return Ok(());
        }
        if found.extent.length > MAX_FRAGMENT_BYTES {
            return Err(Error::Limit { what: "a moof box of more bytes", limit: MAX_FRAGMENT_BYTES });
        }
        self.wanted = Some(Wanted::Fragment(found.extent));
        Ok(())
    }

    fn fragment(&mut self, bytes: Bytes, offset: u64) -> Result<(), Error> {
        let extent = Extent { offset, length: bytes.len() as u64 };
        let mark = Mark::of(&bytes, offset);
        let moof = MemoryBox::read(bytes, offset)?;
        let defaults = |id| {
            let track = self.tracks.iter().find(|track| track.track.id == id);
            track.map_or(Defaults::default(), |track| track.defaults)
        };
        let runs = fragment::runs(&moof, defaults)?;
        let length_us = self.growth.as_ref().map(|_| self.length_us(&runs));
        if let Some((growth, length_us)) = self.growth.as_mut().zip(length_us) {
            let longest_us = growth.known.longest_us.max(length_us);
            growth.known = Fragments { last: Some(extent), mark: Some(mark), last_us: length_us, longest_us };
            let end = runs.iter().map(Run::end).max().unwrap_or(0);
            if end > self.size {
                growth.waiting = Some((runs, end));
                return Ok(());
            }
        }
        self.add(runs);
        Ok(())
    }

    /// Length of the longest track in a fragment, in microseconds.
    fn length_us(&self, runs: &[Run]) -> u64 {
        let mut ticks = vec![0_u64; self.tracks.len()];
        for run in runs {
            let tracks = self.tracks.iter().zip(&mut ticks);
            for (_, ticks) in tracks.filter(|(track, _)| track.track.id == run.track_id) {
                *ticks = ticks.saturating_add(run.duration().decoded);
            }
        }
        let lengths = self.tracks.iter().zip(ticks).map(|(track, ticks)| track.track.us(ticks.into()));
        lengths.max().unwrap_or(0).max(0).unsigned_abs()
    }

    /// Adds the runs of a fragment.
    fn add(&mut self, runs: Vec<Run>) {
        for run in runs {
            let track = self.tracks.iter_mut().find(|track| track.track.id == run.track_id);
            if let Some(track) = track.filter(|track| track.is_read()) {
                track.runs.push_back(run);
                self.walk.iter_mut().for_each(Walk::used);
            }
        }
    }
}

impl FileBox {
    /// Returns whether a recorder writes this box behind the last fragment: an index of all fragments, or a movie
    /// box with the tables of all samples.
    fn ends_recording(&self) -> bool {
        matches!(&self.kind.0, b"mfra" | b"moov")
    }
}

impl TrackSamples {
    fn new(track: Track, places: Places, index: usize, size: u64) -> Self {
        // Linear PCM has thousands of samples per second, so a tenth of a second is one sample.
        let together = match track.codec {
            Codec::Pcm(_) | Codec::G711A | Codec::G711Mu => track.timescale.div_ceil(10),
            _ => 1,
        };
        let cursor = Cursor::new(places.table, together);
        let runs = VecDeque::new();
        Self {
            track,
            defaults: places.defaults,
            index,
            cursor,
            runs,
            time: 0,
            number: 0,
            budget: size,
            beyond: None,
            ahead: None,
            ready: VecDeque::new(),
            late: VecDeque::new(),
            has_ended: false,
        }
    }

    fn is_read(&self) -> bool {
        !self.track.external && !self.has_ended
    }

    /// Finds the next sample, unless it is known. Returns whether the file ends within a fragment.
    fn look_ahead(&mut self, size: u64, grows: bool) -> Result<bool, Error> {
        let mut cut = false;
        while self.ahead.is_none() && self.is_read() {
            if let Some(sample) = self.ready.pop_front() {
                self.ahead = Some((self.track.decode_us(&sample), sample));
                break;
            }
            let Some(sample) = self.read_next(size, grows, &mut cut)? else { break };
            self.admit(sample);
        }
        Ok(cut)
    }

    /// Adds a sample to those that are ready, if it is shown, with earlier samples that it may need.
    fn admit(&mut self, sample: Sample) {
        if self.track.is_before_end(&sample) {
            self.ready.append(&mut self.late);
            self.ready.push_back(sample);
            return;
        }
        let most = if self.track.kind == TrackKind::Video { MAX_REORDERED } else { 0 };
        self.late.push_back(sample);
        self.has_ended |= self.late.len() > most;
    }

    /// Reads the next sample; none if the file has to grow for one. Sets `cut` if the file ends within a fragment.
    fn read_next(&mut self, size: u64, grows: bool, cut: &mut bool) -> Result<Option<Sample>, Error> {
        if let Some((number, entry)) = self.next_of_table()? {
            self.number = number;
            self.time = self.cursor.decode_time();
            let end = entry.extent.end();
            if end > size && grows {
                self.beyond = Some((number, entry));
                return Ok(None);
            }
            if end > size {
                return Err(Error::BeyondFile { track: self.track.id, sample: number, end, size });
            }
            return self.found(entry).map(Some);
        }
        while let Some(run) = self.runs.front_mut() {
            if let Some(start) = run.start.take() {
                self.time = start;
            }
            let Some(sample) = run.next() else {
                self.runs.pop_front();
                continue;
            };
            self.number += 1;
            let decode_time = self.time;
            self.time = decode_time.saturating_add(sample.duration.into());
            if sample.extent.end() > size {
                self.runs.pop_front();
                *cut = true;
                continue;
            }
            let fragment::RunSample { extent, duration, composition_offset, sync } = sample;
            let entry = Entry { extent, decode_time, duration, composition_offset, sync, count: 1 };
            return self.found(entry).map(Some);
        }
        Ok(None)
    }

    /// The next sample of the tables, and its number.
    fn next_of_table(&mut self) -> Result<Option<(u64, Entry)>, Error> {
        if let Some(beyond) = self.beyond.take() {
            return Ok(Some(beyond));
        }
        let number = self.cursor.number();
        let fault = |reason| Error::Sample { track: self.track.id, sample: number, reason };
        Ok(self.cursor.next().map_err(fault)?.map(|entry| (number, entry)))
    }

    fn found(&mut self, entry: Entry) -> Result<Sample, Error> {
        let Entry { extent, decode_time, duration, composition_offset, sync, count } = entry;
        let track = self.index;
        if extent.length > MAX_SAMPLE_BYTES {
            return Err(Error::Limit { what: "a sample of more bytes", limit: MAX_SAMPLE_BYTES });
        }
        self.budget = self.budget.checked_sub(extent.length).ok_or(Error::Sample {
            track: self.track.id,
            sample: self.number,
            reason: "the samples up to it have more bytes than the file",
        })?;
        Ok(Sample { track, extent, decode_time, duration, composition_offset, sync, count })
    }
}
