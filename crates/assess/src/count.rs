//! The experiment `count`: counts of kernel calls and copies for every line of the papers' tables 3 and 4.
//!
//! Calls are counted by the tracepoint that every system call passes, copies by probes on the kernel's copy
//! functions. Nothing is timed: counts are the same on a slow or emulated machine.

mod lines;
mod probes;
mod reasons;
mod table;

use crate::calls::Calls;
use crate::case::Case;
use crate::error::Error;
use crate::findings::{self, Findings, Soundness};
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Counted, Transport};
use crate::rounds::{self, Runs};
use crate::test_bed::TestBed;
use crate::test_files::Media;
use lines::{LINES, Line};
use probes::Probes;
pub use reasons::reasons;
pub use table::tables;

/// Packets sent without a receiver: some hundred of them cross a page boundary.
const PACKETS: u64 = 1024;

/// Payload of a whole file over TCP: what a connection has room for.
const WHOLE_FILE: u64 = 64 << 10;

/// Payload of the file that packets are made from.
const FILE: u64 = 4 << 20;

/// Counts, and adds the counts to `result`, also the counts made before an error. Paths that are not
/// available are left out.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let options = Options { volume: FILE, ..options.clone() };
    findings::experiment(&options, result, progress, |test_bed, found| {
        match Calls::new().and_then(|calls| Ok((calls, Probes::new()?))) {
            Ok((calls, probes)) => on(test_bed, &options, calls, &probes, found),
            Err(Error::Unable(why)) => {
                found.leave_out("kernel calls and copies", &why);
                Ok(())
            }
            Err(error) => Err(error),
        }
    })
}

fn on(
    test_bed: &TestBed,
    options: &Options,
    mut calls: Calls,
    probes: &Probes,
    found: &mut Findings<'_>,
) -> Result<(), Error> {
    let room = test_bed.udp_payload_limit(options.mtu);
    let cases = found.without_missing_module(LINES.iter().map(|line| line.case(room)).collect());
    found.note_tcp_peer(test_bed);
    let mut media = Media::open_for(&cases, options, found)?;
    let mut runs = Runs::new(options, test_bed, &mut media, found);
    let counted = found.each((1.0, "counting"), &cases, Case::label, |found, case| {
        runs.verify(case, found)?;
        let counted = of_case(&mut runs, case, &mut calls, probes)?;
        found.result.counts.push(counted);
        Ok(())
    });
    counted.map(drop)
}

fn of_case(runs: &mut Runs<'_>, case: &Case, calls: &mut Calls, probes: &Probes) -> Result<Counted, Error> {
    let length = runs.media.length().min(case.size.map_or(WHOLE_FILE, |size| PACKETS * u64::from(size)));
    // As if the file ended there.
    let walk = case.walk(length, length);
    let mut counts = None;
    let sent = runs.send(case, |sending, watch| {
        let ((sent, calls), copies) = probes.during(|| rounds::counted(case, walk, sending, watch, calls))?;
        counts = Some((calls, copies));
        Ok(sent)
    })?;
    let (calls, copies) = counts.unwrap_or_default();
    Ok(Counted {
        path: case.path,
        transport: case.transport,
        size: case.size.map(u64::from),
        packets: sent.packets,
        payload_bytes: sent.bytes,
        header_bytes: sent.transport_bytes - sent.bytes,
        calls,
        copies,
    })
}

impl Line {
    /// Case of the line, where a packet has room for `udp_payload_limit` bytes of UDP payload.
    fn case(&self, udp_payload_limit: u32) -> Case {
        let size = match self.transport {
            Transport::Udp => crate::path_experiment::full_size(self.path, udp_payload_limit),
            Transport::Tcp => None,
        };
        Case::new(self.path, self.transport, size)
    }
}
