//! Packing of movies: the samples of all tracks become one sequence of trains, ordered by departure.
//!
//! Departures follow decode times, timestamps are presentation times, both from the first sample on: the time
//! before it in the file is left out. The packets of a picture are spread over its duration, so that key
//! frames cause no peaks of the bit rate, and padding gives them one length, so that one call can send
//! several pictures. Packets of audio depart in groups, each before the pictures of its time.

mod packing;
mod playable;
mod preroll;
mod schedule;
mod sound;
mod track;

use std::collections::VecDeque;

use super::{Error, Pack, Packed, Wanted};
use crate::container::{MovieReader, Samples};
use crate::image::{Description, End, NewSegment, PayloadRecipe, Plan, PlanError};
use crate::payload::{Payloads, Unit};
use crate::track::Extent;
use crate::ts::{Warning, WarningKind};
use packing::{Beginning, Packing, Reading};
use schedule::Schedule;
use sound::Windows;
use track::{PackedTrack, Recipe};

pub use playable::{NoTrack, PlayableMovie};

/// First bytes of a file, which identify its container.
const HEAD_LENGTH: u64 = 12;

/// Most samples processed in a call of [`Pack::pop`] without reading, so that a caller can do other work
/// between calls.
const SAMPLES_A_TURN: usize = 1 << 12;

/// Packer of a movie.
#[derive(Debug)]
pub struct MoviePacker {
    plan: Plan,
    recipe: Recipe,
    state: State,
    payloads: Payloads,
    schedule: Schedule,
    /// Bytes of the samples that are packed.
    packed_bytes: u64,
    /// True for an asset that may still grow.
    grows: bool,
}

#[derive(Debug)]
enum State {
    Head,
    Tracks {
        reader: Box<MovieReader>,
        /// Bytes that the reader was given. It holds some of them.
        taken: usize,
    },
    Samples(Box<Packing>),
}

impl MoviePacker {
    /// Packer at the start of an asset.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.recipe.check()?;
        let PayloadRecipe::Tracks { limit, frames, demuxed } = plan.recipe.payload else {
            return Err(PlanError::Kind);
        };
        let burst_us = plan.recipe.burst_us.into();
        let reader = || Box::new(MovieReader::of_transport_stream(plan.identity.size));
        Ok(Self {
            recipe: Recipe { limit: limit.into(), frames: frames.into(), burst_us, demuxed },
            state: if demuxed { State::Tracks { reader: reader(), taken: 0 } } else { State::Head },
            payloads: Payloads::default(),
            schedule: Schedule::new(&plan),
            packed_bytes: 0,
            plan,
            grows: false,
        })
    }

    /// Packer at the start of an MP4 file to which a recorder may still append fragments. The plan has the length
    /// that the file has so far.
    pub fn growing(plan: Plan) -> Result<Self, PlanError> {
        Ok(Self { grows: true, ..Self::new(plan)? })
    }

    fn begin(&mut self, reader: MovieReader) -> Result<State, Error> {
        let playable = PlayableMovie::of(reader.finish()?)?;
        if !playable.has_streams(&self.plan.streams) {
            return Err(Error::OtherTracks);
        }
        let video = playable.video();
        let PlayableMovie { movie, formats, description } = playable;
        let (samples, description_bytes) = (movie.samples(), movie.description().length as usize);
        let samples = if self.grows { samples.growing() } else { samples };
        let tracks = movie.tracks().iter().cloned().zip(formats).zip(0u8..).zip(self.plan.streams.iter());
        let tracks = tracks
            .map(|(((track, format), number), stream)| {
                PackedTrack::new(track, format, number, *stream, &self.recipe)
            })
            .collect();
        Ok(State::Samples(Box::new(Packing {
            windows: Windows::default(),
            beginning: Beginning::BeforeFirst,
            latest_us: 0,
            samples,
            tracks,
            description,
            video,
            description_bytes,
            reading: Reading::Nothing,
            units: Vec::new(),
            empty_units: 0,
            due: VecDeque::new(),
            size: self.plan.identity.size,
            damage: None,
        })))
    }
}

