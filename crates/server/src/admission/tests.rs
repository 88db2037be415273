use super::*;

const LIMITS: Limits = Limits { all_threads: 1.0, reserve: 0.15, rate: None };

fn state() -> State {
    State {
        sampled_at_us: 0,
        counters: Counters::default(),
        control: Duration::ZERO,
        lateness_from: LatenessSnapshot::default(),
        load: Load::default(),
        payload_bits: USUAL_BITS_PER_SECOND,
        ns_per_packet: None,
    }
}

/// Promise: Sessions that come within an interval count for half of it, so that a ramp makes none seem cheap.
#[test]
fn a_ramp_makes_no_session_cheap() {
    let (mut state, mut counters) = (state(), Counters::default());
    for second in 1..=4 {
        // 500 come in each second and take a thousandth each.
        counters.playing = 500 * second;
        counters.speed_thousandths = 1000 * counters.playing;
        counters.busy_seconds += Duration::from_micros(1000 * (500 * second - 250));
        state.measure(counters.clone(), Duration::from_millis(100 * second), 1_000_000 * second, LIMITS);
        let Load { costs, control, .. } = state.load;
        let cost = costs[0].unwrap();
        assert!((cost.threads - 0.001).abs() < 1e-9, "{cost:?}");
        assert!((control[0] - 0.1).abs() < 1e-9);
    }
}

#[test]
fn a_moment_is_not_measured() {
    let (mut state, counters) = (state(), Counters::default());
    state.measure(counters.clone(), Duration::from_millis(90), 100_000, LIMITS);
    assert_eq!((state.sampled_at_us, state.load), (0, Load::default()));
    state.measure(counters, Duration::from_millis(90), 1_000_000, LIMITS);
    assert_eq!((state.sampled_at_us, state.load.control), (1_000_000, [0.09, 0.0]));
}

/// Promise: The measured cost of packets with many sessions is the estimate for later sessions.
#[test]
fn what_many_sessions_cost_is_known_when_they_have_ended() {
    let (mut state, mut counters) = (state(), Counters::default());
    let mut measure = |second: u64, playing: u64, packet_ns: u64| {
        counters.playing = playing;
        counters.speed_thousandths = 1000 * playing;
        let packets = 1000 * playing;
        counters.packets += packets;
        counters.busy_seconds += Duration::from_nanos(packets * packet_ns);
        state.measure(counters.clone(), Duration::ZERO, 1_000_000 * second, LIMITS);
        state.ns_per_packet
    };
    assert_eq!(measure(1, 10, 5000), None, "few sessions cost more");
    assert_eq!(measure(2, 200, 800).map(f64::round), Some(800.0));
    assert_eq!(measure(3, 200, 1200).map(f64::round), Some(900.0));
    assert_eq!(measure(4, 0, 1200).map(f64::round), Some(900.0));
    assert_eq!(measure(5, 5, 9000).map(f64::round), Some(900.0));
}
