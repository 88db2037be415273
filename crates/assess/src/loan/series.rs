//! All sizes over UDP and TCP on one stage, in rounds.

use std::time::Duration;

use wirepath_datapath::Scratch;

use super::arithmetic::{median, thresholds};
use super::sends::{How, Made, Sends};
use super::verify::verify;
use crate::costs::ColdCopies;
use crate::error::Error;
use crate::media::{Kind, Media};
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{LoanPoint, Measurement, Run, Threshold, Transport};
use crate::rounds::Found;
use crate::stage::Stage;

/// Bytes of a send: halves and multiples of pages, which begin where pages do or stay inside one; and odd ones, which begin anywhere
/// and cross one boundary more. The largest over UDP is what a datagram holds.
const OVER_UDP: [u32; 17] = [
    64,
    128,
    256,
    512,
    1024,
    1472,
    2048,
    4096,
    5001,
    8192,
    12_288,
    16_384,
    20_001,
    32_768,
    49_152,
    61_440,
    super::sends::MOST_OF_DATAGRAM,
];
const OVER_TCP: [u32; 13] =
    [64, 256, 1024, 4096, 5001, 8192, 16_384, 20_001, 32_768, 65_536, 131_072, 262_144, LARGEST];

/// The largest send.
pub(super) const LARGEST: u32 = 1 << 20;

/// A run has no more sends: small ones would take minutes for the volume, and say no more.
const MOST_SENDS: u64 = 1 << 20;
const QUICK_MOST_SENDS: u64 = 1 << 16;

/// The run before those that count has this part of their volume.
const WARM_UP: u64 = 16;

/// Share of the time that goes into what comes before the runs, about.
const BEFORE: f64 = 0.3;

/// One MTU.
pub(super) struct Series<'a> {
    options: &'a Options,
    copies: Option<&'a mut ColdCopies>,
    points: Vec<Point>,
    mtu: u32,
    /// Whether every point was measured once.
    is_whole: bool,
}

/// One size over one transport.
struct Point {
    copy_s: Vec<f64>,
    copied: Timed,
    /// Nothing where loans do not work, or are copied.
    lent: Option<Timed>,
}

/// Sends and their runs.
struct Timed {
    sends: Sends,
    /// Duration of a run, as far as is known.
    estimate: Duration,
    /// Processor seconds of a send.
    seconds: Vec<f64>,
    runs: Vec<Run>,
}

/// Loans that became copies.
struct Turned {
    sends: Sends,
    copied: u64,
    of: u64,
}

/// What sends need beside a stage.
struct Supplies {
    media: Media,
    scratch: Scratch,
}

