//! The experiment `count`: kernel calls and copies of every line of the papers' tables 3 and 4, counted.
//!
//! Calls are counted by the tracepoint that all of them pass, copies by probes on the functions of the kernel that copy. Nothing is timed: what is counted is the same on a slow machine, and on an emulated one.

mod lines;
mod probes;
mod reasons;
mod table;

use crate::calls::Calls;
use crate::error::Error;
use crate::experiment::{Soundness, with_what_is_there};
use crate::media::Media;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Counted, Transport};
use crate::rounds::{Found, Rounds};
use crate::stage::{self, Stage};
use crate::verify::verify;
use crate::way::Cell;
use lines::{LINES, Line};
use probes::Probes;
pub use reasons::reasons;
pub use table::tables;

/// Packets that are sent, where nobody has to have room for them: some hundred of them cross a page.
const PACKETS: u64 = 1024;

/// Payload of a whole file over TCP: what a connection has room for.
const WHOLE_FILE: u64 = 64 << 10;

/// Payload of the file that packets are of.
const FILE: u64 = 4 << 20;

/// Counts, and adds what was counted to `result`, also what was counted before an error. Paths that are not there are left out.
///
/// # Errors
/// What ends the assessment; [`Error::Stopped`] if whoever watches says so.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let options = Options { volume: FILE, ..options.clone() };
    let mut found = Found::default();
    let mut counts = Vec::new();
    let outcome = stage::within(&options.sink, options.mtu, options.cpu, |stage| {
        match Counters::new() {
            Ok(mut counters) => on(stage, &options, &mut counters, &mut counts, &mut found, progress)?,
            Err(Error::Unable(why)) => found.leave_out("kernel calls and copies", &why),
            Err(error) => return Err(error),
        }
        Ok(stage.cpu)
    });
    result.counts.append(&mut counts);
    result.left_out.append(&mut found.left_out);
    result.settings.cpu = Some(outcome?);
    Ok(if found.faults == 0 { Soundness::Sound } else { Soundness::Faulty })
}

/// Of the calling thread.
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
    stage: &Stage,
    options: &Options,
    counters: &mut Counters,
    counts: &mut Vec<Counted>,
    found: &mut Found,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let room = stage.udp_room(options.mtu);
    let cells: Vec<Cell> = LINES.iter().map(|line| line.cell(room)).collect();
    let there = with_what_is_there(cells.clone(), found);
    let mut media = Media::open_for(&there, options, progress)?;
    let mut rounds = Rounds::new("count", options, stage, &mut media, progress, found);
    for (index, (line, cell)) in
        LINES.iter().zip(&cells).enumerate().filter(|(_, (_, cell))| there.contains(cell))
    {
        rounds.go_on(index as f64 / LINES.len() as f64, &format!("counting {}", cell.label()))?;
        match of_line(&mut rounds, line, cell, counters) {
            Ok(counted) => counts.push(counted),
            Err(error) => found.of_cell(cell, error)?,
        }
    }
    Ok(())
}

/// One line, whose path is verified before, as when it is timed.
fn of_line(
    rounds: &mut Rounds<'_>,
    line: &Line,
    cell: &Cell,
    counters: &mut Counters,
) -> Result<Counted, Error> {
    rounds.media.want(cell.kind(), rounds.progress)?;
    verify(cell, rounds.stage, rounds.media, &mut rounds.scratch)?;
    let length = rounds.media.length().min(cell.size.map_or(WHOLE_FILE, |size| PACKETS * u64::from(size)));
    let mut found = None;
    let sent = rounds.send(cell, length, |run| {
        run.of_a_file_of(length, cell);
        run.shorten(cell);
        let ((sent, calls), copies) = counters.probes.during(|| run.counted(cell, &mut counters.calls))?;
        found = Some((calls, copies));
        Ok(sent)
    })?;
    let (calls, copies) = found.unwrap_or_default();
    Ok(Counted {
        path: line.way.name().to_owned(),
        transport: cell.transport,
        size: cell.size.map(u64::from),
        packets: sent.packets,
        payload_bytes: sent.bytes,
        header_bytes: sent.transport_bytes - sent.bytes,
        calls,
        copies,
    })
}

impl Line {
    /// What is sent for it, where a packet has room for so much of UDP's payload.
    fn cell(&self, udp_room: u32) -> Cell {
        let size = match self.transport {
            Transport::Udp => crate::experiment::full_size(self.way, udp_room),
            Transport::Tcp => None,
        };
        Cell::new(self.way, self.transport, size)
    }
}
