//! The experiment `profile`: every path with packets that fill the MTU, sampled while it sends (table 1 of
//! the papers).

use std::time::Duration;

use super::Profiler;
use crate::case::Case;
use crate::error::Error;
use crate::experiment::PathExperiment;
use crate::findings::Findings;
use crate::findings::{Soundness, with_what_is_there};
use crate::lending::Lending;
use crate::media::Media;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Experiment, Profile};
use crate::rounds::Rounds;
use crate::test_bed::{self, TestBed};
use crate::verify::verify;

/// Processor time that a path uses while it is sampled: 10,000 samples, or 2,000 in the quick form.
const PROCESSOR_TIME: Duration = Duration::from_millis(2500);
const QUICK_PROCESSOR_TIME: Duration = Duration::from_millis(500);

/// About how long a run is, of which there are as many as fit.
const RUN: Duration = Duration::from_millis(250);

/// Payload of the run from which the length of the others is reckoned.
const FIRST_RUN: u64 = 8 << 20;

/// A share of fewer samples is no figure: one of a tenth has a standard deviation of a tenth of itself or
/// more.
const FEWEST_SAMPLES: u64 = 1000;

/// Takes the profiles and adds them to `result`, also those taken before an error. Where the kernel may not
/// be sampled they are left out, with the remedy.
///
/// # Errors
/// Errors that end the assessment; [`Error::Stopped`] on a request to stop.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let mut found = Findings::default();
    let mut profiles = Vec::new();
    let outcome = test_bed::within(&options.sink, options.mtu, options.cpu, |test_bed| {
        match Profiler::new() {
            Ok(profiler) => on(test_bed, options, profiler, &mut profiles, &mut found, progress)?,
            Err(error) => found.leave_out("profile", &error),
        }
        Ok(test_bed.cpu)
    });
    result.profiles.append(&mut profiles);
    let soundness = found.add_to(result);
    result.settings.cpu = Some(outcome?);
    Ok(soundness)
}

fn on(
    test_bed: &TestBed,
    options: &Options,
    mut profiler: Profiler,
    profiles: &mut Vec<Profile>,
    found: &mut Findings,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let lending = Lending::of(options, test_bed.mtu)?;
    let room = test_bed.udp_room(options.mtu);
    let mut cases: Vec<(PathExperiment, Case)> = Vec::new();
    for experiment in [PathExperiment::Stream, PathExperiment::Download] {
        let there = lending.applied(with_what_is_there(experiment.cases_that_fill(room), found));
        cases.extend(there.into_iter().map(|case| (experiment, case)));
    }
    let only_cases: Vec<Case> = cases.iter().map(|(_, case)| *case).collect();
    let mut media = Media::open_for(&only_cases, options, progress)?;
    media.explain(options, found);
    let mut rounds = Rounds::new(Experiment::Profile, options, test_bed, &mut media, progress, found);
    for (index, (experiment, case)) in cases.iter().enumerate() {
        rounds.experiment = experiment.subject();
        rounds.go_on(index as f64 / cases.len() as f64, &format!("sampling {}", case.label()))?;
        match of_case(&mut rounds, case, &mut profiler) {
            Ok(profile) if profile.samples >= FEWEST_SAMPLES => profiles.push(profile),
            Ok(profile) => {
                let why = format!(
                    "{} samples are too few for shares: the machine is busy, or the path waits for its receiver",
                    profile.samples
                );
                found.leave_out(&format!("profile of {}", case.label()), &why);
            }
            Err(error) => found.of_case(case, error)?,
        }
    }
    Ok(())
}

/// Profiles one path, after it was verified.
fn of_case(rounds: &mut Rounds<'_>, case: &Case, profiler: &mut Profiler) -> Result<Profile, Error> {
    rounds.media.want(case.content(), rounds.progress)?;
    verify(case, rounds.test_bed, rounds.media, &mut rounds.scratch)?;
    let (first, _) = rounds.time(case, FIRST_RUN)?;
    let volume = (first.bytes as f64 * RUN.as_secs_f64() / first.wall_s.max(1e-6)) as u64;
    let time = if rounds.options.quick { QUICK_PROCESSOR_TIME } else { PROCESSOR_TIME };
    let shares = profiler.run(time, |sampled| {
        if rounds.progress.stopped() {
            return Err(Error::Stopped);
        }
        rounds.send(case, volume.max(1), |run| sampled.during(|| run.all())).map(drop)
    })?;
    Ok(Profile {
        experiment: rounds.experiment,
        path: case.path,
        transport: case.transport,
        size: case.size.map(u64::from),
        samples: shares.samples,
        lost: shares.lost,
        functions: shares.functions,
        copying: shares.copying,
        entering: shares.entering,
        network: shares.network,
        user: shares.user,
    })
}
