//! Runs of all cases in turn, so that a machine that changes its mind changes it for all.

use std::path::PathBuf;
use std::sync::Arc;

use wirepath_sys::ring::Copying;

use super::cases::Case;
use super::check::check;
use super::forwarder::DESCRIPTORS;
use super::pattern::Pattern;
use super::task::DATAGRAM;
use super::trial::Trials;
use crate::error::Error;
use crate::findings::Findings;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Method, Part, RelayCost};
use crate::test_bed::TestBed;

/// Most bytes moved to verify a case.
const VERIFIED: u64 = 2 << 20;

/// Share of the time that goes into that, about.
const BEFORE: f64 = 0.1;

/// The rounds of an assessment.
pub(super) struct Rounds<'a> {
    pub(super) options: &'a Options,
    pub(super) test_bed: &'a TestBed,
    pub(super) progress: &'a mut dyn Progress,
    /// Descriptors that a process may have.
    pub(super) descriptors: u64,
}

impl Rounds<'_> {
    /// Verifies and times these cases. What was found until an error is in `costs` and `found`.
    ///
    /// # Errors
    /// Errors that end the assessment; those of one case are in `found`.
    pub(super) fn run(
        mut self,
        wanted: &[Case],
        costs: &mut Vec<RelayCost>,
        found: &mut Findings,
    ) -> Result<(), Error> {
        let folder = Folder::make()?;
        let mut trials = Trials {
            test_bed: self.test_bed,
            pattern: Arc::new(Pattern::new()?),
            scratch: self.options.scratch.clone(),
            folder: &folder.0,
            file: None,
        };
        let mut admitted = Vec::new();
        for (index, case) in wanted.iter().enumerate() {
            let share = BEFORE * index as f64 / wanted.len() as f64;
            self.go_on(share, &format!("verifying {}", case.label()))?;
            match self.verify(&mut trials, case) {
                Ok(()) => admitted.push(*case),
                Err(error) => found.of_label(&case.label(), error)?,
            }
        }
        costs.extend(admitted.iter().map(|case| self.measurement(case)));
        (0..self.options.runs)
            .try_for_each(|round| self.round(round as usize, &mut trials, &admitted, costs, found))
    }

    /// Times each case once; one that failed is not tried again.
    fn round(
        &mut self,
        round: usize,
        trials: &mut Trials<'_>,
        cases: &[Case],
        costs: &mut [RelayCost],
        found: &mut Findings,
    ) -> Result<(), Error> {
        let rounds = self.options.runs as usize;
        for (index, (case, cost)) in cases.iter().zip(costs).enumerate() {
            if cost.runs.len() < round {
                continue;
            }
            let done = (round * cases.len() + index) as f64 / (rounds * cases.len()) as f64;
            let doing = format!("round {} of {rounds}: {}", round + 1, case.label());
            self.go_on(BEFORE + (1.0 - BEFORE) * done, &doing)?;
            match trials.run(case, self.options.volume, false) {
                Ok(outcome) => cost.runs.push(outcome.run),
                Err(error) => {
                    cost.runs.clear(); // what was measured of it before is no figure either
                    found.of_label(&case.label(), error)?;
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
    fn verify(&self, trials: &mut Trials<'_>, case: &Case) -> Result<(), Error> {
        self.see_whether_it_is_possible(case)?;
        let bytes = (VERIFIED * case.part.share()).min(self.options.volume);
        let outcome = trials.run(case, bytes, true)?;
        check(case, &trials.pattern, outcome.volume, &outcome.contents)
            .map_err(|wrong| Error::Faulty(format!("received data differs: {wrong}")))
    }

    fn see_whether_it_is_possible(&self, case: &Case) -> Result<(), Error> {
        if let Method::Program(program) = case.method {
            program.find()?;
        }
        if case.method == Method::Uring {
            let memory = case.links * case.block.unwrap_or_default();
            let unable = |error| Error::Unable(format!("no io_uring with {memory} bytes of memory: {error}"));
            Copying::attempt(memory).map_err(unable)?;
        }
        if case.part == Part::UdpMirror && self.test_bed.udp_room(self.test_bed.mtu) < DATAGRAM as u32 {
            return Err(Error::Unable(format!("datagrams of {DATAGRAM} bytes do not fit the MTU")));
        }
        let there = self.descriptors;
        if case.idle > 0 && there < DESCRIPTORS {
            return Err(Error::Unable(format!(
                "it takes {DESCRIPTORS} descriptors, and {there} may be had: ulimit -n {DESCRIPTORS}"
            )));
        }
        Ok(())
    }

    fn measurement(&self, case: &Case) -> RelayCost {
        RelayCost {
            part: case.part,
            method: case.method,
            touch: case.touch,
            block: case.block.map(|block| block as u64),
            links: case.links as u32,
            idle: case.idle as u32,
            mtu: self.test_bed.mtu,
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
