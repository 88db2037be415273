//! Turns the samples of a track into trains.

use std::collections::VecDeque;

use super::preroll::Preroll;
use super::schedule::{Schedule, Waiting};
use super::sound::{Group, GroupStream, SoundPacket, Windows};
use crate::image::StreamPlan;
use crate::payload::{Format, Packetizer, ParameterSets, Payload, Payloads, TooLong, Unit, Units};
use crate::rtp::HEADER_LENGTH;
use crate::track::{Sample, Track, TrackKind};

/// Longest time over which the packets of a picture are spread, so that a picture that is shown for longer is
/// still sent in time.
const MAX_SPREAD_US: u64 = 100_000;

/// Bytes of pictures that permit a byte of padding.
const PICTURES_FOR_PADDING: u64 = 16;

/// Most bytes of padding that are permitted by earlier pictures.
const MAX_CREDIT_OF_PICTURES: usize = 16 << 10;

/// The same of sound: its packets differ more in length, and it has few bytes beside pictures.
const SOUND_FOR_PADDING: u64 = 4;
const MAX_CREDIT_OF_SOUND: usize = 1 << 10;

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
    /// Parameter sets for random access points that have none.
    parameter_sets: Option<ParameterSets>,
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
    hidden: Vec<Sample>,
    /// Pace of the samples before the beginning.
    pub(super) preroll: Preroll,
    departed_us: u64,
    /// Packets of sound that depart together.
    group: Group,
    /// Latest departure of a sample.
    pub(super) latest_departure_us: u64,
    /// Bytes of padding that the next packets may have.
    padding_credit: usize,
    /// Bytes of payload in packets of the last group of sound.
    sound_size: usize,
    /// Bytes of payload without padding.
    pub(super) payload_bytes: u64,
    /// End of the last sample, in microseconds.
    pub(super) end_us: u64,
}

impl PackedTrack {
    /// Track that becomes the stream `number`.
    pub(super) fn new(track: Track, format: Format, number: u8, stream: StreamPlan, of: &Recipe) -> Self {
        let is_video = track.kind == TrackKind::Video;
        // A transport stream has them in its random access points, since receivers join it.
        let parameter_sets = if of.demuxed { None } else { ParameterSets::of(&track.codec) };
        Self {
            track,
            stream,
            number,
            packetizer: Packetizer::new(format, of.limit_of(format), of.frames),
            parameter_sets,
            full_size: HEADER_LENGTH + of.limit,
            burst_us: of.burst_us.max(1),
            expected: None,
            composition_offset: 0,
            lead: 0,
            hidden: Vec::new(),
            preroll: Preroll::default(),
            departed_us: 0,
            group: Group::default(),
            latest_departure_us: 0,
            sound_size: 0,
            padding_credit: if is_video { MAX_CREDIT_OF_PICTURES } else { MAX_CREDIT_OF_SOUND },
            payload_bytes: 0,
            end_us: 0,
        }
    }

    /// Makes a time of the movie its beginning.
    pub(super) fn begin_at(&mut self, begin_us: u64) {
        let ticks = i128::from(begin_us) * i128::from(self.track.timescale) / 1_000_000;
        let shift = i128::from(self.track.shift) - ticks;
        self.track.shift = shift.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    }

    /// Iterator over the units of a sample, for formats that have units.
    pub(super) fn units(&self, sample: &Sample) -> Units {
        Units::new(&self.track.codec, sample.extent)
    }

    /// Identifier of the track.
    pub(super) fn id(&self) -> u32 {
        self.track.id
    }

    /// Departure of a sample in microseconds.
    pub(super) fn departure_us(&self, sample: &Sample) -> u64 {
        self.preroll.departure_us(self.track.decode_us(sample))
    }

    /// Time from a sample to the beginning in microseconds; 0 for samples after it.
    pub(super) fn before_us(&self, sample: &Sample) -> u64 {
        self.track.decode_us(sample).min(0).unsigned_abs()
    }

