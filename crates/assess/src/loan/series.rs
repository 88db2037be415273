//! All sizes over UDP and TCP, from the beginning of a page and from just before one, on one test bed.

use std::time::Duration;

use super::point::{Point, Timed};
use super::sends::{How, Sends};
use super::supplies::Supplies;
use super::threshold;
use super::turned::{Turned, explain, kernel_copies};
use crate::costs::ColdCopies;
use crate::error::Error;
use crate::findings::Findings;
use crate::media::Media;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::{LoanPoint, Measurement, Threshold, Transport};
use crate::test_bed::TestBed;

/// Bytes of a send: halves and multiples of pages. The largest over UDP is what a datagram holds.
const OVER_UDP: [u32; 13] = [
    64,
    256,
    512,
    1024,
    2048,
    4096,
    8192,
    12_288,
    16_384,
    32_768,
    49_152,
    61_440,
    super::sends::MOST_OF_DATAGRAM,
];
const OVER_TCP: [u32; 11] = [64, 256, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 262_144, LARGEST];

/// The largest send.
pub(super) const LARGEST: u32 = 1 << 20;

/// Least size measured from one byte before a page, too: smaller sends are never worth a loan.
const LEAST_UNALIGNED: u32 = 1024;

/// A run has no more sends: small ones would take minutes for the volume, and say no more.
const MOST_SENDS: u64 = 1 << 20;
const QUICK_MOST_SENDS: u64 = 1 << 16;

/// The run before those that count has this part of their volume.
const WARM_UP: u64 = 16;

/// Share of the time that goes into what comes before the runs, about.
pub(super) const BEFORE: f64 = 0.3;

/// Series of one MTU.
pub(super) struct Series<'a> {
    pub(super) options: &'a Options,
    pub(super) copies: Option<&'a mut ColdCopies>,
    pub(super) points: Vec<Point>,
    pub(super) turned: Vec<Turned>,
    pub(super) mtu: u32,
    /// True if every point was measured once.
    pub(super) is_whole: bool,
}

/// Findings of a series.
pub(super) struct Taken {
    pub(super) points: Vec<LoanPoint>,
    pub(super) thresholds: Vec<Threshold>,
    /// The runs that the points summarise.
    pub(super) measurements: Vec<Measurement>,
}

impl<'a> Series<'a> {
    pub(super) fn new(options: &'a Options, copies: Option<&'a mut ColdCopies>) -> Series<'a> {
        Series { options, copies, points: Vec::new(), turned: Vec::new(), mtu: 0, is_whole: false }
    }

    /// Verifies, warms up and times. What was measured until an error stays.
    ///
    /// # Errors
    /// Errors that end the assessment; those of one size are in `found`.
    pub(super) fn make(
        &mut self,
        test_bed: &TestBed,
        found: &mut Findings,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        self.mtu = test_bed.mtu;
        let media = Media::open(self.options, 1, LARGEST.into(), progress)?;
        let mut supplies = Supplies::of(media);
        progress.at(0.0, "mapping what is sent");
        supplies.touch(test_bed)?;
        self.admit_all(test_bed, &mut supplies, found, progress)?;
        let outcome = self.rounds(test_bed, &mut supplies, found, progress);
        explain(&self.turned, self.mtu, found);
        outcome
    }

    fn admit_all(
        &mut self,
        test_bed: &TestBed,
        supplies: &mut Supplies,
        found: &mut Findings,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let all = all_sends(test_bed.mtu);
        for (index, copied) in all.iter().enumerate() {
            go_on(progress, BEFORE * index as f64 / all.len() as f64, "verifying", copied)?;
            if copied.room() > supplies.length() {
                found.leave_out(&format!("loan: {}", copied.label()), &"the file to send is shorter");
                continue;
            }
            if let Some(timed) = self.admit(*copied, test_bed, supplies, found)? {
                let lent = self.admit(Sends { how: How::Lent, ..*copied }, test_bed, supplies, found)?;
                self.points.push(Point { copy_s: Vec::new(), copied: timed, lent });
            }
        }
        Ok(())
    }

    /// Verifies, and sends some without counting.
    fn admit(
        &mut self,
        sends: Sends,
        test_bed: &TestBed,
        supplies: &mut Supplies,
        found: &mut Findings,
    ) -> Result<Option<Timed>, Error> {
        let volume = self.volume(&sends);
        let warm_up = (volume / WARM_UP).max(u64::from(sends.size));
        let admitted =
            supplies.verify(&sends, test_bed).and_then(|()| supplies.run(&sends, warm_up, test_bed));
        let Some(made) = of(&sends, self.mtu, admitted, found)? else { return Ok(None) };
        if made.is_copied_after_all() {
            self.turned.push(Turned { sends, loans: made.loans });
            return Ok(None);
        }
        let estimate = Duration::from_secs_f64(made.run.wall_s * volume as f64 / made.run.bytes as f64);
        Ok(Some(Timed { sends, estimate, seconds: Vec::new(), runs: Vec::new() }))
    }

    /// Bytes of a run.
    pub(super) fn volume(&self, sends: &Sends) -> u64 {
        let most = if self.options.quick { QUICK_MOST_SENDS } else { MOST_SENDS };
        let size = u64::from(sends.size);
        (self.options.volume / size).clamp(1, most) * size
    }

    /// Findings. The reason for a missing threshold goes to `found`.
    pub(super) fn take(self, found: &mut Findings) -> Taken {
        let mtu = self.mtu;
        let measured: Vec<Point> =
            self.points.into_iter().filter(|point| !point.copied.runs.is_empty()).collect();
        let timed = measured.iter().flat_map(|point| [Some(&point.copied), point.lent.as_ref()]).flatten();
        let measurements =
            timed.filter(|timed| !timed.runs.is_empty()).map(|timed| timed.measurement(mtu)).collect();
        let points: Vec<LoanPoint> = measured.into_iter().map(|point| point.result(mtu)).collect();
        let transports = if self.is_whole { &[Transport::Udp, Transport::Tcp][..] } else { &[] };
        let thresholds =
            transports.iter().filter_map(|transport| conclude(&points, *transport, mtu, &self.turned, found));
        Taken { thresholds: thresholds.collect(), points, measurements }
    }
}

