//! Runs of all cases in turn.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wirepath_bpf::{BpfError, HandlerObject, Mirror, Receiver, Select, Sockmap};
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
        kernel_handler: options.kernel_handler.clone(),
    };
    let mut costs = found.each((BEFORE, "verifying"), cases, RelayCase::label, |_, case| {
        check_possible(case, test_bed, descriptors)?;
        if let Some(object) = options.kernel_handler.as_deref().filter(|_| case.part.is_judged()) {
            check_handler(case, test_bed, object)?;
        }
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
        if self.case.part.is_judged() {
            return Duration::from_secs(3); // a gibibyte's eighth at a fixed rate
        }
        Duration::from_secs(1)
    }
}

/// Moves a small amount of data, and compares the received data.
fn verify(trials: &mut Trials<'_>, case: &RelayCase, volume: u64) -> Result<(), Error> {
    let outcome = trials.run(case, (VERIFIED * case.part.share()).min(volume), true)?;
    check(case, &trials.pattern, outcome.volume, &outcome.contents)
        .map_err(|wrong| Error::Faulty(format!("received data differs: {wrong}")))
}

/// Checks that the handler can be used where the case has it: in the kernel, by attaching it.
fn check_handler(case: &RelayCase, test_bed: &TestBed, object: &Path) -> Result<(), Error> {
    let unable = |error: BpfError| Error::Unable(error.to_string());
    if case.is_of_datagrams() && test_bed.near_device().is_none() {
        let why = "datagrams come over no veth pair, which takes root: use --sink veth or drop";
        return Err(Error::Unable(why.to_owned()));
    }
    let object = HandlerObject::from_file(object).map_err(unable)?;
    let nobody = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    match (case.method, case.part) {
        (Method::Kernel, Part::KernelUdp) => {
            let devices: Vec<String> = test_bed.near_device().into_iter().map(str::to_owned).collect();
            Select::attach(&object, nobody, &devices).map(drop).map_err(unable)
        }
        (Method::Kernel, Part::KernelMirror) => {
            let receiver = Receiver { source: nobody, destination: nobody };
            Mirror::attach(&object, nobody, &[receiver]).map(drop).map_err(unable)
        }
        (Method::Kernel, _) => Sockmap::load(&object, 0).map(drop).map_err(unable),
        _ => Ok(()),
    }
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
