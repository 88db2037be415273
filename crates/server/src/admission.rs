//! Admission of sessions by measurement: one is admitted while engine threads have time and the link has room for
//! it, and unless those that play are late for longer than a moment. What a session costs is estimated by the
//! calibration until sessions play, and measured from then on.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use wirepath_engine::now_us;
use wirepath_playback::{Counters, LatenessSnapshot, Playbacks};

/// Least share of a thread's time that a session is taken to cost, before any was measured.
const LEAST_COST: f64 = 1.0 / 20_000.0;

/// Bit rate of a session's payload that is not known, before any was measured.
const USUAL_BITS_PER_SECOND: f64 = 4e6;

/// Payload bytes of a packet of transport stream.
const PAYLOAD_BYTES: f64 = 1316.0;

/// Bytes of a packet on the link beside its payload: RTP, UDP and IP headers (RFC 3550, 768 and 791), and those of
/// Ethernet with preamble and gap (IEEE 802.3).
const PACKET_OVERHEAD: f64 = 12.0 + 8.0 + 20.0 + 18.0 + 20.0;

/// Trains that a measurement of lateness needs.
const LEAST_TRAINS: u64 = 20;

/// Lateness of the 99th percentile beyond which sessions count as late: half of the 200 ms that receivers
/// buffer at least.
pub(crate) const LATE: Duration = Duration::from_millis(100);

/// Rule by which sessions are admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdmissionPolicy {
    /// By what is measured; sessions leave `reserve`, a share (0 to 1) of the engine threads' time, to
    /// downloads and everything else.
    Measured {
        /// The share that is left, of the threads' time and of the rate.
        reserve: f64,
        /// Most bits per second on the link; none if it is not known.
        max_rate: Option<u64>,
    },
    /// All sessions, up to the limits that are counted.
    Off,
}

/// Admission to a server's engine.
pub(crate) struct Admission {
    playbacks: Arc<Playbacks>,
    limits: Limits,
    /// True if nobody is refused.
    is_off: bool,
    state: Mutex<State>,
}

/// Limits of what sessions take.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limits {
    /// Threads' time that sessions may take, in threads.
    threads: f64,
    rate: Option<RateLimit>,
}

/// Limits in bits per second on the link.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RateLimit {
    /// That of everything.
    all: f64,
    /// That of sessions.
    sessions: f64,
}

/// Cost of a session.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// Threads' time, in threads.
    threads: f64,
    /// Bits per second on the link.
    bits: f64,
}

/// Estimate of costs before any was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Estimate {
    /// Processor time of a packet by the calibration, if there is one.
    ns_per_packet: Option<f64>,
}

impl Estimate {
    /// Cost of a session whose payload has this bit rate.
    fn cost(&self, payload_bits: f64) -> Cost {
        let packets = payload_bits / 8.0 / PAYLOAD_BYTES;
        let threads = self.ns_per_packet.map_or(LEAST_COST, |ns| (packets * ns / 1e9).max(LEAST_COST));
        Cost { threads, bits: link_bits(payload_bits / 8.0, packets) }
    }

    /// Cost of a session of which nothing is known.
    fn usual(&self) -> Cost {
        self.cost(USUAL_BITS_PER_SECOND)
    }
}

/// Bits on the link of so many payload bytes in packets.
fn link_bits(payload_bytes: f64, packets: f64) -> f64 {
    (payload_bytes + packets * PACKET_OVERHEAD) * 8.0
}

struct State {
    sampled_at_us: u64,
    counters: Counters,
    load: Load,
}

/// Load of the last interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Load {
    /// Threads' time that sessions took, in threads.
    used: f64,
    /// Sessions that play.
    playing: u64,
    /// Sum of their speeds: one at Speed 4 takes as much as four.
    rate: f64,
    /// Bits per second that sessions put on the link.
    bits: f64,
    /// Sum of the speeds, and bits per second, of the interval before.
    before: (f64, f64),
    /// Lateness of the 99th percentile; zero if too little was sent.
    late: Duration,
    /// That of the interval before. A machine that pauses for a moment makes one interval late.
    late_before: Duration,
}

/// Reason to refuse a session.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Overload {
    /// The threads have no time left.
    #[error("the processor has no time for another session: sessions take {used:.2} of {limit:.2} threads")]
    Processor { used: f64, limit: f64 },
    /// The link has no room left.
    #[error("the link has no room for another session: they would take {:.1} of {:.1} Mb/s", bits / 1e6, limit / 1e6)]
    Rate { bits: f64, limit: f64 },
    /// Sessions are late.
    #[error("sessions are {late:?} late")]
    Late { late: Duration },
}

