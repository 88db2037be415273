//! Load of the last two intervals, and what fits beside it. Pure.

use std::time::Duration;

use wirepath_datapath::calibration::TrainCost;

use super::lateness::RecentLateness;

/// Least share of a thread's time that a session is taken to cost.
pub(super) const LEAST_COST: f64 = 1.0 / 20_000.0;

/// Payload bytes of a packet of transport stream.
pub(super) const PAYLOAD_BYTES: f64 = 1316.0;

/// Bytes of a packet on the link beside its payload: RTP, UDP and IP headers (RFC 3550, 768 and 791), and those of
/// Ethernet with preamble and gap (IEEE 802.3).
const PACKET_OVERHEAD: f64 = 12.0 + 8.0 + 20.0 + 18.0 + 20.0;

/// Sessions on a thread from which on the measured cost is that of any number of them. Fewer have short bursts, and each
/// pays for a wake-up of the thread that many share: one alone costs up to fifty times as much.
const MANY_SESSIONS: f64 = 64.0;

/// Share of the unused threads' time that the new sessions of one interval may take. Their cost is known only when the
/// interval has been measured.
const MOST_GROWTH: f64 = 0.5;

/// Limits of what sessions take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Engine threads.
    pub(super) all_threads: f64,
    /// Share of threads and rate that sessions leave, 0 to 1.
    pub(super) reserve: f64,
    /// Most bits per second on the link, if that is known.
    pub(super) rate: Option<f64>,
}

impl Limits {
    /// Engine threads' time for sessions, in threads, if control requests take `control` threads: what exceeds half of
    /// the reserve is not available to sessions. Of a processor that requests want, too, sessions get half.
    fn threads(&self, control: f64) -> f64 {
        let reserve = self.all_threads * self.reserve;
        let taken = (control + reserve / 2.0).min(self.all_threads / 2.0);
        (self.all_threads - reserve.max(taken)).max(0.0)
    }

    /// Bits per second that sessions may take.
    pub(super) fn session_rate(&self) -> Option<f64> {
        self.rate.map(|rate| rate * (1.0 - self.reserve))
    }
}

/// Cost of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Threads' time, in threads.
    pub(super) threads: f64,
    /// Bits per second on the link.
    pub(super) bits: f64,
}

/// Estimate of costs, where too few sessions play to measure them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Processor time of trains, the highest of which counts: as measured, else by the calibration for stored
    /// and for made headers, if there is one.
    pub(super) train_costs: [Option<TrainCost>; 2],
    /// Length of a burst when many sessions play.
    pub(super) burst: Duration,
    /// Bit rate of a session's payload that is not known.
    pub(super) payload_bits: f64,
}

impl Estimate {
    /// Cost of a session whose payload has this bit rate.
    fn cost(&self, payload_bits: f64) -> Cost {
        let packets = payload_bits / 8.0 / PAYLOAD_BYTES;
        let packets_per_train = packets * self.burst.as_secs_f64();
        let costs = self.train_costs.iter().flatten().map(|cost| cost.ns_per_packet(packets_per_train));
        let ns_per_packet = costs.fold(0.0, f64::max);
        let threads = (packets * ns_per_packet / 1e9).max(LEAST_COST);
        Cost { threads, bits: link_bits(payload_bits / 8.0, packets) }
    }
}

/// Bits on the link of so many payload bytes in packets.
pub(super) fn link_bits(payload_bytes: f64, packets: f64) -> f64 {
    (payload_bytes + packets * PACKET_OVERHEAD) * 8.0
}

/// Measured cost of a session at the normal speed over an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MeasuredCost {
    /// Threads' time, in threads.
    pub(super) threads: f64,
    /// Sum of the speeds of those that played, on average.
    pub(super) rate: f64,
}

impl MeasuredCost {
    /// Returns whether the cost is that of any number of sessions.
    pub(super) fn is_of_many(self, limits: Limits) -> bool {
        self.weight(limits) >= 1.0
    }

    /// Weight of the measurement beside an estimate: the more sessions played, the more.
    fn weight(self, limits: Limits) -> f64 {
        (self.rate / (MANY_SESSIONS * limits.all_threads.max(1.0))).min(1.0)
    }

    /// Mean of this and an estimate.
    fn with(self, estimated: f64, limits: Limits) -> f64 {
        let weight = self.weight(limits);
        (weight * self.threads + (1.0 - weight) * estimated).max(LEAST_COST)
    }
}

/// Load of the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// Threads' time that sessions took, in threads.
    pub(super) used: f64,
    /// Time that the thread of RTSP requests took, in threads, and in the interval before.
    pub(super) control: [f64; 2],
    /// Sessions that existed at the end of the interval.
    pub(super) sessions: u64,
    /// Sessions that played at the end of the interval.
    pub(super) playing: u64,
    /// Sum of their speeds: one at Speed 4 takes as much as four.
    pub(super) rate: f64,
    /// Cost of a session, if some played, and that of the interval before: a machine that pauses for a moment makes
    /// one interval dear.
    pub(super) costs: [Option<MeasuredCost>; 2],
    /// Bits per second that sessions put on the link.
    pub(super) bits: f64,
    /// Sum of the speeds, and bits per second, of the interval before.
    pub(super) before: (f64, f64),
    pub(super) lateness: RecentLateness,
}

