//! Health of a backend. Pure: the inputs are results of connecting and times, the outputs are changes of
//! health.

use std::time::{Duration, Instant};

/// Options of health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthOptions {
    /// Interval of health checks; None disables them, and the backend is then always up.
    pub interval: Option<Duration>,
    /// Number of consecutive successful connections, of checks or clients, after which a backend is up.
    pub rise: u32,
    /// Number of consecutive failed connections, of checks or clients, after which a backend is down.
    pub fall: u32,
}

/// Health of a backend.
#[derive(Debug)]
pub(super) struct Health {
    options: HealthOptions,
    up: bool,
    since: Instant,
    /// Number of consecutive results that contradict `up`.
    contrary: u32,
    /// True if the last connection failed, used without health checks.
    fails: bool,
}

/// Change of a backend's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Up,
    Down,
    /// Connecting began to fail, without health checks.
    Fails,
    /// Connecting succeeds again, without health checks.
    Recovers,
}

impl Health {
    /// Health of a new backend, which is up.
    pub(super) fn new(options: HealthOptions, now: Instant) -> Health {
        Health { options, up: true, since: now, contrary: 0, fails: false }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// Notes the result of connecting, for a health check or for a client.
    pub(super) fn note(&mut self, connected: bool, now: Instant) -> Option<Change> {
        if self.options.interval.is_none() {
            // Without checks the backend stays up: otherwise the proxy would not notice its recovery.
            let changes = self.fails == connected;
            self.fails = !connected;
            return changes.then_some(if connected { Change::Recovers } else { Change::Fails });
        }
        if connected == self.up {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        if self.contrary < if self.up { self.options.fall } else { self.options.rise } {
            return None;
        }
        self.up = connected;
        self.since = now;
        self.contrary = 0;
        Some(if connected { Change::Up } else { Change::Down })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(rise: u32, fall: u32) -> (Health, Instant) {
        let now = Instant::now();
        let interval = Some(Duration::from_secs(1));
        (Health::new(HealthOptions { interval, rise, fall }, now), now)
    }

    /// Promise: The failure of a backend is detected, logged once and avoided, and its recovery is detected
    /// and logged once.
    #[test]
    fn consecutive_results_change_the_health() {
        let (mut health, now) = health(2, 3);
        let noted = [false, false, true, false, false, false, false, true, false, true, true, true]
            .map(|connected| health.note(connected, now));
        let mut expected = [None; 12];
        expected[5] = Some(Change::Down);
        expected[10] = Some(Change::Up);
        assert_eq!(noted, expected);
    }

    #[test]
    fn the_time_since_a_change_is_known() {
        let (mut health, now) = health(1, 1);
        let later = now + Duration::from_secs(5);
        assert_eq!(health.note(false, later), Some(Change::Down));
        assert!(!health.is_up());
        assert_eq!(health.lasted(later + Duration::from_secs(2)), Duration::from_secs(2));
    }

    #[test]
    fn without_checks_it_is_always_up() {
        let options = HealthOptions { interval: None, rise: 1, fall: 1 };
        let mut health = Health::new(options, Instant::now());
        let noted = [true, false, false, true, true].map(|connected| health.note(connected, Instant::now()));
        assert_eq!(noted, [None, Some(Change::Fails), None, Some(Change::Recovers), None]);
        assert!(health.is_up());
    }
}
