//! Tracks of a movie that can be played.

use crate::container::{Movie, TrackFault};
use crate::image::{Description, MAX_STREAMS, MovieDescription, StreamPlan, Streams};
use crate::payload::{Format, TrackDescription};
use crate::track::{Track, TrackKind};
use crate::ts::{Warning, WarningKind};

/// First payload type of formats that have none of their own (RFC 3551 section 6).
const FIRST_PAYLOAD_TYPE: u8 = 96;

/// Movie whose tracks can all be played; other tracks of the file are left out.
#[derive(Clone, Debug)]
pub struct PlayableMovie {
    /// Movie without the other tracks. A track's index is the number of its stream.
    pub movie: Movie,
    /// Payload formats of the tracks.
    pub formats: Vec<Format>,
    /// Description, with a warning for each track that is left out.
    pub description: MovieDescription,
}

/// Error: no track of a movie can be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no track of this file can be played{reasons}")]
pub struct NoTrack {
    /// Tracks and reasons, for the error message.
    reasons: String,
}

impl PlayableMovie {
    /// Makes a playable movie: leaves out tracks that cannot be played.
    pub fn of(mut movie: Movie) -> Result<Self, NoTrack> {
        let offset = movie.description().offset;
        let mut description = MovieDescription::default();
        let mut formats = Vec::new();
        let mut warn = |kind| description.warnings.push(Warning { offset, kind });
        for TrackFault { track, error } in movie.faults() {
            warn(WarningKind::TrackLeftOut { track, reason: error.to_string() });
        }
        movie.retain(|track| {
            let playable = describe(track, formats.len());
            match playable {
                Ok((format, described)) => {
                    if track.edits_left_out > 0 {
                        warn(WarningKind::EditsLeftOut { track: track.id, edits: track.edits_left_out });
                    }
                    if track.edit_rates_left_out > 0 {
                        let edits = track.edit_rates_left_out;
                        warn(WarningKind::EditRatesLeftOut { track: track.id, edits });
                    }
                    formats.push(format);
                    description.tracks.push(described);
                    true
                }
                Err(reason) => {
                    warn(WarningKind::TrackLeftOut { track: track.id, reason });
                    false
                }
            }
        });
        if formats.is_empty() {
            let reasons = description.warnings.first.iter().map(|warning| format!("; {}", warning.kind));
            return Err(NoTrack { reasons: reasons.collect() });
        }
        Ok(Self { movie, formats, description })
    }

    /// Streams of the tracks. `random` gives SSRC, first sequence number and first timestamp of each stream.
    pub fn streams<E>(
        &self,
        mut random: impl FnMut() -> Result<(u32, u16, u32), E>,
    ) -> Result<Option<Streams>, E> {
        let tracks = self.movie.tracks().iter().zip(&self.formats).zip(&self.description.tracks);
        let streams = tracks.map(|((track, format), described)| {
            let (ssrc, sequence, timestamp) = random()?;
            let (payload_type, clock_hz) = (described.payload_type, format.clock_hz(track));
            Ok(StreamPlan { ssrc, sequence, timestamp, payload_type, clock_hz })
        });
        Ok(Streams::new(&streams.collect::<Result<Vec<_>, E>>()?))
    }

    /// Returns whether `streams` have the payload types and clocks of the tracks.
    pub(super) fn has_streams(&self, streams: &[StreamPlan]) -> bool {
        let tracks = self.movie.tracks().iter().zip(&self.formats).zip(&self.description.tracks);
        let kinds =
            tracks.map(|((track, format), described)| (described.payload_type, format.clock_hz(track)));
        kinds.eq(streams.iter().map(|stream| (stream.payload_type, stream.clock_hz)))
    }

    /// Description of the tracks for an image.
    pub fn describe(self) -> Description {
        Description::Movie(self.description)
    }

    /// Index of the first video track: its random access points are places to start.
    pub(super) fn video(&self) -> Option<usize> {
        self.movie.tracks().iter().position(|track| track.kind == TrackKind::Video)
    }
}

/// Format and description of the track of stream `number`.
fn describe(track: &Track, number: usize) -> Result<(Format, TrackDescription), String> {
    if number >= MAX_STREAMS {
        return Err(format!("{MAX_STREAMS} tracks are the most that are played"));
    }
    let payload_type = FIRST_PAYLOAD_TYPE + number as u8;
    let described = TrackDescription::of(track, payload_type, track.frame_rate);
    let format = Format::of(track).map_err(|reason| reason.to_string())?;
    Ok((format, described.map_err(|reason| reason.to_string())?))
}