impl<'a> Series<'a> {
    pub(super) fn new(options: &'a Options, copies: Option<&'a mut ColdCopies>) -> Series<'a> {
        Series { options, copies, points: Vec::new(), mtu: 0, is_whole: false }
    }

    /// Verifies, warms up and times. What was measured until an error stays.
    ///
    /// # Errors
    /// What ends the assessment; what concerns one size is in `found`.
    pub(super) fn make(
        &mut self,
        stage: &Stage,
        found: &mut Found,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        self.mtu = stage.mtu;
        let media = Media::open(self.options, 1, LARGEST.into(), progress)?;
        let mut supplies = Supplies { media, scratch: Scratch::default() };
        let segment = Sends::segment(stage.mtu);
        let all: Vec<(Transport, u32)> = (OVER_UDP.iter().map(|size| (Transport::Udp, *size)))
            .chain(OVER_TCP.iter().map(|size| (Transport::Tcp, *size)))
            .collect();
        // Maps every page once: a page that a loan is the first to touch costs a page fault.
        let whole = Sends { how: How::Copied, transport: Transport::Udp, size: segment.into(), segment };
        progress.at(0.0, "mapping what is sent");
        supplies.run(&whole, supplies.media.length(), stage)?;
        let mut turned = Vec::new();
        for (index, (transport, size)) in all.iter().enumerate() {
            let sends = |how| Sends { how, transport: *transport, size: *size, segment };
            go_on(progress, BEFORE * index as f64 / all.len() as f64, "verifying", &sends(How::Copied))?;
            if let Some(copied) = self.admit(sends(How::Copied), stage, &mut supplies, &mut turned, found)? {
                let lent = self.admit(sends(How::Lent), stage, &mut supplies, &mut turned, found)?;
                self.points.push(Point { copy_s: Vec::new(), copied, lent });
            }
        }
        let outcome = self.rounds(stage, &mut supplies, &mut turned, found, progress);
        explain(&turned, self.mtu, found);
        outcome
    }

    /// Verifies, and sends some without counting.
    fn admit(
        &self,
        sends: Sends,
        stage: &Stage,
        supplies: &mut Supplies,
        turned: &mut Vec<Turned>,
        found: &mut Found,
    ) -> Result<Option<Timed>, Error> {
        let volume = self.volume(&sends);
        let warm_up = (volume / WARM_UP).max(u64::from(sends.size));
        let admitted = supplies.verify(&sends, stage).and_then(|()| supplies.run(&sends, warm_up, stage));
        let Some(made) = of(&sends, self.mtu, admitted, found)? else { return Ok(None) };
        if made.copied > 0 {
            turned.push(Turned { sends, copied: made.copied, of: made.sends });
            return Ok(None);
        }
        let estimate = Duration::from_secs_f64(made.run.wall_s * volume as f64 / made.run.bytes as f64);
        Ok(Some(Timed { sends, estimate, seconds: Vec::new(), runs: Vec::new() }))
    }

    fn rounds(
        &mut self,
        stage: &Stage,
        supplies: &mut Supplies,
        turned: &mut Vec<Turned>,
        found: &mut Found,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let runs = self.options.runs;
        let timed = self.points.iter().flat_map(|point| [Some(&point.copied), point.lent.as_ref()]).flatten();
        let total = timed.map(|timed| timed.estimate).sum::<Duration>().as_secs_f64() * f64::from(runs);
        let mut done = 0.0;
        for round in 0..runs {
            let doing = format!("round {} of {runs}:", round + 1);
            let mut index = 0;
            while index < self.points.len() {
                let volume = self.volume(&self.points[index].copied.sends);
                let point = &mut self.points[index];
                let share = |done: f64| BEFORE + (1.0 - BEFORE) * done / f64::max(total, 1e-9);
                go_on(progress, share(done), &doing, &point.copied.sends)?;
                if let Some(copies) = &mut self.copies {
                    point.copy_s.push(copies.seconds(point.copied.sends.size as usize));
                }
                let made = supplies.run(&point.copied.sends, volume, stage);
                let Some(made) = of(&point.copied.sends, self.mtu, made, found)? else {
                    self.points.remove(index); // what was measured of it before is no figure either
                    continue;
                };
                point.copied.add(&made);
                done += point.copied.estimate.as_secs_f64();
                if let Some(lent) = &mut point.lent {
                    go_on(progress, share(done), &doing, &lent.sends)?;
                    done += lent.estimate.as_secs_f64();
                    match of(&lent.sends, self.mtu, supplies.run(&lent.sends, volume, stage), found)? {
                        Some(made) if made.copied == 0 => lent.add(&made),
                        made => {
                            let sends = lent.sends;
                            turned.extend(made.map(|made| Turned {
                                sends,
                                copied: made.copied,
                                of: made.sends,
                            }));
                            point.lent = None;
                        }
                    }
                }
                index += 1;
            }
            self.is_whole = true;
        }
        Ok(())
    }

    /// Bytes of a run.
    fn volume(&self, sends: &Sends) -> u64 {
        let most = if self.options.quick { QUICK_MOST_SENDS } else { MOST_SENDS };
        let size = u64::from(sends.size);
        (self.options.volume / size).clamp(1, most) * size
    }

    /// What was found: points, thresholds, and the runs that they summarise.
    pub(super) fn take(self) -> (Vec<LoanPoint>, Vec<Threshold>, Vec<Measurement>) {
        let mtu = self.mtu;
        let measured: Vec<Point> =
            self.points.into_iter().filter(|point| !point.copied.runs.is_empty()).collect();
        let timed = measured.iter().flat_map(|point| [Some(&point.copied), point.lent.as_ref()]).flatten();
        let runs = timed.filter(|timed| !timed.runs.is_empty()).map(|timed| timed.measurement(mtu)).collect();
        let points: Vec<LoanPoint> = measured.into_iter().map(|point| point.result(mtu)).collect();
        let thresholds = if self.is_whole { thresholds(&points) } else { Vec::new() };
        (points, thresholds, runs)
    }
}

