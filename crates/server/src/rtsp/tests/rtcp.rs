//! Reports, BYEs and reports of receivers.

use super::client::{Client, SetUp};
use super::fake::{Asked, SSRC};
use super::{Open, soon};
use serde_json::json;
use std::time::{Duration, SystemTime};
use tokio::net::UdpSocket;
use tokio::time::interval;
use wirepath_media::rtcp::NtpTime;
use wirepath_playback::PlaybackEvent;

/// Type of the last packet of a compound packet that begins with our sender report.
const NAMES: u8 = 202;
const BYE: u8 = 203;

async fn last_packet(rtcp: &UdpSocket) -> u8 {
    report(rtcp).await.0
}

/// The type of a compound's last packet, and how many packets have been sent by its first one.
async fn report(rtcp: &UdpSocket) -> (u8, u32) {
    let mut datagram = [0; 1500];
    let length = soon("RTCP", rtcp.recv(&mut datagram)).await.expect("RTCP");
    let mut rest = &datagram[..length];
    assert_eq!((rest[1], &rest[4..8]), (200, &SSRC.to_be_bytes()[..]));
    let packets = u32::from_be_bytes([rest[20], rest[21], rest[22], rest[23]]);
    loop {
        let size = 4 + 4 * usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        if rest.len() == size {
            return (rest[1], packets);
        }
        rest = &rest[size..];
    }
}

/// A report of one source: an eighth lost, 2 in all.
fn receiver_report(ssrc: u32) -> Vec<u8> {
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 9];
    report.extend(ssrc.to_be_bytes());
    report.extend([32, 0, 0, 2, 0, 1, 0, 7, 0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0]);
    report
}

fn server_ports(set_up: &SetUp) -> Vec<u16> {
    let transport = set_up.reply.header("Transport");
    let ports =
        transport.split("server_port=").nth(1).and_then(|rest| rest.split(';').next()).expect("ports");
    ports.split('-').map(|port| port.parse().expect("a number")).collect()
}

async fn to_server(set_up: &SetUp, datagram: &[u8]) {
    let rtcp = server_ports(set_up)[1];
    set_up.rtcp.send_to(datagram, ("127.0.0.1", rtcp)).await.expect("sent");
}

async fn playing(open: &Open) -> (Client, SetUp) {
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    assert_eq!(client.in_session("PLAY", &set_up, &[]).await.status, 200);
    (client, set_up)
}

#[tokio::test]
async fn reports_come_while_it_plays_and_a_bye_at_the_end() {
    let open = Open::with(|options| options.report_interval = Duration::from_millis(20)).await;
    let (mut client, set_up) = playing(&open).await;
    for _ in 0..3 {
        assert_eq!(last_packet(&set_up.rtcp).await, NAMES);
    }
    open.player.tell(PlaybackEvent::Finished);
    while last_packet(&set_up.rtcp).await != BYE {}
    assert_eq!(open.counter("rtcp_byes"), 1);

    // Playing again cancels the BYE; TEARDOWN sends it again.
    assert_eq!(client.in_session("PLAY", &set_up, &["Range: npt=0-"]).await.status, 200);
    assert_eq!(last_packet(&set_up.rtcp).await, NAMES);
    assert_eq!(client.in_session("TEARDOWN", &set_up, &[]).await.status, 200);
    while last_packet(&set_up.rtcp).await != BYE {}
    assert_eq!(open.counter("rtcp_byes"), 2);
}

/// Promise: Nothing is sent after a BYE.
///
/// RFC 3550 section 6.3.7: what is on its way when the end comes is sent, and counted, before BYE.
#[tokio::test]
async fn nothing_follows_a_bye() {
    let open = Open::new().await;
    for number in 0..2 {
        let (mut client, set_up) = playing(&open).await;
        match number {
            0 => assert_eq!(client.in_session("TEARDOWN", &set_up, &[]).await.status, 200),
            _ => drop(client),
        }
        let (kind, packets) = loop {
            match report(&set_up.rtcp).await {
                (NAMES, _) => {}
                last => break last,
            }
        };
        assert_eq!((kind, packets), (BYE, 2), "{number}");
    }
}

#[tokio::test]
async fn a_session_that_never_played_sends_no_bye() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    assert_eq!(client.in_session("TEARDOWN", &set_up, &[]).await.status, 200);
    assert_eq!((open.counter("rtcp_byes"), open.counter("sender_reports")), (0, 0));
}

