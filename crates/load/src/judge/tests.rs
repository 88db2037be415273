//! Tests of the judge with artificial packets.

use super::*;

/// Interval of packets: packets of 1,328 bytes, with seven transport packets each, at 4.2 Mb/s.
const STEP_US: i64 = 2_500;

/// Packet `index` of a stream, which arrives at this time.
fn packet(index: u16, arrival_us: i64) -> Packet {
    let timestamp = (i64::from(index) * STEP_US * 9 / 100) as u32;
    let header = Header {
        padding: false,
        marker: false,
        payload_type: 33,
        sequence: 65_000_u16.wrapping_add(index),
        timestamp,
        ssrc: 7,
    };
    Packet { header, bytes: 1_328, arrival_us, reference: None }
}

fn playing() -> Judge {
    let mut judge = Judge::new(Some(33), 90_000, 200_000);
    judge.ask(0);
    judge.play(None);
    judge
}

/// Sends packets `range` in bursts of eight. `late_us` gives the lateness of each burst by its number; no
/// burst overtakes the bursts before it.
fn bursts(judge: &mut Judge, range: std::ops::Range<u16>, late_us: impl Fn(u16) -> i64) {
    let mut arrival_us = 0;
    for index in range {
        let burst = index / 8;
        arrival_us = arrival_us.max(i64::from(burst) * 8 * STEP_US + late_us(burst));
        judge.packet(&packet(index, arrival_us));
    }
}

/// Promise: `wirepath load` distinguishes lateness from bursts.
#[test]
fn bursts_are_not_late() {
    let mut judge = playing();
    bursts(&mut judge, 0..800, |_| 0);
    judge.stop(2_000_000, false);
    assert_eq!(judge.lateness().greatest(), Some(0));
    assert_eq!(judge.bursts.quantile(0.5), Some(20_000));
    assert_eq!(judge.longest_gap_us, 20_000);
    assert_eq!(judge.counts, Counts { packets: 800, bytes: 800 * 1_328, ..Counts::default() });
    assert_eq!((judge.player.underruns, judge.clock_jumps), (0, 0));
}

/// Promise: With `--settle`, lateness and underruns count only from that time after the last session's start.
#[test]
fn what_was_late_before_judging_began_does_not_count() {
    let mut judge = playing().judging_from(1_000_000);
    bursts(&mut judge, 0..800, |burst| if burst == 20 { 300_000 } else { 0 });
    judge.stop(2_000_000, false);
    assert_eq!((judge.lateness().greatest(), judge.player.underruns), (Some(0), 0));
    assert_eq!((judge.bursts.quantile(0.5), judge.longest_gap_us), (Some(20_000), 20_000));
    let mut judge = playing().judging_from(1_000_000);
    bursts(&mut judge, 0..800, |burst| if burst == 60 { 300_000 } else { 0 });
    judge.stop(2_000_000, false);
    assert_eq!((judge.lateness().greatest(), judge.player.underruns), (Some(300_000), 1));
    assert_eq!(judge.counts.packets, 800, "packets count from the start");
}

/// Promise: `wirepath load` measures a session's lateness to 0.1 ms, even if the session begins an hour into
/// the run.
#[test]
fn lateness_does_not_depend_on_when_a_session_begins() {
    for start_us in [0, 5_000_000, 3_600_000_000] {
        let mut judge = playing();
        let mut arrival_us = 0;
        for index in 0..1600 {
            let burst = index / 8;
            let late_us = if burst % 10 == 3 { 3_000 } else { 0 };
            arrival_us = arrival_us.max(start_us + i64::from(burst) * 8 * STEP_US + late_us);
            judge.packet(&packet(index, arrival_us));
        }
        judge.stop(arrival_us, true);
        let lateness = judge.lateness();
        assert_eq!((lateness.quantile(0.85), lateness.quantile(0.99)), (Some(0), Some(3_000)), "{start_us}");
        assert_eq!(lateness.greatest(), Some(3_000));
    }
}

#[test]
fn lateness_is_measured_from_bursts_on_time() {
    let mut judge = playing();
    // The first burst is late by 30 ms, and another burst by 90 ms.
    bursts(&mut judge, 0..1600, |burst| match burst {
        0 => 30_000,
        50 => 90_000,
        _ => 0,
    });
    judge.stop(4_000_000, false);
    let lateness = judge.lateness();
    assert_eq!((lateness.quantile(0.5), lateness.greatest()), (Some(0), Some(90_000)));
    assert_eq!(lateness.quantile(0.99), Some(30_000));
    assert_eq!(judge.player.underruns, 0);
}

