//! Movies: the `moov` box, at any place in the file.

use bytes::Bytes;

use super::boxes::MemoryBox;
use super::mark::Mark;
use super::reader::{FileBox, Walk};
use super::track::{self, Defaults, Places};
use super::{Error, Extent, FourCc, Track, TrackFault};
use crate::track::Fields;

/// Longest `moov` box that is read: the tables of a day of media. It is shorter than a server's memory for
/// packing, so that one such file does not block others.
const MAX_MOVIE_BYTES: u64 = 128 << 20;

/// Most tracks.
const MAX_TRACKS: usize = 64;

/// Movie: its tracks, and the position of further boxes.
#[derive(Clone, Debug)]
pub struct Movie {
    /// Major brand, such as `isom` or `qt  `; `None` for files older than brands.
    pub brand: Option<FourCc>,
    /// Extent of the `moov` box.
    pub extent: Extent,
    /// True if there may be samples in fragments (`moof`).
    pub fragmented: bool,
    /// Tracks in the order of the file.
    pub tracks: Vec<Track>,
    /// Errors of tracks that cannot be read, and are left out.
    pub faults: Vec<TrackFault>,
    /// Length of the file.
    pub size: u64,
    /// Duration of the movie with its fragments in microseconds, from `mehd` or `mvhd`; `None` if unknown.
    pub(super) stated_us: Option<u64>,
    /// Sample tables of the tracks.
    pub(super) places: Vec<Places>,
    /// Mark of the `moov` box.
    pub(super) mark: Mark,
    /// Boxes after the `moov` box.
    pub(super) rest: Walk,
}

impl Movie {
    /// Returns whether a recorder may still append fragments: nothing in the file states its duration.
    pub fn may_grow(&self) -> bool {
        self.fragmented && self.stated_us.is_none()
    }

    /// Keeps the tracks for which `keep` returns `true`.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Track) -> bool) {
        let places = std::mem::take(&mut self.places);
        let all = std::mem::take(&mut self.tracks).into_iter().zip(places);
        (self.tracks, self.places) = all.filter(|(track, _)| keep(track)).unzip();
    }
}

/// Reader of the `moov` box of a file.
#[derive(Debug)]
pub struct MovieReader {
    size: u64,
    walk: Walk,
    state: State,
    brand: Option<FourCc>,
    first: bool,
}

#[derive(Debug)]
enum State {
    Header,
    Brand(Extent),
    Movie(Extent),
    Done(Box<Movie>),
}

