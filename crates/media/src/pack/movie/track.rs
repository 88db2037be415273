//! A track that is packed: its samples become trains.

use std::collections::VecDeque;

use super::schedule::{Schedule, Waiting};
use crate::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, StreamPlan};
use crate::payload::{Format, Packetizer, Payload, Payloads, TooLong, Unit, Units};
use crate::rtp::HEADER_LENGTH;
use crate::track::{Sample, Track, TrackKind};

/// Longest time over which the packets of a picture are spread: a picture that is shown longer is not late
/// for that.
const MAX_SPREAD_US: u64 = 100_000;

/// Longest time that frames of audio wait for others to share a packet.
const MAX_WAIT_US: u64 = 200_000;

/// Longest time before the beginning from which samples are sent anyway: decoders of audio need some.
const MAX_PREROLL_US: i64 = 500_000;

/// Most samples from a random access point before the beginning.
const MAX_PREROLL: usize = 1 << 12;

#[derive(Debug)]
pub(super) struct PackedTrack {
    track: Track,
    stream: StreamPlan,
    number: u8,
    packetizer: Packetizer,
    /// Size of full packets, header included.
    full_size: usize,
    /// Burst window in microseconds, at least 1.
    burst_us: u64,
    /// Decode time after the last sample, in units of the track's timescale.
    expected: Option<u64>,
    /// Composition offset of the last sample, in units of the track's timescale.
    composition_offset: i64,
    /// Time from its decode time to its presentation, in ticks of the stream's clock.
    lead: i64,
    /// Samples that are not shown, but may be needed by one that is.
    preroll: Vec<Sample>,
    departed_us: u64,
    pub(super) payload_bytes: u64,
    /// End of the last sample, in microseconds.
    pub(super) end_us: u64,
}

/// When payloads depart.
#[derive(Clone, Copy)]
struct Departures {
    first_us: u64,
    /// Time over which they are spread.
    spread_us: u64,
    start: bool,
}

impl PackedTrack {
    /// A track that is the stream of this number.
    pub(super) fn new(track: Track, format: Format, number: u8, stream: StreamPlan, of: &Recipe) -> Self {
        Self {
            track,
            stream,
            number,
            packetizer: Packetizer::new(format, of.limit, of.frames),
            full_size: HEADER_LENGTH + of.limit,
            burst_us: of.burst_us.max(1),
            expected: None,
            composition_offset: 0,
            lead: 0,
            preroll: Vec::new(),
            departed_us: 0,
            payload_bytes: 0,
            end_us: 0,
        }
    }

    /// Walk over the units of a sample, of formats that have them.
    pub(super) fn units(&self, sample: &Sample) -> Units {
        Units::new(&self.track.codec, sample.extent)
    }

    /// Identifier of the track.
    pub(super) fn id(&self) -> u32 {
        self.track.id
    }

    /// Departure of a sample in microseconds: what precedes the beginning departs with it.
    pub(super) fn departure_us(&self, sample: &Sample) -> u64 {
        self.track.decode_us(sample).max(0) as u64
    }

    /// Departure of a sample or the time at which it is shown, whichever is later, in microseconds.
    pub(super) fn latest_us(&self, sample: &Sample) -> u64 {
        self.departure_us(sample).max(self.track.presentation_us(sample).max(0) as u64)
    }

    /// Puts a sample behind those that are due, unless it is long before the beginning: of audio that is left
    /// out, of video kept until a sample is shown that may need it, from the last random access point on.
    pub(super) fn admit(&mut self, sample: Sample, due: &mut VecDeque<Sample>) {
        let end_us = self.track.presentation_us(&sample).saturating_add_unsigned(self.duration_us(&sample));
        let is_shown = end_us > -MAX_PREROLL_US;
        if sample.sync || self.preroll.len() == MAX_PREROLL {
            self.preroll.clear();
        }
        if is_shown {
            due.extend(self.preroll.drain(..));
            due.push_back(sample);
        } else if self.track.kind == TrackKind::Video {
            self.preroll.push(sample);
        }
    }

    fn duration_us(&self, sample: &Sample) -> u64 {
        u64::from(sample.duration) * 1_000_000 / u64::from(self.track.timescale)
    }

    /// Departure of the first frame that waits for others.
    pub(super) fn waits_since_us(&self) -> Option<u64> {
        self.packetizer.waiting().map(|timestamp| self.us(timestamp))
    }

