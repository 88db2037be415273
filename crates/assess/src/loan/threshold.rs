//! Threshold of lending, from ratios of paired rounds.

use crate::confidence::MedianRatio;
use crate::result::{LoanPoint, Threshold, Transport};

/// Verdict on the sizes of one alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Cheaper from this size on.
    From(u64),
    /// Not proved cheaper at any size above which it is never proved more expensive.
    Never,
    /// No size has enough rounds for an interval.
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
    let of = |aligned| {
        let of = move |point: &&LoanPoint| {
            (point.transport, point.mtu, point.aligned) == (transport, mtu, aligned)
        };
        points.iter().filter(of).collect::<Vec<_>>()
    };
    let bytes = |aligned| match verdict(of(aligned)) {
        _ if kernel_copies => Ok(None),
        Verdict::From(bytes) => Ok(Some(bytes)),
        Verdict::Never => Ok(None),
        Verdict::Unknown => Err("too few rounds: an interval needs 8 of a size; use more --runs".to_owned()),
    };
    Ok(Threshold {
        transport,
        mtu,
        aligned_bytes: bytes(true)?,
        unaligned_bytes: bytes(false)?,
        aligned_undecided: undecided(&of(true)),
        unaligned_undecided: undecided(&of(false)),
        kernel_copies,
    })
}

/// Sizes for which neither lending nor copying is proved cheaper, ascending.
fn undecided(points: &[&LoanPoint]) -> Vec<u64> {
    let is_undecided =
        |point: &&&LoanPoint| point.lent_to_copied.is_some_and(|ratio| ratio.is_undecided(1.0));
    let mut sizes: Vec<u64> = points.iter().filter(is_undecided).map(|point| point.size).collect();
    sizes.sort_unstable();
    sizes
}

/// Measured size whose loans were not all copied: `None` for a size that could not be lent, which counts as
/// more expensive.
type Size = (u64, Option<MedianRatio>);

/// Finds the smallest size proved cheaper above which no size is proved more expensive. Undecided sizes below
/// it are included down to the first whose median is not below 1; the threshold is where the medians of these
/// two neighbours cross 1. Sizes above the largest that was lent are ignored, since nothing is known of them.
fn verdict(mut points: Vec<&LoanPoint>) -> Verdict {
    points.sort_unstable_by_key(|point| point.size);
    let known = points.iter().rposition(|point| point.lent_to_copied.is_some());
    let Some(known) = known else { return Verdict::Unknown };
    let sizes: Vec<Size> = points[..=known].iter().map(|point| (point.size, point.lent_to_copied)).collect();
    if sizes.iter().all(|(_, ratio)| ratio.is_none_or(|ratio| ratio.lower.is_none())) {
        return Verdict::Unknown;
    }
    let is_dearer = |(_, ratio): &Size| ratio.is_none_or(|ratio| ratio.is_above(1.0));
    let after_dearer = sizes.iter().rposition(is_dearer).map_or(0, |place| place + 1);
    let is_cheaper = |(_, ratio): &Size| ratio.is_some_and(|ratio| ratio.is_below(1.0));
    let Some(cheaper) = sizes[after_dearer..].iter().position(is_cheaper) else { return Verdict::Never };
    let has_lower_median = |(_, ratio): &Size| ratio.is_some_and(|ratio| ratio.median < 1.0);
    let before = sizes[..after_dearer + cheaper].iter().rposition(|size| !has_lower_median(size));
    let Some(before) = before else { return Verdict::From(sizes[0].0) };
    Verdict::From(crossing(sizes[before], sizes[before + 1]))
}

