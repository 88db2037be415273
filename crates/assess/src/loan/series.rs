//! All sizes over UDP and TCP, from a page boundary and from just before one, on one test bed.

use std::time::Duration;

use super::copied_loans::{CopiedLoans, explain, kernel_copies};
use super::sends::{SendKind, Sends};
use super::threshold;
use crate::case::{Case, MOST_OF_DATAGRAM};
use crate::confidence::MedianRatio;
use crate::error::Error;
use crate::findings::Findings;
use crate::lending::Lending;
use crate::machine_costs::ColdCopies;
use crate::options::Options;
use crate::result::{Experiment, Loan, LoanPoint, Measurement, PathVariant, Run, Threshold, Transport};
use crate::rounds::{Candidate, Runs, WARM_UP, in_turn};
use crate::statistics::Summary;
use crate::test_bed::TestBed;
use crate::test_files::Media;
use crate::verify::verify_stretches;
use wirepath_datapath::SendContext;

/// Bytes of a send: fractions and multiples of pages. The largest over UDP is the payload of a datagram.
const OVER_UDP: [u32; 13] =
    [64, 256, 512, 1024, 2048, 4096, 8192, 12_288, 16_384, 32_768, 49_152, 61_440, MOST_OF_DATAGRAM];
const OVER_TCP: [u32; 11] = [64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 262_144, LARGEST];

/// Largest send.
pub(super) const LARGEST: u32 = 1 << 20;

/// Smallest size that is also measured from shortly before a page: smaller sends are never worth a loan.
const LEAST_UNALIGNED: u32 = 1024;

/// Limit of sends in a run: small sends would take minutes for the volume, without better figures.
const MOST_SENDS: u64 = 1 << 20;
const QUICK_MOST_SENDS: u64 = 1 << 16;

/// Minimum payload to compare, and minimum number of sends to compare.
const VERIFIED: u64 = 128 << 10;
const SENDS_VERIFIED: u64 = 4;

/// Approximate share of the time used before the timed runs.
const BEFORE: f64 = 0.3;

/// Undecided sizes get as many rounds again as they have had, so many times: four times as many in the end.
/// The confidence of the intervals allows for these looks.
const EXTENSIONS: u32 = 2;

/// Approximate share of the time used before the first extension.
const BEFORE_EXTENSIONS: f64 = 0.6;

/// Cost of the automatic choice, relative to the better kind of sends, that is allowed.
pub(crate) const GOAL: f64 = 1.05;

/// Series of one MTU.
struct Series<'a> {
    runs: Runs<'a>,
    /// Policies of sends that choose.
    policies: Lending,
    /// Sends whose loans the kernel copied.
    copied_loans: Vec<CopiedLoans>,
}

/// Sends and their runs.
struct Timed {
    sends: Sends,
    /// Number in the order of the result.
    place: usize,
    mtu: u32,
    /// Duration of a run, as far as known.
    estimate: Duration,
    /// Processor seconds of the copy alone, run by run.
    copy_s: Vec<f64>,
    runs: Vec<Run>,
}

/// Verifies, warms up and times all sizes, and adds points, runs and thresholds to the result. Findings
/// before an error are kept.
pub(super) fn measure(
    options: &Options,
    test_bed: &TestBed,
    mut copies: Option<&mut ColdCopies>,
    found: &mut Findings<'_>,
) -> Result<(), Error> {
    let mut media = Media::open(options, 1, LARGEST.into(), found)?;
    let runs = Runs { options, test_bed, media: &mut media, context: SendContext::default() };
    let policies = Lending::of(&Options { loans: None, ..options.clone() }, test_bed.mtu)?;
    policies.explain(found);
    let mut series = Series { runs, policies, copied_loans: Vec::new() };
    found.go_on(0.0, "mapping what is sent")?;
    series.touch()?;
    let mut candidates = series.admit_all(found)?;
    let whole = found.part;
    found.part = (whole.0, whole.1 * BEFORE_EXTENSIONS);
    let mut outcome = in_turn(found, (BEFORE, options.runs), &mut candidates, |_, timed| {
        if let Some(copies) = copies.as_mut().filter(|_| timed.sends.kind == SendKind::Copied) {
            timed.copy_s.push(copies.seconds(timed.sends.size as usize));
        }
        series.time(timed)
    });
    let extension = (1.0 - BEFORE_EXTENSIONS) / f64::from(EXTENSIONS);
    for number in 0..EXTENSIONS {
        if outcome.is_err() {
            break;
        }
        let before = BEFORE_EXTENSIONS + extension * f64::from(number);
        found.part = (whole.0 + whole.1 * before, whole.1 * extension);
        let mut undecided = take_undecided(&mut candidates, &series.policies);
        let rounds = options.runs << number;
        outcome = in_turn(found, (0.0, rounds), &mut undecided, |_, timed| series.time(timed));
        candidates.append(&mut undecided);
        candidates.sort_by_key(|timed| timed.place);
    }
    found.part = whole;
    explain(&series.copied_loans, test_bed.mtu, found);
    keep(&candidates, &series, test_bed.mtu, found);
    outcome
}

