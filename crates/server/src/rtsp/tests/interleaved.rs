//! Sessions over the RTSP connection (RFC 2326 section 10.12).

use super::client::Client;
use super::fake::{Asked, SSRC};
use super::{Open, soon};
use serde_json::json;
use std::time::Duration;
use tokio::time::interval;
use wirepath_playback::PlaybackEvent;

const TCP: &str = "Transport: RTP/AVP/TCP;unicast;interleaved=4-5";

const UDP: &str = "Transport: RTP/AVP;unicast;client_port=40000-40001";

/// Requests a session in these channels; returns its identifier and the transport.
async fn set_up(client: &mut Client, transport: &str) -> (String, String) {
    let reply = client.ask("SETUP", "clip.ts/track1", &[transport]).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    (reply.session(), reply.header("Transport").to_owned())
}

async fn in_session(client: &mut Client, method: &str, id: &str) -> u16 {
    client.ask(method, "clip.ts", &[&format!("Session: {id}")]).await.status
}

/// A report of one source: an eighth lost, 2 in all.
fn receiver_report(ssrc: u32) -> Vec<u8> {
    let mut report = vec![0x81, 201, 0, 7, 0, 0, 0, 9];
    report.extend(ssrc.to_be_bytes());
    report.extend([32, 0, 0, 2, 0, 1, 0, 7, 0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0]);
    report
}

fn frame(channel: u8, bytes: &[u8]) -> Vec<u8> {
    [&[b'$', channel, 0, bytes.len() as u8], bytes].concat()
}

/// Promise: A session gets the channels that its client requests, unless another session uses them.
#[tokio::test]
async fn channels_are_answered_and_never_shared() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let expected = |channels: &str| format!("RTP/AVP/TCP;unicast;interleaved={channels};ssrc={SSRC:08X}");
    for (asked, given) in [(";interleaved=4-5", "4-5"), (";interleaved=4-5", "0-1"), ("", "2-3")] {
        let (_, transport) = set_up(&mut client, &format!("Transport: RTP/AVP/TCP;unicast{asked}")).await;
        assert_eq!(transport, expected(given));
    }
    assert_eq!((open.counter("sessions"), open.counter("sessions_interleaved")), (3, 3));
    let over_udp = client.set_up("clip.ts").await;
    assert_eq!(open.counter("sessions_interleaved"), 3);
    assert_eq!(client.in_session("TEARDOWN", &over_udp, &[]).await.status, 200);
    let transports: Vec<_> = open.sessions().iter().map(|session| session["transport"].clone()).collect();
    assert_eq!(transports, [json!("tcp"), json!("tcp"), json!("tcp")]);
}

/// Promise: No packet is sent before the response to PLAY.
#[tokio::test]
async fn the_first_packet_follows_the_response() {
    let open = Open::with(|options| options.report_interval = Duration::from_secs(60)).await;
    let mut client = open.client().await;
    let (id, _) = set_up(&mut client, TCP).await;
    open.player.expect(Asked::SetUp).await;
    assert_eq!(in_session(&mut client, "PLAY", &id).await, 200);
    open.player.expect(Asked::Play { from_us: None, until_us: None }).await;
    open.player.expect(Asked::Release).await;
    assert!(client.frames.is_empty(), "frames came before the response");
    let packet = soon("a packet", async {
        loop {
            if let (4, packet) = client.frame().await {
                return packet;
            }
        }
    });
    assert_eq!(packet.await, b"a packet");
}

