//! Trains that leave at the times that were sent along (SO_TXTIME), on the loopback device of a namespace that `assess`
//! makes.

use std::time::Duration;

use anyhow::{Result, bail};
use libtest_mimic::Trial;
use wirepath_assess::host::{DepartureError, Discipline, try_departure_times};
use wirepath_tests::{require, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![fq_keeps_the_times_of_trains, etf_keeps_the_times_of_trains, times_that_nobody_keeps_are_told]
}

/// Promise: `assess host` says whether `fq` and `etf` keep the departure times of trains.
fn fq_keeps_the_times_of_trains() -> Result<()> {
    keeps(Discipline::Fq)
}

/// Promise: `assess host` says whether `fq` and `etf` keep the departure times of trains.
fn etf_keeps_the_times_of_trains() -> Result<()> {
    keeps(Discipline::Etf)
}

/// No train may leave before its time; how late they are depends on the machine, and is not judged.
fn keeps(discipline: Discipline) -> Result<()> {
    let tried = try_departure_times(discipline);
    require!(!is_untried(&tried), "{discipline:?} cannot be had here: {:?}", tried.as_ref().err());
    println!("{discipline:?}: at most {:?} late", tried?);
    Ok(())
}

/// Promise: If no queueing discipline keeps the departure times, `assess host` says that trains leave too
/// early.
fn times_that_nobody_keeps_are_told() -> Result<()> {
    let tried = try_departure_times(Discipline::Pfifo);
    require!(!is_untried(&tried), "no discipline can be had here: {:?}", tried.as_ref().err());
    match tried {
        Err(DepartureError::Early(early)) if early > Duration::from_millis(5) => Ok(()),
        other => bail!("pfifo kept times: {other:?}"),
    }
}

fn is_untried(tried: &Result<Duration, DepartureError>) -> bool {
    matches!(tried, Err(DepartureError::Untried(_)))
}