#[tokio::test]
async fn receiver_reports_are_read_and_shown() {
    let open = Open::new().await;
    let (_client, set_up) = playing(&open).await;
    to_server(&set_up, b"no RTCP").await;
    to_server(&set_up, &receiver_report(1)).await;
    to_server(&set_up, &receiver_report(SSRC)).await;
    let mut poll = interval(Duration::from_millis(5));
    soon("a reception", async {
        while open.counter("reception_reports") == 0 {
            poll.tick().await;
        }
    })
    .await;
    assert_eq!((open.counter("rtcp_received"), open.counter("rtcp_malformed")), (3, 1));
    let sessions = open.sessions();
    let report = &sessions[0]["receiver_report"];
    assert_eq!((&report["fraction_lost"], &report["packets_lost"]), (&json!(0.125), &json!(2)));
    assert!(report["round_trip_ms"].is_null());
    assert_eq!((&sessions[0]["state"], &sessions[0]["asset"]), (&json!("playing"), &json!("clip.ts")));
}

/// Promise: RTCP of all sessions arrives at one socket and is assigned by the client's address and port.
#[tokio::test]
async fn reports_of_sessions_on_one_pair_are_told_apart() {
    let open =
        Open::with(|options| options.ports = *options.ports.start()..=*options.ports.start() + 1).await;
    let (mut first, played) = playing(&open).await;
    let mut other = open.client().await;
    let second = other.set_up("clip.ts").await;
    to_server(&second, &receiver_report(SSRC)).await;
    let stranger = super::client::socket().await;
    let rtcp = server_ports(&second)[1];
    stranger.send_to(&receiver_report(SSRC), ("127.0.0.1", rtcp)).await.expect("sent");
    let mut poll = interval(Duration::from_millis(5));
    soon("a report and a stray", async {
        while open.counter("reception_reports") + open.counter("rtcp_strays") < 2 {
            poll.tick().await;
        }
    })
    .await;
    assert_eq!((open.counter("reception_reports"), open.counter("rtcp_strays")), (1, 1));
    let of = |state: &str| {
        let sessions = open.sessions();
        sessions.into_iter().find(|session| session["state"] == state).expect("it is there")
    };
    assert!(of("playing")["receiver_report"].is_null() && !of("resting")["receiver_report"].is_null());
    assert_eq!(server_ports(&played), server_ports(&second));
    assert_eq!(first.in_session("TEARDOWN", &played, &[]).await.status, 200);
    while last_packet(&played.rtcp).await != BYE {}
}

/// Promise: Many RTCP datagrams are read in one call; round-trip times exclude the time before reading.
#[tokio::test]
async fn reports_are_read_together_and_end_their_round_trips_when_they_come() {
    let open = Open::new().await;
    let (_client, set_up) = playing(&open).await;
    let reads = open.counter("rtcp_reads");
    // The client answers a report of 5 s ago, 5 s after it came.
    let since_1970 = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let begun = since_1970();
    let ago = NtpTime::from_unix(begun - Duration::from_secs(5)).middle();
    let mut report = receiver_report(SSRC);
    report[24..28].copy_from_slice(&ago.to_be_bytes());
    report[28..32].copy_from_slice(&(5u32 << 16).to_be_bytes());
    for _ in 0..50 {
        to_server(&set_up, &report).await;
    }
    let sent_ms = (since_1970() - begun).as_secs_f64() * 1000.0;
    let mut poll = interval(Duration::from_millis(5));
    soon("reports", async {
        while open.counter("rtcp_received") < 50 {
            poll.tick().await;
        }
    })
    .await;
    let reads = open.counter("rtcp_reads") - reads;
    let round_trip_ms =
        open.sessions()[0]["receiver_report"]["round_trip_ms"].as_f64().expect("a round trip");
    assert!(reads <= 10, "{reads} calls for 50 reports");
    assert!(round_trip_ms <= sent_ms + 2.0, "{round_trip_ms} ms, all were sent within {sent_ms} ms");
}

/// Promise: RTCP keeps a session alive.
#[tokio::test]
async fn silence_ends_a_session_and_rtcp_is_no_silence() {
    let open = Open::with(|options| options.session_timeout = Duration::from_millis(400)).await;
    let (mut client, set_up) = playing(&open).await;
    open.player.expect(Asked::SetUp).await;
    open.player.expect(Asked::Play { from_us: None, until_us: None }).await;
    let mut reports = interval(Duration::from_millis(100));
    for _ in 0..12 {
        reports.tick().await;
        to_server(&set_up, &receiver_report(SSRC)).await;
        assert_eq!(open.counter("sessions_ended/timeout"), 0);
    }
    open.player.expect_end().await;
    assert_eq!(open.counter("sessions_ended/timeout"), 1);
    while last_packet(&set_up.rtcp).await != BYE {}
    assert_eq!(client.in_session("GET_PARAMETER", &set_up, &[]).await.status, 454);
}

#[tokio::test]
async fn requests_are_no_silence_either() {
    let open = Open::with(|options| options.session_timeout = Duration::from_millis(400)).await;
    let (mut client, set_up) = playing(&open).await;
    let mut requests = interval(Duration::from_millis(100));
    for _ in 0..12 {
        requests.tick().await;
        assert_eq!(client.in_session("GET_PARAMETER", &set_up, &[]).await.status, 200);
    }
}
