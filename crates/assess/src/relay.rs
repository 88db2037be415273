//! The experiment `relay`: the stream service beside loops of `read` and `write`, and beside programs that people relay with
//! (section 5.1 of the KStreams paper).
//!
//! ```text
//!   sources --------> the measured side --------> sinks
//!   threads of this   a process of its own,       threads of this process, on other processors and,
//!   process           on its processor            with root, at the other end of a veth pair
//! ```
//!
//! Whatever moves the data does nothing else in its process, so all that the process uses is what moving costs. Before a way is timed,
//! a little is moved by it and compared byte for byte.

mod cells;
mod check;
mod datagrams;
mod mover;
mod pattern;
mod programs;
mod side;
mod sinks;
mod source;
mod targets;
mod task;
mod trial;

use std::sync::Arc;

use crate::error::Error;
use crate::experiment::Soundness;
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::result::{Assessment, Cache, RelayCost};
use crate::rounds::Found;
use crate::stage::{self, Stage};
use cells::{Cell, Way, cells};
use pattern::Pattern;
use trial::Trials;

pub use cells::{Part, UnknownPart};
pub use mover::serve;
pub use targets::{Target, targets};

/// What is moved and compared before anything is timed, at most.
const VERIFIED: u64 = 2 << 20;

/// Share of the time that goes into that, about.
const BEFORE: f64 = 0.1;

/// Makes the experiment, and adds what it found to `result`, also before an error.
///
/// # Errors
/// What ends the assessment; [`Error::Stopped`] if whoever watches says so.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    if let Sink::Host(address) = &options.sink {
        return Err(Error::Input(format!(
            "relay measures what is between two ends, and both are on this machine: not {address}, but veth or loopback"
        )));
    }
    // Both ends have many connections; what is measured says itself if it has too few.
    mover::allow_descriptors();
    let mut found = Found::default();
    explain(options, &mut found);
    let mut costs = Vec::new();
    let outcome = stage::within(&options.sink, options.mtu, options.cpu, |stage| {
        result.settings.cpu = Some(stage.cpu);
        Rounds::new(options, stage, progress)?.run(&mut costs, &mut found)
    });
    costs.retain(|cost: &RelayCost| !cost.runs.is_empty());
    result.relay.append(&mut costs);
    result.left_out.append(&mut found.left_out);
    outcome?;
    Ok(if found.faults == 0 { Soundness::Sound } else { Soundness::Faulty })
}

/// Says what is not as somebody may think.
fn explain(options: &Options, found: &mut Found) {
    if options.cache == Cache::Cold {
        found.leave_out("relay from storage", &"the file that is sent is in the page cache");
    }
    if options.file.is_some() {
        let why = "sources send bytes of which every one is known, so that what arrives can be compared";
        found.leave_out("relay of a file of one's own", &why);
    }
    let parts = wanted(options);
    if parts.contains(&Part::UdpMirror) {
        found.leave_out("udp-mirror by socat", &"it sends what it receives to one receiver, not to 64");
    }
}

/// The parts that are asked for.
fn wanted(options: &Options) -> Vec<Part> {
    Part::ALL.into_iter().filter(|part| options.parts.is_empty() || options.parts.contains(part)).collect()
}

/// Runs of all cells in turn.
struct Rounds<'a> {
    options: &'a Options,
    stage: &'a Stage,
    progress: &'a mut dyn Progress,
    pattern: Arc<Pattern>,
}

impl<'a> Rounds<'a> {
    fn new(
        options: &'a Options,
        stage: &'a Stage,
        progress: &'a mut dyn Progress,
    ) -> Result<Rounds<'a>, Error> {
        Ok(Rounds { options, stage, progress, pattern: Arc::new(Pattern::new()?) })
    }

    /// Verifies and times all cells. What was found until an error is in `costs` and `found`.
    fn run(mut self, costs: &mut Vec<RelayCost>, found: &mut Found) -> Result<(), Error> {
        let folder = Folder::make()?;
        let mut trials = Trials {
            stage: self.stage,
            pattern: Arc::clone(&self.pattern),
            scratch: self.options.scratch.clone(),
            folder: &folder.0,
            file: None,
        };
        let wanted: Vec<Cell> = wanted(self.options).into_iter().flat_map(cells).collect();
        let mut admitted = Vec::new();
        for (index, cell) in wanted.iter().enumerate() {
            let share = BEFORE * index as f64 / wanted.len() as f64;
            self.go_on(share, &format!("verifying {}", cell.label()))?;
            match self.verify(&mut trials, cell) {
                Ok(()) => admitted.push(*cell),
                Err(error) => found.of_label(&cell.label(), error)?,
            }
        }
        costs.extend(admitted.iter().map(|cell| self.measurement(cell)));
        let rounds = self.options.runs;
        for round in 0..rounds {
            for index in 0..admitted.len() {
                let cell = &admitted[index];
                let done = (round as usize * admitted.len() + index) as f64;
                let share = BEFORE + (1.0 - BEFORE) * done / (rounds as usize * admitted.len()) as f64;
                // One that failed is not tried again.
                if costs[index].runs.len() < round as usize {
                    continue;
                }
                self.go_on(share, &format!("round {} of {rounds}: {}", round + 1, cell.label()))?;
                match trials.run(cell, self.options.volume, false) {
                    Ok(outcome) => costs[index].runs.push(outcome.run),
                    Err(error) => {
                        costs[index].runs.clear(); // what was measured of it before is no figure either
                        found.of_label(&cell.label(), error)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn go_on(&mut self, share: f64, doing: &str) -> Result<(), Error> {
        self.progress.at(share, doing);
        if self.progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Moves a little, and compares what arrived.
    fn verify(&self, trials: &mut Trials<'_>, cell: &Cell) -> Result<(), Error> {
        if let Way::Program(program) = cell.way {
            program.find()?;
        }
        if cell.part == Part::UdpMirror && self.stage.udp_room(self.stage.mtu) < task::DATAGRAM as u32 {
            return Err(Error::Unable(format!("datagrams of {} bytes do not fit the MTU", task::DATAGRAM)));
        }
        let bytes = (VERIFIED * cell.part.share()).min(self.options.volume);
        let outcome = trials.run(cell, bytes, true)?;
        check::check(cell, &self.pattern, outcome.volume, &outcome.contents)
            .map_err(|wrong| Error::Faulty(format!("what arrived is not what was sent: {wrong}")))
    }

    fn measurement(&self, cell: &Cell) -> RelayCost {
        RelayCost {
            part: cell.part.name().to_owned(),
            way: cell.way.name().to_owned(),
            touch: cell.touch,
            block: cell.block.map(|block| block as u64),
            links: cell.links as u32,
            idle: cell.idle as u32,
            verified: true,
            runs: Vec::with_capacity(self.options.runs as usize),
        }
    }
}

/// A temporary folder, gone when this is dropped.
struct Folder(std::path::PathBuf);

impl Folder {
    fn make() -> Result<Folder, Error> {
        let path = std::env::temp_dir().join(format!("wirepath-assess-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Error::of_file("make the folder", &path, error))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of it is a few configuration files among temporary ones.
        std::fs::remove_dir_all(&self.0).ok();
    }
}
