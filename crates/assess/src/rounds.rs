//! Runs of all cases in turn, so that a change of the machine's load affects all of them.

use std::time::{Duration, Instant};

use wirepath_datapath::SendContext;
use wirepath_sys::usage::Usage;

use crate::bare::Bare;
use crate::calls::{self, Calls};
use crate::case::Case;
use crate::error::{Doing, Error};
use crate::findings::Findings;
use crate::options::Options;
use crate::packetization::{PacketRange, Packetization};
use crate::result::{Measurement, Run};
use crate::send::Sending;
use crate::sent::Sent;
use crate::subject::{Transport, Variant};
use crate::test_bed::{Target, TestBed};
use crate::test_files::Media;
use crate::test_socket::{self, Watch};
use crate::verify::verify;

/// Divisor of the volume for the warm-up run.
pub(crate) const WARM_UP: u64 = 16;

/// Maximum payload of the run whose kernel calls are counted. For a receiver of datagrams it fits into the
/// receive buffer, so that the run does not wait for the receiver. (Without privileges, the buffer has room
/// for some 40 KiB, and for a quarter of that if pages are lent.)
const COUNTED: u64 = 64 << 10;
/// Maximum payload of that run for a device that drops packets.
const COUNTED_DROPPING: u64 = 16 << 20;

/// Approximate share of the time used before the timed runs.
const BEFORE: f64 = 0.1;

/// Candidate that is measured in rounds.
pub(crate) trait Candidate {
    fn label(&self) -> String;

    /// Duration of a run, as far as known.
    fn estimate(&self) -> Duration;
}

/// Measures each candidate by `time` once per round. A candidate that fails, or for which `time` returns
/// false, is removed with its earlier runs, which do not count as a figure.
///
/// # Errors
/// Errors that end the assessment; all earlier runs are kept.
pub(crate) fn in_turn<'a, C: Candidate>(
    found: &mut Findings<'a>,
    (before, runs): (f64, u32),
    candidates: &mut Vec<C>,
    mut time: impl FnMut(&mut Findings<'a>, &mut C) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut done = Duration::ZERO;
    for round in 1..=runs {
        let mut index = 0;
        while index < candidates.len() {
            let once: Duration = candidates.iter().map(C::estimate).sum();
            let share = done.as_secs_f64() / (once.as_secs_f64() * f64::from(runs)).max(1e-9);
            let label = candidates[index].label();
            let doing = format!("round {round} of {runs}: {label}");
            found.go_on(before + (1.0 - before) * share.min(1.0), &doing)?;
            let stays = match time(found, &mut candidates[index]) {
                Ok(stays) => stays,
                Err(error) => found.of_label(&label, error).map(|()| false)?,
            };
            if stays {
                done += candidates[index].estimate();
                index += 1;
            } else {
                candidates.remove(index);
            }
        }
    }
    Ok(())
}

impl Run {
    /// Estimated duration of a run of another volume.
    pub(crate) fn estimate(&self, volume: u64) -> Duration {
        Duration::from_secs_f64(self.wall_s * volume as f64 / self.bytes as f64)
    }
}

/// Runs on one test bed.
pub(crate) struct Runs<'a> {
    pub(crate) options: &'a Options,
    pub(crate) test_bed: &'a TestBed,
    pub(crate) media: &'a mut Media,
    /// Send context of all cases, with one ring.
    pub(crate) context: SendContext,
}

/// Case to measure.
struct PathCandidate {
    case: Case,
    measurement: Measurement,
    estimate: Duration,
}

impl Candidate for PathCandidate {
    fn label(&self) -> String {
        self.case.label()
    }

    fn estimate(&self) -> Duration {
        self.estimate
    }
}

