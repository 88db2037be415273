//! Random operations on streams, checked against a model that knows every byte: nothing is lost, repeated,
//! truncated, reordered or unaccounted for, whatever is attached, detached, stopped, started, changed,
//! replaced, removed, written in part, not read for a while, waited for, reset, killed or full.
//!
//! `WIREPATH_MODEL_SECONDS=1800` runs for this time instead of a fixed number of rounds;
//! `WIREPATH_MODEL_SEED=7` begins with this seed, and runs only this seed unless seconds are given, too. A
//! failed round reports its seed. Several rounds run at a time.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod carrier;
mod custom;
mod dice;
mod ends;
mod engines;
mod kinds;
mod lender;
mod mask;
mod observer;
mod options;
mod pour;
mod record;
mod verify;
mod weave;
mod web;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dice::Tally;
use engines::Engines;

/// Number of rounds if no time is given.
const ROUNDS: u64 = 1000;

/// Rounds that run at a time, so that streams share the engines.
const PLAYERS: usize = 4;

/// Time limit for anything that must happen: only a hang exceeds it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Interval of progress reports of a long run.
const LONG: Duration = Duration::from_secs(60);

/// Promise: Attaching, detaching, changes, resets and full outputs lose nothing unreported and repeat or
/// reorder nothing.
#[test]
fn nothing_is_lost_doubled_or_out_of_order_whatever_happens() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().expect("a number"));
    let (seconds, seed) = (number("WIREPATH_MODEL_SECONDS"), number("WIREPATH_MODEL_SEED"));
    let first = seed.unwrap_or(0);
    let until = match seconds {
        Some(seconds) => Until::Time(Instant::now() + Duration::from_secs(seconds)),
        None => Until::Seed(first + if seed.is_some() { 1 } else { ROUNDS }),
    };
    let engines = Engines::start();
    let run = Run { first, until, begun: Instant::now(), state: Mutex::new(State::new(first)) };
    std::thread::scope(|scope| {
        (0..PLAYERS).for_each(|_| drop(scope.spawn(|| run.play(&engines))));
    });
    let State { next, tally, failed, .. } = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(seed) = failed {
        panic!("the round with seed {seed} failed; WIREPATH_MODEL_SEED={seed} plays it again")
    }
    println!("seeds {first} to {}:\n{tally}", next.saturating_sub(1));
    if tally.of("rounds") >= ROUNDS {
        kinds::check(&tally);
    }
}

/// A series of rounds, several at a time.
struct Run {
    first: u64,
    until: Until,
    begun: Instant,
    state: Mutex<State>,
}

enum Until {
    Time(Instant),
    Seed(u64),
}

struct State {
    next: u64,
    tally: Tally,
    failed: Option<u64>,
    /// Number of progress reports so far.
    told: u32,
}

impl State {
    fn new(next: u64) -> State {
        State { next, tally: Tally::default(), failed: None, told: 0 }
    }
}

impl Run {
    fn play(&self, engines: &Engines) {
        while let Some(seed) = self.next() {
            let outcome = catch_unwind(AssertUnwindSafe(|| match seed % 4 {
                0 => weave::Weave::new(seed, engines).play(),
                1 => pour::Pour::new(seed, engines).play(),
                _ => web::Web::new(seed, engines).play(),
            }));
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let Ok(played) = outcome else {
                state.failed.get_or_insert(seed);
                return;
            };
            state.tally.merge(played);
            state.tally.note("rounds");
        }
    }

    /// Seed of the next round, if there is one.
    fn next(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = match self.until {
            Until::Time(end) => Instant::now() < end,
            Until::Seed(seed) => state.next < seed,
        };
        if self.begun.elapsed() > LONG * (state.told + 1) {
            state.told += 1;
            println!("seeds {} to {} so far:\n{}", self.first, state.next - 1, state.tally);
        }
        state.next += u64::from(goes_on && state.failed.is_none());
        (goes_on && state.failed.is_none()).then(|| state.next - 1)
    }
}
