//! Common reader of containers with tracks: MP4, Matroska, and demultiplexed transport streams. It returns
//! tracks, and then samples as extents in decode order.
//!
//! Packing, sending and inspecting of movies use these types, independent of the container.

use bytes::Bytes;

use crate::track::{Extent, Next, Sample, Track};
use crate::ts::Warnings;
use crate::{demux, matroska, mp4};

/// Reader of the description of a movie: requests bytes of the file and takes them.
#[derive(Debug)]
pub enum MovieReader {
    /// Reader of an MP4 or QuickTime file.
    Mp4(mp4::MovieReader),
    /// Reader of a Matroska or WebM file.
    Matroska(matroska::SegmentReader),
    /// Reader of the tracks of a transport stream.
    TransportStream(Box<demux::TracksReader>),
}

/// Movie of any container.
#[derive(Clone, Debug)]
pub enum Movie {
    /// MP4 or QuickTime file.
    Mp4(mp4::Movie),
    /// Matroska or WebM file.
    Matroska(matroska::Segment),
    /// Demultiplexed transport stream.
    TransportStream(Box<demux::Movie>),
}

/// Samples of a movie in decode order, interleaved over its tracks by decode time.
#[derive(Clone, Debug)]
pub enum Samples {
    /// Samples of an MP4 or QuickTime file.
    Mp4(mp4::Samples),
    /// Samples of a Matroska or WebM file.
    Matroska(matroska::Samples),
    /// Samples of a demultiplexed transport stream.
    TransportStream(Box<demux::Samples>),
}

/// Reader of the duration of a movie, from its first sample to the end of its last one: requests bytes of the
/// file and takes them. It reads the end of the file if the description of the movie has no duration.
#[derive(Debug)]
pub enum DurationReader {
    /// Reader for an MP4 or QuickTime file.
    Mp4(Box<mp4::DurationReader>),
    /// Reader for a Matroska or WebM file.
    Matroska(Box<matroska::DurationReader>),
    /// No reader: a transport stream has no duration.
    TransportStream,
}

/// Longest duration that is believed, in microseconds: ten years. Packers refuse later samples.
pub(crate) const MAX_TIME_US: u64 = 315_360_000_000_000;

/// Error of a track, which is left out. Other tracks are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackFault {
    /// Identifier of the track; 0 if it cannot be read.
    pub track: u32,
    /// Error.
    pub error: Error,
}

