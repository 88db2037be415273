//! One run of a cell: everything is set up, moved and counted, and what the measured side used for it is answered.

mod datagrams;

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cells::{Cell, Part, Way};
use super::pattern::Pattern;
use super::side::{Side, Spent};
use super::sinks::{Expected, Sinks};
use super::source::{Source, Volume};
use super::task::{How, Shape, Task};
use crate::error::{Doing, Error};
use crate::media::nameless;
use crate::progress::Unwatched;
use crate::result::RelayRun;
use crate::stage::Stage;

/// Bytes that each stream of a crowd gets before it is timed: by then windows have opened, and buffers have grown.
const FIRST: u64 = 2 << 20;

/// What runs of an assessment share.
pub(crate) struct Trials<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) pattern: Arc<Pattern>,
    /// For what is written.
    pub(crate) scratch: PathBuf,
    /// For what other programs want written, and gone with this.
    pub(crate) folder: &'a Path,
    /// The file that is sent, and how long it is.
    pub(crate) file: Option<(u64, File)>,
}

/// What came of a run.
pub(crate) struct Outcome {
    pub(crate) run: RelayRun,
    pub(crate) volume: Volume,
    /// What came to each sink, if it was kept.
    pub(crate) contents: Vec<Vec<u8>>,
}

impl Cell {
    /// What sources send of about so many bytes: whole blocks, and some.
    pub(crate) fn volume(&self, bytes: u64) -> Volume {
        let (connections, busy) = match self.part {
            Part::FileToSocket => (0, self.links), // each client gets the file
            Part::Stripe | Part::Random | Part::Mirror | Part::UdpMirror => (1, 1),
            _ => (self.links + self.idle, self.links),
        };
        let unit = self.unit();
        let blocks = bytes / self.part.share() / busy as u64 / unit;
        Volume { connections, busy, first: 0, bytes_each: blocks.max(1) * unit, ends: true }
    }

    /// What a volume is a multiple of: records, or what is read at a time. Each of a thousand gets few such, so of a crowd pages.
    fn unit(&self) -> u64 {
        self.block.filter(|_| self.part != Part::Crowd).map_or(4096, |block| block as u64)
    }
}