/// Removes all sends of the sizes for which the rounds do not decide: which kind is cheaper, or whether the
/// automatic choice meets its goal.
fn take_undecided(candidates: &mut Vec<Timed>, policies: &Lending) -> Vec<Timed> {
    let sizes: Vec<&[Timed]> = candidates.chunk_by(|one, other| one.is_of_size(other)).collect();
    let undecided = sizes.into_iter().filter_map(Size::of).filter(|size| size.is_undecided(policies));
    let undecided: Vec<Sends> = undecided.map(|size| size.copied.sends).collect();
    let is_taken = |timed: &mut Timed| undecided.contains(&Sends { kind: SendKind::Copied, ..timed.sends });
    candidates.extract_if(.., is_taken).collect()
}

/// Sends of one size and alignment, of each kind that was measured.
#[derive(Clone, Copy)]
struct Size<'a> {
    copied: &'a Timed,
    lent: Option<&'a Timed>,
    auto: Option<&'a Timed>,
    fragments: Option<&'a Timed>,
    spliced: Option<&'a Timed>,
}

impl<'a> Size<'a> {
    /// `None` if sends that copy were not measured.
    fn of(timed: &'a [Timed]) -> Option<Size<'a>> {
        let of = |kind| timed.iter().find(|timed| timed.sends.kind == kind && !timed.runs.is_empty());
        Some(Size {
            copied: of(SendKind::Copied)?,
            lent: of(SendKind::Lent),
            auto: of(SendKind::Auto),
            fragments: of(SendKind::Fragments),
            spliced: of(SendKind::Spliced),
        })
    }

    fn is_undecided(&self, policies: &Lending) -> bool {
        let point = self.point(policies);
        point.lent_to_copied.is_some_and(|ratio| ratio.is_undecided(1.0))
            || point.auto_to_best.is_some_and(|ratio| ratio.is_undecided(GOAL))
    }

    fn point(&self, policies: &Lending) -> LoanPoint {
        let Size { copied, lent, auto, fragments, spliced } = *self;
        let seconds = |timed: Option<&Timed>| timed.map(Timed::seconds).unwrap_or_default();
        let mut point = LoanPoint {
            size: copied.sends.size.into(),
            mtu: copied.mtu,
            transport: copied.sends.transport,
            aligned: copied.sends.aligned,
            copy_s: copied.copy_s.clone(),
            copied_throughput: copied.throughput().unwrap_or_default(),
            copied_errors: copied.errors(),
            copied_send_s: copied.seconds(),
            lent_throughput: lent.and_then(Timed::throughput),
            lent_errors: lent.map_or(0, Timed::errors),
            lent_send_s: seconds(lent),
            auto_send_s: seconds(auto),
            auto_lends: auto.map(|auto| auto.sends.lends_by(policies.policy(auto.sends.transport))),
            lent_to_copied: None,
            auto_to_best: None,
            fragments_send_s: seconds(fragments),
            spliced_send_s: seconds(spliced),
        };
        point.lent_to_copied = MedianRatio::of_pairs(&point.lent_send_s, &point.copied_send_s);
        point.auto_to_best = MedianRatio::of_pairs(&point.auto_send_s, point.best_send_s());
        point
    }
}

impl Series<'_> {
    /// Maps every page once: the first touch of a page costs a page fault, which must not count for a loan.
    fn touch(&mut self) -> Result<(), Error> {
        let size = (rustix::param::page_size() as u32).min(MOST_OF_DATAGRAM);
        let segment = Sends::segment(self.runs.test_bed.mtu);
        let pages = Sends { kind: SendKind::Copied, transport: Transport::Udp, size, segment, aligned: true };
        self.run(&pages, self.runs.media.length()).map(drop)
    }