/// Promise: `wirepath load` reports a session as late if it becomes late and stays late.
#[test]
fn what_was_on_time_once_stays_the_measure() {
    let mut judge = playing();
    // 30 of 600 bursts are on time, and all other bursts are late by 400 ms.
    bursts(&mut judge, 0..4800, |burst| if burst < 30 { 0 } else { 400_000 });
    judge.stop(12_000_000, false);
    assert_eq!(judge.lateness().quantile(0.5), Some(400_000));
}

/// Promise: A pause within a burst does not make other bursts late.
#[test]
fn the_rest_of_a_burst_that_paused_is_early_and_no_measure_of_others() {
    let mut judge = playing();
    // The second half of each burst arrives 2 ms after the first half, 8 ms before it is due.
    bursts(&mut judge, 0..800, |_| 0);
    let middle = 804;
    bursts(&mut judge, 800..middle, |_| 0);
    bursts(&mut judge, middle..808, |_| 2_000);
    bursts(&mut judge, 808..1600, |_| 0);
    judge.stop(4_000_000, false);
    assert_eq!(judge.bursts.quantile(0.0), Some(10_000), "it was taken for two bursts");
    assert_eq!(judge.lateness().greatest(), Some(0));
}

/// Promise: `wirepath load` counts lost, reordered and repeated packets.
#[test]
fn loss_reordering_and_duplicates_are_counted() {
    let mut judge = playing();
    let arrive = |judge: &mut Judge, index| judge.packet(&packet(index, i64::from(index) * STEP_US));
    for index in (0..1000).filter(|index| !matches!(index, 100 | 540..550)) {
        arrive(&mut judge, index);
        if index == 700 {
            arrive(&mut judge, 690);
        }
        if index == 545 + 5 {
            assert_eq!(arrive(&mut judge, 545).lost, -1);
        }
    }
    judge.stop(1000 * STEP_US, false);
    let expected = Counts {
        packets: 990,
        bytes: 990 * 1_328,
        lost: 10,
        reordered: 1,
        duplicates: 1,
        ..Counts::default()
    };
    assert_eq!(judge.counts, expected);
    assert_eq!(judge.player.underruns, 0);
}

#[test]
fn packets_before_the_answer_to_play_are_held_and_those_before_a_seek_are_not_counted() {
    let mut judge = playing();
    bursts(&mut judge, 0..80, |_| 0);
    judge.stop(200_000, false);
    judge.packet(&packet(80, 205_000));
    judge.ask(205_500);
    judge.packet(&packet(81, 206_000));
    for index in 92..100 {
        judge.packet(&packet(index, 210_000));
    }
    assert_eq!(judge.counts.packets, 80);
    let changes = judge.play(Some(65_000_u16.wrapping_add(90)));
    assert_eq!(changes.len(), 9);
    judge.stop(215_000, false);
    assert_eq!((judge.counts.packets, judge.counts.lost, judge.counts.missing_at_start), (88, 0, 2));
    assert_eq!((judge.clock_jumps, &judge.starts[..]), (0, &[0, 4_500][..]));
}

#[test]
fn silence_is_a_gap_and_an_underrun_unless_the_media_ended() {
    let judge = |whole| {
        let mut judge = playing();
        bursts(&mut judge, 0..80, |_| 0);
        judge.stop(2_000_000, whole);
        (judge.player.underruns, judge.longest_gap_us)
    };
    assert_eq!(judge(true), (0, 20_000));
    assert_eq!(judge(false), (1, 2_000_000 - 180_000));
}

#[test]
fn another_source_is_followed_and_another_payload_type_is_not() {
    let mut judge = playing();
    bursts(&mut judge, 0..80, |_| 0);
    let mut other = packet(80, 200_000);
    other.header.payload_type = 96;
    judge.packet(&other);
    let mut next = packet(20_000, 202_000);
    (next.header.ssrc, next.header.timestamp) = (8, 5_000_000);
    judge.packet(&next);
    assert_eq!((judge.counts.packets, judge.counts.strays, judge.counts.restarts), (81, 1, 1));
    judge.stop(210_000, false);
    assert_eq!((judge.clock_jumps, judge.player.underruns), (1, 0));
}

#[test]
fn a_report_says_what_was_lost_since_the_last() {
    let mut judge = playing();
    assert_eq!(judge.reception(), None);
    bursts(&mut judge, 0..100, |_| 0);
    let (ssrc, first) = judge.reception().expect("packets came");
    assert_eq!((ssrc, first.fraction_lost, first.cumulative_lost), (7, 0, 0));
    assert_eq!(first.highest_sequence, 65_099);
    bursts(&mut judge, 150..200, |_| 0);
    let (_, second) = judge.reception().expect("packets came");
    assert_eq!((second.fraction_lost, second.cumulative_lost), (128, 50));
    bursts(&mut judge, 200..600, |_| 0);
    let (_, third) = judge.reception().expect("packets came");
    assert_eq!((third.fraction_lost, third.highest_sequence), (0, 65_599));
}