impl MovieReader {
    /// Reader of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self { size, walk: Walk::new(size), state: State::Header, brand: None, first: true }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self.state {
            State::Header => self.walk.wanted(),
            State::Brand(extent) => Some(extent),
            State::Movie(extent) => Some(extent),
            State::Done(_) => None,
        }
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let bytes = bytes.into();
        let wanted = self.wanted().map_or(0, |wanted| wanted.length);
        assert_eq!(bytes.len() as u64, wanted, "the bytes that were wanted");
        match self.state {
            State::Header => self.state = self.header(&bytes)?,
            State::Brand(_) => {
                self.brand = bytes.first_chunk().map(|brand| FourCc(*brand));
                self.state = State::Header;
            }
            State::Movie(extent) => self.state = State::Done(Box::new(self.movie(bytes, extent)?)),
            State::Done(_) => {}
        }
        Ok(())
    }

    /// Returns the movie. Call it when no more bytes are wanted.
    pub fn finish(self) -> Result<Movie, Error> {
        match self.state {
            State::Done(movie) => Ok(*movie),
            _ if self.first => Err(Error::NotMp4),
            _ => Err(Error::NoMovie),
        }
    }

    fn header(&mut self, bytes: &Bytes) -> Result<State, Error> {
        if std::mem::take(&mut self.first) && !super::is_mp4(bytes) {
            return Err(Error::NotMp4);
        }
        let FileBox { kind, extent, cut } = self.walk.take(bytes)?;
        match &kind.0 {
            b"moov" if cut => {
                Err(Error::Box { kind, offset: extent.offset, reason: "the file ends within it" })
            }
            b"moov" if extent.length > MAX_MOVIE_BYTES => {
                Err(Error::Limit { what: "a moov box of more bytes", limit: MAX_MOVIE_BYTES })
            }
            b"moov" => Ok(State::Movie(extent)),
            b"ftyp" if extent.length >= 12 => {
                Ok(State::Brand(Extent { offset: extent.offset + 8, length: 4 }))
            }
            _ => Ok(State::Header),
        }
    }

    fn movie(&mut self, bytes: Bytes, extent: Extent) -> Result<Movie, Error> {
        self.walk.used();
        let mark = Mark::of(&bytes, extent.offset);
        let moov = MemoryBox::read(bytes, extent.offset)?;
        let (timescale, duration) = moov.need(b"mvhd", "no mvhd box")?.fields(movie_header)?;
        let (mut tracks, mut places, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        let mut fragmented = false;
        for found in moov.children() {
            let found = found?;
            match &found.kind.0 {
                b"trak" if tracks.len() + faults.len() == MAX_TRACKS => {
                    return Err(Error::Limit { what: "more tracks", limit: MAX_TRACKS as u64 });
                }
                b"trak" => match track::read(&found, timescale) {
                    Ok((track, samples)) => {
                        tracks.push(track);
                        places.push(samples);
                    }
                    Err(error) => faults.push(TrackFault { track: track::id(&found).unwrap_or(0), error }),
                },
                b"mvex" => fragmented = true,
                _ => {}
            }
        }
        if let (true, Some(TrackFault { error, .. })) = (tracks.is_empty(), faults.first()) {
            return Err(error.clone());
        }
        if let Some(mvex) = moov.child(b"mvex")? {
            // The durations of edits need not include the fragments.
            tracks.iter_mut().for_each(|track| track.end = None);
            set_defaults(&mvex, &tracks, &mut places)?;
        }
        let (brand, rest) = (self.brand, self.walk.clone());
        // With samples in the moov box, its duration may be that of these samples alone.
        let covers_all = !fragmented || places.iter().all(|places| places.table.samples == 0);
        let ticks = fragments_duration(&moov).or(duration.filter(|_| covers_all));
        let stated_us = ticks.and_then(|ticks| {
            let us = (u128::from(ticks) * 1_000_000).checked_div(timescale.into())?;
            u64::try_from(us).ok().filter(|us| *us > 0)
        });
        let size = self.size;
        Ok(Movie { brand, extent, fragmented, tracks, faults, size, stated_us, places, mark, rest })
    }
}

/// Timescale and duration, if known.
fn movie_header(fields: &mut Fields<'_>) -> Option<(u32, Option<u64>)> {
    let (version, _) = fields.version()?;
    fields.bytes(if version == 1 { 16 } else { 8 })?;
    Some((fields.u32()?, fields.long(version).and_then(|duration| known(duration, version))))
}

/// Duration with all fragments (`mehd`, section 8.8.2), if the file contains it.
fn fragments_duration(moov: &MemoryBox) -> Option<u64> {
    let mehd = moov.child(b"mvex").ok()??.child(b"mehd").ok()??;
    let mut fields = Fields(&mehd.body);
    let (version, _) = fields.version()?;
    fields.long(version).and_then(|duration| known(duration, version))
}

/// Duration, unless it says that it is unknown.
fn known(duration: u64, version: u8) -> Option<u64> {
    let unknown = if version == 1 { u64::MAX } else { u32::MAX.into() };
    (duration > 0 && duration != unknown).then_some(duration)
}

/// Sets the tracks' defaults for fragments from `trex` boxes (section 8.8.3).
fn set_defaults(mvex: &MemoryBox, tracks: &[Track], places: &mut [Places]) -> Result<(), Error> {
    for found in mvex.children() {
        let found = found?;
        if found.kind.0 != *b"trex" {
            continue;
        }
        let (id, defaults) = found.fields(|fields| {
            fields.version()?;
            let id = fields.u32()?;
            fields.u32()?;
            Some((id, Defaults { duration: fields.u32()?, size: fields.u32()?, flags: fields.u32()? }))
        })?;
        let of_track = tracks.iter().zip(places.iter_mut()).filter(|(track, _)| track.id == id);
        of_track.for_each(|(_, places)| places.defaults = defaults);
    }
    Ok(())
}
