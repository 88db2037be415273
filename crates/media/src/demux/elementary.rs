//! Elementary stream: turns the transport packets of a PID into frames.

use std::collections::VecDeque;

use super::audio::{self, Frames};
use super::frame::Frame;
use super::nal_unit;
use super::pes::{PesReader, Piece};
use super::video::AccessUnits;
use super::{Error, TICKS_PER_SECOND};
use crate::track::{self, FourCc, Track, TrackKind};
use crate::ts::{Codec, Packet, Stream};

/// Elementary stream.
#[derive(Clone, Debug)]
pub(super) struct ElementaryStream {
    pub(super) stream: Stream,
    pes: PesReader,
    frames: Syntax,
    /// True after a scrambled packet.
    is_scrambled: bool,
}

#[derive(Clone, Debug)]
enum Syntax {
    Video(AccessUnits),
    Audio(Frames),
    /// Codec that is not supported.
    Other,
}

impl ElementaryStream {
    pub(super) fn new(stream: Stream) -> Self {
        let video = |syntax| Syntax::Video(AccessUnits::new(syntax));
        let audio = |syntax| Syntax::Audio(Frames::new(syntax));
        let frames = match stream.codec {
            Codec::H264 => video(nal_unit::Syntax::H264),
            Codec::H265 => video(nal_unit::Syntax::H265),
            Codec::Aac => audio(audio::Syntax::Adts),
            Codec::Mpeg1Audio | Codec::Mpeg2Audio => audio(audio::Syntax::MpegAudio),
            Codec::Ac3 => audio(audio::Syntax::Ac3),
            Codec::Opus => audio(audio::Syntax::Opus),
            _ => Syntax::Other,
        };
        Self { stream, pes: PesReader::default(), frames, is_scrambled: false }
    }

    /// Returns whether the codec is supported.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.frames, Syntax::Other)
    }

    /// Returns whether there were scrambled packets.
    pub(super) fn is_scrambled(&self) -> bool {
        self.is_scrambled
    }

    /// Bytes of heap memory used.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.frames {
            Syntax::Video(units) => units.held_bytes(),
            Syntax::Audio(frames) => frames.held_bytes(),
            Syntax::Other => 0,
        }
    }

    /// Takes a packet of the PID, and appends complete frames to `out`.
    pub(super) fn push(&mut self, packet: Packet<'_>, out: &mut VecDeque<Frame>) {
        let Piece { lost, scrambled, start, data } = self.pes.push(packet);
        self.is_scrambled |= scrambled;
        match &mut self.frames {
            Syntax::Video(units) => {
                // If a PES packet begins after the gap, the NAL unit before may be complete: two recordings
                // may be joined here.
                if lost && start.is_none() {
                    units.lose();
                }
                if let Some(start) = start {
                    units.start(start);
                }
                units.push(data, out);
            }
            Syntax::Audio(frames) => {
                if lost {
                    frames.lose();
                }
                if let Some(start) = start {
                    frames.start(start);
                }
                frames.push(data, out);
            }
            Syntax::Other => {}
        }
    }

    /// Ends the stream, and appends the last frames to `out`.
    pub(super) fn finish(&mut self, out: &mut VecDeque<Frame>) {
        match &mut self.frames {
            Syntax::Video(units) => units.finish(out),
            Syntax::Audio(frames) => frames.finish(out),
            Syntax::Other => {}
        }
    }

    /// Returns an error found since the last call, before `offset`.
    pub(super) fn take_fault(&mut self, offset: u64) -> Option<Error> {
        match &mut self.frames {
            Syntax::Video(units) => units.take_too_long().then_some(Error::TooLong { offset }),
            Syntax::Audio(frames) => frames.take_changed().then_some(Error::Changed { offset }),
            Syntax::Other => None,
        }
    }

    /// Returns the track, once its frames have determined its parameters; for an unsupported codec only its
    /// name.
    pub(super) fn track(&self) -> Option<Track> {
        let (codec, sound, picture, frame_rate) = match &self.frames {
            Syntax::Video(units) => {
                let sets = units.sets();
                (sets.codec()?, None, sets.size(), sets.frame_rate())
            }
            Syntax::Audio(frames) => {
                let kind = frames.kind()?.clone();
                (kind.codec, Some(kind.sound), None, None)
            }
            Syntax::Other if self.stream.codec == Codec::EnhancedAc3 => {
                (track::Codec::Eac3, None, None, None)
            }
            Syntax::Other => (track::Codec::Other(self.stream.codec.name().to_owned()), None, None, None),
        };
        let kind = match (&self.frames, self.stream.codec.is_video()) {
            (Syntax::Video(_), _) | (_, true) => TrackKind::Video,
            (Syntax::Audio(_), _) => TrackKind::Audio,
            (Syntax::Other, false) => TrackKind::Other(FourCc(*b"    ")),
        };
        Some(Track {
            id: self.stream.pid.into(),
            kind,
            codec,
            timescale: sound.map_or(TICKS_PER_SECOND, |sound| sound.sample_rate),
            duration: 0,
            language: self.stream.language.clone(),
            picture,
            frame_rate,
            sound,
            shift: 0,
            end: None,
            edits_left_out: 0,
            edit_rates_left_out: 0,
            descriptions: 1,
            external: false,
        })
    }
}