impl Pack for MoviePacker {
    fn wanted(&self) -> Wanted {
        match &self.state {
            State::Head => {
                Wanted::Bytes(Extent { offset: 0, length: HEAD_LENGTH.min(self.plan.identity.size) })
            }
            State::Tracks { reader, .. } => reader.wanted().map_or(Wanted::Nothing, Wanted::Bytes),
            State::Samples(packing) => match &packing.reading {
                Reading::Nothing | Reading::Complete(_) => Wanted::Nothing,
                Reading::Headers(extent) | Reading::Units(_, _, extent) => Wanted::Bytes(*extent),
                Reading::Growth => Wanted::Growth(Packed {
                    until_us: self.schedule.departed_us(),
                    fragments: packing.samples.fragments(),
                }),
                Reading::End => Wanted::End,
            },
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.state {
            State::Head => {
                let reader = MovieReader::of(bytes, self.plan.identity.size).ok_or(Error::NotMovie)?;
                self.state = State::Tracks { reader: Box::new(reader), taken: 0 };
                Ok(())
            }
            State::Tracks { .. } => self.take_owned(bytes.to_vec()),
            State::Samples(packing) => {
                packing.take(bytes);
                Ok(())
            }
        }
    }

    fn take_owned(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        match &mut self.state {
            State::Head => self.take(&bytes),
            State::Tracks { reader, taken } => {
                *taken += bytes.len();
                Ok(reader.take(bytes)?)
            }
            State::Samples(packing) => {
                packing.take_owned(bytes.into());
                Ok(())
            }
        }
    }

    fn pop(&mut self) -> Result<Option<NewSegment>, Error> {
        if matches!(&self.state, State::Tracks { reader, .. } if reader.wanted().is_none())
            && let State::Tracks { reader, .. } = std::mem::replace(&mut self.state, State::Head)
        {
            self.state = self.begin(*reader)?;
        }
        let State::Samples(packing) = &mut self.state else { return Ok(None) };
        for _ in 0..SAMPLES_A_TURN {
            let goes_on = matches!(packing.reading, Reading::Nothing | Reading::Complete(_));
            if self.schedule.has_segment() || !goes_on {
                break;
            }
            packing.read_on(&mut self.payloads, &mut self.schedule, &mut self.packed_bytes)?;
        }
        Ok(self.schedule.pop().map(|segment| packing.with_stored(segment)))
    }

    fn grow(&mut self, size: u64) {
        self.plan.identity.size = self.plan.identity.size.max(size);
        if let State::Samples(packing) = &mut self.state {
            packing.grow(size);
        }
    }

    fn end_growth(&mut self) {
        if let State::Samples(packing) = &mut self.state {
            packing.end_growth();
        }
    }

    fn packed_bytes(&self) -> u64 {
        match &self.state {
            State::Samples(packing) => packing.position().unwrap_or(self.packed_bytes),
            State::Head | State::Tracks { .. } => 0,
        }
    }

    fn held_bytes(&self) -> usize {
        let state = match &self.state {
            State::Head => 0,
            State::Tracks { taken, .. } => *taken,
            State::Samples(packing) => {
                packing.description_bytes
                    + packing.samples.held_bytes()
                    + packing.units.capacity() * size_of::<Unit>()
                    + packing.tracks.iter().map(PackedTrack::held_bytes).sum::<usize>()
            }
        };
        state + self.schedule.held_bytes() + self.payloads.held_bytes()
    }

    fn finish(&mut self) -> Result<End, Error> {
        let State::Samples(packing) = &mut self.state else { return Err(Error::NothingPlayable) };
        if self.schedule.packets() == 0 {
            return Err(packing.damage.take().map_or(Error::NothingPlayable, Error::Container));
        }
        let ends = packing.tracks.iter().map(|track| track.end_us);
        let duration_us = ends.max().unwrap_or(0).max(self.schedule.departed_us());
        let mut description = std::mem::take(&mut packing.description);
        if packing.samples.truncated() {
            let kind = match &packing.samples {
                Samples::Mp4(_) => WarningKind::FragmentCut,
                Samples::Matroska(_) | Samples::TransportStream(_) => WarningKind::ElementCut,
            };
            description.warnings.push(Warning { offset: self.plan.identity.size, kind });
        }
        for (described, track) in description.tracks.iter_mut().zip(&packing.tracks) {
            let bits = u128::from(track.payload_bytes) * 8_000_000;
            let rate = bits.checked_div(u128::from(duration_us));
            described.bits_per_second = rate.and_then(|rate| u64::try_from(rate).ok());
        }
        Ok(End { duration_us, description: Description::Movie(description) })
    }
}

#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod matroska_tests;
#[cfg(test)]
mod preroll_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod train_tests;