impl Supplies {
    fn run(&mut self, sends: &Sends, volume: u64, stage: &Stage) -> Result<Made, Error> {
        let file = self.media.length();
        sends.run(volume, file, self.media.prepared(Kind::Payload)?, stage, &mut self.scratch)
    }

    fn verify(&mut self, sends: &Sends, stage: &Stage) -> Result<(), Error> {
        let file = self.media.length();
        verify(sends, file, self.media.prepared(Kind::Payload)?, stage, &mut self.scratch)
    }
}

impl Point {
    fn result(self, mtu: u32) -> LoanPoint {
        let lent = self.lent.unwrap_or(Timed { seconds: Vec::new(), runs: Vec::new(), ..self.copied });
        LoanPoint {
            size: self.copied.sends.size.into(),
            mtu,
            transport: self.copied.sends.transport,
            copy_s: self.copy_s,
            copied_throughput: self.copied.throughput().unwrap_or_default(),
            copied_errors: self.copied.errors(),
            copied_send_s: self.copied.seconds,
            lent_throughput: lent.throughput(),
            lent_errors: lent.errors(),
            lent_send_s: lent.seconds,
        }
    }
}

impl Timed {
    fn add(&mut self, made: &Made) {
        self.seconds.push((made.run.user_s + made.run.system_s) / made.sends as f64);
        self.runs.push(made.run);
    }

    fn throughput(&self) -> Option<f64> {
        let rates: Vec<f64> = self.runs.iter().map(|run| run.bytes as f64 / run.wall_s).collect();
        median(&rates)
    }

    fn errors(&self) -> u64 {
        self.runs.iter().map(|run| run.errors).sum()
    }

    fn measurement(&self, mtu: u32) -> Measurement {
        let Sends { how, transport, size, segment } = self.sends;
        Measurement {
            experiment: "loan".to_owned(),
            path: if how == How::Copied { "loan:copy" } else { "loan:lend" }.to_owned(),
            transport,
            size: Some(size.into()),
            packets_per_train: if transport == Transport::Udp { size.div_ceil(segment.into()) } else { 1 },
            mtu,
            verified: true,
            calls_per_packet: None,
            calls_in_papers: None,
            runs: self.runs.clone(),
        }
    }
}

/// Says where we are, and whether to go on.
fn go_on(progress: &mut dyn Progress, share: f64, doing: &str, sends: &Sends) -> Result<(), Error> {
    progress.at(share, &format!("{doing} {}", sends.label()));
    if progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
}

/// What was made, or nothing if that concerns these sends alone and is noted.
fn of<T>(sends: &Sends, mtu: u32, made: Result<T, Error>, found: &mut Found) -> Result<Option<T>, Error> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(error) => {
            found.of_label(&format!("loan: {}, MTU {mtu}", sends.label()), error)?;
            Ok(None)
        }
    }
}

/// Says of what sizes loans became copies, a line for each transport.
fn explain(turned: &[Turned], mtu: u32, found: &mut Found) {
    for transport in [Transport::Udp, Transport::Tcp] {
        let of: Vec<&Turned> = turned.iter().filter(|turned| turned.sends.transport == transport).collect();
        let (Some(least), Some(most)) = (
            of.iter().map(|turned| turned.sends.size).min(),
            of.iter().map(|turned| turned.sends.size).max(),
        ) else {
            continue;
        };
        let (copied, lent) =
            of.iter().fold((0, 0), |(copied, lent), turned| (copied + turned.copied, lent + turned.of));
        let name = if transport == Transport::Udp { "UDP" } else { "TCP" };
        let what = format!("loans over {name} of {} sizes from {least} to {most} bytes, MTU {mtu}", of.len());
        let why = format!(
            "{copied} of {lent} were copied after all, so they say nothing of lending: the kernel copies what a socket of this \
             machine receives (over veth and loopback always) and what a device cannot gather or compute checksums of; use \
             --sink HOST:PORT, or for UDP --sink drop"
        );
        found.leave_out(&what, &why);
    }
}
