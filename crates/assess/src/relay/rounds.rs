//! Runs of all cases in turn.

use std::sync::Arc;
use std::time::Duration;

use wirepath_sys::ring::Copying;

use super::check::check;
use super::forwarder::DESCRIPTORS;
use super::pattern::Pattern;
use super::task::DATAGRAM;
use super::trial::Trials;
use crate::error::{Doing, Error};
use crate::findings::Findings;
use crate::options::Options;
use crate::result::{Method, Part, RelayCase, RelayCost};
use crate::rounds::{Candidate, in_turn};
use crate::test_bed::TestBed;

/// Maximum number of bytes moved to verify a case.
const VERIFIED: u64 = 2 << 20;

/// Approximate share of the time used for verification.
const BEFORE: f64 = 0.1;

/// Verifies and times cases, and adds their costs to the result. Findings before an error are kept.
pub(super) fn measure(
    options: &Options,
    test_bed: &TestBed,
    cases: &[RelayCase],
    descriptors: u64,
    found: &mut Findings<'_>,
) -> Result<(), Error> {
    let folder = tempfile::Builder::new().prefix("wirepath-assess-").tempdir();
    let folder = folder.doing("making a temporary folder")?;
    let mut trials = Trials {
        test_bed,
        pattern: Arc::new(Pattern::new()?),
        scratch: options.scratch.clone(),
        folder: folder.path(),
        file: None,
    };
    let mut costs = found.each((BEFORE, "verifying"), cases, RelayCase::label, |_, case| {
        check_possible(case, test_bed, descriptors)?;
        verify(&mut trials, case, options.volume)?;
        Ok(RelayCost { case: *case, mtu: test_bed.mtu, verified: true, runs: Vec::new() })
    })?;
    let outcome = in_turn(found, (BEFORE, options.runs), &mut costs, |_, cost| {
        cost.runs.push(trials.run(&cost.case, options.volume, false)?.run);
        Ok(true)
    });
    found.result.relay.extend(costs.into_iter().filter(|cost| !cost.runs.is_empty()));
    outcome
}

impl Candidate for RelayCost {
    fn label(&self) -> String {
        self.case.label()
    }

    fn estimate(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Moves a small amount of data, and compares the received data.
fn verify(trials: &mut Trials<'_>, case: &RelayCase, volume: u64) -> Result<(), Error> {
    let outcome = trials.run(case, (VERIFIED * case.part.share()).min(volume), true)?;
    check(case, &trials.pattern, outcome.volume, &outcome.contents)
        .map_err(|wrong| Error::Faulty(format!("received data differs: {wrong}")))
}

fn check_possible(case: &RelayCase, test_bed: &TestBed, descriptors: u64) -> Result<(), Error> {
    if let Method::Program(program) = case.method {
        program.find()?;
    }
    if case.method == Method::Uring {
        let memory = case.links as usize * case.block.unwrap_or_default() as usize;
        let unable = |error| Error::Unable(format!("no io_uring with {memory} bytes of memory: {error}"));
        Copying::attempt(memory).map_err(unable)?;
    }
    if case.part == Part::UdpMirror && test_bed.udp_payload_limit(test_bed.mtu) < DATAGRAM as u32 {
        return Err(Error::Unable(format!("datagrams of {DATAGRAM} bytes do not fit the MTU")));
    }
    if case.idle > 0 && descriptors < DESCRIPTORS {
        return Err(Error::Unable(format!(
            "it takes {DESCRIPTORS} descriptors, and {descriptors} may be had: ulimit -n {DESCRIPTORS}"
        )));
    }
    Ok(())
}
