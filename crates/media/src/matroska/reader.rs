//! Reader of the elements that describe a segment, at any place in the file.

use bytes::Bytes;

use super::ebml::{Elements, Header, MAX_HEADER};
use super::id::{
    CLUSTER, CUES, DOC_TYPE, DURATION, EBML, INFO, SEEK, SEEK_HEAD, SEEK_ID, SEEK_POSITION, SEGMENT,
    TIMESTAMP_SCALE, TRACKS,
};
use super::profile::Profiles;
use super::segment::{DocumentType, Segment};
use super::{Error, Id, cue, track};
use crate::track::Extent;

/// Longest elements that are read: EBML header; segment information; tracks with their configurations; cues,
/// which are left out if they are longer or too many.
const MAX_EBML: u64 = 4 << 10;
const MAX_INFO: u64 = 1 << 20;
const MAX_TRACKS: u64 = 4 << 20;
const MAX_CUES: u64 = 16 << 20;

/// Most elements that are read, including clusters before the tracks; and most places from seek heads that
/// are followed.
const MAX_ELEMENTS: u64 = 100_000;
const MAX_PLACES: usize = 16;

/// Longest tick: in such files, times are multiples of about a quarter of an hour.
const MAX_TICK_NS: u64 = 1_000_000_000_000;

/// Reader of the elements that describe a segment.
#[derive(Debug)]
pub struct SegmentReader {
    size: u64,
    state: State,
    elements: u64,
    document: DocumentType,
    /// Offset of the segment's data, from which positions count; and end of the segment.
    base: u64,
    end: u64,
    cut: bool,
    cluster: Option<u64>,
    /// Offset of the `Tracks` element.
    tracks: u64,
    found: Box<Found>,
    profiles: Option<Box<Profiles>>,
    /// IDs and offsets of elements from seek heads.
    places: Vec<(Id, u64)>,
    looked: usize,
}

/// Elements with their data.
#[derive(Debug, Default)]
struct Found {
    info: Option<(Extent, Bytes)>,
    tracks: Option<(Extent, Bytes)>,
    cues: Option<(Extent, Bytes)>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Headers to read next: of the EBML element, of the segment, of an element of the segment.
    Document,
    Segment(u64),
    Element(u64),
    /// Header of an element from a seek head.
    Place(Id, u64),
    /// Data of an element, and the state after it.
    Data(Id, Extent, After),
    /// First frames of VP9 tracks, for their profiles.
    Profiles,
    Done,
}

#[derive(Clone, Copy, Debug)]
enum After {
    Segment,
    Element,
    Place,
}

