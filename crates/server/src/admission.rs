//! Admission of sessions by measurement: one is admitted while engine threads have time for it, and unless
//! those that play are late for longer than a moment.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use wirepath_engine::now_us;
use wirepath_playback::{Counters, LatenessSnapshot, Playbacks};

/// Least share of a thread's time that a session is taken to cost, before any was measured.
const LEAST_COST: f64 = 1.0 / 20_000.0;

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
        /// The share that is left.
        reserve: f64,
    },
    /// All sessions, up to the limits that are counted.
    Off,
}

/// Admission to a server's engine.
pub(crate) struct Admission {
    playbacks: Arc<Playbacks>,
    /// Threads' time that sessions may take, in threads.
    limit: f64,
    /// True if nobody is refused.
    is_off: bool,
    state: Mutex<State>,
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
    /// Sessions are late.
    #[error("sessions are {late:?} late")]
    Late { late: Duration },
}

impl Load {
    /// Admits so many times what a session takes at the normal speed, beside `sessions` that exist, all of
    /// which may play soon.
    fn admit(&self, more: f64, sessions: u64, limit: f64) -> Result<(), Overload> {
        if self.is_late() {
            return Err(Overload::Late { late: self.late });
        }
        let resting = sessions.saturating_sub(self.playing);
        let used = self.used + (resting as f64 + more) * self.cost();
        if used > limit { Err(Overload::Processor { used: self.used, limit }) } else { Ok(()) }
    }

    /// Returns whether sessions were late in both intervals.
    fn is_late(&self) -> bool {
        self.late.min(self.late_before) > LATE
    }

    /// Threads' time that a session takes at the normal speed, in threads.
    fn cost(&self) -> f64 {
        if self.rate > 0.0 { (self.used / self.rate).max(LEAST_COST) } else { LEAST_COST }
    }

    /// Sessions that fit, those that play included.
    fn capacity(&self, limit: f64) -> u64 {
        self.playing + ((limit - self.used).max(0.0) / self.cost()) as u64
    }
}

impl Admission {
    /// Admission of playbacks by a policy.
    pub(crate) fn new(playbacks: Arc<Playbacks>, policy: AdmissionPolicy) -> Admission {
        let (reserve, is_off) = match policy {
            AdmissionPolicy::Measured { reserve } => (reserve, false),
            AdmissionPolicy::Off => (0.0, true),
        };
        let limit = playbacks.engine().threads() as f64 * (1.0 - reserve);
        let counters = playbacks.counters();
        let state = State { sampled_at_us: now_us(), counters, load: Load::default() };
        Admission { playbacks, limit, is_off, state: Mutex::new(state) }
    }

    /// Admits a session, or says why not.
    pub(crate) fn admit(&self) -> Result<(), Overload> {
        self.admit_faster(1.0)
    }

    /// Admits that sessions become faster by so many times what one takes at the normal speed, or says why
    /// not.
    pub(crate) fn admit_faster(&self, more: f64) -> Result<(), Overload> {
        if self.is_off {
            return Ok(());
        }
        self.state.lock().load.admit(more, self.playbacks.counters().playbacks, self.limit)
    }

    /// Measures the load since the last measurement. To be called each second.
    pub(crate) fn measure(&self) {
        self.state.lock().measure(self.playbacks.counters(), now_us());
    }

    /// Returns whether sessions are late, so that others have to wait.
    pub(crate) fn is_late(&self) -> bool {
        !self.is_off && self.state.lock().load.is_late()
    }

    /// Load and capacity, for `/api/status`.
    pub(crate) fn json(&self) -> Json {
        let load = self.state.lock().load;
        json!({
            "sessions_playing": load.playing,
            "sessions": load.capacity(self.limit),
            "threads_used": load.used,
            "threads": self.limit,
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
        let load = Load { used, playing, rate, late, late_before: self.load.late };
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

    /// Promise: A session is refused when those that play leave no processor time for it.
    #[test]
    fn sessions_are_admitted_while_there_is_time_for_them() {
        let load = Load { used: 0.5, playing: 1024, rate: 1024.0, ..Load::default() };
        assert_eq!(load.capacity(0.75), 1536);
        assert_eq!(load.admit(1.0, 1024, 0.75), Ok(()));
        assert_eq!(load.admit(1.0, 1535, 0.75), Ok(()), "sessions that rest will play, too");
        assert_eq!(load.admit(1.0, 1536, 0.75), Err(Overload::Processor { used: 0.5, limit: 0.75 }));
        let error = load.admit(1.0, 1536, 0.75).unwrap_err().to_string();
        assert!(error.contains("0.50 of 0.75 threads"), "{error}");
    }

    /// Promise: A session at Speed 4 is counted as four, and a Speed is refused for which there is no time.
    #[test]
    fn a_fast_session_counts_as_several() {
        let load = Load { used: 0.5, playing: 256, rate: 1024.0, ..Load::default() };
        assert_eq!(load.admit(512.0, 256, 0.75), Ok(()));
        assert_eq!(load.admit(513.0, 256, 0.75), Err(Overload::Processor { used: 0.5, limit: 0.75 }));
        assert_eq!(load.capacity(0.75), 256 + 512, "sessions at the normal speed");
    }

    #[test]
    fn the_first_sessions_are_admitted_before_anything_was_measured() {
        let load = Load::default();
        assert_eq!(load.admit(1.0, 10_000, 0.85), Ok(()));
        assert!(load.admit(1.0, 17_000, 0.85).is_err());
    }

    /// Promise: A session is refused while those that play are late in one interval after another.
    #[test]
    fn nobody_is_admitted_while_sessions_are_late() {
        let load = Load { late: LATE_ENOUGH, late_before: LATE_ENOUGH, ..Load::default() };
        assert_eq!(load.admit(1.0, 0, 1.0), Err(Overload::Late { late: LATE_ENOUGH }));
        assert_eq!(Load { late: LATE, ..load }.admit(1.0, 0, 1.0), Ok(()));
        assert_eq!(Load { late_before: LATE, ..load }.admit(1.0, 0, 1.0), Ok(()), "it may be for a moment");
    }
}
