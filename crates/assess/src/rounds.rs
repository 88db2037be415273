//! Runs of all cases in turn, so that a machine that changes its mind changes it for all.

mod prepared;

use std::time::{Duration, Instant};

use wirepath_datapath::SendContext;
use wirepath_sys::usage::Usage;

use crate::bare::Bare;
use crate::calls::Calls;
use crate::case::Case;
use crate::error::{Doing, Error};
use crate::findings::Findings;
use crate::media::Media;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{Measurement, Run};
use crate::send::Sending;
use crate::sent::Sent;
use crate::subject::{Experiment, Transport, Variant};
use crate::test_bed::{Target, TestBed};
use crate::test_socket;
use crate::verify::verify;
pub(crate) use prepared::Prepared;

/// The run before those that count has this part of the volume.
const WARM_UP: u64 = 16;

/// Payload of the run whose kernel calls are counted, at most: to a receiver of datagrams no more than it has
/// room for, so that the receiver is not waited for. (Without privileges it has room for some 40 KiB, and for
/// a quarter of that if pages are lent.)
const COUNTED: u64 = 64 << 10;
/// The same to a device that drops.
const COUNTED_DROPPING: u64 = 16 << 20;

/// Share of the time that goes into what comes before the runs, about.
const BEFORE: f64 = 0.1;

/// One experiment on one test bed.
pub(crate) struct Rounds<'a> {
    pub(crate) experiment: Experiment,
    pub(crate) options: &'a Options,
    pub(crate) test_bed: &'a TestBed,
    pub(crate) media: &'a mut Media,
    pub(crate) progress: &'a mut dyn Progress,
    /// Send context of all cases, with one ring.
    pub(crate) scratch: SendContext,
}

/// A case that is measured.
struct Candidate {
    case: Case,
    measurement: Measurement,
    /// Duration of a run, as far as is known.
    estimate: Duration,
}

