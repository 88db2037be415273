//! Runs of all cells in turn, so that a machine that changes its mind changes it for all.

use std::path::PathBuf;
use std::sync::Arc;

use wirepath_sys::ring::Copying;

use super::cells::{Cell, Part, Way};
use super::check::check;
use super::mover::DESCRIPTORS;
use super::pattern::Pattern;
use super::task::DATAGRAM;
use super::trial::Trials;
use crate::error::Error;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::RelayCost;
use crate::rounds::Found;
use crate::stage::Stage;

/// What is moved and compared before anything is timed, at most.
const VERIFIED: u64 = 2 << 20;

/// Share of the time that goes into that, about.
const BEFORE: f64 = 0.1;

/// The rounds of an assessment.
pub(super) struct Rounds<'a> {
    pub(super) options: &'a Options,
    pub(super) stage: &'a Stage,
    pub(super) progress: &'a mut dyn Progress,
    /// Descriptors that a process may have.
    pub(super) descriptors: u64,
}

impl Rounds<'_> {
    /// Verifies and times these cells. What was found until an error is in `costs` and `found`.
    ///
    /// # Errors
    /// What ends the assessment; what concerns one cell is in `found`.
    pub(super) fn run(
        mut self,
        wanted: &[Cell],
        costs: &mut Vec<RelayCost>,
        found: &mut Found,
    ) -> Result<(), Error> {
        let folder = Folder::make()?;
        let mut trials = Trials {
            stage: self.stage,
            pattern: Arc::new(Pattern::new()?),
            scratch: self.options.scratch.clone(),
            folder: &folder.0,
            file: None,
        };
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
        (0..self.options.runs)
            .try_for_each(|round| self.round(round as usize, &mut trials, &admitted, costs, found))
    }

    /// Times each cell once; one that failed is not tried again.
    fn round(
        &mut self,
        round: usize,
        trials: &mut Trials<'_>,
        cells: &[Cell],
        costs: &mut [RelayCost],
        found: &mut Found,
    ) -> Result<(), Error> {
        let rounds = self.options.runs as usize;
        for (index, (cell, cost)) in cells.iter().zip(costs).enumerate() {
            if cost.runs.len() < round {
                continue;
            }
            let done = (round * cells.len() + index) as f64 / (rounds * cells.len()) as f64;
            let doing = format!("round {} of {rounds}: {}", round + 1, cell.label());
            self.go_on(BEFORE + (1.0 - BEFORE) * done, &doing)?;
            match trials.run(cell, self.options.volume, false) {
                Ok(outcome) => cost.runs.push(outcome.run),
                Err(error) => {
                    cost.runs.clear(); // what was measured of it before is no figure either
                    found.of_label(&cell.label(), error)?;
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
        self.see_whether_it_is_possible(cell)?;
        let bytes = (VERIFIED * cell.part.share()).min(self.options.volume);
        let outcome = trials.run(cell, bytes, true)?;
        check(cell, &trials.pattern, outcome.volume, &outcome.contents)
            .map_err(|wrong| Error::Faulty(format!("what arrived is not what was sent: {wrong}")))
    }

    fn see_whether_it_is_possible(&self, cell: &Cell) -> Result<(), Error> {
        if let Way::Program(program) = cell.way {
            program.find()?;
        }
        if cell.way == Way::Uring {
            let memory = cell.links * cell.block.unwrap_or_default();
            let unable = |error| Error::Unable(format!("no io_uring with {memory} bytes of memory: {error}"));
            Copying::attempt(memory).map_err(unable)?;
        }
        if cell.part == Part::UdpMirror && self.stage.udp_room(self.stage.mtu) < DATAGRAM as u32 {
            return Err(Error::Unable(format!("datagrams of {DATAGRAM} bytes do not fit the MTU")));
        }
        let there = self.descriptors;
        if cell.idle > 0 && there < DESCRIPTORS {
            return Err(Error::Unable(format!(
                "it takes {DESCRIPTORS} descriptors, and {there} may be had: ulimit -n {DESCRIPTORS}"
            )));
        }
        Ok(())
    }

    fn measurement(&self, cell: &Cell) -> RelayCost {
        RelayCost {
            part: cell.part.name().to_owned(),
            way: cell.way.name().to_owned(),
            touch: cell.touch,
            block: cell.block.map(|block| block as u64),
            links: cell.links as u32,
            idle: cell.idle as u32,
            mtu: self.stage.mtu,
            verified: true,
            runs: Vec::with_capacity(self.options.runs as usize),
        }
    }
}

/// A temporary folder, gone when this is dropped.
struct Folder(PathBuf);

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
