//! The model against packets counted by hand.

use super::*;
use crate::random::Random;
use crate::rtp::Timestamps;

fn rtp(timestamps: Timestamps, position: u32) -> Rtp {
    let (ssrc, sequence, payload_type, marker) = (0x0102_0304, 0xffff, 96, 2);
    Rtp { ssrc, sequence, payload_type, marker, position, packets: 7, octets: 100, timestamps }
}

fn call(length: Option<u64>, packet_bytes: u32, header: Header) -> Call {
    Call { length, packet_bytes, header, ..Call::packet(10, 0) }
}

fn payloads(outcome: &Outcome) -> Vec<Range<u64>> {
    outcome.packets.iter().map(|packet| packet.payload.clone()).collect()
}

#[test]
fn the_last_packet_is_shorter() {
    let outcome = Outcome::of(&call(Some(25), 10, Header::Given(2)), Source::File(1000));
    assert_eq!(payloads(&outcome), [10..20, 20..30, 30..35]);
    assert_eq!(outcome.packets[1].header, given_headers(2, 3)[2..4]);
    assert_eq!(outcome.answer, Ok(()));
    assert_eq!([1, 2, 3].map(|most| outcome.trains(most)), [3, 2, 1]);
}

#[test]
fn a_file_that_ends_early_gives_what_it_has() {
    let outcome = Outcome::of(&call(Some(25), 10, Header::None), Source::File(22));
    assert_eq!((payloads(&outcome), outcome.answer), (vec![10..20, 20..22], Err(Errno::NODATA)));
    let outcome = Outcome::of(&call(None, 10, Header::None), Source::File(22));
    assert_eq!((payloads(&outcome), outcome.answer), (vec![10..20, 20..22], Ok(())));
    let outcome = Outcome::of(&call(Some(25), 10, Header::None), Source::Memory(22));
    assert_eq!(payloads(&outcome).as_slice(), std::slice::from_ref(&(10..20)));
    assert_eq!(outcome.answer, Err(Errno::FAULT));
}

#[test]
fn pages_are_crossed_where_the_memory_lies() {
    let outcome =
        Outcome::of(&Call { offset: 0, ..call(Some(4096), 1024, Header::Given(2)) }, Source::Memory(4096));
    let trains = |start| outcome.trains_at_most(64, 8, start);
    assert_eq!([trains(0), trains(PAGE), trains(PAGE + 1)], [1, 1, 2]);
}

#[test]
fn timestamps_step_and_sequences_wrap() {
    let engine = rtp(Timestamps::Step(1000, 90, 2), 1);
    let call = call(Some(40), 10, Header::Rtp(engine.clone()));
    let outcome = Outcome::of(&call, Source::File(1000));
    let headers: Vec<&[u8]> = outcome.packets.iter().map(|packet| &packet.header[..8]).collect();
    let expected: [[u8; 8]; 4] = [
        [0x80, 0x80 | 96, 0xff, 0xff, 0, 0, 0x03, 0xe8],
        [0x80, 96, 0, 0, 0, 0, 0x04, 0x42],
        [0x80, 0x80 | 96, 0, 1, 0, 0, 0x04, 0x42],
        [0x80, 96, 0, 2, 0, 0, 0x04, 0x9c],
    ];
    assert_eq!(headers, expected);
    let after = outcome.rtp(&call, &engine);
    assert_eq!((after.sequence, after.timestamp, after.position), (3, 0x49c, 1));
    assert_eq!((after.packets, after.octets, after.last_timestamp), (11, 140, Some(0x49c)));
}

#[test]
fn a_group_says_what_its_last_packet_carries_and_the_table_ends_the_run() {
    let engine = rtp(Timestamps::Table(vec![(5, 3, 24), (6, 1, 0)]), 1);
    let call = call(Some(100), 10, Header::Rtp(engine.clone()));
    let outcome = Outcome::of(&call, Source::File(1000));
    assert_eq!((payloads(&outcome), outcome.answer), (vec![10..20, 20..24, 24..34], Err(Errno::NODATA)));
    let marked: Vec<bool> = outcome.packets.iter().map(|packet| packet.header[1] & 0x80 != 0).collect();
    assert_eq!(marked, [false, true, true]);
    assert_eq!(outcome.trains(8), 2);
    let after = outcome.rtp(&call, &engine);
    assert_eq!((after.groups, after.position, after.timestamp), (2, 0, 6));
}

/// Promise: SEND skips the bytes between payloads.
#[test]
fn what_is_passed_over_is_in_no_packet() {
    let call = |length| Call { skip_bytes: 3, ..call(length, 10, Header::None) };
    let of = |length, end| {
        let outcome = Outcome::of(&call(length), Source::File(end));
        (payloads(&outcome), outcome.answer, outcome.passed(&call(length)))
    };
    assert_eq!(of(Some(26), 1000), (vec![13..23, 26..36], Ok(()), 26));
    assert_eq!(of(Some(30), 1000), (vec![13..23, 26..36, 39..40], Ok(()), 30));
    assert_eq!(of(Some(29), 1000), (vec![13..23, 26..36], Ok(()), 26));
    assert_eq!(of(None, 39), (vec![13..23, 26..36], Ok(()), 26));
    assert_eq!(of(Some(30), 39), (vec![13..23, 26..36], Err(Errno::NODATA), 26));
    assert_eq!(of(Some(3), 1000), (vec![], Ok(()), 0));
    let one = Call { packet_bytes: 0, ..call(Some(26)) };
    assert_eq!(payloads(&Outcome::of(&one, Source::File(1000))).as_slice(), std::slice::from_ref(&(13..36)));
}

#[test]
fn what_is_too_long_is_not_sent() {
    let outcome = Outcome::of(&Call::packet(0, PACKET_MAX + 1), Source::File(1 << 20));
    assert_eq!((outcome.packets.len(), outcome.answer), (0, Err(Errno::MSGSIZE)));
}

#[test]
fn random_calls_send_something_as_a_rule() {
    let mut random = Random::new(1);
    let calls: Vec<Call> = (0..500).map(|_| Call::random(&mut random, 300_001)).collect();
    let sent = calls.iter().filter(|call| Outcome::of(call, Source::File(300_001)).packets.len() > 1).count();
    assert!(sent > 250, "{sent}");
}
