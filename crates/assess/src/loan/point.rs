//! Runs of one size, copied and lent.

use std::time::Duration;

use super::arithmetic::median;
use super::sends::{How, Made, Sends};
use crate::result::{Experiment, LoanPoint, Measurement, PathVariant, Run, Transport};

/// Size over one transport from one place in a page.
pub(super) struct Point {
    pub(super) copy_s: Vec<f64>,
    pub(super) copied: Timed,
    /// Nothing where loans do not work, or are copied.
    pub(super) lent: Option<Timed>,
}

/// Sends and their runs.
pub(super) struct Timed {
    pub(super) sends: Sends,
    /// Duration of a run, as far as is known.
    pub(super) estimate: Duration,
    /// Processor seconds of a send.
    pub(super) seconds: Vec<f64>,
    pub(super) runs: Vec<Run>,
}

impl Point {
    pub(super) fn result(self, mtu: u32) -> LoanPoint {
        let lent = self.lent.unwrap_or(Timed { seconds: Vec::new(), runs: Vec::new(), ..self.copied });
        LoanPoint {
            size: self.copied.sends.size.into(),
            mtu,
            transport: self.copied.sends.transport,
            aligned: self.copied.sends.aligned,
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
    pub(super) fn add(&mut self, made: &Made) {
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

    pub(super) fn measurement(&self, mtu: u32) -> Measurement {
        let Sends { how, transport, size, segment, aligned } = self.sends;
        Measurement {
            experiment: Experiment::Loan,
            path: PathVariant::send(how == How::Lent, aligned),
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
