//! The experiment `profile`: every path with packets that fill the MTU, sampled while it sends (table 1 of the papers).

use std::time::Duration;

use super::Profiler;
use crate::error::Error;
use crate::experiment::{Experiment, Soundness, with_what_is_there};
use crate::lending::Lending;
use crate::media::Media;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Assessment, Profile};
use crate::rounds::{Found, Rounds};
use crate::stage::{self, Stage};
use crate::verify::verify;
use crate::way::Cell;

/// Processor time that a path uses while it is sampled: 10,000 samples, or 2,000 in the quick form.
const PROCESSOR_TIME: Duration = Duration::from_millis(2500);
const QUICK_PROCESSOR_TIME: Duration = Duration::from_millis(500);

/// About how long a run is, of which there are as many as fit.
const RUN: Duration = Duration::from_millis(250);

/// Payload of the run from which the length of the others is reckoned.
const FIRST_RUN: u64 = 8 << 20;

/// A share of fewer samples is no figure: one of a tenth has a standard deviation of a tenth of itself or more.
const FEWEST_SAMPLES: u64 = 1000;

/// Takes the profiles and adds them to `result`, also those taken before an error. Where the kernel may not be sampled they are
/// left out, with the remedy.
///
/// # Errors
/// What ends the assessment; [`Error::Stopped`] if whoever watches says so.
pub fn run(
    options: &Options,
    result: &mut Assessment,
    progress: &mut dyn Progress,
) -> Result<Soundness, Error> {
    let mut found = Found::default();
    let mut profiles = Vec::new();
    let outcome = stage::within(&options.sink, options.mtu, options.cpu, |stage| {
        match Profiler::new() {
            Ok(profiler) => on(stage, options, profiler, &mut profiles, &mut found, progress)?,
            Err(error) => found.leave_out("profile", &error),
        }
        Ok(stage.cpu)
    });
    result.profiles.append(&mut profiles);
    result.left_out.append(&mut found.left_out);
    result.settings.cpu = Some(outcome?);
    Ok(if found.faults == 0 { Soundness::Sound } else { Soundness::Faulty })
}

fn on(
    stage: &Stage,
    options: &Options,
    mut profiler: Profiler,
    profiles: &mut Vec<Profile>,
    found: &mut Found,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let lending = Lending::of(options, stage.mtu)?;
    let room = stage.udp_room(options.mtu);
    let mut cells: Vec<(Experiment, Cell)> = Vec::new();
    for experiment in [Experiment::Stream, Experiment::Download] {
        let there = lending.applied(with_what_is_there(experiment.cells_that_fill(room), found));
        cells.extend(there.into_iter().map(|cell| (experiment, cell)));
    }
    let only_cells: Vec<Cell> = cells.iter().map(|(_, cell)| *cell).collect();
    let mut media = Media::open_for(&only_cells, options, progress)?;
    media.explain(options, found);
    let mut rounds = Rounds::new("profile", options, stage, &mut media, progress, found);
    for (index, (experiment, cell)) in cells.iter().enumerate() {
        rounds.experiment = experiment.name();
        rounds.go_on(index as f64 / cells.len() as f64, &format!("sampling {}", cell.label()))?;
        match of_cell(&mut rounds, cell, &mut profiler) {
            Ok(profile) if profile.samples >= FEWEST_SAMPLES => profiles.push(profile),
            Ok(profile) => {
                let why = format!(
                    "{} samples are too few for shares: the machine is busy, or the path waits for its receiver",
                    profile.samples
                );
                found.leave_out(&format!("profile of {}", cell.label()), &why);
            }
            Err(error) => found.of_cell(cell, error)?,
        }
    }
    Ok(())
}

/// One path, which is verified before as when it is timed.
fn of_cell(rounds: &mut Rounds<'_>, cell: &Cell, profiler: &mut Profiler) -> Result<Profile, Error> {
    rounds.media.want(cell.kind(), rounds.progress)?;
    verify(cell, rounds.stage, rounds.media, &mut rounds.scratch)?;
    let (first, _) = rounds.time(cell, FIRST_RUN)?;
    let volume = (first.bytes as f64 * RUN.as_secs_f64() / first.wall_s.max(1e-6)) as u64;
    let time = if rounds.options.quick { QUICK_PROCESSOR_TIME } else { PROCESSOR_TIME };
    let shares = profiler.run(time, |sampled| {
        if rounds.progress.stopped() {
            return Err(Error::Stopped);
        }
        rounds.send(cell, volume.max(1), |run| sampled.during(|| run.all())).map(drop)
    })?;
    Ok(Profile {
        experiment: rounds.experiment.to_owned(),
        path: cell.way.name().to_owned(),
        transport: cell.transport,
        size: cell.size.map(u64::from),
        samples: shares.samples,
        lost: shares.lost,
        functions: shares.functions,
        copying: shares.copying,
        entering: shares.entering,
        network: shares.network,
        user: shares.user,
    })
}
