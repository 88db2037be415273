//! The experiment `profile`: every path with packets that fill the MTU, sampled while it sends (table 1 of
//! the papers).

use std::time::Duration;

use super::Profiler;
use crate::case::Case;
use crate::error::Error;
use crate::findings::{self, Findings, Soundness};
use crate::lending::Lending;
use crate::options::Options;
use crate::path_experiment::PathExperiment;
use crate::progress::Progress;
use crate::result::{Assessment, Profile};
use crate::rounds::Runs;
use crate::test_bed::TestBed;
use crate::test_files::Media;

/// Processor time of each path that is sampled: 10,000 samples, or 2,000 in the quick form.
const PROCESSOR_TIME: Duration = Duration::from_millis(2500);
const QUICK_PROCESSOR_TIME: Duration = Duration::from_millis(500);

/// Approximate duration of a run; runs are repeated until the processor time is used.
const RUN: Duration = Duration::from_millis(250);

/// Payload of the first run, from which the length of the others is computed.
const FIRST_RUN: u64 = 8 << 20;

/// Minimum number of samples for a figure: with fewer, a share of one tenth has a standard deviation of a
/// tenth of itself or more.
const FEWEST_SAMPLES: u64 = 1000;

/// Takes the profiles and adds them to `result`, also before an error. Without permission to sample the
/// kernel they are left out, with the remedy.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    findings::experiment(options, result, progress, |test_bed, found| match Profiler::new() {
        Ok(profiler) => on(test_bed, options, profiler, found),
        Err(error) => {
            found.leave_out("profile", &error);
            Ok(())
        }
    })
}

fn on(
    test_bed: &TestBed,
    options: &Options,
    mut profiler: Profiler,
    found: &mut Findings<'_>,
) -> Result<(), Error> {
    let lending = Lending::of(options, test_bed.mtu)?;
    let room = test_bed.udp_payload_limit(options.mtu);
    let mut cases: Vec<Case> = Vec::new();
    for experiment in [PathExperiment::Stream, PathExperiment::Download] {
        cases.extend(found.without_missing_module(experiment.cases_that_fill(room)));
    }
    let cases = lending.applied(cases);
    found.note_tcp_peer(test_bed);
    let mut media = Media::open_for(&cases, options, found)?;
    media.explain(options, found);
    let mut runs = Runs::new(options, test_bed, &mut media, found);
    let profiled = found.each((1.0, "sampling"), &cases, Case::label, |found, case| {
        runs.verify(case, found)?;
        let profile = of_case(&mut runs, case, &mut profiler, found)?;
        if profile.shares.samples >= FEWEST_SAMPLES {
            found.result.profiles.push(profile);
        } else {
            let why = format!(
                "{} samples are too few for shares: the machine is busy, or the path waits for its receiver",
                profile.shares.samples
            );
            found.leave_out(&format!("profile of {}", case.label()), &why);
        }
        Ok(())
    });
    profiled.map(drop)
}

fn of_case(
    runs: &mut Runs<'_>,
    case: &Case,
    profiler: &mut Profiler,
    progress: &dyn Progress,
) -> Result<Profile, Error> {
    let (first, _) = runs.time_volume(case, FIRST_RUN)?;
    let volume = (first.bytes as f64 * RUN.as_secs_f64() / first.wall_s.max(1e-6)) as u64;
    let walk = case.walk(runs.media.length(), volume.max(1));
    let time = if runs.options.quick { QUICK_PROCESSOR_TIME } else { PROCESSOR_TIME };
    let shares = profiler.run(time, |sampled| {
        if progress.stopped() {
            return Err(Error::Stopped);
        }
        let sent = runs.send(case, |sending, watch| {
            let stretches = walk.stretches(watch.train_packets(case).into());
            sampled.during(|| sending.all(stretches, watch))
        });
        sent.map(drop)
    })?;
    Ok(Profile {
        experiment: case.path.experiment(),
        path: case.path,
        transport: case.transport,
        size: case.size.map(u64::from),
        shares,
    })
}
