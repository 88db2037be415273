//! Packs the samples of a movie in turn: reads their units and schedules their trains.

use std::collections::VecDeque;

use bytes::Bytes;

use super::preroll::Preroll;
use super::schedule::Schedule;
use super::sound::{MAX_DELAY_US, Windows};
use super::track::PackedTrack;
use crate::container::{self, MAX_TIME_US, Samples, TrackFault};
use crate::image::{MovieDescription, NewSegment, PayloadRun};
use crate::pack::Error;
use crate::payload::{Payloads, Piece, Swapped, Unit, Units, padding_of};
use crate::track::{Extent, Next, Sample};
use crate::ts::{Warning, WarningKind};

/// Most NAL units or OBUs of a sample.
const MAX_UNITS: usize = 1 << 16;

/// Most units of a sample that are not sent, such as empty units: a run of zeros can contain one in every
/// byte.
const MAX_EMPTY_UNITS: usize = 64;

/// Most bytes that are read of each unit of a stored sample.
const MAX_HEAD: usize = 8;

/// Tracks of a movie whose samples are packed.
#[derive(Debug)]
pub(super) struct Packing {
    /// Windows of groups of sound.
    pub(super) windows: Windows,
    pub(super) beginning: Beginning,
    /// Latest departure of a sample.
    pub(super) latest_us: u64,
    pub(super) samples: Samples,
    pub(super) tracks: Vec<PackedTrack>,
    pub(super) description: MovieDescription,
    /// Index of the track whose random access points are places to start.
    pub(super) video: Option<usize>,
    /// Bytes of memory that the description of the tracks takes.
    pub(super) description_bytes: usize,
    pub(super) reading: Reading,
    pub(super) units: Vec<Unit>,
    /// Number of units of the sample that are not sent.
    pub(super) empty_units: usize,
    /// Samples to pack next.
    pub(super) due: VecDeque<Sample>,
    /// Length of the file.
    pub(super) size: u64,
    /// Error in the rest of the file, which is not packed.
    pub(super) damage: Option<container::Error>,
}

/// Progress of the search for the first sample to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// No sample was found.
    BeforeFirst,
    /// Samples were found, but none to pack.
    BeforeDue,
    /// A sample to pack was found.
    Running,
}

/// Purpose of the next bytes to read.
#[derive(Debug)]
pub(super) enum Reading {
    /// No bytes: the next step needs none.
    Nothing,
    Headers(Extent),
    Units(Sample, Units, Extent),
    /// No bytes: the units of this sample are read.
    Complete(Sample),
    /// No bytes before the file has grown.
    Growth,
    End,
}

impl Packing {
    pub(super) fn take(&mut self, bytes: &[u8]) {
        match &self.reading {
            Reading::Headers(_) => self.take_owned(Bytes::copy_from_slice(bytes)),
            Reading::Units(..) => self.take_units(bytes),
            Reading::Nothing | Reading::Complete(_) | Reading::Growth | Reading::End => {}
        }
    }