/// Session, or more speed of sessions, that asks to be admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    /// How many times what a session takes at the normal speed.
    more: f64,
    /// Bit rate of its payload, if it is known.
    payload_bits: Option<f64>,
    /// Sessions that exist, all of which may play soon.
    sessions: u64,
}

impl Load {
    /// Admits what is asked, or says why not.
    fn admit(&self, asked: Asked, limits: Limits, estimate: Estimate) -> Result<(), Overload> {
        if self.is_late() {
            return Err(Overload::Late { late: self.late });
        }
        let each = self.cost(estimate);
        let own = asked.payload_bits.map_or(each, |bits| self.cost_of(bits, estimate));
        let resting = asked.sessions.saturating_sub(self.playing) as f64;
        if self.used + resting * each.threads + asked.more * own.threads > limits.threads {
            return Err(Overload::Processor { used: self.used, limit: limits.threads });
        }
        let bits = (self.rate + resting) * each.bits + asked.more * own.bits;
        match limits.rate {
            Some(RateLimit { sessions, .. }) if bits > sessions => {
                Err(Overload::Rate { bits, limit: sessions })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether sessions were late in both intervals.
    fn is_late(&self) -> bool {
        self.late.min(self.late_before) > LATE
    }

    /// Returns whether sessions took the whole rate in both intervals.
    fn is_full(&self, limits: Limits) -> bool {
        limits.rate.is_some_and(|rate| self.bits.min(self.before.1) >= rate.all)
    }

    /// Cost of a session at the normal speed: the mean of those that play, else the estimate. Where sessions have just
    /// begun, the bits of the interval before count too.
    fn cost(&self, estimate: Estimate) -> Cost {
        if self.rate <= 0.0 {
            return estimate.usual();
        }
        let (rate, bits) = self.before;
        let before = if rate > 0.0 { bits / rate } else { 0.0 };
        Cost { threads: (self.used / self.rate).max(LEAST_COST), bits: (self.bits / self.rate).max(before) }
    }

    /// Cost of a session whose payload has this bit rate.
    fn cost_of(&self, payload_bits: f64, estimate: Estimate) -> Cost {
        let own = estimate.cost(payload_bits);
        if self.rate > 0.0 { Cost { threads: self.cost(estimate).threads, ..own } } else { own }
    }

    /// Sessions that fit, those that play included.
    fn capacity(&self, limits: Limits, estimate: Estimate) -> u64 {
        let each = self.cost(estimate);
        let by_time = (limits.threads - self.used).max(0.0) / each.threads;
        let by_rate = limits
            .rate
            .filter(|_| each.bits > 0.0)
            .map(|limit| (limit.sessions - self.rate * each.bits).max(0.0) / each.bits);
        self.playing + by_rate.map_or(by_time, |by_rate| by_rate.min(by_time)) as u64
    }
}

impl Admission {
    /// Admission of playbacks by a policy.
    pub(crate) fn new(playbacks: Arc<Playbacks>, policy: AdmissionPolicy) -> Admission {
        let (reserve, max_rate, is_off) = match policy {
            AdmissionPolicy::Measured { reserve, max_rate } => (reserve, max_rate, false),
            AdmissionPolicy::Off => (0.0, None, true),
        };
        let threads = playbacks.engine().threads() as f64 * (1.0 - reserve);
        let rate = max_rate.map(|all| {
            let all = all as f64;
            RateLimit { all, sessions: all * (1.0 - reserve) }
        });
        let counters = playbacks.counters();
        let state = State { sampled_at_us: now_us(), counters, load: Load::default() };
        Admission { playbacks, limits: Limits { threads, rate }, is_off, state: Mutex::new(state) }
    }

    /// Admits a session whose payload has this bit rate, if it is known, or says why not.
    pub(crate) fn admit(&self, payload_bits_per_second: Option<u64>) -> Result<(), Overload> {
        self.admit_some(1.0, payload_bits_per_second)
    }

    /// Admits that sessions become faster by so many times what one takes at the normal speed, or says why
    /// not.
    pub(crate) fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        self.admit_some(more, None)
    }

    fn admit_some(&self, more: f64, bits_per_second: Option<u64>) -> Result<(), Overload> {
        if self.is_off {
            return Ok(());
        }
        let payload_bits = bits_per_second.map(|bits| bits as f64);
        let asked = Asked { more, payload_bits, sessions: self.playbacks.counters().playbacks };
        let load = self.state.lock().load;
        load.admit(asked, self.limits, self.estimate(load))
    }

    /// The estimate, which is looked up only where nothing was measured.
    fn estimate(&self, load: Load) -> Estimate {
        let ns_per_packet = (load.rate <= 0.0).then(|| self.playbacks.support().ns_per_packet());
        Estimate { ns_per_packet: ns_per_packet.flatten() }
    }

    /// Measures the load since the last measurement. To be called each second.
    pub(crate) fn measure(&self) {
        self.state.lock().measure(self.playbacks.counters(), now_us());
    }

    /// Returns why downloads have to wait, if they have to.
    pub(crate) fn refuses_downloads(&self) -> Option<&'static str> {
        let load = self.state.lock().load;
        match () {
            () if self.is_off => None,
            () if load.is_late() => Some("sessions are late, and downloads wait"),
            () if load.is_full(self.limits) => Some("sessions take the whole link, and downloads wait"),
            () => None,
        }
    }

    /// Load and capacity, for `/api/status`.
    pub(crate) fn json(&self) -> Json {
        let load = self.state.lock().load;
        let estimate = self.estimate(load);
        let each = load.cost(estimate);
        json!({
            "sessions_playing": load.playing,
            "sessions": load.capacity(self.limits, estimate),
            "threads_used": load.used,
            "threads": self.limits.threads,
            "bits_per_second": load.bits,
            "max_bits_per_second": self.limits.rate.map(|rate| rate.sessions),
            "threads_per_session": each.threads,
            "bits_per_second_per_session": each.bits,
            "is_measured": load.rate > 0.0,
            "lateness_p99_ms": load.late.as_secs_f64() * 1000.0,
            "is_late": !self.is_off && load.is_late(),
        })
    }
}

impl State {
    /// Measures the time since the last measurement.
    fn measure(&mut self, counters: Counters, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.sampled_at_us).max(1);
        let busy = counters.busy_seconds.saturating_sub(self.counters.busy_seconds);
        let late = lateness(&counters.lateness_seconds, &self.counters.lateness_seconds);
        let used = busy.as_secs_f64() * 1e6 / elapsed_us as f64;
        let (playing, rate) = (counters.playing, counters.speed_thousandths as f64 / 1000.0);
        let sent = |read: fn(&Counters) -> u64| read(&counters).saturating_sub(read(&self.counters)) as f64;
        let seconds = elapsed_us as f64 / 1e6;
        let bits = link_bits(sent(|of| of.payload_bytes), sent(|of| of.packets)) / seconds;
        let before = (self.load.rate, self.load.bits);
        let load = Load { used, playing, rate, bits, before, late, late_before: self.load.late };
        *self = State { sampled_at_us: now_us, counters, load };
    }
}

