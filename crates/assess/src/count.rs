//! The experiment `count`: kernel calls and copies of every line of the papers' tables 3 and 4, counted.
//!
//! Calls are counted by the tracepoint that all of them pass, copies by probes on the functions of the kernel
//! that copy. Nothing is timed: what is counted is the same on a slow machine, and on an emulated one.

mod lines;
mod probes;
mod reasons;
mod table;

use crate::calls::Calls;
use crate::case::Case;
use crate::error::Error;
use crate::findings::Findings;
use crate::findings::{Soundness, with_what_is_there};
use crate::media::Media;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Counted, Experiment, Transport};
use crate::rounds::Rounds;
use crate::test_bed::{self, TestBed};
use crate::verify::verify;
use lines::{LINES, Line};
use probes::Probes;
pub use reasons::reasons;
pub use table::tables;

/// Packets that are sent without a receiver: some hundred of them cross a page.
const PACKETS: u64 = 1024;

/// Payload of a whole file over TCP: what a connection has room for.
const WHOLE_FILE: u64 = 64 << 10;

/// Payload of the file that packets are of.
const FILE: u64 = 4 << 20;

/// Counts, and adds what was counted to `result`, also what was counted before an error. Paths that are not
/// there are left out.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let options = Options { volume: FILE, ..options.clone() };
    let mut found = Findings::default();
    let mut counts = Vec::new();
    let outcome = test_bed::within(&options.sink, options.mtu, options.cpu, |test_bed| {
        match Counters::new() {
            Ok(mut counters) => on(test_bed, &options, &mut counters, &mut counts, &mut found, progress)?,
            Err(Error::Unable(why)) => found.leave_out("kernel calls and copies", &why),
            Err(error) => return Err(error),
        }
        Ok(test_bed.cpu)
    });
    result.counts.append(&mut counts);
    let soundness = found.add_to(result);
    result.settings.cpu = Some(outcome?);
    Ok(soundness)
}

struct Counters {
    calls: Calls,
    probes: Probes,
}

impl Counters {
    fn new() -> Result<Counters, Error> {
        Ok(Counters { calls: Calls::new()?, probes: Probes::new()? })
    }
}

fn on(
    test_bed: &TestBed,
    options: &Options,
    counters: &mut Counters,
    counts: &mut Vec<Counted>,
    found: &mut Findings,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let room = test_bed.udp_room(options.mtu);
    let cases: Vec<Case> = LINES.iter().map(|line| line.case(room)).collect();
    let there = with_what_is_there(cases.clone(), found);
    let mut media = Media::open_for(&there, options, progress)?;
    let mut rounds = Rounds::new(Experiment::Count, options, test_bed, &mut media, progress, found);
    for (index, (line, case)) in
        LINES.iter().zip(&cases).enumerate().filter(|(_, (_, case))| there.contains(case))
    {
        rounds.go_on(index as f64 / LINES.len() as f64, &format!("counting {}", case.label()))?;
        match of_line(&mut rounds, line, case, counters) {
            Ok(counted) => counts.push(counted),
            Err(error) => found.of_case(case, error)?,
        }
    }
    Ok(())
}

/// Counts one line, after its path was verified.
fn of_line(
    rounds: &mut Rounds<'_>,
    line: &Line,
    case: &Case,
    counters: &mut Counters,
) -> Result<Counted, Error> {
    rounds.media.want(case.content(), rounds.progress)?;
    verify(case, rounds.test_bed, rounds.media, &mut rounds.scratch)?;
    let length = rounds.media.length().min(case.size.map_or(WHOLE_FILE, |size| PACKETS * u64::from(size)));
    let mut found = None;
    let sent = rounds.send(case, length, |run| {
        run.of_a_file_of(length, case);
        run.shorten(case);
        let ((sent, calls), copies) = counters.probes.during(|| run.counted(case, &mut counters.calls))?;
        found = Some((calls, copies));
        Ok(sent)
    })?;
    let (calls, copies) = found.unwrap_or_default();
    Ok(Counted {
        path: line.path,
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
    /// Case of the line, where a packet has room for so much of UDP's payload.
    fn case(&self, udp_room: u32) -> Case {
        let size = match self.transport {
            Transport::Udp => crate::experiment::full_size(self.path, udp_room),
            Transport::Tcp => None,
        };
        Case::new(self.path, self.transport, size)
    }
}