impl<'a> Runs<'a> {
    /// Creates the context of runs. Without a ring, only paths that need a ring are left out.
    pub(crate) fn new(
        options: &'a Options,
        test_bed: &'a TestBed,
        media: &'a mut Media,
        found: &mut Findings<'_>,
    ) -> Runs<'a> {
        let mut context = SendContext::default();
        if let Err(error) = context.open_ring() {
            found.leave_out("paths with an io_uring", &error);
        }
        Runs { options, test_bed, media, context }
    }

    /// Verifies, warms up, counts and times the cases. Findings before an error are kept.
    pub(crate) fn measure(
        mut self,
        cases: &[Case],
        bare: Option<&Bare>,
        found: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let mut calls = Calls::new().map_err(|error| found.leave_out("kernel calls per packet", &error)).ok();
        let room = self.test_bed.udp_payload_limit(self.test_bed.mtu);
        let admitted = found.each((BEFORE, "verifying"), cases, Case::label, |found, case| {
            let candidate = self.admit(*case, calls.as_mut(), found)?;
            let beside = bare.filter(|bare| bare.supports(case, room)).map(|_| candidate.bare());
            Ok([Some(candidate), beside])
        })?;
        let mut candidates: Vec<PathCandidate> = admitted.into_iter().flatten().flatten().collect();
        let outcome = in_turn(found, (BEFORE, self.options.runs), &mut candidates, |_, candidate| {
            let run = self.time_candidate(candidate, bare)?;
            candidate.measurement.runs.push(run);
            Ok(true)
        });
        let measured = candidates.into_iter().map(|candidate| candidate.measurement);
        found.result.measurements.extend(measured.filter(|measurement| !measurement.runs.is_empty()));
        outcome
    }

    /// Makes the file of a case, and verifies the packets that its path sends.
    pub(crate) fn verify(&mut self, case: &Case, found: &mut Findings<'_>) -> Result<(), Error> {
        self.media.ensure(case.content(), found)?;
        verify(case, self.test_bed, self.media, &mut self.context)
    }

    /// Verifies a case, warms up, and counts its kernel calls.
    fn admit(
        &mut self,
        case: Case,
        calls: Option<&mut Calls>,
        found: &mut Findings<'_>,
    ) -> Result<PathCandidate, Error> {
        self.verify(&case, found)?;
        let (run, sent) = self.time_volume(&case, (self.options.volume / WARM_UP).max(1))?;
        let calls_per_packet = calls.map(|calls| self.count(&case, calls)).transpose()?;
        let measurement = Measurement {
            experiment: case.path.experiment(),
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
        Ok(PathCandidate { case, measurement, estimate: run.estimate(self.options.volume) })
    }

    fn time_candidate(&mut self, candidate: &PathCandidate, bare: Option<&Bare>) -> Result<Run, Error> {
        let (case, volume) = (&candidate.case, self.options.volume);
        match bare.filter(|_| case.variant == Variant::Bare) {
            Some(bare) => bare.run(case, self.media.prepared(case.content())?, volume),
            None => Ok(self.time_volume(case, volume)?.0),
        }
    }

    /// Times one run of `volume` bytes.
    pub(crate) fn time_volume(&mut self, case: &Case, volume: u64) -> Result<(Run, Sent), Error> {
        let walk = case.walk(self.media.length(), volume);
        self.time(case, |watch| walk.stretches(watch.train_packets(case).into()))
    }

    /// Times one run of packet ranges.
    pub(crate) fn time<S: Iterator<Item = PacketRange>>(
        &mut self,
        case: &Case,
        stretches: impl FnOnce(&Watch<'_>) -> S,
    ) -> Result<(Run, Sent), Error> {
        let usage = || Usage::of_process().doing("asking for the processor time");
        let mut timed = None;
        let sent = self.send(case, |sending, watch| {
            let stretches = stretches(watch);
            let (before, start) = (usage()?, Instant::now());
            let sent = sending.all(stretches, watch)?;
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
            errors: 0, // an error from which the run cannot recover ends it
            copied: sent.copied,
            loans: sent.loans,
        };
        Ok((run, sent))
    }

    /// Opens a socket, sends by `act`, and checks that everything arrived. Only the work of `act` is charged
    /// to the path.
    pub(crate) fn send(
        &mut self,
        case: &Case,
        act: impl FnOnce(&mut Sending<'_>, &mut Watch<'_>) -> Result<Sent, Error>,
    ) -> Result<Sent, Error> {
        let medium = self.media.prepared_for(case, &mut self.context)?;
        let (socket, mut watch) = test_socket::open(case, self.test_bed)?;
        let mut sending = Sending::new(case, medium, 0, &socket, &mut self.context, watch.most_at_once());
        let sent = act(&mut sending, &mut watch)?;
        watch.settle(case, &sent, self.test_bed.mtu)?;
        Ok(sent)
    }

    /// Kernel calls per packet.
    fn count(&mut self, case: &Case, calls: &mut Calls) -> Result<f64, Error> {
        let drops = matches!((&self.test_bed.udp, case.transport), (Target::Drops(_), Transport::Udp));
        let walk = case.walk(self.media.length(), if drops { COUNTED_DROPPING } else { COUNTED });
        let mut count = 0;
        let sent = self.send(case, |sending, watch| {
            let sent;
            (sent, count) = counted(case, walk, sending, watch, calls)?;
            Ok(sent)
        })?;
        Ok(count as f64 / sent.packets as f64)
    }
}

/// Sends `walk`, at most as much as may be in flight without waiting, headers included, and counts the kernel
/// calls, except those that wait until the network is done.
///
/// # Errors
/// [`Error::Faulty`] if the calls differ from the path's table.
pub(crate) fn counted(
    case: &Case,
    walk: Packetization,
    sending: &mut Sending<'_>,
    watch: &mut Watch<'_>,
    calls: &mut Calls,
) -> Result<(Sent, u64), Error> {
    let packets = watch.window() / u64::from(case.packet_size());
    let fits = packets.saturating_mul(case.size.unwrap_or(u16::MAX).into());
    let stretches = walk.up_to(fits.max(1)).stretches(watch.train_packets(case).into());
    let (sent, count) = calls.during(|| sending.walk(stretches.clone(), watch))?;
    let sent = sent?;
    calls::check(case, stretches, &sent, watch.reports(), count)?;
    Ok((sending.end(sent)?, count))
}

impl PathCandidate {
    /// Candidate for the same case as a bare loop, neither verified nor counted.
    fn bare(&self) -> PathCandidate {
        let measurement = Measurement {
            path: self.measurement.path.bare(),
            verified: false,
            calls_per_packet: None,
            calls_in_papers: None,
            ..self.measurement.clone()
        };
        PathCandidate { case: Case { variant: Variant::Bare, ..self.case }, measurement, ..*self }
    }
}

#[cfg(test)]
mod tests;