/// Error of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Error of an MP4 or QuickTime file.
    #[error(transparent)]
    Mp4(#[from] mp4::Error),
    /// Error of a Matroska or WebM file.
    #[error(transparent)]
    Matroska(#[from] matroska::Error),
    /// Error of a transport stream.
    #[error(transparent)]
    TransportStream(#[from] demux::Error),
}

/// Returns whether a file that begins with `head`, at least 12 bytes, is an MP4 or Matroska file.
pub fn is_movie(head: &[u8]) -> bool {
    mp4::is_mp4(head) || matroska::is_matroska(head)
}

impl MovieReader {
    /// Reader of a file of `size` bytes that begins with `head`, at least 12 bytes; `None` unless it is an
    /// MP4 or Matroska file.
    pub fn of(head: &[u8], size: u64) -> Option<Self> {
        if mp4::is_mp4(head) {
            return Some(Self::Mp4(mp4::MovieReader::new(size)));
        }
        matroska::is_matroska(head).then(|| Self::Matroska(matroska::SegmentReader::new(size)))
    }

    /// Reader of the tracks of a transport stream of `size` bytes.
    pub fn of_transport_stream(size: u64) -> Self {
        Self::TransportStream(Box::new(demux::TracksReader::new(size)))
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self {
            Self::Mp4(reader) => reader.wanted(),
            Self::Matroska(reader) => reader.wanted(),
            Self::TransportStream(reader) => reader.wanted(),
        }
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        match self {
            Self::Mp4(reader) => Ok(reader.take(bytes)?),
            Self::Matroska(reader) => Ok(reader.take(bytes)?),
            Self::TransportStream(reader) => Ok(reader.take(&bytes.into())?),
        }
    }

    /// Returns the movie. Call it when no more bytes are wanted.
    pub fn finish(self) -> Result<Movie, Error> {
        match self {
            Self::Mp4(reader) => Ok(Movie::Mp4(reader.finish()?)),
            Self::Matroska(reader) => Ok(Movie::Matroska(reader.finish()?)),
            Self::TransportStream(reader) => Ok(Movie::TransportStream(Box::new(reader.finish()?))),
        }
    }
}

impl Movie {
    /// Tracks in the order of the file.
    pub fn tracks(&self) -> &[Track] {
        match self {
            Self::Mp4(movie) => &movie.tracks,
            Self::Matroska(segment) => &segment.tracks,
            Self::TransportStream(movie) => &movie.tracks,
        }
    }

    /// Errors of tracks that cannot be read, and are left out.
    pub fn faults(&self) -> Vec<TrackFault> {
        match self {
            Self::Mp4(movie) => movie.faults.iter().cloned().map(TrackFault::from).collect(),
            Self::Matroska(_) => Vec::new(),
            Self::TransportStream(movie) => {
                let fault = |(track, error): (u32, demux::Error)| TrackFault { track, error: error.into() };
                movie.faults.iter().cloned().map(fault).collect()
            }
        }
    }

    /// Keeps the tracks for which `keep` returns `true`.
    pub fn retain(&mut self, keep: impl FnMut(&Track) -> bool) {
        match self {
            Self::Mp4(movie) => movie.retain(keep),
            Self::Matroska(segment) => segment.retain(keep),
            Self::TransportStream(movie) => movie.retain(keep),
        }
    }

    /// Duration in the file in microseconds; `None` if unknown.
    pub fn duration_us(&self) -> Option<u64> {
        match self {
            Self::Mp4(movie) => movie.tracks.iter().filter_map(Track::duration_us).max(),
            Self::Matroska(segment) => segment.duration_us,
            Self::TransportStream(_) => None,
        }
    }

    /// Returns whether a recorder may still append fragments: nothing in the file states its duration.
    pub fn may_grow(&self) -> bool {
        matches!(self, Self::Mp4(movie) if movie.may_grow())
    }

    /// Returns a reader of the duration.
    pub fn duration(&self) -> DurationReader {
        match self {
            Self::Mp4(movie) => DurationReader::Mp4(Box::new(movie.duration())),
            Self::Matroska(segment) => DurationReader::Matroska(Box::new(segment.duration())),
            Self::TransportStream(_) => DurationReader::TransportStream,
        }
    }

    /// Returns the samples from the beginning.
    pub fn samples(&self) -> Samples {
        match self {
            Self::Mp4(movie) => Samples::Mp4(movie.samples()),
            Self::Matroska(segment) => Samples::Matroska(segment.samples()),
            Self::TransportStream(movie) => Samples::TransportStream(Box::new(movie.samples())),
        }
    }

    /// Name of the container: `mp4`, `matroska`, `webm` or `mpegts`.
    pub fn container(&self) -> &'static str {
        match self {
            Self::Mp4(_) => "mp4",
            Self::Matroska(segment) => segment.document.name(),
            Self::TransportStream(_) => "mpegts",
        }
    }

    /// Extent of the boxes or elements that describe the tracks.
    pub fn description(&self) -> Extent {
        match self {
            Self::Mp4(movie) => movie.extent,
            Self::Matroska(segment) => segment.extent,
            // Programme maps are spread over the file.
            Self::TransportStream(_) => Extent { offset: 0, length: 0 },
        }
    }
}

impl DurationReader {
    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self {
            Self::Mp4(reader) => reader.wanted(),
            Self::Matroska(reader) => reader.wanted(),
            Self::TransportStream => None,
        }
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) {
        match self {
            Self::Mp4(reader) => reader.take(bytes),
            Self::Matroska(reader) => reader.take(bytes),
            Self::TransportStream => {}
        }
    }

    /// Returns the duration in microseconds; `None` if the file does not tell it, or a time of more than ten
    /// years. Call it when no more bytes are wanted.
    pub fn finish(self) -> Option<u64> {
        let duration_us = match self {
            Self::Mp4(reader) => reader.finish(),
            Self::Matroska(reader) => reader.finish(),
            Self::TransportStream => None,
        };
        duration_us.filter(|duration_us| *duration_us <= MAX_TIME_US)
    }
}

