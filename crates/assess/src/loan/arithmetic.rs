//! What follows from the runs of a point.

use crate::result::{LoanPoint, Threshold, Transport};
use crate::statistics::Summary;

impl LoanPoint {
    /// Seconds of a send besides its copy (t2 of the paper): the median of sends that copy, less that of the copy alone. Nothing
    /// where that leaves nothing: then the copy alone was not what the kernel's copy costs.
    pub fn rest_s(&self) -> Option<f64> {
        positive(median(&self.copied_send_s)? - median(&self.copy_s)?)
    }

    /// Seconds of lending alone: the median of sends that lend, less [`LoanPoint::rest_s`]. A difference of differences: it has
    /// the noise of three figures, and none is given where it is not positive.
    pub fn loan_alone_s(&self) -> Option<f64> {
        positive(median(&self.lent_send_s)? - self.rest_s()?)
    }

    /// Bytes per second of sends that copy (R of the paper).
    pub fn rate(&self) -> Option<f64> {
        Some(self.size as f64 / positive(median(&self.copied_send_s)?)?)
    }

    /// The same if the copy cost nothing (R_max).
    pub fn rate_without_copy(&self) -> Option<f64> {
        Some(self.size as f64 / self.rest_s()?)
    }

    /// Processor time of sends that lend as a share of that of sends that copy.
    pub fn lent_share(&self) -> Option<f64> {
        Some(median(&self.lent_send_s)? / positive(median(&self.copied_send_s)?)?)
    }
}

/// From which size on lending is cheaper, for each transport and MTU that something was lent over.
pub(super) fn thresholds(points: &[LoanPoint]) -> Vec<Threshold> {
    let mut series: Vec<(u32, Transport)> = points
        .iter()
        .filter(|point| !point.lent_send_s.is_empty())
        .map(|point| (point.mtu, point.transport))
        .collect();
    series.sort_unstable();
    series.dedup();
    let of = |(mtu, transport)| {
        let shares = points.iter().filter(|point| (point.mtu, point.transport) == (mtu, transport));
        // A size that was not lent says nothing for lending it.
        let shares = shares.map(|point| (point.size, point.lent_share().unwrap_or(f64::INFINITY))).collect();
        Threshold { transport, mtu, bytes: cheaper_from(shares) }
    };
    series.into_iter().map(of).collect()
}

/// The least size from which on all shares are below one.
fn cheaper_from(mut shares: Vec<(u64, f64)>) -> Option<u64> {
    shares.sort_unstable_by_key(|(size, _)| *size);
    shares.iter().rev().take_while(|(_, share)| *share < 1.0).last().map(|(size, _)| *size)
}

pub(super) fn median(runs: &[f64]) -> Option<f64> {
    Summary::of(runs.iter().copied()).map(|summary| summary.median)
}

fn positive(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(size: u64, copy: f64, copied: f64, lent: &[f64]) -> LoanPoint {
        LoanPoint {
            size,
            mtu: 1500,
            transport: Transport::Udp,
            copy_s: vec![copy],
            copied_send_s: vec![copied],
            lent_send_s: lent.to_vec(),
            copied_throughput: 1.0,
            lent_throughput: None,
            copied_errors: 0,
            lent_errors: 0,
        }
    }

    #[test]
    fn rates_and_the_loan_alone_follow_from_three_figures() {
        let point = point(4096, 1.0, 4.0, &[3.0, 3.5, 9.0]);
        assert_eq!((point.rate(), point.rate_without_copy()), (Some(1024.0), Some(4096.0 / 3.0)));
        assert_eq!((point.loan_alone_s(), point.lent_share()), (Some(0.5), Some(0.875)));
    }

    #[test]
    fn a_difference_that_leaves_nothing_is_no_figure() {
        let dear_copy = point(64, 5.0, 4.0, &[3.0]);
        assert_eq!((dear_copy.rate_without_copy(), dear_copy.loan_alone_s()), (None, None));
        assert_eq!(point(64, 1.0, 4.0, &[2.0]).loan_alone_s(), None);
        assert_eq!(point(64, 1.0, 4.0, &[]).lent_share(), None);
    }

    #[test]
    fn the_threshold_is_where_no_larger_size_is_dearer() {
        let threshold = |lent: [&[f64]; 4]| {
            let sizes = [512, 4096, 4097, 8192];
            let points: Vec<LoanPoint> =
                sizes.into_iter().zip(lent).map(|(size, lent)| point(size, 1.0, 2.0, lent)).rev().collect();
            let found = thresholds(&points);
            assert!(found.iter().all(|found| (found.mtu, found.transport) == (1500, Transport::Udp)));
            found.first().map(|threshold| threshold.bytes)
        };
        assert_eq!(threshold([&[1.0], &[1.0], &[1.0], &[1.0]]), Some(Some(512)));
        assert_eq!(threshold([&[3.0], &[1.9], &[1.9], &[1.0]]), Some(Some(4096)));
        assert_eq!(threshold([&[3.0], &[1.9], &[2.0], &[1.0]]), Some(Some(8192)));
        assert_eq!(threshold([&[3.0], &[1.9], &[], &[1.0]]), Some(Some(8192)));
        assert_eq!(threshold([&[1.0], &[1.0], &[1.0], &[2.5]]), Some(None));
        assert_eq!(threshold([&[], &[], &[], &[]]), None);
    }
}