/// Reason to refuse a session.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Overload {
    /// The threads have no time left.
    #[error(
        "the processor has no time for another session: sessions would take {needed:.2} of {limit:.2} threads"
    )]
    Processor { needed: f64, limit: f64 },
    /// The new sessions of an interval would take too much before their cost is measured.
    #[error(
        "too many sessions come at once: with this one they would take {needed:.2} of {limit:.2} threads before their \
         cost is measured; try again in a second"
    )]
    Growth { needed: f64, limit: f64 },
    /// The link has no room left.
    #[error("the link has no room for another session: they would take {:.1} of {:.1} Mb/s", bits / 1e6, limit / 1e6)]
    Rate { bits: f64, limit: f64 },
    /// Sessions are late.
    #[error("sessions are {late:?} late")]
    Late { late: Duration },
}

/// Session, or more speed of sessions, that asks to be admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked {
    /// Its expected cost, in sessions at the normal speed.
    pub(super) more: f64,
    /// Bit rate of its payload, if it is known.
    pub(super) payload_bits: Option<f64>,
    /// Sessions that exist, all of which may play soon.
    pub(super) sessions: u64,
}

impl Load {
    /// Admits what is asked, or says why not.
    pub(super) fn admit(&self, asked: Asked, limits: Limits, estimate: Estimate) -> Result<(), Overload> {
        if self.is_late(limits) {
            return Err(Overload::Late { late: self.lateness.last() });
        }
        let each = self.cost(limits, estimate);
        let own = asked.payload_bits.map_or(each, |bits| self.cost_of(bits, limits, estimate));
        // Sessions that do not play may do so soon.
        let speeds = |sessions: u64| self.rate + sessions.saturating_sub(self.playing) as f64;
        let others = speeds(asked.sessions);
        let (needed, limit) = (others * each.threads + asked.more * own.threads, self.threads(limits));
        if needed > limit {
            return Err(Overload::Processor { needed, limit });
        }
        let settled = speeds(self.sessions) * each.threads;
        let limit = settled + (limit - settled) * MOST_GROWTH;
        // Before many sessions play, the estimate decides: it assumes the more expensive way of making headers.
        if self.costs[0].is_some_and(|cost| cost.is_of_many(limits)) && needed > limit {
            return Err(Overload::Growth { needed, limit });
        }
        let bits = others * each.bits + asked.more * own.bits;
        match limits.session_rate() {
            Some(limit) if bits > limit => Err(Overload::Rate { bits, limit }),
            _ => Ok(()),
        }
    }

    /// Returns whether sessions and requests took more than half of the threads' time in both intervals. A busy server
    /// counts the worse of two intervals. Other servers count the better one, since a machine may pause for a moment.
    fn is_busy(&self, limits: Limits) -> bool {
        let used = self.costs.map(|cost| cost.map_or(0.0, |cost| cost.threads * cost.rate));
        let both = [used[0] + self.control[0], used[1] + self.control[1]];
        both.iter().all(|share| *share > limits.all_threads / 2.0)
    }

    /// Returns whether sessions are late: in both intervals, or in one while the threads are busy.
    pub(super) fn is_late(&self, limits: Limits) -> bool {
        if self.is_busy(limits) { self.lateness.is_late_once() } else { self.lateness.is_late() }
    }

    /// Returns whether sessions took the whole rate in both intervals.
    pub(super) fn is_full(&self, limits: Limits) -> bool {
        limits.rate.is_some_and(|rate| self.bits.min(self.before.1) >= rate)
    }

    /// Cost of a session at the normal speed: the mean of those that play, else the estimate. Where sessions have just
    /// begun, the bits of the interval before count too.
    pub(super) fn cost(&self, limits: Limits, estimate: Estimate) -> Cost {
        let estimated = estimate.cost(estimate.payload_bits);
        if self.rate <= 0.0 {
            return estimated;
        }
        let (rate, bits) = self.before;
        let before = if rate > 0.0 { bits / rate } else { 0.0 };
        Cost {
            threads: self.threads_each(estimated.threads, limits),
            bits: (self.bits / self.rate).max(before),
        }
    }

    /// Cost of a session whose payload has this bit rate.
    fn cost_of(&self, payload_bits: f64, limits: Limits, estimate: Estimate) -> Cost {
        let own = estimate.cost(payload_bits);
        if self.rate <= 0.0 {
            return own;
        }
        Cost { threads: self.threads_each(own.threads, limits), ..own }
    }

    /// Threads' time of a session, in threads.
    fn threads_each(&self, estimated: f64, limits: Limits) -> f64 {
        let cost = |measured: Option<MeasuredCost>| {
            measured.map_or(estimated, |measured| measured.with(estimated, limits))
        };
        let [last, before] = self.costs.map(cost);
        if self.is_busy(limits) { last.max(before) } else { last.min(before) }
    }

    /// Engine threads' time for sessions, in threads. Short peaks of requests do not reduce it.
    pub(super) fn threads(&self, limits: Limits) -> f64 {
        limits.threads(self.control[0].min(self.control[1]))
    }

    /// Sessions that fit, those that play included.
    pub(super) fn capacity(&self, limits: Limits, estimate: Estimate) -> u64 {
        let each = self.cost(limits, estimate);
        let by_time = self.threads(limits) / each.threads;
        let by_rate = limits.session_rate().filter(|_| each.bits > 0.0).map(|limit| limit / each.bits);
        let more = by_rate.map_or(by_time, |by_rate| by_rate.min(by_time)) - self.rate;
        self.playing + more.max(0.0) as u64
    }
}

#[cfg(test)]
mod tests;