    /// First sample that is kept because a shown sample may need it.
    pub(super) fn first_hidden(&self) -> Option<&Sample> {
        self.hidden.first()
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
        if sample.sync || self.hidden.len() == MAX_PREROLL {
            self.hidden.clear();
        }
        if is_shown {
            due.extend(self.hidden.drain(..));
            due.push_back(sample);
        } else if self.track.kind == TrackKind::Video {
            self.hidden.push(sample);
        }
    }

    fn duration_us(&self, sample: &Sample) -> u64 {
        u64::from(sample.duration) * 1_000_000 / u64::from(self.track.timescale)
    }

    /// Returns whether its packets depart in groups.
    pub(super) fn is_sound(&self) -> bool {
        self.track.kind != TrackKind::Video
    }

    /// Adds the parameter sets that a sample needs and does not have to its units.
    pub(super) fn complete(&mut self, sample: &Sample, units: &mut Vec<Unit>) {
        if let Some(sets) = &mut self.parameter_sets {
            sets.complete(sample.sync, sample.extent.length, units);
        }
    }

    /// Schedules the trains of a sample. `start`: the movie can be started with this sample.
    pub(super) fn push(
        &mut self,
        sample: &Sample,
        units: &[Unit],
        start: bool,
        windows: &Windows,
        payloads: &mut Payloads,
        schedule: &mut Schedule,
    ) -> Result<(), TooLong> {
        let first_us = self.departure_us(sample);
        self.latest_departure_us = self.latest_departure_us.max(first_us);
        if self.is_sound() && windows.begin_us(first_us) != self.group.begin_us {
            self.flush(payloads, schedule);
            self.group.begin_us = windows.begin_us(first_us);
        }
        if self.expected.is_some_and(|expected| expected != sample.decode_time)
            || self.composition_offset != sample.composition_offset
        {
            self.flush_frames(payloads, schedule);
        }
        self.expected = Some(sample.decode_time.saturating_add(sample.duration.into()));
        self.composition_offset = sample.composition_offset;
        let decoded = i128::from(sample.decode_time) + i128::from(self.track.shift);
        let ticks = self.ticks(decoded + i128::from(sample.composition_offset));
        self.lead = (ticks - self.ticks(decoded)) as i64;
        let duration_us = self.duration_us(sample);
        let end_us = self.latest_us(sample).saturating_add(duration_us);
        self.end_us = self.end_us.max(end_us.min(self.track.end_us().unwrap_or(u64::MAX)));
        payloads.clear();
        payloads.permit_padding(if self.is_sound() { 0 } else { self.padding_credit });
        if let Some(sets) = &self.parameter_sets {
            payloads.permit_parameter_sets(sets);
        }
        self.packetizer.push(sample.extent, units, ticks as u64, payloads)?;
        if self.is_sound() {
            self.earn_padding(sample.extent.length / SOUND_FOR_PADDING, MAX_CREDIT_OF_SOUND);
            self.gather(payloads, windows, schedule);
        } else {
            self.padding_credit = payloads.padding_left();
            self.earn_padding(sample.extent.length / PICTURES_FOR_PADDING, MAX_CREDIT_OF_PICTURES);
            let end_us = self.track.decode_us(sample).saturating_add_unsigned(duration_us);
            let spread_us = self.preroll.departure_us(end_us).saturating_sub(first_us).min(MAX_SPREAD_US);
            self.spread(payloads, first_us, spread_us, start, schedule);
        }
        Ok(())
    }

    /// Permits further bytes of padding, up to `most` in all.
    fn earn_padding(&mut self, bytes: u64, most: usize) {
        self.padding_credit = (self.padding_credit as u64).saturating_add(bytes).min(most as u64) as usize;
    }

    /// Bytes of heap memory of the waiting packets of sound.
    pub(super) fn held_bytes(&self) -> usize {
        self.group.held_bytes()
    }