    fn take_units(&mut self, bytes: &[u8]) {
        let Reading::Units(sample, walk, extent) = &mut self.reading else { return };
        let sample = *sample;
        let fault = match walk.take(bytes) {
            Ok(_) if self.units.len() == MAX_UNITS => Some("it has too many units".to_owned()),
            Ok(None) if self.empty_units == MAX_EMPTY_UNITS => Some("it has too many empty units".to_owned()),
            Ok(unit) => {
                self.empty_units += usize::from(unit.is_none());
                self.units.extend(unit);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        match walk.wanted().filter(|_| fault.is_none()) {
            Some(wanted) => *extent = wanted,
            // The sample is complete, or a fault ends it: the units before the fault are played.
            None => self.reading = Reading::Complete(sample),
        }
        if let Some(reason) = fault {
            self.warn(&sample, reason);
        }
    }

    /// Takes bytes without copying them.
    pub(super) fn take_owned(&mut self, bytes: Bytes) {
        if !matches!(self.reading, Reading::Headers(_)) {
            return self.take(&bytes);
        }
        self.reading = Reading::Nothing;
        self.take_headers(bytes);
    }

    fn take_headers(&mut self, bytes: Bytes) {
        if let Err(error) = self.samples.take(bytes) {
            self.end_early(error);
        }
    }

    /// Bytes of the file that were searched for samples, if samples are not extents of the file.
    pub(super) fn position(&self) -> Option<u64> {
        match &self.samples {
            Samples::Mp4(_) | Samples::Matroska(_) => None,
            Samples::TransportStream(samples) => Some(samples.position()),
        }
    }

    /// Copies the payload of a segment out of the stored samples, which are released afterwards.
    pub(super) fn with_stored(&mut self, mut segment: NewSegment) -> NewSegment {
        let Samples::TransportStream(samples) = &mut self.samples else { return segment };
        for run in &mut segment.payload {
            let PayloadRun::Pieces(pieces) = run else { continue };
            let mut bytes = Vec::with_capacity(pieces.iter().map(Piece::length).sum());
            for piece in pieces.iter() {
                match piece {
                    Piece::Generated(generated) => bytes.extend_from_slice(generated.bytes()),
                    Piece::Extent(extent) => {
                        bytes.extend_from_slice(samples.stored(*extent).unwrap_or_default())
                    }
                    Piece::Swapped(swapped) => {
                        let begin = bytes.len();
                        bytes.extend_from_slice(samples.stored(swapped.extent).unwrap_or_default());
                        swapped.swap(&mut bytes[begin..]);
                    }
                    Piece::Padding(padding) => bytes.extend(padding_of(*padding)),
                }
            }
            for piece in pieces.iter() {
                if let Piece::Extent(extent) | Piece::Swapped(Swapped { extent, .. }) = piece {
                    samples.release(*extent);
                }
            }
            *run = PayloadRun::Bytes(bytes);
        }
        segment
    }

    /// Continues until bytes are needed or a sample is packed.
    pub(super) fn read_on(
        &mut self,
        payloads: &mut Payloads,
        schedule: &mut Schedule,
        packed_bytes: &mut u64,
    ) -> Result<(), Error> {
        if let Reading::Complete(sample) = self.reading {
            self.reading = Reading::Nothing;
            self.pack(&sample, payloads, schedule);
            *packed_bytes += sample.extent.length;
            return Ok(());
        }
        if let Some(sample) = self.due.pop_front() {
            self.begin(sample);
            return Ok(());
        }
        let next = self.samples.next()?;
        for TrackFault { track, error } in self.samples.take_faults() {
            self.warn_of_end(WarningKind::TrackCut { track, reason: error.to_string() });
        }
        self.description.warnings.append(self.samples.take_warnings());
        match next {
            Next::Read(extent) => self.reading = Reading::Headers(extent),
            Next::Sample(sample) => self.admit(sample)?,
            Next::Growth => {
                schedule.close();
                self.reading = Reading::Growth;
            }
            Next::End => {
                self.tracks.iter_mut().for_each(|track| track.flush(payloads, schedule));
                schedule.finish();
                self.reading = Reading::End;
            }
        }
        Ok(())
    }

    /// Continues with a file that has grown.
    pub(super) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
        self.samples.grow(size);
        self.leave_growth();
    }

    /// Continues with a file that has stopped growing.
    pub(super) fn end_growth(&mut self) {
        self.samples.end_growth();
        self.leave_growth();
    }

    fn leave_growth(&mut self) {
        if matches!(self.reading, Reading::Growth) {
            self.reading = Reading::Nothing;
        }
    }

    fn admit(&mut self, sample: Sample) -> Result<(), Error> {
        if self.beginning == Beginning::BeforeFirst {
            let begin_us = self.tracks[sample.track].departure_us(&sample);
            self.tracks.iter_mut().for_each(|track| track.begin_at(begin_us));
            self.beginning = Beginning::BeforeDue;
        }
        let track = &mut self.tracks[sample.track];
        if track.latest_us(&sample) > MAX_TIME_US {
            return Err(Error::Times { track: track.id() });
        }
        track.admit(sample, &mut self.due);
        if self.beginning == Beginning::BeforeDue && !self.due.is_empty() {
            self.set_preroll();
            self.beginning = Beginning::Running;
        }
        Ok(())
    }

    /// Sets the pace of the samples before the beginning, by the first of them.
    fn set_preroll(&mut self) {
        let due = self.due.iter().map(|sample| self.tracks[sample.track].before_us(sample));
        let hidden =
            self.tracks.iter().flat_map(|track| track.first_hidden().map(|first| track.before_us(first)));
        let preroll = Preroll::new(due.chain(hidden).max().unwrap_or(0));
        self.tracks.iter_mut().for_each(|track| track.preroll = preroll);
    }

    /// Ends the movie at a damaged place of the file.
    fn end_early(&mut self, error: container::Error) {
        self.samples.end();
        self.warn_of_end(WarningKind::EndsEarly { reason: error.to_string() });
        self.damage = Some(error);
    }

    /// Begins a sample: reads the headers of its units, if its format has units.
    fn begin(&mut self, sample: Sample) {
        let track = &self.tracks[sample.track];
        self.units.clear();
        self.empty_units = 0;
        let walk = track.units(&sample);
        self.reading = match walk.wanted() {
            Some(wanted) => Reading::Units(sample, walk, wanted),
            None => Reading::Complete(sample),
        };
        self.take_stored();
    }

    /// Reads the units of a stored sample.
    fn take_stored(&mut self) {
        while let Reading::Units(_, _, extent) = &self.reading
            && let Some(bytes) = self.samples.stored(*extent)
        {
            let mut head = [0; MAX_HEAD];
            let Some(head) = head.get_mut(..bytes.len()) else { return };
            head.copy_from_slice(bytes);
            self.take_units(head);
        }
    }

    /// Schedules the trains of a sample, and releases trains that no later train can precede.
    fn pack(&mut self, sample: &Sample, payloads: &mut Payloads, schedule: &mut Schedule) {
        let departure_us = self.tracks[sample.track].departure_us(sample);
        self.latest_us = self.latest_us.max(departure_us);
        let start = sample.sync && self.video == Some(sample.track);
        if start {
            self.windows.add_start(departure_us);
        }
        let track = &mut self.tracks[sample.track];
        track.complete(sample, &mut self.units);
        if let Err(error) = track.push(sample, &self.units, start, &self.windows, payloads, schedule) {
            self.warn(sample, error.to_string());
        }
        // Sound of a window departs before its pictures, which wait until all of it is known, but not for sound that
        // is stored far behind them.
        let known_us = self.latest_us.saturating_sub(MAX_DELAY_US);
        let sound = self.tracks.iter().filter(|track| track.is_sound());
        let complete_us = sound.map(|track| track.latest_departure_us.max(known_us)).min();
        let Some(complete_us) = complete_us else { return schedule.depart_before(departure_us + 1) };
        let begin_us = self.windows.begin_us(complete_us.min(departure_us));
        self.tracks.iter_mut().for_each(|track| track.flush_before(begin_us, payloads, schedule));
        schedule.depart_before(begin_us);
    }

    fn warn_of_end(&mut self, kind: WarningKind) {
        self.description.warnings.push(Warning { offset: self.size, kind });
    }

    fn warn(&mut self, sample: &Sample, reason: String) {
        let track = self.tracks[sample.track].id();
        let kind = WarningKind::SampleDamaged { track, reason };
        let offset = self.samples.place_of(sample);
        self.description.warnings.push(Warning { offset, kind });
    }
}
