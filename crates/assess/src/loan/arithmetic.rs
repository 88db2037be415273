//! Figures derived from the runs of a point.

use crate::result::LoanPoint;
use crate::statistics::Summary;

impl LoanPoint {
    /// Seconds of a send besides its copy (t2 of the paper): the median of sends that copy, less that of the
    /// copy alone. Nothing where that leaves nothing: then the copy alone was not what the kernel's copy
    /// costs.
    pub fn rest_s(&self) -> Option<f64> {
        positive(median(&self.copied_send_s)? - median(&self.copy_s)?)
    }

    /// Seconds of lending alone: the median of sends that lend, less [`LoanPoint::rest_s`]. A difference of
    /// differences: it has the noise of three figures, and none is given where it is not positive.
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

pub(super) fn median(runs: &[f64]) -> Option<f64> {
    Summary::of(runs.iter().copied()).map(|summary| summary.median)
}

fn positive(seconds: f64) -> Option<f64> {
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Transport;

    fn point(size: u64, copy: f64, copied: f64, lent: &[f64]) -> LoanPoint {
        LoanPoint {
            size,
            mtu: 1500,
            transport: Transport::Udp,
            aligned: true,
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
}
