//! Classes that share processor time, through the public interface. Measured by the engine's own accounting,
//! because a wall clock cannot measure processor time.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::time::{Duration, Instant};

use wirepath_engine::{Class, Engine, EngineOptions, Placement, Policy, Round, Sharing};
use wirepath_streams::handlers::{Key, Seal};
use wirepath_streams::{Framing, Handler, Object, RunningStream, StreamBuilder, StreamOptions, StreamStatus};

/// Time limit that only a hang exceeds.
const PATIENCE: Duration = Duration::from_secs(120);

/// An engine with two classes, of which the first has three times the share of the second.
fn engine(round: Round) -> Engine {
    let class = |name: &str, share| Class { name: name.to_owned(), priority: 0, share, rate: None };
    let policy = Policy::FairShare { round, carry_percent: 50 };
    let sharing = Sharing { policy, classes: vec![class("costly", 3), class("plain", 1)] };
    Engine::start(EngineOptions { sharing, ..EngineOptions::default() }).unwrap()
}

/// An endless stream: in the first class its bytes are encrypted, in the second no handler sees them.
fn endless(engine: &Engine, class: usize) -> RunningStream {
    let zeros = Object::stream("zeros", File::open("/dev/zero").unwrap().into()).unwrap();
    let null = Object::stream("null", File::create("/dev/null").unwrap().into()).unwrap();
    let builder = match class {
        0 => {
            let seal = Seal::new(Key::new(&[7; 32]), 1 << 16).unwrap();
            let builder = StreamBuilder::default().handler(Handler::Rewrite(Box::new(seal)));
            builder.input(zeros, Framing::Fixed(1 << 16))
        }
        _ => StreamBuilder::default().input(zeros, Framing::Whole),
    };
    builder.output(null).build().start(
        engine,
        StreamOptions { placement: Placement { class, ..Placement::default() }, ..StreamOptions::default() },
    )
}

/// Amounts of the quantity `of` for both classes between two distant samples; the total is at least `enough`.
fn got(engine: &Engine, of: fn(&StreamStatus) -> u64, enough: u64) -> [u64; 2] {
    let running = [endless(engine, 0), endless(engine, 1)];
    let look = || running.each_ref().map(|stream| of(&stream.status()));
    let patience = Instant::now() + PATIENCE;
    let wait = |wanted: &dyn Fn([u64; 2]) -> bool| {
        loop {
            let now = look();
            if wanted(now) {
                return now;
            }
            assert!(Instant::now() < patience, "nothing moves: {now:?}");
            std::thread::yield_now();
        }
    };
    let before = wait(&|now| now.iter().all(|got| *got > 0));
    let after = wait(&|now| now.iter().sum::<u64>() >= before.iter().sum::<u64>() + enough);
    [after[0] - before[0], after[1] - before[1]]
}

fn processor_ns(status: &StreamStatus) -> u64 {
    status.processor_time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap())
}

fn moved(status: &StreamStatus) -> u64 {
    status.bytes_in + status.bytes_out
}

/// Promise: Classes that share processor time get their shares, whatever a byte costs.
#[test]
fn classes_get_their_shares_of_processor_time_whatever_a_byte_costs() {
    let engine = engine(Round::ProcessorTime(5000));
    let [costly, plain] = got(&engine, processor_ns, 1_000_000_000);
    let ratio = costly as f64 / plain as f64;
    assert!((2.7..3.3).contains(&ratio), "{costly} and {plain} ns");
    let [costly, plain] = got(&engine, moved, 1 << 30);
    assert!(costly < 3 * plain, "what is dear moves less for its time: {costly} and {plain} bytes");
}

/// Promise: Classes that share volume get their shares, whatever a byte costs.
#[test]
fn classes_get_their_shares_of_volume_whatever_a_byte_costs_and_no_time_is_measured() {
    let engine = engine(Round::Volume(1 << 20));
    let [costly, plain] = got(&engine, moved, 1 << 29);
    let ratio = costly as f64 / plain as f64;
    assert!((2.7..3.3).contains(&ratio), "{costly} and {plain} bytes");
    assert_eq!(endless(&engine, 0).status().processor_time, None);
}