    /// Candidates: for each size sends that copy, sends that lend if lending works, sends that choose, and sends
    /// that are fragmented.
    fn admit_all(&mut self, found: &mut Findings<'_>) -> Result<Vec<Timed>, Error> {
        let mtu = self.runs.test_bed.mtu;
        let file = self.runs.media.length();
        let (sends, too_large): (Vec<Sends>, Vec<Sends>) =
            all_sends(mtu).into_iter().partition(|sends| sends.room() <= file);
        for sends in too_large {
            found.leave_out(&sends.label(mtu), &"the file to send is shorter");
        }
        let label = |sends: &Sends| sends.label(mtu);
        let admitted = found.each((BEFORE, "verifying"), &sends, label, |found, copied| {
            let mut timed = vec![self.admit(*copied)?];
            let others = SendKind::OTHERS.map(|kind| Sends { kind, ..*copied });
            for sends in others.into_iter().filter(Sends::is_possible) {
                match self.admit(sends) {
                    Ok(admitted) => timed.push(admitted),
                    Err(error) => found.of_label(&label(&sends), error)?,
                }
            }
            Ok(timed)
        })?;
        let numbered = |(place, timed): (usize, Timed)| Timed { place, ..timed };
        Ok(admitted.into_iter().flatten().flatten().enumerate().map(numbered).collect())
    }

    /// Verifies the sends, and warms up; `None` if the kernel copied loans.
    fn admit(&mut self, sends: Sends) -> Result<Option<Timed>, Error> {
        let (volume, file) = (self.volume(&sends), self.runs.media.length());
        let sample = sends.stretches(file, VERIFIED.max(SENDS_VERIFIED * u64::from(sends.size)));
        let case = self.case(&sends);
        let Runs { test_bed, ref mut media, ref mut context, .. } = self.runs;
        verify_stretches(&case, sample.collect(), test_bed, media, context)?;
        let run = self.run(&sends, (volume / WARM_UP).max(u64::from(sends.size)))?;
        let estimate = run.estimate(volume);
        let timed =
            Timed { sends, place: 0, mtu: test_bed.mtu, estimate, copy_s: Vec::new(), runs: Vec::new() };
        Ok((!self.is_copied(&sends, &run)).then_some(timed))
    }

    /// Times a run; returns false if the kernel copied loans.
    fn time(&mut self, timed: &mut Timed) -> Result<bool, Error> {
        let run = self.run(&timed.sends, self.volume(&timed.sends))?;
        if self.is_copied(&timed.sends, &run) {
            return Ok(false);
        }
        timed.runs.push(run);
        Ok(true)
    }

    /// Runs sends of about `volume` bytes. The time includes reclaiming loans.
    fn run(&mut self, sends: &Sends, volume: u64) -> Result<Run, Error> {
        let stretches = sends.stretches(self.runs.media.length(), volume);
        let (run, sent) = self.runs.time(&self.case(sends), |_| stretches)?;
        let lends = sends.kind.lends();
        let (copied, loans) = (run.copied.filter(|_| lends), run.loans.filter(|_| lends));
        Ok(Run { errors: sent.waits, copied, loans, ..run })
    }

    fn case(&self, sends: &Sends) -> Case {
        sends.case(self.policies.policy(sends.transport))
    }

    /// Returns whether loans were copied, by the path because nothing more could be lent, or by the kernel.
    /// Sends that choose may be copied.
    fn is_copied(&mut self, sends: &Sends, run: &Run) -> bool {
        if sends.kind == SendKind::Auto {
            return false;
        }
        let copied = run.loans.filter(|loans| loans.copies + loans.copied_by_kernel > 0);
        self.copied_loans.extend(copied.map(|loans| CopiedLoans { sends: *sends, loans }));
        copied.is_some()
    }

    /// Bytes of a run.
    fn volume(&self, sends: &Sends) -> u64 {
        let Options { quick, volume, .. } = self.runs.options;
        let most = if *quick { QUICK_MOST_SENDS } else { MOST_SENDS };
        let size = u64::from(sends.size);
        (volume / size).clamp(1, most) * size
    }
}

impl Candidate for Timed {
    fn label(&self) -> String {
        self.sends.label(self.mtu)
    }

