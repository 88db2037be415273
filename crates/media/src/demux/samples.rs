//! Samples of a transport stream, in decode order over all tracks. Their bytes are stored until they are
//! released.

use std::collections::VecDeque;

use super::elementary::ElementaryStream;
use super::frame::Frame;
use super::order::Order;
use super::store::track_of;
use super::timeline::Timeline;
use super::track::Timing;
use super::{Error, MAX_STORED};
use crate::track::{Extent, Next, Track};
use crate::ts::{Deframer, Event, Packet, Packets, Psi, Stream, Warning, WarningKind, Warnings};

/// Bytes that are requested at a time.
const WANTED: u64 = 1 << 18;

/// Stored bytes beyond which samples no longer wait for samples of another track.
const MAX_WAITING: usize = 16 << 20;

/// Track index of PIDs without a track.
const NO_TRACK: u8 = u8::MAX;

/// Samples of all tracks, from the beginning.
#[derive(Clone, Debug)]
pub struct Samples {
    size: u64,
    read: u64,
    has_ended: bool,
    deframer: Deframer,
    programme: DemuxedProgramme,
}

/// Tracks of the programme.
#[derive(Clone, Debug)]
struct DemuxedProgramme {
    number: u16,
    psi: Psi,
    /// Index of the track, by PID.
    tracks_by_pid: Box<[u8; 8192]>,
    tracks: Vec<Demuxed>,
    timeline: Timeline,
    order: Order,
    frames: VecDeque<Frame>,
    warnings: Warnings,
}

#[derive(Clone, Debug)]
struct Demuxed {
    track: Track,
    stream: ElementaryStream,
    timing: Timing,
    /// True while the programme map does not contain the track.
    is_gone: bool,
    /// True after the first warning; a track has at most one.
    has_warned: bool,
}

impl Samples {
    pub(super) fn new(number: u16, tracks: &[Track], streams: &[Stream], zero: u64, size: u64) -> Self {
        let mut tracks_by_pid = Box::new([NO_TRACK; 8192]);
        let tracks: Vec<Demuxed> = tracks
            .iter()
            .zip(streams)
            .take(NO_TRACK.into())
            .enumerate()
            .map(|(index, (track, stream))| {
                tracks_by_pid[usize::from(stream.pid & 0x1fff)] = index as u8;
                let timing = Timing::new(index, track);
                let stream = ElementaryStream::new(stream.clone());
                Demuxed { track: track.clone(), stream, timing, is_gone: false, has_warned: false }
            })
            .collect();
        let order = Order::new(tracks.iter().map(|demuxed| demuxed.stream.is_read()));
        let programme = DemuxedProgramme {
            number,
            psi: Psi::new(),
            tracks_by_pid,
            tracks,
            timeline: Timeline::new(zero),
            order,
            frames: VecDeque::new(),
            warnings: Warnings::default(),
        };
        Self { size, read: 0, has_ended: false, deframer: Deframer::new(), programme }
    }

    /// Returns the next sample, or the bytes that are needed to find it.
    ///
    /// Not an iterator, because the caller has to read bytes in between.
    #[expect(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Next, Error> {
        let stored = self.programme.stored_bytes();
        if stored > MAX_STORED {
            return Err(Error::TooFarApart);
        }
        if let Some(sample) = self.programme.order.pop(self.has_ended || stored > MAX_WAITING) {
            return Ok(Next::Sample(sample));
        }
        let length = self.size.saturating_sub(self.read).min(WANTED);
        Ok(match self.has_ended || length == 0 {
            true if self.has_ended => Next::End,
            true => {
                self.finish()?;
                return self.next();
            }
            false => Next::Read(Extent { offset: self.read, length }),
        })
    }

    /// Takes the requested bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.read += bytes.len() as u64;
        let mut piece = bytes;
        while let Some(event) = self.deframer.next(&mut piece)? {
            self.programme.take(event);
        }
        Ok(())
    }

    /// Ends the file at a damaged place. Samples found before it are still returned.
    pub fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.programme.finish(self.read);
        }
    }

    /// Bytes of a sample that was returned and is not released yet.
    pub fn stored(&self, extent: Extent) -> Option<&[u8]> {
        self.programme.tracks.get(track_of(extent))?.timing.store.slice(extent)
    }

    /// Drops the stored samples of a track up to the end of this extent.
    pub fn release(&mut self, extent: Extent) {
        if let Some(demuxed) = self.programme.tracks.get_mut(track_of(extent)) {
            demuxed.timing.store.release(extent.end());
        }
    }

    /// Takes the warnings since the last call.
    pub fn take_warnings(&mut self) -> Warnings {
        std::mem::take(&mut self.programme.warnings)
    }

    /// Number of bytes of the file that were read.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Bytes of heap memory used.
    pub fn held_bytes(&self) -> usize {
        let programme = &self.programme;
        let streams = programme.tracks.iter().map(|demuxed| demuxed.stream.held_bytes());
        programme.stored_bytes() + streams.sum::<usize>() + programme.order.held_bytes()
    }

    fn finish(&mut self) -> Result<(), Error> {
        while let Some(event) = self.deframer.finish()? {
            self.programme.take(event);
        }
        self.end();
        Ok(())
    }
}

