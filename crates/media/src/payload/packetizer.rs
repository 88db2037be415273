//! Packetizer of all formats.

use super::unit::Unit;
use super::{Format, MIN_PAYLOAD, Payloads, PcmFormat, TooLong};
use super::{aac, ac3, av1, h264, h265, mpeg_audio, opus, pcm, vp8, vp9};
use crate::track::Extent;

/// Packetizer: divides the samples of a track into payloads.
#[derive(Clone, Debug)]
pub struct Packetizer {
    state: State,
    limit: usize,
}

#[derive(Clone, Debug)]
enum State {
    H264,
    H265,
    Opus,
    Aac(aac::Packetizer),
    MpegAudio(mpeg_audio::Packetizer),
    Ac3(ac3::Packetizer),
    Av1,
    Vp8,
    Vp9,
    Pcm(PcmFormat, usize),
}

impl Packetizer {
    /// Packetizer for payloads of at most `limit` bytes, [`MIN_PAYLOAD`] or more, with at most `most` audio
    /// frames each; 20 ms of PCM count as a frame.
    pub fn new(format: Format, limit: usize, most: usize) -> Self {
        let limit = limit.clamp(MIN_PAYLOAD, u16::MAX.into());
        let state = match format {
            Format::H264 => State::H264,
            Format::H265 => State::H265,
            Format::Opus => State::Opus,
            Format::Aac => State::Aac(aac::Packetizer::new(limit, most)),
            Format::MpegAudio => State::MpegAudio(mpeg_audio::Packetizer::new(limit, most)),
            Format::Ac3 => State::Ac3(ac3::Packetizer::new(limit, most)),
            Format::Av1 => State::Av1,
            Format::Vp8 => State::Vp8,
            Format::Vp9 => State::Vp9,
            Format::Pcm(format) => State::Pcm(format, most),
        };
        Self { state, limit }
    }

    /// Adds the payloads of a sample with its units, found by [`Units`](super::Units).
    pub fn push(
        &mut self,
        sample: Extent,
        units: &[Unit],
        timestamp: u64,
        payloads: &mut Payloads,
    ) -> Result<(), TooLong> {
        match &mut self.state {
            State::H264 => h264::packetize(units, timestamp, self.limit, payloads),
            State::H265 => h265::packetize(units, timestamp, self.limit, payloads),
            State::Opus => opus::packetize(sample, timestamp, self.limit, payloads)?,
            State::Aac(packetizer) => packetizer.push(sample, timestamp, payloads)?,
            State::MpegAudio(packetizer) => packetizer.push(sample, timestamp, payloads)?,
            State::Ac3(packetizer) => packetizer.push(sample, timestamp, payloads)?,
            State::Av1 => av1::packetize(units, timestamp, self.limit, payloads),
            State::Vp8 => vp8::packetize(sample, timestamp, self.limit, payloads),
            State::Vp9 => {
                units.iter().for_each(|frame| vp9::packetize(frame, timestamp, self.limit, payloads))
            }
            State::Pcm(format, most) => {
                pcm::packetize(*format, sample, timestamp, self.limit, *most, payloads);
            }
        }
        Ok(())
    }

    /// Timestamp of the first frame that waits to share a packet.
    pub fn waiting(&self) -> Option<u64> {
        let waiting = match &self.state {
            State::H264
            | State::H265
            | State::Opus
            | State::Av1
            | State::Vp8
            | State::Vp9
            | State::Pcm(..) => return None,
            State::Aac(packetizer) => packetizer.waiting(),
            State::MpegAudio(packetizer) => packetizer.waiting(),
            State::Ac3(packetizer) => packetizer.waiting(),
        };
        waiting.first_timestamp()
    }

    /// Adds the payload of the waiting frames.
    pub fn flush(&mut self, payloads: &mut Payloads) {
        match &mut self.state {
            State::H264
            | State::H265
            | State::Opus
            | State::Av1
            | State::Vp8
            | State::Vp9
            | State::Pcm(..) => {}
            State::Aac(packetizer) => packetizer.flush(payloads),
            State::MpegAudio(packetizer) => packetizer.flush(payloads),
            State::Ac3(packetizer) => packetizer.flush(payloads),
        }
    }
}