    fn estimate(&self) -> Duration {
        self.estimate
    }
}

impl Timed {
    /// Processor seconds per send, run by run.
    fn seconds(&self) -> Vec<f64> {
        let of_run =
            |run: &Run| (run.user_s + run.system_s) / (run.bytes / u64::from(self.sends.size)) as f64;
        self.runs.iter().map(of_run).collect()
    }

    fn throughput(&self) -> Option<f64> {
        let rates = self.runs.iter().map(|run| run.bytes as f64 / run.wall_s);
        Summary::of(rates).map(|summary| summary.median)
    }

    fn errors(&self) -> u64 {
        self.runs.iter().map(|run| run.errors).sum()
    }

    fn is_of_size(&self, other: &Timed) -> bool {
        Sends { kind: other.sends.kind, ..self.sends } == other.sends
    }

    fn measurement(&self) -> Measurement {
        let Sends { kind, transport, size, segment, aligned } = self.sends;
        Measurement {
            experiment: Experiment::Loan,
            path: match kind {
                SendKind::Auto => PathVariant::auto_send(aligned),
                SendKind::Fragments | SendKind::Spliced => {
                    PathVariant::fragments(kind == SendKind::Spliced, aligned)
                }
                _ => PathVariant::send(kind == SendKind::Lent, aligned),
            },
            transport,
            size: Some(size.into()),
            packets_per_train: match (kind, transport) {
                (SendKind::Fragments | SendKind::Spliced, _) | (_, Transport::Tcp) => 1,
                _ => size.div_ceil(segment.into()),
            },
            mtu: self.mtu,
            verified: true,
            calls_per_packet: None,
            calls_in_papers: None,
            runs: self.runs.clone(),
        }
    }
}

/// Adds points, their runs and thresholds to the result. The reason for a missing threshold is recorded in
/// `left_out`.
fn keep(candidates: &[Timed], series: &Series<'_>, mtu: u32, found: &mut Findings<'_>) {
    let is_whole = candidates.iter().all(|timed| !timed.runs.is_empty());
    let mut points = Vec::new();
    for size in candidates.chunk_by(|one, other| one.is_of_size(other)).filter_map(Size::of) {
        let others = [size.lent, size.auto, size.fragments, size.spliced];
        let measured = std::iter::once(size.copied).chain(others.into_iter().flatten());
        found.result.measurements.extend(measured.map(Timed::measurement));
        points.push(size.point(&series.policies));
    }
    if points.is_empty() {
        return;
    }
    let transports = if is_whole { &[Transport::Udp, Transport::Tcp][..] } else { &[] };
    let thresholds: Vec<Threshold> = transports
        .iter()
        .filter_map(|transport| find_threshold(&points, *transport, mtu, &series.copied_loans, found))
        .collect();
    let loan = found.result.loan.get_or_insert_with(Loan::default);
    loan.points.extend(points);
    loan.thresholds.extend(thresholds);
}

/// Threshold of one transport, if the points determine it; otherwise the reason goes to `found`.
fn find_threshold(
    points: &[LoanPoint],
    transport: Transport,
    mtu: u32,
    copied_loans: &[CopiedLoans],
    found: &mut Findings<'_>,
) -> Option<Threshold> {
    if !points.iter().any(|point| point.transport == transport) {
        return None;
    }
    let lent = points.iter().filter(|point| point.transport == transport && !point.lent_send_s.is_empty());
    let copies = lent.count() == 0 && kernel_copies(copied_loans, transport);
    let what = format!("from which size on lending is cheaper over {transport}, MTU {mtu}");
    threshold::threshold(points, transport, mtu, copies).map_err(|why| found.leave_out(&what, &why)).ok()
}

/// Sends that copy, of every size.
fn all_sends(mtu: u32) -> Vec<Sends> {
    let sizes = (OVER_UDP.iter().map(|size| (Transport::Udp, *size)))
        .chain(OVER_TCP.iter().map(|size| (Transport::Tcp, *size)));
    let segment = Sends::segment(mtu);
    sizes
        .flat_map(|(transport, size)| {
            let alignments = if size < LEAST_UNALIGNED { &[true][..] } else { &[true, false] };
            let sends = move |aligned: &bool| Sends {
                kind: SendKind::Copied,
                transport,
                size,
                segment,
                aligned: *aligned,
            };
            alignments.iter().map(sends)
        })
        .collect()
}