#[tokio::test]
async fn reports_and_byes_come_as_frames_and_receivers_reports_too() {
    let open = Open::with(|options| options.report_interval = Duration::from_millis(20)).await;
    let mut client = open.client().await;
    let (id, _) = set_up(&mut client, TCP).await;
    assert_eq!(in_session(&mut client, "PLAY", &id).await, 200);
    let next_report = async |client: &mut Client| loop {
        match client.frame().await {
            (5, report) => return report,
            (channel, packet) => assert_eq!((channel, packet.as_slice()), (4, &b"a packet"[..])),
        }
    };
    for _ in 0..3 {
        let report = next_report(&mut client).await;
        assert_eq!((report[1], &report[4..8]), (200, &SSRC.to_be_bytes()[..]));
    }
    let sent = [frame(5, b"no RTCP"), frame(5, &receiver_report(SSRC)), frame(9, b"x"), frame(4, b"y")];
    client.send(&sent.concat()).await;
    client.send(&[&b"$\x05\xff\xff"[..], &[0; 65_535]].concat()).await; // too long for RTCP
    assert_eq!(in_session(&mut client, "GET_PARAMETER", &id).await, 200);
    assert_eq!((open.counter("rtcp_received"), open.counter("rtcp_malformed")), (2, 1));
    assert_eq!((open.counter("reception_reports"), open.counter("frames_dropped")), (1, 2));
    assert_eq!(open.sessions()[0]["receiver_report"]["packets_lost"], json!(2));

    open.player.tell(PlaybackEvent::Finished);
    soon("BYE", async { while next_report(&mut client).await.windows(2).all(|pair| pair != [0x81, 203]) {} })
        .await;
    assert_eq!(open.counter("rtcp_byes"), 1);
}

/// Promise: A session over TCP lives as long as its connection.
#[tokio::test]
async fn silence_does_not_end_a_session_and_the_end_of_its_connection_does() {
    let open = Open::with(|options| {
        options.session_timeout = Duration::from_millis(100);
        options.idle_timeout = Duration::from_millis(100);
    })
    .await;
    let mut client = open.client().await;
    let (id, _) = set_up(&mut client, TCP).await;
    open.player.expect(Asked::SetUp).await;
    // Five sessions over UDP, one after the other, are ended for the same time of silence each.
    for ended in 1..=5 {
        let mut other = open.client().await;
        set_up(&mut other, UDP).await;
        open.player.expect(Asked::SetUp).await;
        open.player.expect_end().await;
        assert_eq!(open.counter("sessions_ended/timeout"), ended);
    }
    assert_eq!(in_session(&mut client, "GET_PARAMETER", &id).await, 200);
    drop(client);
    open.player.expect_end().await;
    assert_eq!((open.counter("sessions_ended/timeout"), open.counter("sessions_ended/disconnected")), (5, 1));
    let mut poll = interval(Duration::from_millis(5));
    soon("an end", async {
        while open.counter("sessions_interleaved") > 0 {
            poll.tick().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_drain_ends_the_connection_behind_a_bye() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let (id, _) = set_up(&mut client, TCP).await;
    assert_eq!(in_session(&mut client, "PLAY", &id).await, 200);
    open.shutdown.send_replace(true);
    client.expect_end().await;
    let last = client.frames.pop().expect("frames came");
    assert_eq!((last.0, last.1.windows(2).any(|pair| pair == [0x81, 203])), (5, true), "{last:?}");
    soon("the end", open.task).await.expect("no panic");
}

/// Promise: A session over TCP that ends sends BYE, then the response.
#[tokio::test]
async fn a_teardown_leaves_the_connection_for_others() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let (first, _) = set_up(&mut client, TCP).await;
    let (second, _) = set_up(&mut client, "Transport: RTP/AVP/TCP;unicast;interleaved=6-7").await;
    for id in [&first, &second] {
        assert_eq!(in_session(&mut client, "PLAY", id).await, 200);
    }
    client.frames.clear();
    assert_eq!(in_session(&mut client, "TEARDOWN", &first).await, 200);
    let (channel, bye) = client.frames.pop().expect("BYE comes before the response");
    assert_eq!((channel, bye.windows(2).any(|pair| pair == [0x81, 203])), (5, true), "{bye:?}");
    assert_eq!(in_session(&mut client, "PLAY", &first).await, 454);
    assert_eq!(in_session(&mut client, "PAUSE", &second).await, 200);
    let (third, transport) = set_up(&mut client, TCP).await;
    assert!(transport.contains("interleaved=4-5") && third != first, "{transport}");
}
