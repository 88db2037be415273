//! Inspection of MP4 and Matroska files.

use bytes::Bytes;
use serde::Serialize;

use super::bit_rate::{BitRate, Peak};
use super::{mean, mean_distance};
use crate::container::{Error, Movie, MovieReader, Samples, TrackFault};
use crate::payload::Format;
use crate::track::{Extent, Next, Sample, Track, TrackKind};

/// Most random access points: days of video that consists only of them. Tables describe samples of one size
/// without bytes for each, whereas each random access point takes eight bytes of memory.
const MAX_STARTS: usize = 1 << 23;

/// Error of a file that is inspected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MovieError {
    /// Error of the container.
    #[error(transparent)]
    Container(#[from] Error),
    /// More random access points than the limit.
    #[error("this file has more random access points: at most {MAX_STARTS} are read")]
    Starts,
}

/// Report about an MP4 or Matroska file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MovieReport {
    /// Name of the container: `mp4`, `matroska` or `webm`.
    pub container: &'static str,
    /// Major brand, if the file has one.
    pub brand: Option<String>,
    /// Offset of the `moov` box or the `Tracks` element.
    pub tables_offset: u64,
    /// True if samples may be in fragments.
    pub fragmented: bool,
    /// Number of random access points listed in a Matroska file.
    pub cues: Option<u64>,
    /// True if the file ends within a fragment or an element.
    pub truncated: bool,
    /// Duration in microseconds, to the end of the last sample of all tracks.
    pub duration_us: u64,
    /// Bytes of samples.
    pub payload_bytes: u64,
    /// Tracks in the order of the file.
    pub tracks: Vec<TrackReport>,
    /// Bit rate of all samples over time.
    pub bit_rate: BitRate,
    /// Times in microseconds at which a decoder of the first video track can start. Empty without video,
    /// since audio can start anywhere.
    pub starts_us: Vec<u64>,
    /// Errors of tracks that are left out or end early.
    pub faults: Vec<String>,
}

/// Report about a track.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrackReport {
    /// Identifier in the file.
    pub id: u32,
    /// `video`, `audio`, or the four-character code of another handler.
    pub kind: String,
    /// Name of the codec.
    pub codec: String,
    /// Profile and level, if the configuration contains them.
    pub profile: Option<String>,
    /// Language: three letters of ISO 639-2, or a BCP 47 tag.
    pub language: Option<String>,
    /// Width in pixels.
    pub width: Option<u16>,
    /// Height in pixels.
    pub height: Option<u16>,
    /// Average frames per second, for video.
    pub frame_rate: Option<f64>,
    /// Number of channels, for audio.
    pub channels: Option<u16>,
    /// Sample rate in Hz, for audio.
    pub sample_rate: Option<u32>,
    /// Presentation time of the first sample in microseconds; negative before the beginning of the movie.
    pub start_us: i64,
    /// Time from `start_us` to the end of the last sample, in microseconds.
    pub duration_us: u64,
    /// Number of samples.
    pub samples: u64,
    /// Bytes of samples.
    pub bytes: u64,
    /// Number of samples at which a decoder can start.
    pub sync_samples: u64,
    /// Number of edits that are not applied.
    pub edits_left_out: u32,
    /// Number of applied edits whose rate is not applied.
    pub edit_rates_left_out: u32,
    /// Specification of the RTP payload format, if the track can be played.
    pub rtp: Option<&'static str>,
    /// Reason why the track cannot be played.
    pub reason: Option<String>,
}

/// Inspector of an MP4 or Matroska file: requests bytes of the file and takes them.
#[derive(Debug)]
pub struct MovieInspector {
    reader: Option<MovieReader>,
    examined: Option<Examined>,
    wanted: Option<Extent>,
}

impl MovieInspector {
    /// Inspector of a file with its reader.
    pub fn new(reader: MovieReader) -> Self {
        Self { wanted: reader.wanted(), reader: Some(reader), examined: None }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        self.wanted
    }

