//! Benchmark of the timers of an engine thread: `cargo bench -p wirepath-engine`.

use divan::Bencher;
use divan::counter::ItemsCount;
use wirepath_engine::{TICK_US, TimerWheel};

/// Interval of a timer, as of a playback with bursts of 20 ms.
const PERIOD_US: u64 = 20_000;

fn main() {
    divan::main();
}

/// Each timer becomes due once, in the order of deadlines, and is set again.
#[divan::bench(args = [100, 1_000, 10_000])]
fn pop_and_set_again(bencher: Bencher<'_, '_>, timers: usize) {
    let mut wheel = TimerWheel::new(0);
    (0..timers).for_each(|key| wheel.set(key, deadline_us(key)));
    let mut now_us = 0;
    bencher.counter(ItemsCount::new(timers)).bench_local(|| {
        let end_us = now_us + PERIOD_US;
        let mut due = 0;
        while now_us < end_us {
            now_us += TICK_US;
            while let Some(key) = wheel.pop(now_us) {
                wheel.set(key, now_us + PERIOD_US);
                due += 1;
            }
        }
        assert_eq!(due, timers);
    });
}

/// A timer is set again before it is due.
#[divan::bench]
fn set_again(bencher: Bencher<'_, '_>) {
    let mut wheel = TimerWheel::new(0);
    (0..1_000).for_each(|key| wheel.set(key, deadline_us(key)));
    bencher.counter(ItemsCount::new(1_000_usize)).bench_local(|| {
        (0..1_000).for_each(|key| wheel.set(key, deadline_us(key) + PERIOD_US));
        wheel.next_us()
    });
}

/// Spreads the first deadlines over a period.
fn deadline_us(key: usize) -> u64 {
    key as u64 * 7919 % PERIOD_US
}