impl SegmentReader {
    /// Reader of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            state: if size == 0 { State::Done } else { State::Document },
            elements: 0,
            document: DocumentType::Matroska,
            base: 0,
            end: size,
            cut: false,
            cluster: None,
            tracks: 0,
            found: Box::default(),
            profiles: None,
            places: Vec::new(),
            looked: 0,
        }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        let header = |at: u64, end: u64| Extent { offset: at, length: (end - at).min(MAX_HEADER as u64) };
        match self.state {
            State::Document => Some(header(0, self.size)),
            State::Segment(at) => Some(header(at, self.size)),
            State::Element(at) | State::Place(_, at) => Some(header(at, self.end)),
            State::Data(_, extent, _) => Some(extent),
            State::Profiles => self.profiles.as_ref().and_then(|profiles| profiles.wanted()),
            State::Done => None,
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
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(Error::Limit { what: "elements before the first cluster", limit: MAX_ELEMENTS });
        }
        self.state = match self.state {
            State::Document => document(&bytes, self.size)?,
            State::Segment(at) => self.segment(&Header::read(&bytes, at)?)?,
            State::Element(at) => match Header::read(&bytes, at) {
                Err(_) if bytes.len() < MAX_HEADER => {
                    self.cut = true;
                    self.look()
                }
                header => self.element(&header?)?,
            },
            State::Place(id, at) => self.place(id, Header::read(&bytes, at).ok()),
            State::Data(id, extent, after) => self.data(id, extent, after, bytes)?,
            State::Profiles => {
                self.profiles.iter_mut().for_each(|profiles| profiles.take(&bytes));
                State::Profiles
            }
            State::Done => State::Done,
        };
        Ok(())
    }

    /// Returns the segment. Call it when no more bytes are wanted.
    pub fn finish(self) -> Result<Segment, Error> {
        if self.base == 0 {
            return Err(Error::NotMatroska);
        }
        let (data_at, tracks) = self.found.tracks.ok_or(Error::NoTracks)?;
        let (tick_ns, duration) =
            self.found.info.map_or(Ok((1_000_000, None)), |(at, data)| info(&data, at))?;
        let (mut tracks, plans) = track::read(&tracks, data_at.offset, tick_ns)?;
        self.profiles.iter().for_each(|profiles| profiles.add_to(&mut tracks, &plans));
        let extent = Extent { offset: self.tracks, length: data_at.end() - self.tracks };
        let duration_us = duration.map(|ticks| (ticks * tick_ns as f64 / 1000.0) as u64);
        let mut segment = Segment {
            document: self.document,
            extent,
            tracks,
            cues: Vec::new(),
            duration_us: duration_us.filter(|us| *us > 0),
            size: self.size,
            tick_ns,
            plans,
            cluster: self.cluster,
            end: self.end,
            cut: self.cut,
        };
        if let Some((at, data)) = self.found.cues {
            // Cues that are damaged or too many are left out, since they are not needed.
            segment.cues = cue::read(&data, at.offset, self.base, &segment).unwrap_or_default();
        }
        Ok(segment)
    }

    fn segment(&mut self, header: &Header) -> Result<State, Error> {
        if header.id != SEGMENT {
            let next = header.body(self.size)?.end();
            return if next < self.size { Ok(State::Segment(next)) } else { Err(Error::NoTracks) };
        }
        self.base = header.data();
        let end = header.size.map(|size| self.base.saturating_add(size));
        self.cut = end.is_some_and(|end| end > self.size);
        self.end = end.unwrap_or(self.size).min(self.size);
        Ok(self.next(self.base))
    }

    /// Continues with the element at an offset, or at the end of the segment with elements from seek heads.
    fn next(&mut self, at: u64) -> State {
        if at < self.end { State::Element(at) } else { self.look() }
    }

    fn element(&mut self, header: &Header) -> Result<State, Error> {
        if header.id == CLUSTER {
            self.cluster.get_or_insert(header.offset);
            let stated = self.places.iter().any(|(id, _)| *id == TRACKS);
            return match header.size {
                _ if self.found.tracks.is_some() || stated => Ok(self.look()),
                Some(size) => Ok(self.next(header.data().saturating_add(size))),
                None => Err(Error::NoTracks),
            };
        }
        match header.body(self.end) {
            Ok(body) if self.is_wanted(header.id, body) => Ok(self.wanted_data(header, body, After::Element)),
            Ok(body) if header.id == TRACKS && self.found.tracks.is_none() && body.length > 0 => {
                Err(Error::Limit { what: "bytes in the Tracks element", limit: MAX_TRACKS })
            }
            Ok(body) => Ok(self.next(body.end())),
            // The file ends within this element.
            Err(_) if header.size.is_some() && header.id != TRACKS => {
                self.cut = true;
                Ok(self.look())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether the data of an element has to be read.
    fn is_wanted(&self, id: Id, body: Extent) -> bool {
        let (found, limit) = match id {
            INFO => (&self.found.info, MAX_INFO),
            TRACKS => (&self.found.tracks, MAX_TRACKS),
            CUES => (&self.found.cues, MAX_CUES),
            SEEK_HEAD => (&None, MAX_INFO),
            _ => return false,
        };
        found.is_none() && (1..=limit).contains(&body.length)
    }

    /// Continues with the next element from seek heads that was not found yet.
    fn look(&mut self) -> State {
        while let Some((id, at)) = self.places.pop() {
            self.looked += 1;
            let known = Extent { offset: at, length: 1 };
            if self.looked <= MAX_PLACES && at >= self.base && at < self.end && self.is_wanted(id, known) {
                return State::Place(id, at);
            }
        }
        let Some((_, tracks)) = &self.found.tracks else { return State::Done };
        self.profiles = Some(Box::new(Profiles::new(tracks, self.cluster, self.end)));
        State::Profiles
    }

    fn place(&mut self, id: Id, header: Option<Header>) -> State {
        let found = header.filter(|header| header.id == id);
        match found.and_then(|header| Some((header, header.body(self.end).ok()?))) {
            Some((header, body)) if self.is_wanted(id, body) => self.wanted_data(&header, body, After::Place),
            _ => self.look(),
        }
    }

    fn wanted_data(&mut self, header: &Header, body: Extent, after: After) -> State {
        if header.id == TRACKS {
            self.tracks = header.offset;
        }
        State::Data(header.id, body, after)
    }

    fn data(&mut self, id: Id, extent: Extent, after: After, bytes: Bytes) -> Result<State, Error> {
        match id {
            EBML => self.document = document_type(&bytes)?,
            INFO => self.found.info = Some((extent, bytes)),
            TRACKS => self.found.tracks = Some((extent, bytes)),
            CUES => self.found.cues = Some((extent, bytes)),
            _ => self.seek_head(extent, &bytes)?,
        }
        Ok(match after {
            After::Segment if extent.end() < self.size => State::Segment(extent.end()),
            After::Segment => return Err(Error::NoTracks),
            After::Element => self.next(extent.end()),
            After::Place => self.look(),
        })
    }

    /// Notes the elements that a seek head lists (RFC 9559 section 5.1.1).
    fn seek_head(&mut self, extent: Extent, data: &[u8]) -> Result<(), Error> {
        for seek in Elements::new(data, extent.offset) {
            let seek = seek?;
            if seek.header.id != SEEK {
                continue;
            }
            let (mut id, mut position) = (0, 0);
            for field in seek.children() {
                let field = field?;
                match field.header.id {
                    SEEK_ID => id = field.unsigned()?,
                    SEEK_POSITION => position = field.unsigned()?,
                    _ => {}
                }
            }
            let id = Id(u32::try_from(id).unwrap_or(0));
            if self.places.len() < MAX_PLACES && [INFO, TRACKS, CUES, SEEK_HEAD].contains(&id) {
                self.places.push((id, self.base.saturating_add(position)));
            }
        }
        Ok(())
    }
}

/// Returns the state after the header of the EBML element.
fn document(bytes: &[u8], size: u64) -> Result<State, Error> {
    let header = Header::read(bytes, 0).ok().filter(|header| header.id == EBML);
    let body =
        header.and_then(|header| header.body(size).ok()).filter(|body| (1..=MAX_EBML).contains(&body.length));
    body.map(|body| State::Data(EBML, body, After::Segment)).ok_or(Error::NotMatroska)
}

/// Document type from the data of the EBML element.
fn document_type(data: &[u8]) -> Result<DocumentType, Error> {
    for field in Elements::new(data, 0) {
        match field.map(|field| (field.header.id, field.text())) {
            Ok((DOC_TYPE, "matroska")) => return Ok(DocumentType::Matroska),
            Ok((DOC_TYPE, "webm")) => return Ok(DocumentType::Webm),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Err(Error::NotMatroska)
}

/// Nanoseconds per tick, and the duration in ticks.
fn info(data: &[u8], at: Extent) -> Result<(u64, Option<f64>), Error> {
    let (mut tick_ns, mut duration) = (1_000_000, None);
    for field in Elements::new(data, at.offset) {
        let field = field?;
        match field.header.id {
            TIMESTAMP_SCALE => {
                tick_ns = field.unsigned()?;
                if !(1..=MAX_TICK_NS).contains(&tick_ns) {
                    return Err(field.header.error("a tick has 1 to 1,000,000,000,000 nanoseconds"));
                }
            }
            DURATION => duration = Some(field.float()?),
            _ => {}
        }
    }
    Ok((tick_ns, duration))
}