/// Size at which the line through two neighbours, by the logarithms of size and ratio, crosses 1; the larger
/// one if the smaller could not be lent. The ratio is at least 1 below, and less than 1 above.
fn crossing((below, ratio_below): Size, (above, ratio_above): Size) -> u64 {
    let Some((from, to)) = ratio_below.zip(ratio_above) else { return above };
    let (from, to) = (from.median.ln(), to.median.ln());
    let share = from / (from - to);
    let bytes = below as f64 * (above as f64 / below as f64).powf(share);
    (bytes.ceil() as u64).clamp(below + 1, above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: [u64; 4] = [512, 4096, 8192, 16_384];

    /// Points of these ratios of lending to copying: lower bound, median and upper bound.
    fn points(ratios: &[Option<MedianRatio>]) -> Vec<LoanPoint> {
        let point = |(size, ratio): (u64, &Option<MedianRatio>)| LoanPoint {
            size,
            mtu: 1500,
            transport: Transport::Udp,
            aligned: true,
            copy_s: vec![1.0],
            copied_send_s: vec![2.0],
            lent_send_s: ratio.iter().map(|ratio| 2.0 * ratio.median).collect(),
            copied_throughput: 1.0,
            lent_throughput: None,
            copied_errors: 0,
            lent_errors: 0,
            auto_send_s: Vec::new(),
            auto_lends: None,
            lent_to_copied: *ratio,
            auto_to_best: None,
            fragments_send_s: Vec::new(),
            spliced_send_s: Vec::new(),
        };
        SIZES.into_iter().zip(ratios).map(point).collect()
    }

    const fn ratio(lower: f64, median: f64, upper: f64) -> Option<MedianRatio> {
        Some(MedianRatio { median, lower: Some(lower), upper: Some(upper), rounds: 10 })
    }

    const CHEAP: Option<MedianRatio> = ratio(0.45, 0.5, 0.55);
    const HARDLY: Option<MedianRatio> = ratio(0.98, 0.99, 0.999);
    const DEAR: Option<MedianRatio> = ratio(1.9, 2.0, 2.1);
    /// Undecided, with a median on either side.
    const MAYBE: Option<MedianRatio> = ratio(0.5, 0.9, 1.6);
    const HARDLY_NOT: Option<MedianRatio> = ratio(0.9, 1.0, 1.1);
    const TOO_FEW: Option<MedianRatio> =
        Some(MedianRatio { median: 0.5, lower: None, upper: None, rounds: 7 });
    const NOT_LENT: Option<MedianRatio> = None;

    /// Promise: `assess loan` takes the first size proved cheaper above which none is proved more expensive.
    #[test]
    fn the_threshold_is_where_no_larger_size_costs_more() {
        for (lent, expected) in [
            ([CHEAP, CHEAP, CHEAP, CHEAP], Verdict::From(512)),
            // Between 512 and 4,096, from 2 to 0.5: the middle of the logarithms.
            ([DEAR, CHEAP, CHEAP, CHEAP], Verdict::From(1449)),
            ([CHEAP, DEAR, CHEAP, CHEAP], Verdict::From(5793)),
            ([CHEAP, CHEAP, CHEAP, DEAR], Verdict::Never),
            ([DEAR, HARDLY, CHEAP, CHEAP], Verdict::From(3977)),
            ([DEAR, DEAR, DEAR, HARDLY], Verdict::From(16_223)),
            ([DEAR, CHEAP, NOT_LENT, CHEAP], Verdict::From(16_384)),
            ([DEAR, CHEAP, CHEAP, NOT_LENT], Verdict::From(1449)),
            ([DEAR, CHEAP, MAYBE, CHEAP], Verdict::From(1449)),
            ([DEAR, CHEAP, HARDLY_NOT, HARDLY_NOT], Verdict::From(1449)),
            ([DEAR, MAYBE, CHEAP, CHEAP], Verdict::From(3114)),
            ([DEAR, HARDLY_NOT, CHEAP, CHEAP], Verdict::From(4097)),
            ([MAYBE, MAYBE, CHEAP, CHEAP], Verdict::From(512)),
            ([DEAR, DEAR, DEAR, MAYBE], Verdict::Never),
            ([MAYBE, MAYBE, MAYBE, MAYBE], Verdict::Never),
            ([NOT_LENT, NOT_LENT, NOT_LENT, NOT_LENT], Verdict::Unknown),
            ([DEAR, CHEAP, TOO_FEW, TOO_FEW], Verdict::From(1449)),
            ([TOO_FEW, TOO_FEW, TOO_FEW, NOT_LENT], Verdict::Unknown),
        ] {
            let points = points(&lent);
            assert_eq!(verdict(points.iter().rev().collect()), expected, "{lent:?}");
        }
    }

    #[test]
    fn both_alignments_have_to_be_known_and_undecided_sizes_are_named() {
        let aligned = points(&[DEAR, CHEAP, CHEAP, CHEAP]);
        let of = |other: &[Option<MedianRatio>]| {
            let mut all = aligned.clone();
            all.extend(points(other).into_iter().map(|point| LoanPoint { aligned: false, ..point }));
            threshold(&all, Transport::Udp, 1500, false)
        };
        let found = of(&[DEAR, MAYBE, HARDLY_NOT, DEAR]).unwrap();
        assert_eq!((found.aligned_bytes, found.unaligned_bytes), (Some(1449), None));
        assert_eq!((found.aligned_undecided, found.unaligned_undecided), (vec![], vec![4096, 8192]));
        assert!(of(&[TOO_FEW; 4]).unwrap_err().contains("too few rounds"));
    }

    #[test]
    fn where_the_kernel_copies_nothing_is_to_be_lent() {
        let found = threshold(&points(&[NOT_LENT; 4]), Transport::Tcp, 9000, true).unwrap();
        assert_eq!((found.aligned_bytes, found.unaligned_bytes, found.kernel_copies), (None, None, true));
    }

    fn any_ratio() -> impl Strategy<Value = Option<MedianRatio>> {
        let bounds = (0.3..3.0, 1.0..1.5, 1.0..1.5);
        let of = |(median, below, above)| ratio(median / below, median, median * above);
        prop_oneof![1 => Just(NOT_LENT), 9 => bounds.prop_map(of)]
    }

    proptest! {
        /// No size at or above the threshold is proved more expensive, and one there is proved cheaper; without a
        /// threshold, a size proved cheaper has a larger one that is not.
        #[test]
        fn what_is_proved_never_contradicts_the_threshold(ratios in prop::array::uniform4(any_ratio())) {
            let points = points(&ratios);
            let lent = |of: &dyn Fn(MedianRatio) -> bool, from: u64| {
                points.iter().any(|point| point.size >= from && point.lent_to_copied.is_some_and(of))
            };
            match verdict(points.iter().collect()) {
                Verdict::From(bytes) => {
                    prop_assert!(!lent(&|ratio| ratio.is_above(1.0), bytes));
                    prop_assert!(lent(&|ratio| ratio.is_below(1.0), bytes));
                    // The sizes that the threshold leaves to copies are not proved cheaper, up to the last dear one.
                    let below = points.iter().rfind(|point| point.size < bytes);
                    prop_assert!(below.is_none_or(|point| point.lent_to_copied.is_none_or(|r| r.median >= 1.0)));
                }
                Verdict::Never => {
                    let largest = points.iter().rfind(|point| point.lent_to_copied.is_some()).unwrap();
                    prop_assert!(!largest.lent_to_copied.unwrap().is_below(1.0));
                }
                Verdict::Unknown => prop_assert!(ratios.iter().all(Option::is_none)),
            }
        }
    }
}
