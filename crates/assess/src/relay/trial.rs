//! One run of a case, from setup to the processor time used.

mod datagrams;
mod records;
mod requests;

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::measured_process::{MeasuredProcess, ProcessorTime};
use super::pattern::Pattern;
use super::sinks::{Expected, Sinks};
use super::source::{Source, Volume};
use super::tagged::Tagged;
use super::task::{HEADER, LEFT_OUT, Shape, Task};
use crate::error::{Doing, Error};
use crate::progress::NoProgress;
use crate::result::{HandlerKind, Method, Part, RelayCase, RelayRun};
use crate::test_bed::TestBed;
use crate::test_files::unnamed_file;

/// Bytes that each stream of a crowd gets before the timed part, so that TCP windows have opened and buffers
/// have grown.
const FIRST: u64 = 2 << 20;

/// Buffer size of programs that copy requested data: that of `io.Copy` in Go.
const BUFFER: usize = 32 << 10;

/// State shared by the runs of an assessment.
pub(crate) struct Trials<'a> {
    pub(crate) test_bed: &'a TestBed,
    pub(crate) pattern: Arc<Pattern>,
    /// Folder for files that are written.
    pub(crate) scratch: PathBuf,
    /// Folder for files of other programs, removed with this value.
    pub(crate) folder: &'a Path,
    /// File to send, and its length.
    pub(crate) file: Option<(u64, File)>,
    /// Object of the eBPF handler.
    pub(crate) kernel_handler: Option<PathBuf>,
}

/// Result of a run.
pub(crate) struct Outcome {
    pub(crate) run: RelayRun,
    pub(crate) volume: Volume,
    /// Bytes received by each sink, if they were kept.
    pub(crate) contents: Vec<Vec<u8>>,
}

impl RelayCase {
    /// Volume of sources for about `bytes` bytes: a whole number of blocks.
    pub(crate) fn volume(&self, bytes: u64) -> Volume {
        let links = self.links as usize;
        let (connections, busy) = match self.part {
            Part::FileToSocket | Part::Files => (0, links), // each client gets the file
            Part::Stripe
            | Part::Random
            | Part::Mirror
            | Part::UdpMirror
            | Part::KernelTcp
            | Part::KernelUdp
            | Part::KernelMirror => (1, 1),
            _ => (links + self.idle as usize, links),
        };
        let unit = self.unit();
        let blocks = bytes / self.part.share() / busy as u64 / unit;
        Volume { connections, busy, first: 0, bytes_each: blocks.max(1) * unit, ends: true }
    }

    /// Record format of sources, if their records have tags.
    pub(crate) fn tagged(&self) -> Option<Tagged> {
        let tagged = Tagged { record: self.unit() as usize, sources: self.links as usize };
        (self.part == Part::Orders).then_some(tagged)
    }

    /// Bytes that arrive after the handler when `bytes` bytes are sent in whole records.
    fn handled_bytes(&self, bytes: u64) -> u64 {
        let records = bytes / self.unit();
        match self.handler {
            Some(HandlerKind::Select) => bytes - records * LEFT_OUT as u64,
            Some(HandlerKind::Grow) => bytes + records * HEADER.len() as u64,
            _ => bytes,
        }
    }

    /// Unit of a volume: a record, or a block that is read at a time. In a crowd, where each stream has few
    /// such units, a page.
    fn unit(&self) -> u64 {
        self.block.filter(|_| self.part != Part::Crowd).unwrap_or(4096)
    }
}

