//! Random operations on streams, against a model that knows every byte: nothing is lost, doubled, cut, out of order or unaccounted
//! for, whatever is attached, detached, stopped, started, written in part, not read for a while, reset, killed or full.
//!
//! `WIREPATH_MODEL_SECONDS=1800` runs for so long instead of a fixed number of rounds; `WIREPATH_MODEL_SEED=7` begins with that
//! seed, and plays only that one unless seconds are given too. A round that fails says its seed.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod carrier;
mod dice;
mod ends;
mod pour;
mod record;
#[path = "../../../../tests/src/small_disk.rs"]
#[expect(unreachable_pub, reason = "others use it from another crate")]
mod small_disk;
mod verify;
mod weave;
mod web;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dice::Tally;
use wirepath_streams::datapath::Support;
use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::{BlockingPool, Engine, EngineOptions, Importance};

/// Rounds where no time is asked for.
const ROUNDS: u64 = 400;

/// How long anything may take that must come: only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a long run says how far it is.
const TELL: Duration = Duration::from_secs(60);

/// What happens in every run of this many rounds, or the model would not be looking.
const EXPECTED: [&str; 20] = [
    "operation: attach an input",
    "operation: attach an input again",
    "operation: detach an input",
    "operation: attach an output",
    "operation: detach an output",
    "operation: stop",
    "operation: start on the engine",
    "operation: start on a thread",
    "fault: a reader of single bytes",
    "fault: a reader that stops",
    "fault: a reader that shuts its socket",
    "fault: a reader that resets its connection",
    "fault: a reader that closes its pipe",
    "fault: a writer that resets its connection",
    "fault: a file with no room left",
    "fault: an output that does not keep up",
    "ending: stopped",
    "ending: by a fault",
    "ending: all together again, in order",
    "bytes in, that nobody looked at",
];

#[test]
fn nothing_is_lost_doubled_or_out_of_order_whatever_happens() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().expect("a number"));
    let (seconds, seed) = (number("WIREPATH_MODEL_SECONDS"), number("WIREPATH_MODEL_SEED"));
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let first = seed.unwrap_or(0);
    let rounds = if seed.is_some() { 1 } else { ROUNDS };
    let readers = BlockingPool::start("reader", 2, Importance::Equal).unwrap();
    let support = Arc::new(Support::probe(None, Calibrations::default(), false));
    let engine = Engine::start(&EngineOptions::default(), support, &readers).unwrap();
    let mut tally = Tally::default();
    let mut seed = first;
    let mut told = Instant::now();
    while end.map_or(seed < first + rounds, |end| Instant::now() < end) {
        let outcome = catch_unwind(AssertUnwindSafe(|| match seed % 4 {
            0 => weave::Weave::new(seed, &engine).play(),
            1 => pour::Pour::new(seed, &engine).play(),
            _ => web::Web::new(seed, &engine).play(),
        }));
        let Ok(played) = outcome else {
            panic!("the round with seed {seed} failed; WIREPATH_MODEL_SEED={seed} plays it again")
        };
        tally.merge(played);
        tally.note("rounds");
        seed += 1;
        if end.is_some() && told.elapsed() > TELL {
            println!("seeds {first} to {} so far:\n{tally}", seed - 1);
            told = Instant::now();
        }
    }
    println!("seeds {first} to {}:\n{tally}", seed - 1);
    if tally.of("rounds") >= ROUNDS {
        EXPECTED.iter().for_each(|what| assert!(tally.of(what) > 0, "it never came to this: {what}"));
    }
}
