//! Threshold of lending, if the runs determine it.

use crate::result::{LoanPoint, Threshold, Transport};
use crate::statistics::{FEWEST_RUNS, NOISY_SPREAD, Summary};

/// Lending must be cheaper by this share, which is the error that figures may have without being called
/// noisy.
const MARGIN: f64 = NOISY_SPREAD;

/// Verdict on the sizes of one alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Cheaper from this size on.
    From(u64),
    /// Not cheaper at the largest size.
    Never,
    /// Too little data.
    Unknown,
}

/// Threshold of one transport and MTU, or the reason for its absence. `kernel_copies` is true if the kernel
/// copied all loans.
pub(super) fn threshold(
    points: &[LoanPoint],
    transport: Transport,
    mtu: u32,
    kernel_copies: bool,
) -> Result<Threshold, String> {
    if kernel_copies {
        return Ok(Threshold { transport, mtu, aligned_bytes: None, unaligned_bytes: None, kernel_copies });
    }
    let bytes = |aligned| {
        let of =
            |point: &&LoanPoint| (point.transport, point.mtu, point.aligned) == (transport, mtu, aligned);
        match verdict(points.iter().filter(of).collect()) {
            Verdict::From(bytes) => Ok(Some(bytes)),
            Verdict::Never => Ok(None),
            Verdict::Unknown => Err(format!(
                "too little is known: it takes {FEWEST_RUNS} runs of the largest sends, which differ by less than {:.0} %",
                NOISY_SPREAD * 100.0
            )),
        }
    };
    Ok(Threshold {
        transport,
        mtu,
        aligned_bytes: bytes(true)?,
        unaligned_bytes: bytes(false)?,
        kernel_copies,
    })
}

