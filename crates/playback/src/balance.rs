//! Balance of threads: on which thread a playback is placed, and when playbacks move. Pure.

/// Share of its time awake from which a thread is hot.
const HOT: f64 = 0.5;

/// Difference between two threads' shares from which playbacks move.
const GAP: f64 = 0.2;

/// Most playbacks that move at a time.
const MOST_MOVES: usize = 64;

/// Least share of a thread's time counted for a unit of load, if less was measured.
const LEAST_COST: f64 = 1.0 / 20_000.0;

/// Load of a thread over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ThreadLoad {
    /// Share of the time that the thread was awake, 0 to 1.
    pub(crate) share: f64,
    /// Units of load at the end of the interval.
    pub(crate) units: u64,
    /// Playbacks that played then.
    pub(crate) playing: u64,
}

/// Playbacks to move from a thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) playbacks: usize,
}

/// The least loaded thread, by its last measured share and the units added since. `units` are the current
/// ones.
pub(crate) fn least_loaded(loads: &[ThreadLoad], units: impl Fn(usize) -> u64) -> usize {
    let all: u64 = loads.iter().map(|load| load.units).sum();
    let used: f64 = loads.iter().map(|load| load.share).sum();
    let cost = if all == 0 { LEAST_COST } else { (used / all as f64).max(LEAST_COST) };
    let estimate = |number: usize, load: &ThreadLoad| {
        let units = units(number) as f64;
        load.share + (units - load.units as f64) * cost + units * LEAST_COST
    };
    let estimates = loads.iter().enumerate().map(|(number, load)| (number, estimate(number, load)));
    estimates.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(number, _)| number)
}

/// The move that balances the hottest and the coolest thread. Only if the same thread was also hot in the
/// interval before, so that a short burst of other work moves no playback.
pub(crate) fn next_move(before: &[ThreadLoad], now: &[ThreadLoad]) -> Option<Move> {
    let (from, to) = extremes(now)?;
    let is_hot = |loads: &[ThreadLoad]| {
        let (hot, cool) = (loads.get(from)?, loads.get(to)?);
        (hot.share >= HOT && hot.share - cool.share >= GAP).then_some(())
    };
    is_hot(before)?;
    is_hot(now)?;
    let hot = now[from];
    let cost = hot.share / hot.playing.max(1) as f64;
    let playbacks = ((hot.share - now[to].share) / 2.0 / cost) as usize;
    (playbacks > 0).then_some(Move { from, to, playbacks: playbacks.min(MOST_MOVES) })
}

/// The threads with the largest and the smallest share.
fn extremes(loads: &[ThreadLoad]) -> Option<(usize, usize)> {
    let by_share = |one: &usize, other: &usize| loads[*one].share.total_cmp(&loads[*other].share);
    let (hot, cool) = ((0..loads.len()).max_by(by_share)?, (0..loads.len()).min_by(by_share)?);
    (hot != cool).then_some((hot, cool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loads(shares: &[(f64, u64)]) -> Vec<ThreadLoad> {
        shares
            .iter()
            .map(|(share, units)| ThreadLoad { share: *share, units: *units, playing: *units })
            .collect()
    }

    /// Promise: Sessions are spread over threads by measured load.
    #[test]
    fn a_playback_is_placed_where_time_is_left() {
        let measured = loads(&[(0.6, 100), (0.2, 400)]);
        assert_eq!(least_loaded(&measured, |number| measured[number].units), 1);
        // Units placed since the measurement count with the mean cost.
        assert_eq!(least_loaded(&measured, |number| [100, 700][number]), 0);
        let idle = loads(&[(0.0, 1), (0.0, 1)]);
        assert_eq!(least_loaded(&idle, |number| [9, 3][number]), 1, "nothing was measured");
        assert_eq!(least_loaded(&[], |_| 0), 0);
    }

    /// Promise: Playbacks move from a thread that stays overloaded to a thread with free time, and not back
    /// and forth.
    #[test]
    fn half_of_the_difference_moves() {
        let (hot, even) = (loads(&[(0.8, 80), (0.2, 20)]), loads(&[(0.5, 50), (0.5, 50)]));
        let expected = Move { from: 0, to: 1, playbacks: 30 };
        assert_eq!(next_move(&hot, &hot), Some(expected));
        assert_eq!(next_move(&even, &hot), None, "hot for a moment only");
        assert_eq!(next_move(&hot, &even), None);
        let mut after = loads(&[(0.59, 50), (0.41, 50)]);
        assert_eq!(next_move(&after, &after), None, "the difference is small");
        after[1].share = 0.0;
        after[0].share = 0.4;
        assert_eq!(next_move(&after, &after), None, "nobody is hot");
        let one = loads(&[(0.9, 9000), (0.0, 0)]);
        assert_eq!(next_move(&one, &one).map(|next| next.playbacks), Some(MOST_MOVES));
        let single = loads(&[(0.9, 1), (0.0, 0)]);
        assert_eq!(next_move(&single, &single), None, "the other thread would be as hot");
        assert_eq!(next_move(&single[..1], &single[..1]), None);
    }
}