fn lateness(now: &LatenessSnapshot, before: &LatenessSnapshot) -> Duration {
    let since = now.since(before);
    let is_enough = since.count() >= LEAST_TRAINS;
    Duration::from_micros(if is_enough { since.quantile_us(0.99) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE_ENOUGH: Duration = Duration::from_millis(101);
    const UNMEASURED: Estimate = Estimate { ns_per_packet: None };

    fn threads(threads: f64) -> Limits {
        Limits { threads, rate: None }
    }

    fn rate(all: f64, sessions: f64) -> Limits {
        Limits { threads: 1.0, rate: Some(RateLimit { all, sessions }) }
    }

    fn admit(load: Load, more: f64, sessions: u64, limits: Limits) -> Result<(), Overload> {
        load.admit(Asked { more, payload_bits: None, sessions }, limits, UNMEASURED)
    }

    /// Promise: A session is refused if the playing sessions leave no processor time for it.
    #[test]
    fn sessions_are_admitted_while_there_is_time_for_them() {
        let load = Load { used: 0.5, playing: 1024, rate: 1024.0, ..Load::default() };
        assert_eq!(load.capacity(threads(0.75), UNMEASURED), 1536);
        assert_eq!(admit(load, 1.0, 1024, threads(0.75)), Ok(()));
        assert_eq!(admit(load, 1.0, 1535, threads(0.75)), Ok(()), "sessions that rest will play, too");
        let refused = Overload::Processor { used: 0.5, limit: 0.75 };
        assert_eq!(admit(load, 1.0, 1536, threads(0.75)), Err(refused));
        let error = refused.to_string();
        assert!(error.contains("0.50 of 0.75 threads"), "{error}");
    }

    /// Promise: A session at Speed 4 counts as four; a Speed is refused if there is no processor time for it.
    #[test]
    fn a_fast_session_counts_as_several() {
        let load = Load { used: 0.5, playing: 256, rate: 1024.0, ..Load::default() };
        assert_eq!(admit(load, 512.0, 256, threads(0.75)), Ok(()));
        let refused = Err(Overload::Processor { used: 0.5, limit: 0.75 });
        assert_eq!(admit(load, 513.0, 256, threads(0.75)), refused);
        assert_eq!(load.capacity(threads(0.75), UNMEASURED), 256 + 512, "sessions at the normal speed");
    }

    #[test]
    fn the_first_sessions_are_admitted_before_anything_was_measured() {
        let load = Load::default();
        assert_eq!(admit(load, 1.0, 10_000, threads(0.85)), Ok(()));
        assert!(admit(load, 1.0, 17_000, threads(0.85)).is_err());
    }

    /// Promise: A session's cost is taken from the calibration before any session plays, and from measurement
    /// afterwards.
    #[test]
    fn the_first_cost_is_that_of_the_calibration() {
        let estimate = Estimate { ns_per_packet: Some(10_000.0) };
        // 1,000 packets a second take 10 ms.
        let payload_bits = Some(1_000.0 * PAYLOAD_BYTES * 8.0);
        let ask = |load: Load, sessions| {
            load.admit(Asked { more: 1.0, payload_bits, sessions }, threads(0.1), estimate)
        };
        assert_eq!(ask(Load::default(), 0), Ok(()));
        let twelve = Estimate { ns_per_packet: Some(120_000.0) };
        let asked = Asked { more: 1.0, payload_bits, sessions: 0 };
        assert!(Load::default().admit(asked, threads(0.1), twelve).is_err(), "0.12 threads");
        let usual = 4e6 / 8.0 / PAYLOAD_BYTES * 10_000.0 / 1e9;
        assert_eq!(Load::default().capacity(threads(0.1), estimate), (0.1 / usual) as u64);
        let measured = Load { used: 0.064, playing: 64, rate: 64.0, ..Load::default() };
        assert_eq!(measured.capacity(threads(0.128), estimate), 128, "0.001 each is measured");
        assert_eq!(measured.admit(Asked { sessions: 64, ..asked }, threads(0.1), twelve), Ok(()));
    }

    /// Promise: A session is refused if its bit rate does not fit beside that of the playing sessions.
    #[test]
    fn sessions_are_admitted_while_the_link_has_room() {
        let load = Load { playing: 100, rate: 100.0, bits: 5e8, before: (100.0, 5e8), ..Load::default() };
        let limits = rate(1e9, 8e8);
        assert_eq!(load.capacity(limits, UNMEASURED), 160);
        assert_eq!(admit(load, 1.0, 159, limits), Ok(()));
        let refused = admit(load, 1.0, 160, limits);
        assert_eq!(refused, Err(Overload::Rate { bits: 8.05e8, limit: 8e8 }));
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("805.0 of 800.0 Mb/s"), "{error}");
        let asked = |payload_bits| Asked { more: 1.0, payload_bits: Some(payload_bits), sessions: 100 };
        assert_eq!(load.admit(asked(2.8e8), limits, UNMEASURED), Ok(()));
        assert!(load.admit(asked(2.9e8), limits, UNMEASURED).is_err(), "307 Mb/s with headers");
        let begun = Load { bits: 1e6, ..load };
        assert!(admit(begun, 1.0, 160, limits).is_err(), "sessions have just begun");
        assert!(admit(Load::default(), 1.0, 0, rate(4e6, 4e6)).is_err(), "a usual session and its headers");
    }

    /// Promise: Downloads are refused if sessions use the whole rate in successive intervals.
    #[test]
    fn downloads_wait_while_the_link_is_full() {
        let load = Load { bits: 1e9, before: (100.0, 1e9), ..Load::default() };
        assert!(load.is_full(rate(1e9, 8e8)));
        assert!(!load.is_full(rate(1.1e9, 9e8)), "the rest is for downloads");
        assert!(!Load { before: (100.0, 9e8), ..load }.is_full(rate(1e9, 8e8)), "it may be for a moment");
        assert!(!load.is_full(threads(1.0)));
    }

    /// Promise: A session is refused if playing sessions are late in successive intervals.
    #[test]
    fn nobody_is_admitted_while_sessions_are_late() {
        let load = Load { late: LATE_ENOUGH, late_before: LATE_ENOUGH, ..Load::default() };
        let admit = |load| admit(load, 1.0, 0, threads(1.0));
        assert_eq!(admit(load), Err(Overload::Late { late: LATE_ENOUGH }));
        assert_eq!(admit(Load { late: LATE, ..load }), Ok(()));
        assert_eq!(admit(Load { late_before: LATE, ..load }), Ok(()), "it may be for a moment");
    }
}
