use super::*;

const UNMEASURED: Estimate =
    Estimate { train_costs: [None; 2], burst: Duration::from_millis(100), payload_bits: 4e6 };

fn threads(threads: f64) -> Limits {
    Limits { all_threads: 1.0, reserve: 1.0 - threads, rate: None }
}

fn rate(rate: f64, reserve: f64) -> Limits {
    Limits { all_threads: 1.0, reserve, rate: Some(rate) }
}

fn admit(load: Load, more: f64, sessions: u64, limits: Limits) -> Result<(), Overload> {
    load.admit(Asked { more, payload_bits: None, sessions }, limits, UNMEASURED)
}

/// The load of sessions that take so much of a thread, each as much, for two intervals.
fn steady(used: f64, playing: u64, rate: f64) -> Load {
    let cost = Some(MeasuredCost { threads: used / rate, rate });
    Load { used, sessions: playing, playing, rate, costs: [cost; 2], ..Load::default() }
}

/// The same load, once its cost was measured while so many sessions existed.
fn with_sessions(load: Load, sessions: u64) -> Load {
    Load { sessions, ..load }
}

/// Promise: A session is refused if the playing sessions leave no processor time for it.
#[test]
fn sessions_are_admitted_while_there_is_time_for_them() {
    let load = steady(0.5, 1024, 1024.0);
    assert_eq!(load.capacity(threads(0.75), UNMEASURED), 1536);
    assert_eq!(admit(load, 1.0, 1024, threads(0.75)), Ok(()));
    let resting = with_sessions(load, 1534);
    assert_eq!(admit(resting, 1.0, 1534, threads(0.75)), Ok(()), "sessions that rest will play, too");
    let error = admit(load, 1.0, 1700, threads(0.75)).unwrap_err().to_string();
    assert!(error.contains("0.83 of 0.75 threads"), "{error}");
}

/// Promise: Once many sessions play, the new sessions of a second get at most half of the time that is left.
#[test]
fn sessions_that_come_at_once_get_half_of_what_is_left() {
    let load = steady(0.5, 1024, 1024.0);
    assert_eq!(admit(load, 1.0, 1279, threads(0.75)), Ok(()));
    let error = admit(load, 1.0, 1280, threads(0.75)).unwrap_err();
    assert!(matches!(error, Overload::Growth { .. }), "{error:?}");
    assert!(error.to_string().contains("0.63 of 0.62 threads"), "{error}");
    assert_eq!(admit(with_sessions(load, 1280), 1.0, 1407, threads(0.75)), Ok(()), "half of the rest");
    assert!(admit(with_sessions(load, 1280), 1.0, 1408, threads(0.75)).is_err());
}

/// Promise: While the threads are busy, the higher of two measured costs counts, and one late interval refuses sessions.
#[test]
fn nothing_is_excused_while_threads_are_busy() {
    let [cost, dear] = [0.0005, 0.0007].map(|threads| Some(MeasuredCost { threads, rate: 1200.0 }));
    let mut load = Load { costs: [cost, dear], ..steady(0.6, 1200, 1200.0) };
    assert!((load.cost(threads(0.85), UNMEASURED).threads - 0.0007).abs() < 1e-9);
    load.lateness.take(20, Duration::from_millis(101), true);
    assert!(load.is_late(threads(0.85)));
    let idle = Load { costs: [cost, Some(MeasuredCost { threads: 0.0004, rate: 1200.0 })], ..load };
    assert!((idle.cost(threads(0.85), UNMEASURED).threads - 0.0004).abs() < 1e-9, "0.48 threads");
    assert!(!idle.is_late(threads(0.85)));
}

/// Promise: A session at Speed 4 counts as four; a Speed is refused if there is no processor time for it.
#[test]
fn a_fast_session_counts_as_several() {
    let load = steady(0.5, 256, 1024.0);
    assert_eq!(admit(load, 256.0, 256, threads(0.75)), Ok(()));
    assert!(matches!(admit(load, 257.0, 256, threads(0.75)), Err(Overload::Growth { .. })));
    assert!(matches!(admit(load, 513.0, 256, threads(0.75)), Err(Overload::Processor { .. })));
    assert_eq!(load.capacity(threads(0.75), UNMEASURED), 256 + 512, "sessions at the normal speed");
}

#[test]
fn the_first_sessions_are_admitted_before_anything_was_measured() {
    let load = Load::default();
    assert_eq!(admit(load, 1.0, 10_000, threads(0.85)), Ok(()));
    assert!(admit(load, 1.0, 17_000, threads(0.85)).is_err());
}

/// Promise: A session's cost is that of the calibration before any session plays, then the measured one.
#[test]
fn the_first_cost_is_that_of_the_calibration() {
    let estimate = Estimate { train_costs: [Some(TrainCost::of_packets(10_000.0)), None], ..UNMEASURED };
    // 1,000 packets a second take 10 ms.
    let payload_bits = Some(1_000.0 * PAYLOAD_BYTES * 8.0);
    let asked = Asked { more: 1.0, payload_bits, sessions: 0 };
    let limits = Limits { all_threads: 1.0, reserve: 0.9, rate: None };
    assert_eq!(Load::default().admit(asked, limits, estimate), Ok(()));
    let dear = Estimate { train_costs: [Some(TrainCost::of_packets(120_000.0)), None], ..estimate };
    assert!(Load::default().admit(asked, limits, dear).is_err(), "0.12 threads");
    let usual = 4e6 / 8.0 / PAYLOAD_BYTES * 10_000.0 / 1e9;
    assert_eq!(Load::default().capacity(limits, estimate), (0.1 / usual) as u64);
    let measured = steady(0.064, 64, 64.0);
    assert!(measured.capacity(limits, estimate).abs_diff(100) <= 1, "0.001 each is measured");
    assert_eq!(measured.admit(Asked { sessions: 64, ..asked }, limits, dear), Ok(()));
}

