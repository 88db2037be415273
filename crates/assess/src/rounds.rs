//! Runs of all cells in turn, so that a machine that changes its mind changes it for all.

mod prepared;

use std::time::{Duration, Instant};

use wirepath_datapath::SendContext;
use wirepath_sys::usage::Usage;

use crate::bare::Bare;
use crate::calls::Calls;
use crate::error::{Doing, Error};
use crate::media::Media;
use crate::options::Options;
use crate::outlet;
use crate::progress::Progress;
use crate::result::{LeftOut, Measurement, Run, Transport};
use crate::send::{Sending, Sent};
use crate::stage::{Lane, Stage};
use crate::verify::verify;
use crate::way::Cell;
pub(crate) use prepared::Prepared;

/// The run before those that count has this part of the volume.
const WARM_UP: u64 = 16;

/// Payload of the run whose kernel calls are counted, at most: to a receiver of datagrams no more than it has room for, so that the
/// receiver is not waited for. (Without privileges it has room for some 40 KiB, and for a quarter of that if pages are lent.)
const COUNTED: u64 = 64 << 10;
/// To a device that drops.
const COUNTED_DROPPING: u64 = 16 << 20;

/// Share of the time that goes into what comes before the runs, about.
const BEFORE: f64 = 0.1;

/// One experiment on one stage.
pub(crate) struct Rounds<'a> {
    pub(crate) experiment: &'static str,
    pub(crate) options: &'a Options,
    pub(crate) stage: &'a Stage,
    pub(crate) media: &'a mut Media,
    pub(crate) progress: &'a mut dyn Progress,
    /// Of all cells, with one ring.
    pub(crate) scratch: SendContext,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) left_out: Vec<LeftOut>,
    /// Cells that sent a wrong byte, or lost one.
    pub(crate) faults: u32,
}

/// A cell that is measured.
struct Candidate {
    cell: Cell,
    /// Whether it is the bare loop that does the same.
    bare: bool,
    measurement: Measurement,
    /// Duration of a run, as far as is known.
    estimate: Duration,
}