    /// Takes the requested bytes.
    ///
    /// # Panics
    /// If `bytes` has fewer.
    pub fn take(&mut self, bytes: impl Into<Bytes>) -> Result<(), MovieError> {
        let bytes = bytes.into();
        if let Some(reader) = &mut self.reader {
            reader.take(bytes)?;
        } else if let Some(examined) = &mut self.examined {
            examined.samples.take(bytes)?;
        }
        if let Some(reader) = self.reader.take_if(|reader| reader.wanted().is_none()) {
            self.examined = Some(Examined::new(reader.finish()?));
        }
        self.wanted = match (&self.reader, &mut self.examined) {
            (Some(reader), _) => reader.wanted(),
            (None, Some(examined)) => examined.read_on()?,
            (None, None) => None,
        };
        Ok(())
    }

    /// Returns the report. Call it when no more bytes are wanted. `None` after an error.
    pub fn finish(self) -> Result<Option<MovieReport>, MovieError> {
        match (self.reader, self.examined) {
            (_, Some(examined)) => Ok(Some(examined.report())),
            (Some(reader), None) => Ok(Some(Examined::new(reader.finish()?).report())),
            (None, None) => Ok(None),
        }
    }
}

/// Statistics of a movie's samples.
#[derive(Debug)]
struct Examined {
    movie: Movie,
    samples: Samples,
    tracks: Vec<Sums>,
    /// Index of the first video track.
    video: Option<usize>,
    bit_rate: BitRate,
    starts_us: Vec<u64>,
    faults: Vec<TrackFault>,
}

/// Statistics of a track's samples.
#[derive(Clone, Debug, Default)]
struct Sums {
    samples: u64,
    bytes: u64,
    sync: u64,
    /// Sum of durations, in units of the track's timescale.
    durations: u64,
    /// Presentation times of the beginning of the first sample and of the end of the last.
    span_us: Option<(i64, i64)>,
}

impl Examined {
    fn new(movie: Movie) -> Self {
        let (samples, tracks) = (movie.samples(), vec![Sums::default(); movie.tracks().len()]);
        let video = movie.tracks().iter().position(|track| track.kind == TrackKind::Video);
        let faults = movie.faults();
        Self { movie, samples, tracks, video, bit_rate: BitRate::default(), starts_us: Vec::new(), faults }
    }

    /// Examines samples until bytes are needed.
    fn read_on(&mut self) -> Result<Option<Extent>, MovieError> {
        loop {
            match self.samples.next()? {
                Next::Read(extent) => return Ok(Some(extent)),
                Next::Sample(sample) => self.sample(&sample)?,
                Next::Growth | Next::End => {
                    self.faults.append(&mut self.samples.take_faults());
                    return Ok(None);
                }
            }
        }
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), MovieError> {
        let track = &self.movie.tracks()[sample.track];
        let presented_us = track.presentation_us(sample);
        let length_us = u64::from(sample.duration) * 1_000_000 / u64::from(track.timescale);
        let end_us = presented_us.saturating_add_unsigned(length_us);
        let departure_us = track.decode_us(sample);
        let until_us = departure_us.saturating_add_unsigned(length_us).max(0) as u64;
        // Samples before the beginning of the movie depart at its beginning.
        self.bit_rate.spread(departure_us.max(0) as u64, until_us, sample.extent.length);
        if sample.sync && self.video == Some(sample.track) {
            if self.starts_us.len() == MAX_STARTS {
                return Err(MovieError::Starts);
            }
            self.starts_us.push(presented_us.max(0) as u64);
        }
        let sums = &mut self.tracks[sample.track];
        sums.samples += u64::from(sample.count);
        sums.bytes += sample.extent.length;
        sums.sync += u64::from(sample.sync) * u64::from(sample.count);
        sums.durations = sums.durations.saturating_add(sample.duration.into());
        let (first, last) = sums.span_us.unwrap_or((presented_us, end_us));
        sums.span_us = Some((first.min(presented_us), last.max(end_us)));
        Ok(())
    }