/// Promise: What one session takes alone, with a wake-up for each of its bursts, is not taken for what each of many takes.
#[test]
fn a_session_alone_does_not_make_all_expensive() {
    // 1 % of a thread: then 85 sessions would fit.
    let alone = steady(0.01, 1, 1.0);
    let capacity = alone.capacity(threads(0.85), UNMEASURED);
    assert!(capacity > 2_000, "{capacity}");
    let many = steady(0.64, 64, 64.0);
    assert_eq!(many.capacity(threads(0.85), UNMEASURED), 85, "their cost is that of many");
}

/// Promise: A thread that pauses for a moment raises the cost of sessions for one interval only, and refuses nobody.
#[test]
fn a_moment_refuses_no_session() {
    let cost = MeasuredCost { threads: 0.0001, rate: 500.0 };
    let paused = MeasuredCost { threads: 0.002, ..cost };
    let load = Load { used: 1.0, costs: [Some(paused), Some(cost)], ..steady(0.05, 500, 500.0) };
    assert_eq!(admit(load, 1.0, 1000, threads(0.85)), Ok(()));
    let first = Load { costs: [Some(paused), None], ..load };
    assert_eq!(admit(first, 1.0, 1000, threads(0.85)), Ok(()), "nothing was measured before");
    let twice = Load { costs: [Some(paused); 2], ..load };
    assert!(admit(twice, 1.0, 500, threads(0.85)).is_err());
}

/// Promise: Where requests take more of a processor than half of the reserve, sessions get less.
#[test]
fn requests_take_from_the_reserve_first() {
    let load = steady(0.5, 1000, 1000.0);
    let limits = threads(0.85);
    let capacity = |control| Load { control, ..load }.capacity(limits, UNMEASURED);
    assert_eq!((capacity([0.0; 2]), capacity([0.07; 2])), (1700, 1700));
    assert_eq!(capacity([0.25; 2]), 1350);
    assert_eq!((capacity([0.25, 0.0]), capacity([0.0, 0.25])), (1700, 1700), "it may be for a moment");
    assert_eq!(capacity([1.0; 2]), 1000, "half of the processor");
    let two = Limits { all_threads: 2.0, ..limits };
    assert_eq!(Load { control: [0.25; 2], ..load }.capacity(two, UNMEASURED), 3200);
    assert_eq!(Load { control: [1.0; 2], ..load }.capacity(threads(0.1), UNMEASURED), 1000, "less than half");
}

/// Promise: A session is refused if its bit rate does not fit beside that of the playing sessions.
#[test]
fn sessions_are_admitted_while_the_link_has_room() {
    let load = Load { playing: 100, rate: 100.0, bits: 5e8, before: (100.0, 5e8), ..Load::default() };
    let limits = rate(1e9, 0.2);
    assert_eq!(load.capacity(limits, UNMEASURED), 160);
    assert_eq!(admit(load, 1.0, 159, limits), Ok(()));
    let refused = admit(load, 1.0, 160, limits);
    assert_eq!(refused, Err(Overload::Rate { bits: 8.05e8, limit: 8e8 }));
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("805.0 of 800.0 Mb/s"), "{error}");
    let asked = |payload_bits| Asked { more: 1.0, payload_bits: Some(payload_bits), sessions: 100 };
    assert_eq!(load.admit(asked(2.8e8), limits, UNMEASURED), Ok(()));
    assert!(load.admit(asked(2.9e8), limits, UNMEASURED).is_err(), "307 Mb/s with headers");
    let begun = Load { bits: 1e6, ..load };
    assert!(admit(begun, 1.0, 160, limits).is_err(), "sessions have just begun");
    assert!(admit(Load::default(), 1.0, 0, rate(4e6, 0.0)).is_err(), "a usual session and its headers");
}

/// Promise: Downloads are refused if sessions use the whole rate in successive intervals.
#[test]
fn downloads_wait_while_the_link_is_full() {
    let load = Load { bits: 1e9, before: (100.0, 1e9), ..Load::default() };
    assert!(load.is_full(rate(1e9, 0.2)));
    assert!(!load.is_full(rate(1.1e9, 0.2)), "the rest is for downloads");
    assert!(!Load { before: (100.0, 9e8), ..load }.is_full(rate(1e9, 0.2)), "it may be for a moment");
    assert!(!load.is_full(threads(1.0)));
}

/// Promise: A session is refused if playing sessions are late in successive intervals.
#[test]
fn nobody_is_admitted_while_sessions_are_late() {
    let late = Duration::from_millis(101);
    let mut lateness = RecentLateness::default();
    lateness.take(20, late, true);
    assert_eq!(admit(Load { lateness, ..Load::default() }, 1.0, 0, threads(1.0)), Ok(()));
    lateness.take(20, late, true);
    let refused = admit(Load { lateness, ..Load::default() }, 1.0, 0, threads(1.0));
    assert_eq!(refused, Err(Overload::Late { late }));
}
