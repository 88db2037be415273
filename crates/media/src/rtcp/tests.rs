//! Reads written packets with `rtcp-types` and the other way round, and arbitrary bytes.

use super::*;
use proptest::prelude::*;
use rtcp_types::Packet;

const SSRC: u32 = 0x1234_5678;

fn is_ours(ssrc: u32) -> bool {
    ssrc == SSRC
}

fn state() -> SenderState {
    let now = NtpTime::from_unix(Duration::from_secs(1_700_000_000));
    SenderState { ssrc: SSRC, now, timestamp: 90_000, packets: 7, octets: 9_212 }
}

fn block(ssrc: u32) -> rtcp_types::ReportBlockBuilder {
    ReportBlock::builder(ssrc)
        .fraction_lost(64)
        .cumulative_lost(0xff_fffe)
        .extended_sequence_number(0x1_0007)
        .interarrival_jitter(90)
        .last_sender_report_timestamp(0xb705_2000)
        .delay_since_last_sender_report_timestamp(0x5_4000)
}

fn receiver_report(blocks: &[u32]) -> Vec<u8> {
    let report =
        blocks.iter().fold(ReceiverReport::builder(9), |report, &ssrc| report.add_report_block(block(ssrc)));
    let name = SdesChunk::builder(9).add_item(SdesItem::builder(SdesItem::CNAME, "client"));
    write(Compound::builder().add_packet(report).add_packet(Sdes::builder().add_chunk(name)))
}

#[test]
fn a_report_says_what_was_sent_and_by_whom() {
    let bytes = state().report("wirepath@host");
    let packets: Vec<_> = Compound::parse(&bytes).expect("valid").collect::<Result<_, _>>().expect("valid");
    let [Packet::Sr(report), Packet::Sdes(names)] = &packets[..] else { panic!("{packets:?}") };
    assert_eq!((report.ssrc(), report.rtp_timestamp()), (SSRC, 90_000));
    assert_eq!((report.packet_count(), report.octet_count()), (7, 9_212));
    assert_eq!(report.ntp_timestamp() >> 32, 1_700_000_000 + 2_208_988_800);
    let chunk = names.chunks().next().expect("a chunk");
    assert_eq!(chunk.items().next().map(|item| item.value()), Some(&b"wirepath@host"[..]));
}

#[test]
fn the_last_report_has_a_bye_behind_it() {
    let bytes = state().bye("wirepath@host");
    let last = Compound::parse(&bytes).expect("valid").last();
    let Some(Ok(Packet::Bye(bye))) = last else { panic!("{last:?}") };
    assert_eq!(bye.ssrcs().collect::<Vec<_>>(), [SSRC]);
    assert_eq!(read(&bytes, is_ours), Ok(Received { receptions: vec![], bye: true }));
}

#[test]
fn a_name_that_is_too_long_is_cut_at_a_character() {
    let bytes = state().report(&"ü".repeat(200));
    assert!(Compound::parse(&bytes).expect("valid").all(|packet| packet.is_ok()));
}

#[test]
fn reports_about_our_source_are_read() {
    let received = read(&receiver_report(&[SSRC, 1, SSRC]), is_ours).expect("valid");
    let expected = Reception {
        fraction_lost: 64,
        cumulative_lost: -2,
        highest_sequence: 0x1_0007,
        jitter: 90,
        last_report: 0xb705_2000,
        delay_since: 0x5_4000,
    };
    assert_eq!(received, Received { receptions: vec![(SSRC, expected); 2], bye: false });
}

#[test]
fn the_round_trip_is_the_one_of_the_rfc() {
    // RFC 3550 figure 2: 6.125 s = 0xb710:8000 - 0x0005:4000 - 0xb705:2000.
    let now = NtpTime::from_unix(Duration::from_millis(816_003_205_125 + 11_375));
    let reception = read(&receiver_report(&[SSRC]), is_ours).expect("valid").receptions[0].1;
    assert_eq!(reception.round_trip(now), Some(Duration::from_millis(6_125)));
    assert_eq!(Reception { last_report: 0, ..reception }.round_trip(now), None);
    assert_eq!(Reception { delay_since: 0x10_0000, ..reception }.round_trip(now), None);
}

#[test]
fn packets_of_no_interest_are_passed_over() {
    let application = [0x80, 204, 0, 2, 0, 0, 0, 9, b't', b'e', b's', b't'];
    let broken_names = [0x81, 202, 0, 1, 0xff, 0xff, 0xff, 0xff];
    let datagram =
        [&receiver_report(&[])[..], &application, &broken_names, &receiver_report(&[SSRC])].concat();
    assert_eq!(read(&datagram, is_ours).map(|received| received.receptions.len()), Ok(1));
}

#[test]
fn what_is_no_rtcp_is_refused() {
    let truncated = &receiver_report(&[SSRC])[..20];
    let application = [0x80, 204, 0, 2, 0, 0, 0, 9, b't', b'e', b's', b't'];
    let rtp = [0x80, 33, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    for bytes in
        [&[][..], &[0x80], truncated, &rtp, &application, &[0x00, 201, 0, 0], &[0x80, 201, 0xff, 0xff]]
    {
        assert!(read(bytes, is_ours).is_err(), "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, at in 0usize..200, value: u8) {
        _ = read(&bytes, is_ours);
        let mut report = receiver_report(&[SSRC, 1, SSRC]);
        report.extend(state().bye("name"));
        let at = at % report.len();
        report[at] = value;
        if let Ok(received) = read(&report, is_ours) {
            prop_assert!(received.receptions.len() <= 62);
            for (_, reception) in received.receptions {
                _ = reception.round_trip(state().now);
            }
        }
    }
}
