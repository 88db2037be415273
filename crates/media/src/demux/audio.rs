//! Audio frames in a byte stream. The header of each frame contains the length of the frame.

use std::collections::VecDeque;

use super::frame::{Frame, FrameHeader, FrameKind, Read};
use super::pes::{PesStart, Stamp};
use super::{ac3, adts, mpeg_audio, opus};

/// Divides a byte stream into frames.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    syntax: Syntax,
    bytes: Vec<u8>,
    /// Positions in `bytes` at which PES packets begin, and their timestamps, for frames that are not
    /// complete yet.
    starts: VecDeque<(usize, Option<Stamp>)>,
    /// True if a frame begins at the end of the last one. Otherwise a header is accepted only if another
    /// follows its frame.
    in_step: bool,
    /// Codec and parameters of the first frame. Later frames must have the same.
    kind: Option<FrameKind>,
    changed: bool,
}

/// Codec of a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    Adts,
    MpegAudio,
    Ac3,
    Opus,
}

impl Frames {
    pub(super) fn new(syntax: Syntax) -> Self {
        Self {
            syntax,
            bytes: Vec::new(),
            starts: VecDeque::new(),
            in_step: false,
            kind: None,
            changed: false,
        }
    }

    /// Codec and parameters of the first frame.
    pub(super) fn kind(&self) -> Option<&FrameKind> {
        self.kind.as_ref()
    }

    /// Returns whether frames with other parameters were dropped since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Bytes of heap memory used.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Drops the incomplete frame, since bytes after it are missing.
    pub(super) fn lose(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.in_step = false;
    }

    /// Begins a PES packet, whose timestamps belong to the first frame that begins in it.
    pub(super) fn start(&mut self, start: PesStart) {
        let place = self.bytes.len();
        self.starts.pop_back_if(|(begin, _)| *begin == place);
        self.starts.push_back((place, start.stamp));
    }

    /// Adds bytes of the stream, and appends complete frames to `frames`.
    pub(super) fn push(&mut self, data: &[u8], frames: &mut VecDeque<Frame>) {
        self.bytes.extend_from_slice(data);
        self.divide(false, frames);
    }

    /// Ends the stream, and appends the last frames to `frames`.
    pub(super) fn finish(&mut self, frames: &mut VecDeque<Frame>) {
        self.divide(true, frames);
    }

    fn divide(&mut self, at_end: bool, frames: &mut VecDeque<Frame>) {
        let mut at = 0;
        while at < self.bytes.len() {
            match self.syntax.read(&self.bytes[at..]) {
                Read::Incomplete => break,
                Read::Invalid => {
                    self.in_step = false;
                    at += 1;
                }
                Read::Header(header) if self.bytes.len() - at < header.length => break,
                Read::Header(header) => match self.is_believed(&header, at, at_end) {
                    Some(true) => {
                        self.take(&header, at, frames);
                        at += header.length;
                    }
                    Some(false) => at += 1,
                    None => break,
                },
            }
        }
        self.bytes.drain(..at);
        self.starts.iter_mut().for_each(|(place, _)| *place = place.saturating_sub(at));
    }

    /// Returns whether a header is accepted; `None` if more bytes are needed to decide.
    fn is_believed(&self, header: &FrameHeader, at: usize, at_end: bool) -> Option<bool> {
        if self.in_step {
            return Some(true);
        }
        match self.syntax.read(&self.bytes[at + header.length..]) {
            Read::Header(next) => Some(next.kind == header.kind),
            Read::Incomplete => at_end.then_some(true),
            Read::Invalid => Some(false),
        }
    }

    fn take(&mut self, header: &FrameHeader, at: usize, frames: &mut VecDeque<Frame>) {
        self.in_step = true;
        let mut stamp = None;
        while let Some((_, begun)) = self.starts.pop_front_if(|(place, _)| *place <= at) {
            stamp = begun;
        }
        let kind = self.kind.get_or_insert_with(|| header.kind.clone());
        if *kind != header.kind {
            self.changed = true;
            return;
        }
        let bytes = self.bytes[at + header.skipped..at + header.length].to_vec();
        if !bytes.is_empty() {
            frames.push_back(Frame {
                bytes,
                stamp,
                sync: true,
                samples: header.samples,
                second_field: false,
            });
        }
    }
}

impl Syntax {
    fn read(self, bytes: &[u8]) -> Read {
        match self {
            Self::Adts => adts::read(bytes),
            Self::MpegAudio => mpeg_audio::read(bytes),
            Self::Ac3 => ac3::read(bytes),
            Self::Opus => opus::read(bytes),
        }
    }
}