    /// Schedules the trains of a sample; `start` where the movie can be begun with it.
    pub(super) fn push(
        &mut self,
        sample: &Sample,
        units: &[Unit],
        start: bool,
        payloads: &mut Payloads,
        schedule: &mut Schedule,
    ) -> Result<(), TooLong> {
        if self.expected.is_some_and(|expected| expected != sample.decode_time)
            || self.composition_offset != sample.composition_offset
        {
            self.flush(payloads, schedule);
        }
        self.expected = Some(sample.decode_time.saturating_add(sample.duration.into()));
        self.composition_offset = sample.composition_offset;
        let decoded = i128::from(sample.decode_time) + i128::from(self.track.shift);
        let ticks = self.ticks(decoded + i128::from(sample.composition_offset));
        self.lead = (ticks - self.ticks(decoded)) as i64;
        let duration_us = self.duration_us(sample);
        let first_us = self.departure_us(sample);
        self.end_us = self.end_us.max(self.latest_us(sample).saturating_add(duration_us));
        payloads.clear();
        self.packetizer.push(sample.extent, units, ticks as u64, payloads)?;
        let departures = match self.track.kind {
            TrackKind::Video => {
                Some(Departures { first_us, spread_us: duration_us.min(MAX_SPREAD_US), start })
            }
            _ => None,
        };
        self.schedule(payloads, departures, schedule);
        Ok(())
    }

    /// Schedules frames that have waited for others too long by this time.
    pub(super) fn flush_before(&mut self, us: u64, payloads: &mut Payloads, schedule: &mut Schedule) {
        if self.waits_since_us().is_some_and(|since| since.saturating_add(MAX_WAIT_US) < us) {
            self.flush(payloads, schedule);
        }
    }

    /// Schedules frames that wait for others.
    pub(super) fn flush(&mut self, payloads: &mut Payloads, schedule: &mut Schedule) {
        payloads.clear();
        self.packetizer.flush(payloads);
        self.schedule(payloads, None, schedule);
    }

    /// Schedules payloads: those of a picture spread over its time, those of audio by their decode times.
    fn schedule(&mut self, payloads: &Payloads, departures: Option<Departures>, schedule: &mut Schedule) {
        let count = payloads.iter().count() as u64;
        let mut open: Option<(u64, Waiting)> = None;
        for (index, payload) in (0u64..).zip(payloads.iter()) {
            let due_us = match departures {
                Some(Departures { first_us, spread_us, .. }) => first_us + spread_us * index / count,
                None => self.us(payload.timestamp),
            };
            let timestamp = self.stream.timestamp.wrapping_add(payload.timestamp as u32);
            let joined = open.as_mut().is_some_and(|(departure_us, train)| {
                due_us / self.burst_us == *departure_us / self.burst_us
                    && train.join(&payload, timestamp, self.full_size)
            });
            if !joined {
                self.close(open.take(), schedule);
                let start = index == 0 && departures.is_some_and(|departures| departures.start);
                open = Some((due_us, Waiting::new(&payload, timestamp, self.number, start)));
            }
            self.payload_bytes += payload.length as u64;
        }
        self.close(open, schedule);
    }

    /// Schedules a train, behind those of the track that are scheduled already.
    fn close(&mut self, train: Option<(u64, Waiting)>, schedule: &mut Schedule) {
        let Some((departure_us, train)) = train else { return };
        self.departed_us = self.departed_us.max(departure_us);
        schedule.add(self.departed_us, train);
    }

    /// A time of the track in ticks of the stream's clock.
    fn ticks(&self, time: i128) -> i128 {
        (time * i128::from(self.stream.clock_hz)).div_euclid(self.track.timescale.into())
    }

    /// Departure for a timestamp in microseconds; what is before the beginning departs with it.
    fn us(&self, timestamp: u64) -> u64 {
        let ticks = i128::from(timestamp as i64) - i128::from(self.lead);
        let us = ticks * 1_000_000 / i128::from(self.stream.clock_hz.max(1));
        us.clamp(0, i128::from(u64::MAX)) as u64
    }
}

/// Division of tracks into packets and trains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub(super) limit: usize,
    pub(super) frames: usize,
    pub(super) burst_us: u64,
}

impl Waiting {
    fn new(payload: &Payload<'_>, timestamp: u32, stream: u8, start: bool) -> Self {
        let length = HEADER_LENGTH + payload.length;
        Self {
            stream,
            timestamp,
            packets: 1,
            packet_size: length as u16,
            length: length as u32,
            marked: payload.marker,
            start,
            pieces: payload.pieces.to_vec(),
        }
    }

    /// Adds a packet, if one call can send it too: full packets, the last of which may be shorter and alone
    /// may have the marker.
    fn join(&mut self, payload: &Payload<'_>, timestamp: u32, full_size: usize) -> bool {
        let length = (HEADER_LENGTH + payload.length) as u32;
        let fits = !self.marked
            && self.timestamp == timestamp
            && usize::from(self.packet_size) == full_size
            && self.packets < MAX_TRAIN_PACKETS
            && self.length + length <= MAX_TRAIN_BYTES
            && self.length == self.packets * u32::from(self.packet_size)
            && length <= u32::from(self.packet_size);
        if fits {
            self.packets += 1;
            self.length += length;
            self.marked = payload.marker;
            self.pieces.extend_from_slice(payload.pieces);
        }
        fits
    }
}