    /// Schedules the group of sound if its window begins before `us`.
    pub(super) fn flush_before(&mut self, us: u64, payloads: &mut Payloads, schedule: &mut Schedule) {
        if self.is_sound() && self.group.begin_us < us {
            self.flush(payloads, schedule);
        }
    }

    /// Schedules the group of sound with the waiting frames.
    pub(super) fn flush(&mut self, payloads: &mut Payloads, schedule: &mut Schedule) {
        self.flush_frames(payloads, schedule);
        self.close_group(schedule);
    }

    /// Adds the waiting frames to the group of sound.
    fn flush_frames(&mut self, payloads: &mut Payloads, schedule: &mut Schedule) {
        payloads.clear();
        self.packetizer.flush(payloads);
        for payload in payloads.iter() {
            if self.group.is_full() {
                self.close_group(schedule);
            }
            self.add_sound(&payload, self.us(payload.timestamp));
        }
    }

    fn add_sound(&mut self, payload: &Payload<'_>, due_us: u64) {
        self.payload_bytes += payload.length as u64;
        self.group.packets.push(SoundPacket::new(payload, due_us));
    }

    /// Adds payloads to the group of sound of their window. Earlier groups are scheduled.
    fn gather(&mut self, payloads: &Payloads, windows: &Windows, schedule: &mut Schedule) {
        for payload in payloads.iter() {
            let due_us = self.us(payload.timestamp);
            let begin_us = windows.begin_us(due_us);
            if begin_us > self.group.begin_us || self.group.is_full() {
                self.close_group(schedule);
                self.group.begin_us = self.group.begin_us.max(begin_us);
            }
            self.add_sound(&payload, due_us);
        }
    }

    fn close_group(&mut self, schedule: &mut Schedule) {
        let next = Group { begin_us: self.group.begin_us, packets: Vec::new() };
        let group = std::mem::replace(&mut self.group, next);
        let limit = self.full_size - HEADER_LENGTH;
        let stream = GroupStream { number: self.number, timestamp: self.stream.timestamp, limit };
        for train in group.trains(&stream, &mut self.padding_credit, &mut self.sound_size) {
            self.close(Some(train), schedule);
        }
    }

    /// Schedules the payloads of a picture from `first_us` on, spread over some time.
    fn spread(
        &mut self,
        payloads: &Payloads,
        first_us: u64,
        spread_us: u64,
        start: bool,
        schedule: &mut Schedule,
    ) {
        let count = payloads.iter().count() as u64;
        let mut open: Option<(u64, Waiting)> = None;
        for (index, payload) in (0u64..).zip(payloads.iter()) {
            let due_us = first_us + spread_us * index / count;
            let timestamp = self.stream.timestamp.wrapping_add(payload.timestamp as u32);
            let joined = open.as_mut().is_some_and(|(departure_us, train)| {
                due_us / self.burst_us == *departure_us / self.burst_us
                    && train.join(&payload, timestamp, self.full_size)
            });
            if !joined {
                self.close(open.take(), schedule);
                open = Some((due_us, Waiting::new(&payload, timestamp, self.number, start && index == 0)));
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

    /// Departure for a timestamp in microseconds.
    fn us(&self, timestamp: u64) -> u64 {
        let ticks = i128::from(timestamp as i64) - i128::from(self.lead);
        let us = ticks * 1_000_000 / i128::from(self.stream.clock_hz.max(1));
        self.preroll.departure_us(us.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

/// Division of tracks into packets and trains.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    pub(super) limit: usize,
    pub(super) frames: usize,
    pub(super) burst_us: u64,
    /// True if the asset is a transport stream.
    pub(super) demuxed: bool,
}

impl Recipe {
    /// Most bytes of payload in a packet before padding. Packets of frames that share packets have room for a byte
    /// of padding and an even length, as groups of sound need them.
    fn limit_of(&self, format: Format) -> usize {
        match format {
            Format::Aac | Format::MpegAudio | Format::Ac3 | Format::Pcm(_) => self.limit - 2,
            _ => self.limit,
        }
    }
}