impl Trials<'_> {
    /// Moves about `bytes` bytes; `keep` the data received by the sinks or discard it.
    pub(crate) fn run(&mut self, case: &RelayCase, bytes: u64, keep: bool) -> Result<Outcome, Error> {
        let mut volume = case.volume(bytes);
        // The cost of a crowd is that of running streams. A hundred times as many streams would also begin
        // and end a hundred times as often, which is excluded.
        if case.part == Part::Crowd && !keep {
            (volume.first, volume.ends) = (FIRST, false);
        }
        match case.part {
            Part::UdpMirror => self.datagrams(case, volume, keep),
            Part::KernelTcp | Part::KernelUdp | Part::KernelMirror => self.records(case, volume, keep),
            Part::Files | Part::FileProxy => self.requests(case, volume, keep),
            _ => self.connections(case, volume, keep),
        }
    }

    fn connections(&mut self, case: &RelayCase, volume: Volume, keep: bool) -> Result<Outcome, Error> {
        let files = self.files(case, volume)?;
        let source = match case.part {
            Part::FileToSocket => None,
            _ => Some(Source::start(self.test_bed, &self.pattern, volume, case.tagged())?),
        };
        let address = source.as_ref().map(|source| source.address);
        let mut side = self.side(case, shape(case, &files), address)?;
        let sinks = self.sinks(case, volume, side.port, keep)?;
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
        // The sinks keep their connections open: closing ten thousand of them is not part of the measurement.
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
        complete(case, volume, &counts)?;
        source.map(Source::finish).transpose()?;
        let sent = volume.busy as u64 * volume.bytes_each;
        let run = run(before, used, ended - start, sent, counts.iter().sum());
        Ok(Outcome { run, volume, contents })
    }

    /// Connections to the measured process, if data goes to connections.
    fn sinks(&self, case: &RelayCase, volume: Volume, port: u16, keep: bool) -> Result<Option<Sinks>, Error> {
        let number = outputs(case);
        if number == 0 {
            return Ok(None);
        }
        let to = SocketAddr::new(self.test_bed.near_address()?, port);
        let enough = (!volume.ends).then_some(volume.first + volume.bytes_each);
        Sinks::connect(self.test_bed, to, number, Expected { first: volume.first, enough }, keep).map(Some)
    }

    /// Starts the measured process, which then listens.
    fn side(
        &self,
        case: &RelayCase,
        shape: Shape,
        source: Option<SocketAddr>,
    ) -> Result<MeasuredProcess, Error> {
        let listen: IpAddr = self.test_bed.near_address()?;
        if let Method::Program(program) = case.method {
            let backend = source.ok_or_else(|| Error::Unable("it relays connections only".to_owned()))?;
            return program.start(listen, backend, self.folder);
        }
        let inputs = match case.part {
            Part::FileToSocket | Part::Files | Part::UdpMirror | Part::KernelUdp | Part::KernelMirror => 0,
            Part::Stripe | Part::Random | Part::Mirror => 1,
            _ => (case.links + case.idle) as usize,
        };
        let RelayCase { method, touch, handler, order, .. } = *case;
        let block_bytes = match case.part {
            Part::Files | Part::FileProxy => BUFFER,
            _ => case.block.unwrap_or(1) as usize,
        };
        let outputs = outputs(case);
        MeasuredProcess::forwarder(&Task {
            method,
            shape,
            touch,
            handler,
            order,
            block_bytes,
            listen,
            outputs,
            source,
            inputs,
            judged: self.judged(case),
        })
    }

    /// Files to send, or files to write.
    fn files(&mut self, case: &RelayCase, volume: Volume) -> Result<Vec<File>, Error> {
        match case.part {
            Part::FileToSocket => Ok(vec![self.file(volume.bytes_each)?]),
            Part::SocketToFile => (0..case.links)
                .map(|_| unnamed_file(&self.scratch, 0, &mut NoProgress, |_: &mut Vec<u8>| Ok(())))
                .collect(),
            _ => Ok(Vec::new()),
        }
    }

    /// File of this length; made again if the last file had another length.
    fn file(&mut self, length: u64) -> Result<File, Error> {
        if self.file.as_ref().is_none_or(|(known, _)| *known != length) {
            let mut position = 0;
            let pattern = Arc::clone(&self.pattern);
            let content = |block: &mut Vec<u8>| {
                *block = pattern.bytes(position, 1 << 20);
                position += 1 << 20;
                Ok(())
            };
            self.file = Some((length, unnamed_file(&self.scratch, length, &mut NoProgress, content)?));
        }
        let (_, file) = self.file.as_ref().ok_or_else(|| Error::Unable("no file was made".to_owned()))?;
        file.try_clone().doing("opening the file that is sent")
    }
}

/// Byte counts of the timed part.
fn timed(counts: Vec<u64>, volume: Volume) -> Vec<u64> {
    counts.into_iter().map(|count| count.saturating_sub(volume.first)).collect()
}

