//! Admission of sessions by measurement: a session is admitted while the engine threads and the link have capacity for
//! it and playing sessions are not late. What a session costs is estimated by the
//! calibration until sessions play, and measured the more the more play. The cost of new sessions is
//! known an interval later, so the new sessions of one interval get only half of the time that is left.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use wirepath_datapath::calibration::TrainCost;
use wirepath_engine::now_us;
use wirepath_playback::{Counters, LatenessSnapshot, Playbacks};

use crate::thread_time::thread_time;

mod lateness;
mod load;

pub(crate) use lateness::LATE;
pub(crate) use load::Overload;
use load::{Asked, Estimate, Limits, Load, MeasuredCost, link_bits};

/// Bit rate of a session's payload that is not known, before any was.
const USUAL_BITS_PER_SECOND: f64 = 4e6;

/// Minimum interval of measurements: shorter ones do not show the load.
const LEAST_INTERVAL_US: u64 = 500_000;

/// Sessions over which the mean of their bit rates goes.
const MEAN_OF_SESSIONS: f64 = 16.0;

/// Intervals over which the mean of a packet's cost goes.
const MEAN_OF_INTERVALS: f64 = 4.0;

/// Rule by which sessions are admitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AdmissionPolicy {
    /// By the measured load. `reserve`, a share (0 to 1) of the engine threads' time, is kept for downloads and
    /// other work.
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

struct State {
    sampled_at_us: u64,
    counters: Counters,
    /// Processor time of the thread of RTSP requests.
    control: Duration,
    /// Lateness at the end of the last interval that had enough trains.
    lateness_from: LatenessSnapshot,
    load: Load,
    /// Moving average of the bit rates of sessions that were admitted.
    payload_bits: f64,
    /// Threads' time of a packet when many sessions played last, in nanoseconds.
    ns_per_packet: Option<f64>,
}

impl Admission {
    /// Admission of playbacks by a policy.
    pub(crate) fn new(playbacks: Arc<Playbacks>, policy: AdmissionPolicy) -> Admission {
        let (reserve, max_rate, is_off) = match policy {
            AdmissionPolicy::Measured { reserve, max_rate } => (reserve, max_rate, false),
            AdmissionPolicy::Off => (0.0, None, true),
        };
        let all_threads = playbacks.engine().threads() as f64;
        let limits = Limits { all_threads, reserve, rate: max_rate.map(|rate| rate as f64) };
        let counters = playbacks.counters();
        let state = State {
            sampled_at_us: now_us(),
            control: thread_time(),
            lateness_from: counters.lateness_seconds.clone(),
            counters,
            load: Load::default(),
            payload_bits: USUAL_BITS_PER_SECOND,
            ns_per_packet: None,
        };
        Admission { playbacks, limits, is_off, state: Mutex::new(state) }
    }

    /// Admits a session whose payload has this bit rate, if it is known, or says why not.
    pub(crate) fn admit(&self, payload_bits_per_second: Option<u64>) -> Result<(), Overload> {
        self.admit_some(1.0, payload_bits_per_second)
    }

