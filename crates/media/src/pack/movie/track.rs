//! Turns the samples of a track into trains.

use std::collections::VecDeque;

use super::schedule::{Schedule, Waiting};
use crate::image::{MAX_TRAIN_BYTES, MAX_TRAIN_PACKETS, StreamPlan};
use crate::payload::{Format, Packetizer, Payload, Payloads, TooLong, Unit, Units};
use crate::rtp::{HEADER_LENGTH, Marker};
use crate::track::{Sample, Track, TrackKind};

/// Longest time over which the packets of a picture are spread, so that a picture that is shown for longer is
/// still sent in time.
const MAX_SPREAD_US: u64 = 100_000;

/// Longest time for which frames of audio wait for further frames to share a packet with.
const MAX_WAIT_US: u64 = 200_000;

/// Bytes of payload that permit a byte of padding: packets have at most a sixteenth more bytes by padding.
const PAYLOAD_FOR_PADDING: u64 = 16;

/// Most bytes of padding that are permitted by earlier pictures.
const MAX_PADDING_CREDIT: usize = 16 << 10;

/// Longest time before the beginning from which samples are sent although they are not shown: decoders of
/// audio need some.
const MAX_PREROLL_US: i64 = 500_000;

/// Most samples that are kept from a random access point before the beginning.
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
    /// Time from the decode time of the last sample to its presentation time, in ticks of the stream's clock.
    lead: i64,
    /// Samples that are not shown, but that a shown sample may need.
    preroll: Vec<Sample>,
    departed_us: u64,
    /// Bytes of padding that the next pictures may have.
    padding_credit: usize,
    /// Bytes of payload without padding.
    pub(super) payload_bytes: u64,
    /// End of the last sample, in microseconds.
    pub(super) end_us: u64,
}

/// Departure times of the payloads of a picture.
#[derive(Clone, Copy)]
struct Departures {
    first_us: u64,
    /// Time over which the payloads are spread.
    spread_us: u64,
    start: bool,
}

impl PackedTrack {
    /// Track that becomes the stream `number`.
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
            padding_credit: MAX_PADDING_CREDIT,
            payload_bytes: 0,
            end_us: 0,
        }
    }

    /// Iterator over the units of a sample, for formats that have units.
    pub(super) fn units(&self, sample: &Sample) -> Units {
        Units::new(&self.track.codec, sample.extent)
    }

    /// Identifier of the track.
    pub(super) fn id(&self) -> u32 {
        self.track.id
    }

    /// Departure of a sample in microseconds. Samples before the beginning depart at the beginning.
    pub(super) fn departure_us(&self, sample: &Sample) -> u64 {
        self.track.decode_us(sample).max(0) as u64
    }

    /// Departure or presentation time of a sample, whichever is later, in microseconds.
    pub(super) fn latest_us(&self, sample: &Sample) -> u64 {
        self.departure_us(sample).max(self.track.presentation_us(sample).max(0) as u64)
    }

    /// Appends a sample to the due samples, unless it ends long before the beginning. Then a sample of audio
    /// is dropped; samples of video from the last random access point on are kept until a shown sample, which
    /// may need them.
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

    /// Departure of the first frame that waits to share a packet.
    pub(super) fn waits_since_us(&self) -> Option<u64> {
        self.packetizer.waiting().map(|timestamp| self.us(timestamp))
    }

    /// Schedules the trains of a sample. `start`: the movie can be started with this sample.
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
        payloads.permit_padding(self.padding_credit);
        self.packetizer.push(sample.extent, units, ticks as u64, payloads)?;
        let earned = sample.extent.length / PAYLOAD_FOR_PADDING;
        self.padding_credit = (payloads.padding_left() as u64 + earned).min(MAX_PADDING_CREDIT as u64) as usize;
        let departures = match self.track.kind {
            TrackKind::Video => {
                Some(Departures { first_us, spread_us: duration_us.min(MAX_SPREAD_US), start })
            }
            _ => None,
        };
        self.schedule(payloads, departures, schedule);
        Ok(())
    }

    /// Schedules the waiting frames if the first of them has waited too long at time `us`.
    pub(super) fn flush_before(&mut self, us: u64, payloads: &mut Payloads, schedule: &mut Schedule) {
        if self.waits_since_us().is_some_and(|since| since.saturating_add(MAX_WAIT_US) < us) {
            self.flush(payloads, schedule);
        }
    }

    /// Schedules the waiting frames.
    pub(super) fn flush(&mut self, payloads: &mut Payloads, schedule: &mut Schedule) {
        payloads.clear();
        self.packetizer.flush(payloads);
        self.schedule(payloads, None, schedule);
    }

    /// Schedules payloads: the payloads of a picture spread over its duration, frames of audio by their
    /// decode times.
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
            self.payload_bytes += payload.length as u64 - u64::from(payload.padding);
        }
        self.close(open, schedule);
    }

    /// Schedules a train after the track's earlier trains.
    fn close(&mut self, train: Option<(u64, Waiting)>, schedule: &mut Schedule) {
        let Some((departure_us, train)) = train else { return };
        self.departed_us = self.departed_us.max(departure_us);
        schedule.add(self.departed_us, train);
    }

    /// Converts a time of the track to ticks of the stream's clock.
    fn ticks(&self, time: i128) -> i128 {
        (time * i128::from(self.stream.clock_hz)).div_euclid(self.track.timescale.into())
    }

    /// Departure for a timestamp in microseconds. Timestamps before the beginning depart at the beginning.
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
            timestamp_step: 0,
            marker: if payload.marker { Marker::Last } else { Marker::None },
            padding: payload.padding.into(),
            start,
            pieces: payload.pieces.to_vec(),
        }
    }

    /// Adds a packet if the train can still be sent in one call: all packets are full except the last, which
    /// may be shorter, all or none are padded, and only the last may have the marker.
    fn join(&mut self, payload: &Payload<'_>, timestamp: u32, full_size: usize) -> bool {
        let length = (HEADER_LENGTH + payload.length) as u32;
        let fits = self.marker == Marker::None
            && self.timestamp == timestamp
            && (self.padding > 0) == (payload.padding > 0)
            && usize::from(self.packet_size) == full_size
            && self.packets < MAX_TRAIN_PACKETS
            && self.length + length <= MAX_TRAIN_BYTES
            && self.length == self.packets * u32::from(self.packet_size)
            && length <= u32::from(self.packet_size);
        if fits {
            self.packets += 1;
            self.length += length;
            self.marker = if payload.marker { Marker::Last } else { Marker::None };
            self.padding += u16::from(payload.padding);
            self.pieces.extend_from_slice(payload.pieces);
        }
        fits
    }
}
