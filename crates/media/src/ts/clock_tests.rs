use super::*;
use proptest::prelude::*;

/// Departures of packets 0 to `end`, and the packets at which the clock was discontinuous.
fn times(clock: &mut Clock, end: u64) -> (Vec<u64>, Vec<u64>) {
    clock.extend(end);
    let (mut departures, mut breaks) = (Vec::new(), Vec::new());
    while let Some(stretch) = clock.next_stretch() {
        assert_eq!(stretch.first, departures.len() as u64, "no gap, no overlap");
        assert!(stretch.first < stretch.end);
        breaks.extend(stretch.discontinuity.then_some(stretch.first));
        departures.extend((stretch.first..stretch.end).map(|packet| stretch.departure(packet)));
    }
    assert_eq!(departures.len() as u64, end);
    assert!(departures.is_sorted());
    (departures, breaks)
}

fn clock(references: &[(u64, u64)]) -> Clock {
    let mut clock = Clock::new();
    for &(packet, ticks) in references {
        clock.observe(packet, Pcr::new(ticks), false);
    }
    clock
}

#[test]
fn spreads_evenly_and_extends_at_both_ends() {
    let (departures, breaks) = times(&mut clock(&[(10, 5000), (20, 6000), (30, 8000)]), 40);
    assert_eq!((departures[0], departures[10], departures[15]), (0, 1000, 1500));
    assert_eq!((departures[20], departures[25], departures[30], departures[39]), (2000, 3000, 4000, 5800));
    assert!(breaks.is_empty());
}

/// Promise: Departure times follow the PCR of the played programme across its wrap and discontinuities.
#[test]
fn goes_through_the_wrap() {
    let before = Pcr::MODULUS - 500;
    let (departures, breaks) =
        times(&mut clock(&[(0, before), (10, before + 1000), (20, before + 2000)]), 21);
    assert_eq!((departures[10], departures[20]), (1000, 2000));
    assert!(breaks.is_empty());
}

/// Promise: Departure times follow the PCR of the played programme across its wrap and discontinuities.
#[test]
fn goes_on_at_the_last_rate_over_a_jump() {
    for jumped in [10, 500_000_000_000] {
        let references = [(0, 5000), (10, 15_000), (20, jumped), (30, jumped + 20_000)];
        let (departures, breaks) = times(&mut clock(&references), 40);
        assert_eq!(
            (departures[10], departures[20], departures[30], departures[39]),
            (10_000, 20_000, 40_000, 58_000)
        );
        assert_eq!(breaks, [20]);
    }
}

#[test]
fn a_flagged_reference_is_a_new_time_base() {
    let mut clock = clock(&[(0, 5000), (10, 15_000)]);
    assert!(clock.observe(20, Pcr::new(26_000), true));
    let (departures, breaks) = times(&mut clock, 21);
    assert_eq!((departures[20], breaks), (20_000, vec![20]));
}

#[test]
fn a_jump_before_any_rate_waits_for_one() {
    let (departures, breaks) = times(&mut clock(&[(5, 9_000_000), (10, 0), (20, 3000)]), 25);
    assert_eq!((departures[5], departures[10], departures[20]), (1500, 3000, 6000));
    assert_eq!(breaks, [10]);
}

#[test]
fn a_single_reference_gives_the_nominal_rate() {
    let mut clock = clock(&[(5, 1000)]);
    assert!(!clock.extend(10));
    assert_eq!(times(&mut clock, 10).0[9], 9 * NOMINAL_TICKS_PER_PACKET);
}

#[test]
fn a_clock_that_stands_still_is_not_believed() {
    let (departures, breaks) = times(&mut clock(&[(0, 0), (10, 1000), (20, 1000), (30, 3000)]), 31);
    assert_eq!((departures[20], departures[30], breaks.len()), (2000, 3000, 0));
}

/// Packets of a file of 300 MB.
const LONG: u64 = 300_000_000 / PACKET_LENGTH as u64;
const INTERVAL: u64 = 50;