impl DemuxedProgramme {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Packets(run) => self.packets(&run),
            Event::Warning(warning) => self.warnings.push(warning),
        }
    }

    fn packets(&mut self, run: &Packets<'_>) {
        for (index, packet) in run.iter().enumerate() {
            let Some(packet) = Packet::new(packet) else { continue };
            let track = self.tracks_by_pid[usize::from(packet.pid())];
            if let Some(demuxed) = self.tracks.get_mut(usize::from(track)) {
                if !demuxed.is_gone {
                    demuxed.stream.push(packet, &mut self.frames);
                    self.note(track.into(), run.offset(index));
                }
            } else if self.psi.reads(packet.pid()) && self.psi.push(packet) {
                self.compare(run.offset(index));
            }
        }
    }

    /// Assigns times to the frames of a track.
    fn note(&mut self, track: usize, offset: u64) {
        let Self { tracks, timeline, order, frames, warnings, .. } = self;
        let demuxed = &mut tracks[track];
        for frame in frames.drain(..) {
            if let Some(sample) = demuxed.timing.push(frame, timeline) {
                order.push(demuxed.track.decode_us(&sample), sample);
            }
        }
        let scrambled = demuxed.stream.is_scrambled().then_some(Error::Scrambled);
        if let Some(fault) = demuxed.stream.take_fault(offset).or(scrambled) {
            demuxed.warn(offset, &fault, warnings);
        }
    }

    /// Compares the tracks with a new programme map. A track that the map does not contain is suspended until
    /// a map contains it again.
    fn compare(&mut self, offset: u64) {
        let known = self.psi.current_programmes().flatten().find(|known| known.number == self.number);
        let Some(known) = known else { return };
        for demuxed in &mut self.tracks {
            let own = &demuxed.stream.stream;
            demuxed.is_gone =
                !known.streams.iter().any(|stream| stream.pid == own.pid && stream.codec == own.codec);
            if demuxed.is_gone {
                demuxed.warn(offset, &Error::Gone { offset }, &mut self.warnings);
            }
        }
    }

    fn finish(&mut self, offset: u64) {
        for track in 0..self.tracks.len() {
            let demuxed = &mut self.tracks[track];
            demuxed.stream.finish(&mut self.frames);
            self.note(track, offset);
            let demuxed = &mut self.tracks[track];
            if let Some(sample) = demuxed.timing.finish() {
                self.order.push(demuxed.track.decode_us(&sample), sample);
            }
        }
    }

    fn stored_bytes(&self) -> usize {
        self.tracks.iter().map(|demuxed| demuxed.timing.store.held_bytes()).sum()
    }
}

impl Demuxed {
    fn warn(&mut self, offset: u64, fault: &Error, warnings: &mut Warnings) {
        if std::mem::replace(&mut self.has_warned, true) {
            return;
        }
        let (track, reason) = (self.track.id, fault.to_string());
        let kind = match fault {
            Error::TooLong { .. } => WarningKind::SampleDamaged { track, reason },
            _ => WarningKind::TrackCut { track, reason },
        };
        warnings.push(Warning { offset, kind });
    }
}