impl Trials<'_> {
    /// Moves about so many bytes; `keep` what comes to the sinks or throw it away.
    ///
    /// # Errors
    /// [`Error::Faulty`] if not all of it came; what ends the assessment.
    pub(crate) fn run(&mut self, cell: &Cell, bytes: u64, keep: bool) -> Result<Outcome, Error> {
        let mut volume = cell.volume(bytes);
        // What a crowd costs is what it costs to go on: a hundred times as many streams begin, and end, a hundred times as often.
        if cell.part == Part::Crowd && !keep {
            (volume.first, volume.ends) = (FIRST, false);
        }
        match cell.part {
            Part::UdpMirror => self.datagrams(cell, volume, keep),
            _ => self.connections(cell, volume, keep),
        }
    }

    fn connections(&mut self, cell: &Cell, volume: Volume, keep: bool) -> Result<Outcome, Error> {
        let files = self.files(cell, volume)?;
        let source = match cell.part {
            Part::FileToSocket => None,
            _ => Some(Source::start(self.stage, &self.pattern, volume)?),
        };
        let address = source.as_ref().map(|source| source.address);
        let mut side = self.side(cell, shape(cell, &files), address)?;
        let sinks = self.sinks(cell, volume, side.port, keep)?;
        side.wait_ready()?;
        source.as_ref().map_or(Ok(()), Source::wait_accepted)?;
        let (mut before, mut start) = (side.spent()?, Instant::now());
        side.go()?;
        if volume.first > 0 {
            source.iter().for_each(Source::open);
            sinks.iter().try_for_each(Sinks::wait_first)?;
            (before, start) = (side.spent()?, Instant::now());
        }
        source.iter().for_each(Source::open);
        // What arrived keeps its connections open: to see ten thousand of them close is no part of moving bytes.
        let arrived = sinks.map(Sinks::finish).transpose()?;
        if arrived.is_none() {
            side.wait_done()?;
        }
        let ended = arrived.as_ref().map_or_else(Instant::now, |arrived| arrived.ended);
        side.wait_for_children()?;
        let used = side.spent()?;
        let (counts, contents) = match arrived {
            Some(arrived) => (timed(arrived.counts, volume), arrived.contents),
            None => written(&files, keep)?,
        };
        complete(cell, volume, &counts)?;
        source.map(Source::finish).transpose()?;
        let sent = volume.busy as u64 * volume.bytes_each;
        let run = run(before, used, ended - start, sent, counts.iter().sum());
        Ok(Outcome { run, volume, contents })
    }

    /// Connections to what is measured, if data goes to any.
    fn sinks(&self, cell: &Cell, volume: Volume, port: u16, keep: bool) -> Result<Option<Sinks>, Error> {
        let number = outputs(cell);
        if number == 0 {
            return Ok(None);
        }
        let to = SocketAddr::new(self.stage.near_address()?, port);
        let enough = (!volume.ends).then_some(volume.first + volume.bytes_each);
        Sinks::connect(self.stage, to, number, Expected { first: volume.first, enough }, keep).map(Some)
    }

    /// The process that is measured; it listens.
    fn side(&self, cell: &Cell, shape: Shape, source: Option<SocketAddr>) -> Result<Side, Error> {
        let listen: IpAddr = self.stage.near_address()?;
        let how = match cell.way {
            Way::ReadWrite => How::ReadWrite,
            Way::Sendfile => How::Sendfile,
            Way::Splice => How::Splice,
            Way::Uring => How::Uring,
            Way::Streams => How::Streams,
            Way::Program(program) => {
                let backend = source.ok_or_else(|| Error::Unable("it relays connections only".to_owned()))?;
                return program.start(listen, backend, self.folder);
            }
        };
        let inputs = match cell.part {
            Part::FileToSocket | Part::UdpMirror => 0,
            Part::Stripe | Part::Random | Part::Mirror => 1,
            _ => cell.links + cell.idle,
        };
        let block_bytes = cell.block.unwrap_or(1);
        let outputs = outputs(cell);
        Side::mover(&Task { how, shape, touch: cell.touch, block_bytes, listen, outputs, source, inputs })
    }

    /// The file that is sent, or those that are written.
    fn files(&mut self, cell: &Cell, volume: Volume) -> Result<Vec<File>, Error> {
        match cell.part {
            Part::FileToSocket => Ok(vec![self.file(volume.bytes_each)?]),
            Part::SocketToFile => (0..cell.links)
                .map(|_| nameless(&self.scratch, 0, &mut Unwatched, |_: &mut Vec<u8>| Ok(())))
                .collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// A file of this length, made if the last one had another.
    fn file(&mut self, length: u64) -> Result<File, Error> {
        if self.file.as_ref().is_none_or(|(known, _)| *known != length) {
            let mut position = 0;
            let pattern = Arc::clone(&self.pattern);
            let content = |block: &mut Vec<u8>| {
                *block = pattern.bytes(position, 1 << 20);
                position += 1 << 20;
                Ok(())
            };
            self.file = Some((length, nameless(&self.scratch, length, &mut Unwatched, content)?));
        }
        let (_, file) = self.file.as_ref().ok_or_else(|| Error::Unable("no file was made".to_owned()))?;
        file.try_clone().doing("opening the file that is sent")
    }
}

/// What came of what is timed.
fn timed(counts: Vec<u64>, volume: Volume) -> Vec<u64> {
    counts.into_iter().map(|count| count.saturating_sub(volume.first)).collect()
}

fn outputs(cell: &Cell) -> usize {
    match cell.part {
        Part::SocketToFile | Part::UdpMirror => 0,
        Part::Merge => 1,
        _ => cell.links,
    }
}

fn shape(cell: &Cell, files: &[File]) -> Shape {
    // Others open our files by these names while we have them open.
    let name = |file: &File| PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    match cell.part {
        Part::FileToSocket => Shape::FileToSocket(files.first().map(name).unwrap_or_default()),
        Part::SocketToFile => Shape::SocketToFile(files.iter().map(name).collect()),
        Part::Merge => Shape::Merge,
        Part::Stripe => Shape::Stripe,
        Part::Random => Shape::Random,
        Part::Mirror => Shape::Mirror,
        Part::SocketToSocket | Part::Crowd | Part::UdpMirror => Shape::SocketToSocket,
    }
}

fn run(before: Spent, after: Spent, wall: Duration, bytes: u64, delivered: u64) -> RelayRun {
    let (user_s, system_s) = after.since(before);
    RelayRun { user_s, system_s, wall_s: wall.as_secs_f64(), bytes, delivered }
}

/// What was written to files: how much, and what if that is to be kept.
fn written(files: &[File], keep: bool) -> Result<(Vec<u64>, Vec<Vec<u8>>), Error> {
    let doing = "looking at what was written";
    let length = |file: &File| Ok(file.metadata().doing(doing)?.len());
    let counts = files.iter().map(length).collect::<Result<_, Error>>()?;
    let content = |file: &File| fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).doing(doing);
    let contents = if keep { files.iter().map(content).collect::<Result<_, Error>>()? } else { Vec::new() };
    Ok((counts, contents))
}

/// Whether as much came as should, to each sink as far as that is known.
fn complete(cell: &Cell, volume: Volume, counts: &[u64]) -> Result<(), Error> {
    let Volume { busy, bytes_each, .. } = volume;
    let came: u64 = counts.iter().sum();
    let expected = match cell.part {
        Part::Mirror | Part::UdpMirror => bytes_each * cell.links as u64,
        _ => bytes_each * busy as u64,
    };
    let alike = matches!(cell.part, Part::FileToSocket | Part::SocketToFile | Part::Mirror | Part::UdpMirror);
    let uneven = alike && counts.iter().any(|count| *count != bytes_each);
    if came != expected || uneven {
        return Err(Error::Faulty(format!(
            "{came} bytes came of {expected} that should, to {} sinks",
            counts.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::cells::cells;

    #[test]
    fn volumes_are_whole_blocks_and_never_nothing() {
        for cell in Part::ALL.into_iter().flat_map(cells) {
            for bytes in [1, 1 << 20, 1 << 30] {
                let volume = cell.volume(bytes);
                assert!(volume.bytes_each > 0, "{}", cell.label());
                assert_eq!(volume.bytes_each % cell.unit(), 0);
            }
            let sent = cell.volume(1 << 30).bytes_each * cell.volume(1 << 30).busy as u64;
            let wanted = (1u64 << 30) / cell.part.share();
            assert!(sent <= wanted && sent > wanted * 99 / 100, "{}: {sent}", cell.label());
        }
    }

    /// Promise: A byte that is wrong, lost, doubled, misdirected or out of order is found.
    #[test]
    fn what_is_lost_or_goes_to_the_wrong_sink_is_no_figure() {
        let cell = cells(Part::Mirror).into_iter().find(|cell| cell.links == 4).unwrap();
        let volume = Volume { connections: 1, busy: 1, first: 0, bytes_each: 100, ends: true };
        assert!(complete(&cell, volume, &[100; 4]).is_ok());
        assert!(complete(&cell, volume, &[100, 100, 100, 99]).is_err());
        assert!(complete(&cell, volume, &[101, 99, 100, 100]).is_err());
    }
}
