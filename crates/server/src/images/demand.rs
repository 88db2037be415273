//! Demand for an image: sessions that play it, and recent starts of sessions.

use std::time::{Duration, Instant};

/// Half-life of a start of a session.
const HALF_LIFE: Duration = Duration::from_secs(300);

/// Factor by which an image must be more popular than an image that is played, to replace it.
const HYSTERESIS: f64 = 2.0;

/// Sessions of an image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    /// Sessions that play it.
    pub(super) sessions: usize,
    /// Starts of sessions, decayed by their age.
    recent: f64,
    at: Instant,
}

impl Demand {
    /// Demand of an image that nobody has played.
    pub(super) fn new(now: Instant) -> Demand {
        Demand { sessions: 0, recent: 0.0, at: now }
    }

    /// Counts a session that begins.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.recent, self.at) = (self.recent(now) + 1.0, now);
        self.sessions += 1;
    }

    /// Counts a session that ends.
    pub(super) fn end(&mut self) {
        self.sessions = self.sessions.saturating_sub(1);
    }

    /// Score: sessions that play the image, plus recent starts.
    pub(super) fn score(&self, now: Instant) -> f64 {
        self.sessions as f64 + self.recent(now)
    }

    /// Returns whether an image of this score replaces this image, whose own score is given: if it is more
    /// popular, and much more popular if this image is played.
    pub(super) fn yields_to(&self, score: f64, own: f64) -> bool {
        if self.sessions == 0 { score > own } else { score >= HYSTERESIS * own }
    }

    fn recent(&self, now: Instant) -> f64 {
        let half_lives = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.recent * 0.5_f64.powf(half_lives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_long_ago_counts_less() {
        let now = Instant::now();
        let mut demand = Demand::new(now);
        (0..4).for_each(|_| demand.begin(now));
        assert_eq!(demand.score(now), 8.0);
        (0..4).for_each(|_| demand.end());
        assert_eq!(demand.score(now + HALF_LIFE), 2.0);
        demand.begin(now + HALF_LIFE);
        assert_eq!(demand.score(now + HALF_LIFE), 4.0);
        demand.end();
        demand.end();
        assert_eq!(demand.sessions, 0);
    }

    /// Promise: The most played images are held in hot memory; images of nearly equal popularity do not
    /// alternate.
    #[test]
    fn a_played_image_yields_only_to_one_that_is_played_much_more() {
        let now = Instant::now();
        let mut played = Demand::new(now);
        played.begin(now);
        let yields = |demand: &Demand, score| demand.yields_to(score, demand.score(now));
        assert!(!yields(&played, 3.9) && yields(&played, 4.0));
        played.end();
        assert!(!yields(&played, 1.0) && yields(&played, 1.1), "nobody plays it now");
    }
}