/// The threshold of one transport, if the points say where it is; what they do not say goes to `found`.
fn conclude(
    points: &[LoanPoint],
    transport: Transport,
    mtu: u32,
    turned: &[Turned],
    found: &mut Findings,
) -> Option<Threshold> {
    if !points.iter().any(|point| point.transport == transport) {
        return None;
    }
    let lent = points.iter().filter(|point| point.transport == transport && !point.lent_send_s.is_empty());
    let copies = lent.count() == 0 && kernel_copies(turned, transport);
    let what = format!("from which size on lending is cheaper over {transport}, MTU {mtu}");
    let ignored = threshold::ignored(points, transport, mtu);
    if !ignored.is_empty() {
        let sizes = ignored.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let why = format!("their runs are too few, or differ by more than a tenth: sends of {sizes} bytes");
        found.leave_out(&format!("some sizes for the question {what}"), &why);
    }
    threshold::threshold(points, transport, mtu, copies).map_err(|why| found.leave_out(&what, &why)).ok()
}

/// Every size, as sends that copy.
fn all_sends(mtu: u32) -> Vec<Sends> {
    let sizes = (OVER_UDP.iter().map(|size| (Transport::Udp, *size)))
        .chain(OVER_TCP.iter().map(|size| (Transport::Tcp, *size)));
    let segment = Sends::segment(mtu);
    sizes
        .flat_map(|(transport, size)| {
            let alignments = if size < LEAST_UNALIGNED { &[true][..] } else { &[true, false] };
            let sends =
                move |aligned: &bool| Sends { how: How::Copied, transport, size, segment, aligned: *aligned };
            alignments.iter().map(sends)
        })
        .collect()
}

/// Reports progress, or ends on a request to stop.
pub(super) fn go_on(
    progress: &mut dyn Progress,
    share: f64,
    doing: &str,
    sends: &Sends,
) -> Result<(), Error> {
    progress.at(share, &format!("{doing} {}", sends.label()));
    if progress.stopped() { Err(Error::Stopped) } else { Ok(()) }
}

/// The result, or nothing if its error concerns these sends alone and is noted.
pub(super) fn of<T>(
    sends: &Sends,
    mtu: u32,
    made: Result<T, Error>,
    found: &mut Findings,
) -> Result<Option<T>, Error> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(error) => {
            found.of_label(&format!("loan: {}, MTU {mtu}", sends.label()), error)?;
            Ok(None)
        }
    }
}