    fn report(mut self) -> MovieReport {
        self.starts_us.sort_unstable();
        let ends = self.tracks.iter().filter_map(|sums| sums.span_us);
        let (brand, fragmented, cues) = match &self.movie {
            Movie::Mp4(movie) => (movie.brand.map(|brand| brand.to_string()), movie.fragmented, None),
            Movie::Matroska(segment) => (None, false, Some(segment.cues.len() as u64)),
            Movie::TransportStream(_) => (None, false, None),
        };
        let tracks = self.movie.tracks().iter().zip(&self.tracks);
        MovieReport {
            container: self.movie.container(),
            brand,
            tables_offset: self.movie.description().offset,
            fragmented,
            cues,
            truncated: self.samples.truncated(),
            duration_us: ends.map(|(_, end)| end.max(0) as u64).max().unwrap_or(0),
            payload_bytes: self.tracks.iter().map(|sums| sums.bytes).sum(),
            tracks: tracks.map(|(track, sums)| sums.report(track)).collect(),
            bit_rate: self.bit_rate,
            starts_us: self.starts_us,
            faults: self
                .faults
                .iter()
                .map(|TrackFault { track, error }| format!("track {track}: {error}"))
                .collect(),
        }
    }
}

impl Sums {
    fn report(&self, track: &Track) -> TrackReport {
        let (first, last) = self.span_us.unwrap_or_default();
        let format = Format::of(track);
        let video = track.kind == TrackKind::Video;
        let frame_rate = self.samples as f64 * f64::from(track.timescale) / self.durations as f64;
        TrackReport {
            id: track.id,
            kind: match track.kind {
                TrackKind::Video => "video".to_owned(),
                TrackKind::Audio => "audio".to_owned(),
                TrackKind::Other(handler) => handler.to_string(),
            },
            codec: track.codec.name(),
            profile: track.codec.profile(),
            language: track.language.clone(),
            width: track.picture.map(|(width, _)| width),
            height: track.picture.map(|(_, height)| height),
            frame_rate: Some(frame_rate).filter(|rate| video && rate.is_finite() && *rate > 0.0),
            channels: track.sound.map(|sound| sound.channels),
            sample_rate: track.sound.map(|sound| sound.sample_rate),
            start_us: first,
            duration_us: last.saturating_sub(first).max(0) as u64,
            samples: self.samples,
            bytes: self.bytes,
            sync_samples: self.sync,
            edits_left_out: track.edits_left_out,
            edit_rates_left_out: track.edit_rates_left_out,
            rtp: format.as_ref().ok().map(|format| format.specification()),
            reason: format.err().map(|reason| reason.to_string()),
        }
    }
}

impl MovieReport {
    /// Mean bit rate in bits per second; `None` for a duration of 0.
    pub fn mean_bits_per_second(&self) -> Option<u64> {
        mean(self.payload_bytes, self.duration_us)
    }

    /// Highest bit rate over a window, or the mean if the duration is shorter.
    pub fn peak(&self, window_us: u64) -> Option<Peak> {
        self.bit_rate.peak(window_us).or_else(|| {
            Some(Peak { bits_per_second: self.mean_bits_per_second()?, window_us: self.duration_us })
        })
    }

    /// Mean distance between random access points in microseconds; `None` for less than two.
    pub fn mean_start_distance_us(&self) -> Option<u64> {
        mean_distance(&self.starts_us)
    }

    /// Warnings for display.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.truncated {
            warnings.push(match self.container {
                "mp4" => "the file ends within a fragment, which is left out".to_owned(),
                _ => "the file ends within an element, or another file follows: the rest is left out"
                    .to_owned(),
            });
        }
        warnings.extend(self.faults.iter().cloned());
        for TrackReport { id, edits_left_out, edit_rates_left_out, reason, .. } in &self.tracks {
            if let Some(reason) = reason {
                warnings.push(format!("track {id} cannot be played over RTP: {reason}"));
            }
            if *edits_left_out > 0 {
                warnings.push(format!("track {id}: {edits_left_out} edits after the first are not applied"));
            }
            if *edit_rates_left_out > 0 {
                warnings.push(format!("track {id}: the rate of {edit_rates_left_out} edits is not applied"));
            }
        }
        warnings
    }
}

impl TrackReport {
    /// Mean bit rate in bits per second; `None` for a duration of 0.
    pub fn mean_bits_per_second(&self) -> Option<u64> {
        mean(self.bytes, self.duration_us)
    }
}
