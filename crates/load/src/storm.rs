//! Storm of set-ups beside playing sessions: the number of set-ups, and the lateness of the playing sessions
//! before, during and after the storm.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

use crate::distribution::Distribution;
use crate::judge::Change;
use crate::record::Times;

/// Minimum time before and after a storm.
const LEAST_BESIDE: Duration = Duration::from_secs(1);

/// Options of a storm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storm {
    /// Set-ups per second.
    pub rate: f64,
    /// Duration of the storm. The storm is in the middle of the judged time.
    pub duration: Duration,
}

/// Phase of a run with a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StormPhase {
    Before = 0,
    During = 1,
    After = 2,
}

/// Result of a storm.
#[derive(Clone, Debug, Serialize)]
pub struct StormOutcome {
    /// Requested number of set-ups per second.
    pub rate: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of requested set-ups.
    pub requested: u64,
    /// Number of sessions that were set up, and torn down at once.
    pub set_up: u64,
    /// Sessions set up per second.
    pub set_up_per_second: f64,
    /// Number of set-ups that the server refused.
    pub refused: u64,
    /// Number of connections of the storm that failed.
    pub failed_connections: u64,
    /// Reason of the last failure or refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds from SETUP to its response.
    pub setup_ms: Option<Times>,
    /// Judged sessions before the storm.
    pub before: StormPhaseRecord,
    /// Judged sessions during the storm.
    pub during: StormPhaseRecord,
    /// Judged sessions after the storm.
    pub after: StormPhaseRecord,
}

/// Judged sessions in a phase.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StormPhaseRecord {
    /// Number of received bursts.
    pub bursts: u64,
    /// Lateness of bursts in milliseconds, relative to the bursts that were on time until then.
    pub lateness_ms: Option<Times>,
    /// Number of lost packets, less the packets that arrived late.
    pub lost: i64,
    /// Underruns of players.
    pub underruns: u64,
}

/// Counts of a storm in progress, and of its phases.
#[derive(Debug, Default)]
pub(crate) struct StormTotals {
    /// Current phase plus 1; 0 outside a storm.
    phase: AtomicUsize,
    phases: [Mutex<PhaseCounts>; 3],
    pub(crate) counts: Mutex<StormCounts>,
}

#[derive(Debug, Default)]
struct PhaseCounts {
    lateness: Distribution,
    lost: i64,
    underruns: u64,
}

/// Counts of set-ups.
#[derive(Clone, Debug, Default)]
pub(crate) struct StormCounts {
    pub(crate) requested: u64,
    pub(crate) set_up: u64,
    pub(crate) refused: u64,
    pub(crate) failed_connections: u64,
    pub(crate) reason: Option<String>,
    pub(crate) answers: Distribution,
}

impl StormTotals {
    pub(crate) fn enter(&self, phase: Option<StormPhase>) {
        self.phase.store(phase.map_or(0, |phase| phase as usize + 1), Relaxed);
    }

    /// Adds a change of a judged session to the current phase.
    pub(crate) fn change(&self, change: &Change) {
        let Some(phase) = self.phase.load(Relaxed).checked_sub(1).and_then(|phase| self.phases.get(phase))
        else {
            return;
        };
        let mut phase = phase.lock();
        change.lateness_us.into_iter().for_each(|us| phase.lateness.add(us));
        phase.lost += change.lost;
        phase.underruns += u64::from(change.underrun);
    }

    /// Result of a storm that took so many seconds.
    pub(crate) fn outcome(&self, storm: Storm, seconds: f64) -> StormOutcome {
        let counts = self.counts.lock().clone();
        let phase = |phase: StormPhase| {
            let counts = self.phases[phase as usize].lock();
            StormPhaseRecord {
                bursts: counts.lateness.count(),
                lateness_ms: Times::of(&counts.lateness),
                lost: counts.lost,
                underruns: counts.underruns,
            }
        };
        StormOutcome {
            rate: storm.rate,
            seconds,
            requested: counts.requested,
            set_up: counts.set_up,
            set_up_per_second: if seconds > 0.0 { counts.set_up as f64 / seconds } else { 0.0 },
            refused: counts.refused,
            failed_connections: counts.failed_connections,
            reason: counts.reason,
            setup_ms: Times::of(&counts.answers),
            before: phase(StormPhase::Before),
            during: phase(StormPhase::During),
            after: phase(StormPhase::After),
        }
    }
}

impl Storm {
    /// Returns whether a run has time for the storm: `duration` includes the time to settle.
    pub fn fits(&self, duration: Duration, settle: Duration) -> bool {
        duration.checked_sub(settle + LEAST_BESIDE * 2).is_some_and(|judged| judged >= self.duration)
    }

    /// Phase at a time since the start of the first session. The time `judged`, from `begin` on, is judged,
    /// and the storm is in its middle.
    pub(crate) fn phase_at(
        &self,
        elapsed: Duration,
        begin: Duration,
        judged: Duration,
    ) -> Option<StormPhase> {
        let beside = judged.saturating_sub(self.duration) / 2;
        let since = elapsed.checked_sub(begin)?;
        Some(match since {
            _ if since < beside => StormPhase::Before,
            _ if since < beside + self.duration => StormPhase::During,
            _ => StormPhase::After,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_in_the_middle_of_what_is_judged() {
        let storm = Storm { rate: 1_000.0, duration: Duration::from_secs(4) };
        let seconds = Duration::from_secs;
        let at = |s: f64| storm.phase_at(Duration::from_secs_f64(s), seconds(2), seconds(10));
        assert_eq!((at(1.9), at(2.0)), (None, Some(StormPhase::Before)));
        assert_eq!((at(4.9), at(5.0)), (Some(StormPhase::Before), Some(StormPhase::During)));
        assert_eq!((at(8.9), at(9.0)), (Some(StormPhase::During), Some(StormPhase::After)));
        assert!(storm.fits(seconds(8), seconds(2)) && !storm.fits(seconds(7), seconds(2)));
        assert!(!storm.fits(seconds(1), seconds(2)));
    }

    /// Promise: `wirepath load` reports lateness separately before, during and after a storm.
    #[test]
    fn phases_are_told_apart() {
        let totals = StormTotals::default();
        let late = |ms: i64| Change { lateness_us: Some(ms * 1000), lost: 1, underrun: false };
        totals.change(&late(900));
        for (phase, ms) in [(StormPhase::Before, 1), (StormPhase::During, 70), (StormPhase::After, 2)] {
            totals.enter(Some(phase));
            totals.change(&late(ms));
        }
        totals.enter(None);
        totals.change(&late(900));
        let outcome = totals.outcome(Storm { rate: 5.0, duration: Duration::from_secs(1) }, 1.0);
        let phases = [outcome.before, outcome.during, outcome.after];
        assert_eq!(phases.map(|phase| phase.lateness_ms.unwrap().max), [1.0, 70.0, 2.0]);
        assert!(phases.iter().all(|phase| phase.bursts == 1 && phase.lost == 1 && phase.underruns == 0));
    }
}