/// Seconds until the last packet departs, with a reference every 50 packets; `ticks` returns the ticks
/// between the reference in a packet and the reference before.
fn seconds(packets: u64, ticks: impl Fn(u64) -> u64) -> u64 {
    let (mut clock, mut now, mut last) = (Clock::new(), 0, 0);
    for packet in (0..packets).step_by(INTERVAL as usize) {
        now += ticks(packet);
        clock.observe(packet, Pcr::new(now), false);
    }
    clock.extend(packets);
    while let Some(stretch) = clock.next_stretch() {
        assert!(stretch.departure(stretch.first) >= last);
        last = stretch.departure(stretch.end);
    }
    last / TICKS_PER_SECOND
}

/// Promise: A clock that stands still, or nearly so, does not make packets leave at once.
#[test]
fn a_clock_that_hardly_moves_is_paced_like_a_missing_one() {
    let nominal = NOMINAL_TICKS_PER_PACKET * INTERVAL;
    let honest = seconds(LONG, |_| nominal);
    assert!((299..301).contains(&honest), "{honest} s");
    let crawling = seconds(LONG, |_| nominal / 100);
    assert!((280..301).contains(&crawling), "{crawling} s at 800 Mb/s by its clock");
    let later = seconds(LONG, |packet| if packet < LONG / 10 { nominal } else { nominal / 100 });
    // The burst before the fault was noticed counts in the average.
    assert!((240..301).contains(&later), "{later} s");
    let again = seconds(LONG, |packet| if packet % 20_000 < 10_000 { nominal } else { nominal / 100 });
    assert!((140..301).contains(&again), "{again} s, half of it believed as bursts");
    let flagged = {
        let mut clock = clock(&[(0, 0), (100, 1000)]);
        clock.extend(LONG);
        times(&mut clock, LONG).0[LONG as usize - 1] / TICKS_PER_SECOND
    };
    assert!((280..301).contains(&flagged), "{flagged} s after two references 3 Gb/s apart");
}

#[test]
fn fast_streams_and_large_pictures_are_believed() {
    let fast = seconds(LONG, |_| ticks_per_packet(200_000_000) * INTERVAL);
    assert_eq!(fast, 11, "200 Mb/s throughout, rounded");
    // 2 MB in 10 ms every second, the rest at 4 Mb/s.
    let slow = 2 * NOMINAL_TICKS_PER_PACKET * INTERVAL;
    let bursts =
        |packet| if packet % 13_000 < 10_600 { ticks_per_packet(1_600_000_000) * INTERVAL } else { slow };
    let expected = (0..LONG).step_by(INTERVAL as usize).map(bursts).sum::<u64>() / TICKS_PER_SECOND;
    assert!(seconds(LONG, bursts).abs_diff(expected) <= 1);
}

#[test]
fn what_was_timed_without_waiting_is_not_taken_back() {
    let mut early = clock(&[(0, 0), (10, 1000)]);
    early.extend(50);
    early.observe(60, Pcr::new(3000), false);
    early.observe(70, Pcr::new(4000), false);
    let (departures, breaks) = times(&mut early, 71);
    assert_eq!((departures[49], departures[60], departures[70], breaks), (4900, 6000, 7000, vec![60]));
}

/// Promise: Variable rates, several programmes, a PCR on a separate PID and PCR gaps play at the right pace.
#[test]
fn a_gap_is_believed_when_the_bytes_fit_it() {
    let second = TICKS_PER_SECOND;
    let (departures, breaks) = times(&mut clock(&[(0, 0), (100, second), (2500, 26 * second)]), 2501);
    assert_eq!((departures[2500], breaks), (26 * second, Vec::<u64>::new()));
}

proptest! {
    #[test]
    fn any_references_give_times_that_never_go_back(
        steps in proptest::collection::vec((1u64..2000, any::<u64>(), any::<bool>(), 0u8..8), 0..60),
    ) {
        let mut clock = Clock::new();
        let (mut packet, mut ticks) = (0, 0u64);
        for (packets, random, flagged, kind) in steps {
            packet += packets;
            ticks = match kind {
                0 => random,
                1 => ticks,
                2 => { clock.extend(packet); continue }
                _ => ticks.wrapping_add(random % 5_000_000),
            };
            clock.observe(packet, Pcr::new(ticks), flagged && kind == 3);
        }
        times(&mut clock, packet + 100);
    }
}