    /// Admits a higher speed of running sessions, or returns the reason of the refusal. `more` is the added load in
    /// sessions of normal speed.
    pub(crate) fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        self.admit_some(more, None)
    }

    fn admit_some(&self, more: f64, bits_per_second: Option<u64>) -> Result<(), Overload> {
        if self.is_off {
            return Ok(());
        }
        let payload_bits = bits_per_second.map(|bits| bits as f64);
        let asked = Asked { more, payload_bits, sessions: self.playbacks.number() };
        let mut state = self.state.lock();
        state.load.admit(asked, self.limits, self.estimate(&state))?;
        if let Some(bits) = payload_bits {
            state.payload_bits += (bits - state.payload_bits) / MEAN_OF_SESSIONS;
        }
        Ok(())
    }

    fn estimate(&self, state: &State) -> Estimate {
        let measured = state.ns_per_packet.map(TrainCost::of_packets);
        Estimate {
            train_costs: measured
                .map_or_else(|| self.playbacks.support().train_costs(), |cost| [Some(cost), None]),
            burst: self.playbacks.longest_burst(),
            payload_bits: state.payload_bits,
        }
    }

    /// Measures the load since the last measurement. To be called each second, on the thread of RTSP requests.
    pub(crate) fn measure(&self) {
        let counters = self.playbacks.counters();
        self.state.lock().measure(counters, thread_time(), now_us(), self.limits);
    }

    /// Returns why downloads have to wait, if they have to.
    pub(crate) fn refuses_downloads(&self) -> Option<&'static str> {
        let load = self.state.lock().load;
        match () {
            () if self.is_off => None,
            () if load.is_late(self.limits) => Some("sessions are late, and downloads wait"),
            () if load.is_full(self.limits) => Some("sessions take the whole link, and downloads wait"),
            () => None,
        }
    }

    /// Load and capacity, for `/api/status`.
    pub(crate) fn json(&self) -> Json {
        let state = self.state.lock();
        let (load, estimate) = (state.load, self.estimate(&state));
        drop(state);
        let each = load.cost(self.limits, estimate);
        json!({
            "sessions_playing": load.playing,
            "sessions": load.capacity(self.limits, estimate),
            "threads_used": load.used,
            "threads_used_by_requests": load.control[0],
            "threads": load.threads(self.limits),
            "bits_per_second": load.bits,
            "max_bits_per_second": self.limits.session_rate(),
            "threads_per_session": each.threads,
            "bits_per_second_per_session": each.bits,
            "is_measured": load.rate > 0.0,
            "lateness_p99_ms": load.lateness.last().as_secs_f64() * 1000.0,
            "is_late": !self.is_off && load.is_late(self.limits),
        })
    }
}

impl State {
    /// Measures the time since the last measurement, if that is long enough ago.
    fn measure(&mut self, counters: Counters, control: Duration, now_us: u64, limits: Limits) {
        let elapsed_us = now_us.saturating_sub(self.sampled_at_us);
        if elapsed_us < LEAST_INTERVAL_US {
            return;
        }
        let share = |time: Duration| time.as_secs_f64() * 1e6 / elapsed_us as f64;
        let used = share(counters.busy_seconds.saturating_sub(self.counters.busy_seconds));
        let (playing, rate) = (counters.playing, counters.speed_thousandths as f64 / 1000.0);
        let sent = |read: fn(&Counters) -> u64| read(&counters).saturating_sub(read(&self.counters)) as f64;
        let seconds = elapsed_us as f64 / 1e6;
        let packets = sent(|of| of.packets);
        let bits = link_bits(sent(|of| of.payload_bytes), packets) / seconds;
        let mut lateness = self.load.lateness;
        let late = counters.lateness_seconds.since(&self.lateness_from);
        let late_p99 = Duration::from_micros(late.quantile_us(0.99));
        if lateness.take(late.count(), late_p99, playing > 0) {
            self.lateness_from = counters.lateness_seconds.clone();
        }
        // Those that came within the interval played half of it, about.
        let mean_rate = (self.load.rate + rate) / 2.0;
        let cost = (rate > 0.0).then(|| MeasuredCost { threads: used / mean_rate, rate: mean_rate });
        if cost.is_some_and(|cost| cost.is_of_many(limits)) && packets > 0.0 {
            let ns = used * seconds * 1e9 / packets;
            let before = self.ns_per_packet.unwrap_or(ns);
            self.ns_per_packet = Some(before + (ns - before) / MEAN_OF_INTERVALS);
        }
        self.load = Load {
            used,
            control: [share(control.saturating_sub(self.control)), self.load.control[0]],
            sessions: counters.playbacks,
            playing,
            rate,
            costs: [cost, self.load.costs[0]],
            bits,
            before: (self.load.rate, self.load.bits),
            lateness,
        };
        (self.sampled_at_us, self.counters, self.control) = (now_us, counters, control);
    }
}

#[cfg(test)]
mod tests;