impl Samples {
    /// Returns the next sample, or the bytes that are needed to find it.
    ///
    /// Not an iterator, because the caller has to read bytes in between.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Next, Error> {
        match self {
            Self::Mp4(samples) => Ok(samples.next()?),
            Self::Matroska(samples) => Ok(samples.next()?),
            Self::TransportStream(samples) => Ok(samples.next()?),
        }
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        match self {
            Self::Mp4(samples) => Ok(samples.take(bytes)?),
            Self::Matroska(samples) => Ok(samples.take(bytes)?),
            Self::TransportStream(samples) => Ok(samples.take(&bytes.into())?),
        }
    }

    /// Ends the file at a damaged place. Samples found before it are still returned.
    pub fn end(&mut self) {
        match self {
            Self::Mp4(samples) => samples.end(),
            Self::Matroska(samples) => samples.end(),
            Self::TransportStream(samples) => samples.end(),
        }
    }

    /// Samples of a file to which a recorder may still append fragments; unchanged unless it is an MP4 file.
    #[must_use]
    pub fn growing(self) -> Self {
        match self {
            Self::Mp4(samples) => Self::Mp4(samples.growing()),
            other => other,
        }
    }

    /// Sets the length of a growing file.
    pub fn grow(&mut self, size: u64) {
        if let Self::Mp4(samples) = self {
            samples.grow(size);
        }
    }

    /// Ends the growth: further samples are those of a finished file.
    pub fn end_growth(&mut self) {
        if let Self::Mp4(samples) = self {
            samples.end_growth();
        }
    }

    /// Fragments that were read, while the file grows.
    pub fn fragments(&self) -> mp4::Fragments {
        match self {
            Self::Mp4(samples) => samples.fragments(),
            Self::Matroska(_) | Self::TransportStream(_) => mp4::Fragments::default(),
        }
    }

    /// Takes the errors since the last call. Each ended its track, but no other.
    pub fn take_faults(&mut self) -> Vec<TrackFault> {
        match self {
            Self::Mp4(samples) => samples.take_faults().into_iter().map(TrackFault::from).collect(),
            Self::Matroska(_) | Self::TransportStream(_) => Vec::new(),
        }
    }

    /// Takes the warnings since the last call that are not errors of tracks.
    pub fn take_warnings(&mut self) -> Warnings {
        match self {
            Self::Mp4(_) | Self::Matroska(_) => Warnings::default(),
            Self::TransportStream(samples) => samples.take_warnings(),
        }
    }

    /// Bytes of a stored sample, which is not an extent of the file; `None` if they have to be read from the
    /// file.
    pub fn stored(&self, extent: Extent) -> Option<&[u8]> {
        match self {
            Self::Mp4(_) | Self::Matroska(_) => None,
            Self::TransportStream(samples) => samples.stored(extent),
        }
    }

    /// Offset of a sample in the file, or a later offset.
    pub fn place_of(&self, sample: &Sample) -> u64 {
        match self {
            Self::Mp4(_) | Self::Matroska(_) => sample.extent.offset,
            Self::TransportStream(samples) => samples.position(),
        }
    }

    /// Bytes of memory used to find the next samples.
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Mp4(samples) => samples.held_bytes(),
            Self::Matroska(samples) => samples.held_bytes(),
            Self::TransportStream(samples) => samples.held_bytes(),
        }
    }

    /// Returns whether the file ends within a fragment or an element: it was truncated, or is still being
    /// written.
    pub fn truncated(&self) -> bool {
        match self {
            Self::Mp4(samples) => samples.truncated(),
            Self::Matroska(samples) => samples.truncated(),
            Self::TransportStream(_) => false, // the last packet has its own warning
        }
    }
}

impl From<mp4::TrackFault> for TrackFault {
    fn from(mp4::TrackFault { track, error }: mp4::TrackFault) -> Self {
        Self { track, error: error.into() }
    }
}