impl<'a> Rounds<'a> {
    /// None yet. A path that needs a ring is left out by itself where there is none.
    pub(crate) fn new(
        experiment: &'static str,
        options: &'a Options,
        stage: &'a Stage,
        media: &'a mut Media,
        progress: &'a mut dyn Progress,
        found: &mut Found,
    ) -> Rounds<'a> {
        let mut scratch = SendContext::default();
        if let Err(error) = scratch.open_ring() {
            found.leave_out("paths with an io_uring", &error);
        }
        Rounds { experiment, options, stage, media, progress, scratch }
    }

    /// Verifies, warms up, counts and times the cells. What was found until an error is in `found`.
    ///
    /// # Errors
    /// What ends the assessment; what concerns one cell is in `found`.
    pub(crate) fn run(mut self, cells: &[Cell], bare: Option<&Bare>, found: &mut Found) -> Result<(), Error> {
        let mut calls = Calls::new().map_err(|error| found.leave_out("kernel calls per packet", &error)).ok();
        let mut candidates = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            self.go_on(BEFORE * index as f64 / cells.len() as f64, &format!("verifying {}", cell.label()))?;
            match self.admit(*cell, calls.as_mut()) {
                Ok(candidate) => {
                    let bare = bare.filter(|bare| bare.has(cell, self.stage.udp_room(self.stage.mtu)));
                    let beside = bare.map(|_| candidate.of_bare());
                    candidates.push(candidate);
                    candidates.extend(beside);
                }
                Err(error) => found.of_cell(cell, error)?,
            }
        }
        let outcome = self.rounds(&mut candidates, bare, found);
        let measured = candidates.into_iter().map(|candidate| candidate.measurement);
        found.measurements.extend(measured.filter(|measurement| !measurement.runs.is_empty()));
        outcome
    }

    fn rounds(
        &mut self,
        candidates: &mut Vec<Candidate>,
        bare: Option<&Bare>,
        found: &mut Found,
    ) -> Result<(), Error> {
        let runs = self.options.runs;
        let mut done = Duration::ZERO;
        for round in 0..runs {
            let mut index = 0;
            while index < candidates.len() {
                let once: Duration = candidates.iter().map(|candidate| candidate.estimate).sum();
                let share = done.as_secs_f64() / (once.as_secs_f64() * f64::from(runs)).max(1e-9);
                let candidate = &mut candidates[index];
                let label = candidate.label();
                let doing = format!("round {} of {runs}: {label}", round + 1);
                self.go_on(BEFORE + (1.0 - BEFORE) * share.min(1.0), &doing)?;
                match self.time_candidate(candidate, bare) {
                    Ok(run) => {
                        candidate.measurement.runs.push(run);
                        done += candidate.estimate;
                        index += 1;
                    }
                    Err(error) => leave(candidates, index, error, found)?,
                }
            }
        }
        Ok(())
    }

    /// Says where we are, and whether to go on.
    pub(crate) fn go_on(&mut self, share: f64, doing: &str) -> Result<(), Error> {
        self.progress.at(share, doing);
        if self.progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Verifies a cell, sends some of it without counting, and counts its kernel calls.
    fn admit(&mut self, cell: Cell, calls: Option<&mut Calls>) -> Result<Candidate, Error> {
        self.media.want(cell.kind(), self.progress)?;
        verify(&cell, self.stage, self.media, &mut self.scratch)?;
        let volume = (self.options.volume / WARM_UP).max(1);
        let (run, sent) = self.time(&cell, volume)?;
        let calls_per_packet = calls.map(|calls| self.count(&cell, calls)).transpose()?;
        let measurement = Measurement {
            experiment: self.experiment.to_owned(),
            path: cell.name(),
            transport: cell.transport,
            size: cell.size.map(u64::from),
            packets_per_train: if cell.way.batches() { sent.longest_train } else { 1 },
            mtu: self.stage.mtu,
            verified: true,
            calls_per_packet,
            calls_in_papers: cell.way.calls_in_papers(cell.transport, cell.size),
            runs: Vec::new(),
        };
        let estimate = Duration::from_secs_f64(run.wall_s * self.options.volume as f64 / run.bytes as f64);
        Ok(Candidate { cell, bare: false, measurement, estimate })
    }

    fn time_candidate(&mut self, candidate: &Candidate, bare: Option<&Bare>) -> Result<Run, Error> {
        let (cell, volume) = (&candidate.cell, self.options.volume);
        match bare.filter(|_| candidate.bare) {
            Some(bare) => bare.run(cell, self.media.prepared(cell.kind())?, volume),
            None => Ok(self.time(cell, volume)?.0),
        }
    }

    /// One run that is timed.
    pub(crate) fn time(&mut self, cell: &Cell, volume: u64) -> Result<(Run, Sent), Error> {
        let usage = || Usage::of_process().doing("asking for the processor time");
        let mut timed = None;
        let sent = self.send(cell, volume, |run| {
            let (before, start) = (usage()?, Instant::now());
            let sent = run.all()?;
            timed = Some((start.elapsed(), usage()?.since(before)));
            Ok(sent)
        })?;
        let (wall, used) = timed.unwrap_or_default();
        let run = Run {
            user_s: used.user.as_secs_f64(),
            system_s: used.system.as_secs_f64(),
            wall_s: wall.as_secs_f64(),
            bytes: sent.bytes,
            packets: sent.packets,
            errors: 0, // an error that is not made good ends the run
            copied: sent.copied,
            loans: sent.loans.map(Into::into),
        };
        Ok((run, sent))
    }

    /// Prepares a run of so many bytes, has `act` send it, and sees whether all came. Only what `act` does is the path's.
    pub(crate) fn send(
        &mut self,
        cell: &Cell,
        volume: u64,
        act: impl FnOnce(&mut Prepared<'_>) -> Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let walk = cell.walk(self.media.length(), volume);
        let medium = self.media.prepared_for(cell, &mut self.scratch)?;
        let (outlet, mut watch) = outlet::open(cell, self.stage)?;
        let sending = Sending::new(cell, medium, 0, &outlet, &mut self.scratch, watch.most_at_once());
        let sent = act(&mut Prepared::new(sending, walk, &mut watch))?;
        watch.settle(cell, &sent, self.stage.mtu)?;
        Ok(sent)
    }

    /// Kernel calls for each packet.
    fn count(&mut self, cell: &Cell, calls: &mut Calls) -> Result<f64, Error> {
        let mut counted = 0;
        let sent = self.send(cell, self.counted_volume(cell), |run| {
            run.shorten(cell);
            let sent;
            (sent, counted) = run.counted(cell, calls)?;
            Ok(sent)
        })?;
        Ok(counted as f64 / sent.packets as f64)
    }

    /// Payload of a run in which something is counted, at most.
    pub(crate) fn counted_volume(&self, cell: &Cell) -> u64 {
        let drops = matches!((&self.stage.udp, cell.transport), (Lane::Drops(_), Transport::Udp));
        if drops { COUNTED_DROPPING } else { COUNTED }
    }
}

/// Takes a cell out of the rounds; unless the error ends them all, since then what was measured before counts.
fn leave(
    candidates: &mut Vec<Candidate>,
    index: usize,
    error: Error,
    found: &mut Found,
) -> Result<(), Error> {
    found.of_label(&candidates[index].label(), error)?;
    candidates.remove(index); // what was measured of it before is no figure either
    Ok(())
}

impl Candidate {
    /// The bare loop that does the same, which nobody verifies and whose calls nobody counts.
    fn of_bare(&self) -> Candidate {
        let path = format!("bare:{}", self.cell.way.name());
        let measurement = Measurement {
            path,
            verified: false,
            calls_per_packet: None,
            calls_in_papers: None,
            ..self.measurement.clone()
        };
        Candidate { bare: true, measurement, ..*self }
    }

    fn label(&self) -> String {
        format!("{}{}", if self.bare { "bare:" } else { "" }, self.cell.label())
    }
}

impl Found {
    /// Notes what concerns one cell.
    ///
    /// # Errors
    /// What concerns more than that.
    pub(crate) fn of_cell(&mut self, cell: &Cell, error: Error) -> Result<(), Error> {
        self.of_label(&cell.label(), error)
    }

    /// The same for what is not a cell.
    ///
    /// # Errors
    /// As [`Found::of_cell`].
    pub(crate) fn of_label(&mut self, label: &str, error: Error) -> Result<(), Error> {
        match error {
            Error::Unable(_) => {}
            Error::Faulty(_) => self.faults += 1,
            other => return Err(other),
        }
        self.leave_out(label, &error);
        Ok(())
    }

    pub(crate) fn leave_out(&mut self, what: &str, why: &dyn std::fmt::Display) {
        self.left_out.push(LeftOut { what: what.to_owned(), why: why.to_string() });
    }
}

#[cfg(test)]
mod tests;
