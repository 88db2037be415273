//! Reader of the beginning of a file: determines the programme, its tracks, and time 0.

use std::collections::VecDeque;

use super::elementary::ElementaryStream;
use super::frame::Frame;
use super::timeline::difference;
use super::{Error, LEAD_S, PROBED_BYTES, Samples, TICKS_PER_SECOND};
use crate::track::{AudioConfig, Codec, Extent, Track};
use crate::ts::{Deframer, Event, Packet, Packets, Programme, Psi, Stream};

/// Bytes that are requested at a time.
const WANTED: u64 = 1 << 16;

/// Bytes after which the choice of the programme no longer waits for missing maps.
const MAP_BYTES: u64 = 1 << 20;

/// Longest difference between the first timestamps of tracks.
const MAX_APART: i64 = 10 * TICKS_PER_SECOND as i64;

/// Tracks of the first programme of a transport stream.
#[derive(Clone, Debug)]
pub struct Movie {
    /// Tracks in the order of the programme map, identified by their PIDs.
    pub tracks: Vec<Track>,
    /// Tracks that are left out, by PID, with the reasons.
    pub faults: Vec<(u32, Error)>,
    /// Number of the programme.
    pub programme: u16,
    streams: Vec<Stream>,
    /// Earliest timestamp of the first frames of all tracks: time 0.
    zero: u64,
    size: u64,
}

/// Reader of the beginning of a file, up to the first frames of all tracks.
#[derive(Debug)]
pub struct TracksReader {
    size: u64,
    read: u64,
    deframer: Deframer,
    probe: Probe,
}

impl TracksReader {
    /// Reader of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self { size, read: 0, deframer: Deframer::new(), probe: Probe::default() }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        let length = self.size.min(PROBED_BYTES).saturating_sub(self.read).min(WANTED);
        (length > 0 && !self.probe.is_complete()).then_some(Extent { offset: self.read, length })
    }

    /// Takes the requested bytes.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.read += bytes.len() as u64;
        let mut piece = bytes;
        while let Some(event) = self.deframer.next(&mut piece)? {
            self.probe.take(&event);
        }
        self.probe.choose(self.read >= MAP_BYTES);
        Ok(())
    }

    /// Returns the tracks. Call it when no more bytes are wanted.
    pub fn finish(mut self) -> Result<Movie, Error> {
        while let Some(event) = self.deframer.finish()? {
            self.probe.take(&event);
        }
        self.probe.choose(true);
        self.probe.finish(self.size)
    }
}

/// Elementary streams of the programme.
#[derive(Debug, Default)]
struct Probe {
    psi: Psi,
    programme: Option<Programme>,
    streams: Vec<Probed>,
    frames: VecDeque<Frame>,
}

#[derive(Debug)]
struct Probed {
    stream: ElementaryStream,
    /// DTS of the first frame with timestamps.
    first: Option<u64>,
}

impl Probe {
    fn take(&mut self, event: &Event<'_>) {
        let Event::Packets(run) = event else { return };
        self.packets(run);
    }

    fn packets(&mut self, run: &Packets<'_>) {
        for packet in run.iter().filter_map(Packet::new) {
            let pid = packet.pid();
            if self.psi.reads(pid) {
                self.psi.push(packet);
                self.choose(false);
            }
            let probed = self.streams.iter_mut().find(|probed| probed.stream.stream.pid == pid);
            let Some(probed) = probed.filter(|probed| !probed.is_known()) else { continue };
            probed.stream.push(packet, &mut self.frames);
            probed.note(&mut self.frames);
        }
    }

    /// Chooses the first programme with a supported codec. Waits for the maps of programmes before it, unless
    /// it is `late`.
    fn choose(&mut self, late: bool) {
        if self.programme.is_some() {
            return;
        }
        let mut programmes =
            self.psi.current_programmes().take_while(|known| late || known.is_some()).flatten();
        let read = |programme: &&Programme| programme.streams.iter().any(|stream| stream.codec.is_demuxed());
        let programme = match late {
            false => programmes.find(read),
            true => self.psi.current_programmes().flatten().find(read).or_else(|| programmes.next()),
        };
        let Some(programme) = programme else { return };
        let streams = programme.streams.iter().cloned().map(ElementaryStream::new);
        self.streams = streams.map(|stream| Probed { stream, first: None }).collect();
        self.programme = Some(programme.clone());
    }

    fn is_complete(&self) -> bool {
        !self.streams.is_empty() && self.streams.iter().all(Probed::is_known)
    }

    fn finish(mut self, size: u64) -> Result<Movie, Error> {
        let programme = self.programme.ok_or(Error::NoProgramme)?;
        for probed in self.streams.iter_mut().filter(|probed| !probed.is_known()) {
            probed.stream.finish(&mut self.frames);
            probed.note(&mut self.frames);
        }
        let (mut tracks, mut streams, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        for probed in &self.streams {
            match probed.track() {
                Ok(track) => {
                    tracks.push(Track { shift: -LEAD_S * i64::from(track.timescale), ..track });
                    streams.push(probed.stream.stream.clone());
                }
                Err(error) => faults.push((probed.stream.stream.pid.into(), error)),
            }
        }
        let mut firsts = self.streams.iter().filter_map(|probed| probed.first);
        let first = firsts.next().unwrap_or(0) as i64;
        let steps = firsts.map(|other| difference(other as i64, first));
        let step = steps.filter(|step| step.abs() <= MAX_APART).fold(0, i64::min);
        let zero = (first + step).rem_euclid(1 << 33) as u64;
        Ok(Movie { tracks, faults, programme: programme.number, streams, zero, size })
    }
}

impl Probed {
    fn is_known(&self) -> bool {
        !self.stream.is_read() || self.first.is_some() && self.stream.track().is_some()
    }

    fn note(&mut self, frames: &mut VecDeque<Frame>) {
        let stamps = frames.drain(..).filter_map(|frame| frame.stamp);
        let first = stamps.map(|stamp| stamp.dts).next();
        self.first = self.first.or(first);
    }

    fn track(&self) -> Result<Track, Error> {
        let codec = self.stream.stream.codec.name();
        match self.stream.track() {
            Some(Track { codec: Codec::Aac(AudioConfig { channels: 0, .. }), .. }) => Err(Error::Channels),
            Some(track) if self.is_known() => Ok(track),
            _ if self.stream.is_scrambled() => Err(Error::Scrambled),
            _ => Err(Error::NoFrames { codec }),
        }
    }
}

impl Movie {
    /// Keeps the tracks for which `keep` returns `true`.
    pub fn retain(&mut self, mut keep: impl FnMut(&Track) -> bool) {
        let kept: Vec<bool> = self.tracks.iter().map(&mut keep).collect();
        let mut flags = kept.iter();
        self.tracks.retain(|_| flags.next().is_some_and(|kept| *kept));
        let mut flags = kept.iter();
        self.streams.retain(|_| flags.next().is_some_and(|kept| *kept));
    }

    /// Returns the samples from the beginning.
    pub fn samples(&self) -> Samples {
        Samples::new(self.programme, &self.tracks, &self.streams, self.zero, self.size)
    }
}
