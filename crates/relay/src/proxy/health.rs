//! Whether a backend is thought to be there. Pure: what came of connecting and the time come in, changes come out.

use std::time::{Duration, Instant};

/// When a backend counts as there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthOptions {
    /// Time between two checks; none if it is not checked, and then it is always thought to be there.
    pub interval: Option<Duration>,
    /// Connections in a row, checks and clients' alike, that have to succeed before one that is down is up.
    pub rise: u32,
    /// Connections in a row, checks and clients' alike, that have to fail before one that is up is down.
    pub fall: u32,
}

/// What is known of a backend.
#[derive(Debug)]
pub(super) struct Health {
    options: HealthOptions,
    up: bool,
    /// Since when it is so.
    since: Instant,
    /// Results in a row that say otherwise.
    against: u32,
    /// Whether the last connection failed, where nothing else is known: without checks.
    fails: bool,
}

/// A backend is thought of otherwise now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Up,
    Down,
    /// It is not checked, and could not be connected to.
    Fails,
    /// It is not checked, and can be connected to again.
    Recovers,
}

impl Health {
    /// Up, until connections fail.
    pub(super) fn new(options: HealthOptions, now: Instant) -> Health {
        Health { options, up: true, since: now, against: 0, fails: false }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// How long it is so.
    pub(super) fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// What came of connecting to it, by a check or for a client.
    pub(super) fn note(&mut self, connected: bool, now: Instant) -> Option<Change> {
        if self.options.interval.is_none() {
            // It counts as up, or nobody would find out that it is back.
            let changes = self.fails == connected;
            self.fails = !connected;
            return changes.then_some(if connected { Change::Recovers } else { Change::Fails });
        }
        if connected == self.up {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < if self.up { self.options.fall } else { self.options.rise } {
            return None;
        }
        self.up = connected;
        self.since = now;
        self.against = 0;
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

    /// Promise: A backend that dies is noticed, logged once and avoided, and so is its return.
    #[test]
    fn it_takes_so_many_in_a_row_to_fall_and_to_rise() {
        let (mut health, now) = health(2, 3);
        let noted = [false, false, true, false, false, false, false, true, false, true, true, true]
            .map(|connected| health.note(connected, now));
        let mut expected = [None; 12];
        expected[5] = Some(Change::Down);
        expected[10] = Some(Change::Up);
        assert_eq!(noted, expected);
    }

    #[test]
    fn it_is_known_how_long_it_lasts() {
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