fn outputs(case: &RelayCase) -> usize {
    match case.part {
        Part::SocketToFile | Part::UdpMirror | Part::KernelUdp | Part::KernelMirror => 0,
        _ if case.method == Method::Discard => 0,
        Part::Merge | Part::Orders => 1,
        _ => case.links as usize,
    }
}

fn shape(case: &RelayCase, files: &[File]) -> Shape {
    // Other processes open these files by these names while this process has them open.
    let name = |file: &File| PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    match case.part {
        Part::FileToSocket => Shape::FileToSocket(files.first().map(name).unwrap_or_default()),
        Part::SocketToFile => Shape::SocketToFile(files.iter().map(name).collect()),
        Part::Merge | Part::Orders => Shape::Merge,
        Part::Stripe => Shape::Stripe,
        Part::Random => Shape::Random,
        Part::Mirror => Shape::Mirror,
        Part::SocketToSocket
        | Part::Crowd
        | Part::UdpMirror
        | Part::KernelTcp
        | Part::KernelUdp
        | Part::KernelMirror => Shape::SocketToSocket,
        Part::Files => Shape::Files(files.first().map(name).unwrap_or_default(), case.unit()),
        Part::FileProxy => Shape::FileProxy(case.unit()),
    }
}

fn run(before: ProcessorTime, after: ProcessorTime, wall: Duration, bytes: u64, delivered: u64) -> RelayRun {
    let (user_s, system_s) = after.since(before);
    RelayRun {
        user_s,
        system_s,
        wall_s: wall.as_secs_f64(),
        bytes,
        delivered,
        machine_s: None,
        tasks_s: None,
        taken: None,
    }
}

/// Lengths of the written files, and their contents if `keep`.
fn written(files: &[File], keep: bool) -> Result<(Vec<u64>, Vec<Vec<u8>>), Error> {
    let doing = "looking at what was written";
    let length = |file: &File| Ok(file.metadata().doing(doing)?.len());
    let counts = files.iter().map(length).collect::<Result<_, Error>>()?;
    let content = |file: &File| fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).doing(doing);
    let contents = if keep { files.iter().map(content).collect::<Result<_, Error>>()? } else { Vec::new() };
    Ok((counts, contents))
}

/// Checks that the expected number of bytes arrived, for each sink if it is known.
fn complete(case: &RelayCase, volume: Volume, counts: &[u64]) -> Result<(), Error> {
    let Volume { busy, bytes_each, .. } = volume;
    let came: u64 = counts.iter().sum();
    let bytes_each = case.handled_bytes(bytes_each);
    let expected = match case.part {
        Part::Mirror | Part::UdpMirror => bytes_each * case.links as u64,
        _ => bytes_each * busy as u64,
    };
    let alike = matches!(case.part, Part::FileToSocket | Part::SocketToFile | Part::Mirror | Part::UdpMirror);
    let uneven = alike && counts.iter().any(|count| *count != bytes_each);
    if came != expected || uneven {
        return Err(Error::Faulty(format!("received {came} of {expected} bytes at {} sinks", counts.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::cases::cases;

    #[test]
    fn volumes_are_whole_blocks_and_never_nothing() {
        for case in Part::ALL.into_iter().flat_map(cases) {
            for bytes in [1, 1 << 20, 1 << 30] {
                let volume = case.volume(bytes);
                assert!(volume.bytes_each > 0, "{}", case.label());
                assert_eq!(volume.bytes_each % case.unit(), 0);
            }
            let sent = case.volume(1 << 30).bytes_each * case.volume(1 << 30).busy as u64;
            let wanted = (1u64 << 30) / case.part.share();
            assert!(sent <= wanted && sent > wanted * 99 / 100, "{}: {sent}", case.label());
        }
    }

    /// Promise: Verification finds a wrong, lost, repeated, misdirected or reordered byte.
    #[test]
    fn what_is_lost_or_goes_to_the_wrong_sink_is_no_figure() {
        let case = cases(Part::Mirror).into_iter().find(|case| case.links == 4).unwrap();
        let volume = Volume { connections: 1, busy: 1, first: 0, bytes_each: 100, ends: true };
        assert!(complete(&case, volume, &[100; 4]).is_ok());
        assert!(complete(&case, volume, &[100, 100, 100, 99]).is_err());
        assert!(complete(&case, volume, &[101, 99, 100, 100]).is_err());
    }
}
