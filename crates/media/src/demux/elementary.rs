//! One elementary stream: the transport packets of its PID become frames.

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
    /// True after a packet that is encrypted.
    is_scrambled: bool,
}

#[derive(Clone, Debug)]
enum Syntax {
    Video(AccessUnits),
    Audio(Frames),
    /// A codec that is not read.
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

    /// Returns whether frames of its codec are read.
    pub(super) fn is_read(&self) -> bool {
        !matches!(self.frames, Syntax::Other)
    }

    /// Returns whether its packets are encrypted, some at least.
    pub(super) fn is_scrambled(&self) -> bool {
        self.is_scrambled
    }

    /// Bytes of memory that are held.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.frames {
            Syntax::Video(units) => units.held_bytes(),
            Syntax::Audio(frames) => frames.held_bytes(),
            Syntax::Other => 0,
        }
    }

    /// Takes a packet of its PID; complete frames come to `out`.
    pub(super) fn push(&mut self, packet: Packet<'_>, out: &mut VecDeque<Frame>) {
        let Piece { lost, scrambled, start, data } = self.pes.push(packet);
        self.is_scrambled |= scrambled;
        match &mut self.frames {
            Syntax::Video(units) => {
                // Where a PES packet begins, the NAL unit before may be complete: recordings are joined.
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

    /// Ends the stream.
    pub(super) fn finish(&mut self, out: &mut VecDeque<Frame>) {
        match &mut self.frames {
            Syntax::Video(units) => units.finish(out),
            Syntax::Audio(frames) => frames.finish(out),
            Syntax::Other => {}
        }
    }

    /// Fault that was found since the last call, before this offset.
    pub(super) fn take_fault(&mut self, offset: u64) -> Option<Error> {
        match &mut self.frames {
            Syntax::Video(units) => units.take_too_long().then_some(Error::TooLong { offset }),
            Syntax::Audio(frames) => frames.take_changed().then_some(Error::Changed { offset }),
            Syntax::Other => None,
        }
    }

    /// The track, once its frames have told what it is; of a codec that is not read, its name.
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
            edits_left_out: 0,
            descriptions: 1,
            external: false,
        })
    }
}