impl<'a> Rounds<'a> {
    /// Rounds without cases. Without a ring, paths that need one are left out by themselves.
    pub(crate) fn new(
        experiment: Experiment,
        options: &'a Options,
        test_bed: &'a TestBed,
        media: &'a mut Media,
        progress: &'a mut dyn Progress,
        found: &mut Findings,
    ) -> Rounds<'a> {
        let mut scratch = SendContext::default();
        if let Err(error) = scratch.open_ring() {
            found.leave_out("paths with an io_uring", &error);
        }
        Rounds { experiment, options, test_bed, media, progress, scratch }
    }

    /// Verifies, warms up, counts and times the cases. What was found until an error is in `found`.
    ///
    /// # Errors
    /// Errors that end the assessment; those of one case are in `found`.
    pub(crate) fn run(
        mut self,
        cases: &[Case],
        bare: Option<&Bare>,
        found: &mut Findings,
    ) -> Result<(), Error> {
        let mut calls = Calls::new().map_err(|error| found.leave_out("kernel calls per packet", &error)).ok();
        let mut candidates = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            self.go_on(BEFORE * index as f64 / cases.len() as f64, &format!("verifying {}", case.label()))?;
            match self.admit(*case, calls.as_mut()) {
                Ok(candidate) => {
                    let bare = bare.filter(|bare| bare.has(case, self.test_bed.udp_room(self.test_bed.mtu)));
                    let beside = bare.map(|_| candidate.bare());
                    candidates.push(candidate);
                    candidates.extend(beside);
                }
                Err(error) => found.of_case(case, error)?,
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
        found: &mut Findings,
    ) -> Result<(), Error> {
        let runs = self.options.runs;
        let mut done = Duration::ZERO;
        for round in 0..runs {
            let mut index = 0;
            while index < candidates.len() {
                let once: Duration = candidates.iter().map(|candidate| candidate.estimate).sum();
                let share = done.as_secs_f64() / (once.as_secs_f64() * f64::from(runs)).max(1e-9);
                let candidate = &mut candidates[index];
                let label = candidate.case.label();
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

    /// Reports progress, or ends on a request to stop.
    pub(crate) fn go_on(&mut self, share: f64, doing: &str) -> Result<(), Error> {
        self.progress.at(share, doing);
        if self.progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Verifies a case, sends some of it without counting, and counts its kernel calls.
    fn admit(&mut self, case: Case, calls: Option<&mut Calls>) -> Result<Candidate, Error> {
        self.media.want(case.content(), self.progress)?;
        verify(&case, self.test_bed, self.media, &mut self.scratch)?;
        let volume = (self.options.volume / WARM_UP).max(1);
        let (run, sent) = self.time(&case, volume)?;
        let calls_per_packet = calls.map(|calls| self.count(&case, calls)).transpose()?;
        let measurement = Measurement {
            experiment: self.experiment,
            path: case.path_variant(),
            transport: case.transport,
            size: case.size.map(u64::from),
            packets_per_train: if case.path.batches() { sent.longest_train } else { 1 },
            mtu: self.test_bed.mtu,
            verified: true,
            calls_per_packet,
            calls_in_papers: case.path.calls_in_papers(case.transport, case.size),
            runs: Vec::new(),
        };
        let estimate = Duration::from_secs_f64(run.wall_s * self.options.volume as f64 / run.bytes as f64);
        Ok(Candidate { case, measurement, estimate })
    }

    fn time_candidate(&mut self, candidate: &Candidate, bare: Option<&Bare>) -> Result<Run, Error> {
        let (case, volume) = (&candidate.case, self.options.volume);
        match bare.filter(|_| case.variant == Variant::Bare) {
            Some(bare) => bare.run(case, self.media.prepared(case.content())?, volume),
            None => Ok(self.time(case, volume)?.0),
        }
    }

    /// Times one run.
    pub(crate) fn time(&mut self, case: &Case, volume: u64) -> Result<(Run, Sent), Error> {
        let usage = || Usage::of_process().doing("asking for the processor time");
        let mut timed = None;
        let sent = self.send(case, volume, |run| {
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

    /// Prepares a run of so many bytes, has `act` send it, and sees whether all came. Only what `act` does is
    /// the path's.
    pub(crate) fn send(
        &mut self,
        case: &Case,
        volume: u64,
        act: impl FnOnce(&mut Prepared<'_>) -> Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let walk = case.walk(self.media.length(), volume);
        let medium = self.media.prepared_for(case, &mut self.scratch)?;
        let (socket, mut watch) = test_socket::open(case, self.test_bed)?;
        let sending = Sending::new(case, medium, 0, &socket, &mut self.scratch, watch.most_at_once());
        let sent = act(&mut Prepared::new(sending, walk, &mut watch))?;
        watch.settle(case, &sent, self.test_bed.mtu)?;
        Ok(sent)
    }

    /// Kernel calls for each packet.
    fn count(&mut self, case: &Case, calls: &mut Calls) -> Result<f64, Error> {
        let mut counted = 0;
        let sent = self.send(case, self.counted_volume(case), |run| {
            run.shorten(case);
            let sent;
            (sent, counted) = run.counted(case, calls)?;
            Ok(sent)
        })?;
        Ok(counted as f64 / sent.packets as f64)
    }

    /// Payload of a run in which something is counted, at most.
    pub(crate) fn counted_volume(&self, case: &Case) -> u64 {
        let drops = matches!((&self.test_bed.udp, case.transport), (Target::Drops(_), Transport::Udp));
        if drops { COUNTED_DROPPING } else { COUNTED }
    }
}

/// Takes a case out of the rounds; unless the error ends them all, since then what was measured before
/// counts.
fn leave(
    candidates: &mut Vec<Candidate>,
    index: usize,
    error: Error,
    found: &mut Findings,
) -> Result<(), Error> {
    found.of_case(&candidates[index].case, error)?;
    candidates.remove(index); // what was measured of it before is no figure either
    Ok(())
}

impl Candidate {
    /// The bare loop that does the same, neither verified nor counted.
    fn bare(&self) -> Candidate {
        let measurement = Measurement {
            path: self.measurement.path.bare(),
            verified: false,
            calls_per_packet: None,
            calls_in_papers: None,
            ..self.measurement.clone()
        };
        Candidate { case: Case { variant: Variant::Bare, ..self.case }, measurement, ..*self }
    }
}

#[cfg(test)]
mod tests;