/// Sizes that are ignored because their runs are noisy, ascending.
pub(super) fn ignored(points: &[LoanPoint], transport: Transport, mtu: u32) -> Vec<u64> {
    let of = |point: &&LoanPoint| (point.transport, point.mtu) == (transport, mtu);
    let is_ignored = |point: &&LoanPoint| !point.lent_send_s.is_empty() && share(point).is_none();
    let mut sizes: Vec<u64> = points.iter().filter(of).filter(is_ignored).map(|point| point.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Smallest size from which on all sizes are cheaper. Noisy sizes are ignored, and so are sizes above the
/// largest that was lent, since nothing is known about them. A smaller size that could not be lent counts as
/// more expensive.
fn verdict(mut points: Vec<&LoanPoint>) -> Verdict {
    points.sort_unstable_by_key(|point| std::cmp::Reverse(point.size));
    let mut lent = points.into_iter().skip_while(|point| point.lent_send_s.is_empty()).peekable();
    let largest = lent.peek().and_then(|point| share(point));
    let mut cheaper = None;
    for point in lent {
        match share(point) {
            Some(share) if share < 1.0 - MARGIN => cheaper = Some(point.size),
            None if !point.lent_send_s.is_empty() => {}
            _ => break,
        }
    }
    match (cheaper, largest) {
        (Some(size), _) => Verdict::From(size),
        (None, Some(_)) => Verdict::Never,
        (None, None) => Verdict::Unknown,
    }
}

/// Processor time of sends that lend as a share of sends that copy; `None` if one of the two is unreliable.
fn share(point: &LoanPoint) -> Option<f64> {
    let reliable = |runs: &[f64]| {
        let summary = Summary::of(runs.iter().copied())?;
        (summary.spread.is_some() && !summary.is_noisy()).then_some(summary.median)
    };
    let copied = reliable(&point.copied_send_s).filter(|seconds| *seconds > 0.0);
    Some(reliable(&point.lent_send_s)? / copied?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points whose copying sends take 2; `lent` has the times of lending sends, the largest size last.
    fn points(lent: &[&[f64]]) -> Vec<LoanPoint> {
        let sizes = [512, 4096, 8192, 16_384];
        let point = |(size, lent): (u64, &&[f64])| LoanPoint {
            size,
            mtu: 1500,
            transport: Transport::Udp,
            aligned: true,
            copy_s: vec![1.0],
            copied_send_s: vec![2.0, 2.0, 2.0],
            lent_send_s: lent.to_vec(),
            copied_throughput: 1.0,
            lent_throughput: None,
            copied_errors: 0,
            lent_errors: 0,
        };
        sizes.into_iter().zip(lent).map(point).collect()
    }

    const CHEAP: &[f64] = &[1.0; 3];
    const HARDLY: &[f64] = &[1.85; 3];
    const DEAR: &[f64] = &[3.0; 3];
    const NOISY: &[f64] = &[0.5, 3.0, 9.0];
    const NOT_LENT: &[f64] = &[];

    /// Promise: `loan` decides by measured thresholds, for aligned and other sends; sizes with noisy results
    /// set no threshold.
    #[test]
    fn the_threshold_is_where_no_larger_size_costs_more() {
        for (lent, expected) in [
            ([CHEAP, CHEAP, CHEAP, CHEAP], Verdict::From(512)),
            ([DEAR, CHEAP, CHEAP, CHEAP], Verdict::From(4096)),
            ([CHEAP, DEAR, CHEAP, CHEAP], Verdict::From(8192)),
            ([CHEAP, CHEAP, CHEAP, DEAR], Verdict::Never),
            ([DEAR, HARDLY, CHEAP, CHEAP], Verdict::From(8192)),
            ([CHEAP, CHEAP, CHEAP, HARDLY], Verdict::Never),
            ([DEAR, CHEAP, NOT_LENT, CHEAP], Verdict::From(16_384)),
            ([DEAR, CHEAP, CHEAP, NOT_LENT], Verdict::From(4096)),
            ([DEAR, CHEAP, NOISY, CHEAP], Verdict::From(4096)),
            ([DEAR, CHEAP, CHEAP, NOISY], Verdict::From(4096)),
            ([DEAR, DEAR, DEAR, NOISY], Verdict::Unknown),
            ([NOISY, NOISY, NOISY, NOISY], Verdict::Unknown),
            ([NOT_LENT, NOT_LENT, NOT_LENT, NOT_LENT], Verdict::Unknown),
            ([DEAR, CHEAP, &[1.0, 1.0], &[1.0]], Verdict::From(4096)),
            ([&[1.0], &[1.0], &[1.0], &[1.0]], Verdict::Unknown),
        ] {
            let points = points(&lent);
            assert_eq!(verdict(points.iter().rev().collect()), expected, "{lent:?}");
        }
    }

    #[test]
    fn both_alignments_have_to_be_known() {
        let aligned = points(&[DEAR, CHEAP, CHEAP, CHEAP]);
        let of = |other: &[&[f64]]| {
            let mut all = aligned.clone();
            all.extend(points(other).into_iter().map(|point| LoanPoint { aligned: false, ..point }));
            let found = threshold(&all, Transport::Udp, 1500, false)?;
            Ok::<_, String>((found.aligned_bytes, found.unaligned_bytes, ignored(&all, Transport::Udp, 1500)))
        };
        assert_eq!(of(&[DEAR, DEAR, CHEAP, CHEAP]), Ok((Some(4096), Some(8192), vec![])));
        assert_eq!(of(&[NOISY, DEAR, NOISY, DEAR]), Ok((Some(4096), None, vec![512, 8192])));
        assert!(of(&[DEAR, DEAR, CHEAP, NOISY]).is_ok());
        assert!(of(&[NOISY; 4]).unwrap_err().contains("too little is known"));
    }

    #[test]
    fn where_the_kernel_copies_nothing_is_to_be_lent() {
        let found = threshold(&points(&[NOT_LENT; 4]), Transport::Tcp, 9000, true).unwrap();
        assert_eq!((found.aligned_bytes, found.unaligned_bytes, found.kernel_copies), (None, None, true));
    }
}
