//! Sessions of several tracks (RFC 2326 sections 10.4 and 14.2).

use super::client::{Client, Reply, SetUp, port, socket};
use super::fake::{Asked, SSRC};
use super::{Open, soon};
use serde_json::json;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::interval;
use wirepath_net::DescriptorBudget;

const FILM: &str = "film.mp4";

const TCP: &str = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1";

/// Offers a track with separate sockets, in an existing session or a new one.
async fn offer(client: &mut Client, track: u8, session: Option<&str>) -> (Reply, UdpSocket, UdpSocket) {
    let (rtp, rtcp) = (socket().await, socket().await);
    let transport = format!("Transport: RTP/AVP;unicast;client_port={}-{}", port(&rtp), port(&rtcp));
    let session = session.map(|id| format!("Session: {id}"));
    let headers: Vec<&str> = [transport.as_str()].into_iter().chain(session.as_deref()).collect();
    (client.ask("SETUP", &format!("{FILM}/track{track}"), &headers).await, rtp, rtcp)
}

/// A session with both tracks.
async fn both(client: &mut Client) -> [SetUp; 2] {
    let (reply, rtp, rtcp) = offer(client, 1, None).await;
    let id = reply.session();
    let first = SetUp { id: id.clone(), rtp, rtcp, reply };
    let (reply, rtp, rtcp) = offer(client, 2, Some(&id)).await;
    assert_eq!((reply.status, reply.session()), (200, id.clone()), "{reply:?}");
    [first, SetUp { id, rtp, rtcp, reply }]
}

async fn in_session(client: &mut Client, method: &str, path: &str, id: &str) -> Reply {
    client.ask(method, path, &[&format!("Session: {id}")]).await
}

/// Source, NTP time and RTP time of the next sender report.
async fn sender_report(rtcp: &UdpSocket) -> (u32, u64, u32) {
    let mut datagram = [0; 1500];
    let length = soon("RTCP", rtcp.recv(&mut datagram)).await.expect("RTCP");
    assert!(length >= 28 && datagram[1] == 200, "{:?}", &datagram[..length]);
    let word = |at: usize| u32::from_be_bytes(datagram[at..at + 4].try_into().expect("four bytes"));
    (word(4), u64::from(word(8)) << 32 | u64::from(word(12)), word(16))
}

/// Promise: A Scale other than 1 needs a video track; sessions without one play at Scale 1.
#[tokio::test]
async fn a_scale_is_for_sessions_with_pictures() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let (reply, _rtp, _rtcp) = offer(&mut client, 1, None).await;
    let session = format!("Session: {}", reply.session());
    let play =
        |scale: &'static str, range: &'static str| [session.clone(), scale.to_owned(), range.to_owned()];
    let headers = play("Scale: -4", "Range: npt=30-");
    let reply = client.ask("PLAY", FILM, &headers.each_ref().map(String::as_str)).await;
    assert_eq!((reply.status, reply.header("Scale")), (200, "1.0"));
    assert_eq!(reply.header("Range"), "npt=30.000-60.000");

    let mut client = open.client().await;
    let [_sound, pictures] = both(&mut client).await;
    let session = format!("Session: {}", pictures.id);
    let play =
        |scale: &'static str, range: &'static str| [session.clone(), scale.to_owned(), range.to_owned()];
    for (asked, granted, range, answered) in [
        ("Scale: -4", "-4.0", "Range: npt=30-", "npt=30.000-0.000"),
        ("Scale: -4", "-4.0", "Range: npt=30-20", "npt=30.000-20.000"),
        ("Scale: 99", "32.0", "Range: npt=10-", "npt=10.000-60.000"),
        ("Scale: 1", "1.0", "Range: npt=10-", "npt=10.000-60.000"),
    ] {
        let headers = play(asked, range);
        let reply = client.ask("PLAY", FILM, &headers.each_ref().map(String::as_str)).await;
        assert_eq!((reply.status, reply.header("Scale"), reply.header("Range")), (200, granted, answered));
        assert_eq!(in_session(&mut client, "PAUSE", FILM, &pictures.id).await.status, 200);
    }
}

/// Promise: A session plays any subset of a presentation's tracks; they play and pause together.
#[tokio::test]
async fn tracks_are_set_up_in_one_session_and_played_together() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let described = client.ask("DESCRIBE", FILM, &[]).await;
    assert_eq!(described.body.matches("\r\na=control:track").count(), 2, "{}", described.body);

    let [video, audio] = both(&mut client).await;
    open.player.expect(Asked::SetUp).await;
    open.player.expect(Asked::Add(1)).await;
    for (track, ssrc) in [(&video, SSRC), (&audio, SSRC + 1)] {
        assert!(track.reply.header("Transport").contains(&format!("ssrc={ssrc:08X}")), "{:?}", track.reply);
    }
    assert_eq!((open.counter("sessions"), open.counter("tracks")), (1, 2));

    let reply = in_session(&mut client, "PLAY", FILM, &video.id).await;
    let (first, second) = (client.url("film.mp4/track1"), client.url("film.mp4/track2"));
    let expected = format!("url={first};seq=1;rtptime=90000,url={second};seq=1;rtptime=48000");
    assert_eq!((reply.status, reply.header("RTP-Info")), (200, expected.as_str()));
    for track in [&video, &audio] {
        let mut packet = [0; 100];
        let length = soon("a packet", track.rtp.recv(&mut packet)).await.expect("a packet");
        assert_eq!(&packet[..length], b"a packet");
    }
    assert_eq!(in_session(&mut client, "PAUSE", FILM, &video.id).await.status, 200);
    assert_eq!(open.sessions()[0]["tracks"].as_array().map(Vec::len), Some(2));
    assert_eq!(in_session(&mut client, "TEARDOWN", FILM, &video.id).await.status, 200);
    assert_eq!((open.counter("sessions"), open.counter("tracks")), (0, 0));
    assert_eq!(in_session(&mut client, "PLAY", FILM, &video.id).await.status, 454);
}

/// Promise: Sender reports of all tracks of a session refer to the same time.
#[tokio::test]
async fn reports_of_all_tracks_say_the_same_time() {
    let open = Open::with(|options| options.report_interval = Duration::from_millis(50)).await;
    let mut client = open.client().await;
    let [video, audio] = both(&mut client).await;
    assert_eq!(in_session(&mut client, "PLAY", FILM, &video.id).await.status, 200);
    for _ in 0..3 {
        let (of_video, of_audio) = (sender_report(&video.rtcp).await, sender_report(&audio.rtcp).await);
        assert_eq!((of_video.0, of_audio.0, of_video.1), (SSRC, SSRC + 1, of_audio.1));
        // Both clocks of the test begin at 0 with the monotonic clock, and wrap. Of 720 kHz, their common multiple, 32
        // bits are equal, but for what rounding to a tick of each leaves.
        let (video, audio) = (of_video.2.wrapping_mul(720 / 90), of_audio.2.wrapping_mul(720 / 48));
        let difference = video.wrapping_sub(audio).cast_signed();
        assert!(difference.abs() < 720, "{of_video:?} {of_audio:?}");
    }
}

/// Promise: A track without packets sends sender reports with its clock, and no BYE.
///
/// RFC 3550 section 6.3.7: a source that never sent a packet says no BYE.
#[tokio::test]
async fn a_track_without_packets_says_no_bye() {
    let open = Open::with(|options| options.report_interval = Duration::from_millis(20)).await;
    let mut client = open.client().await;
    // The track without packets is the first of the session, so its BYE would be counted first.
    let offered = ["Transport: RTP/AVP/TCP;unicast;interleaved=2-3"];
    let id = client.ask("SETUP", "silent.mp4/track2", &offered).await.session();
    let session = format!("Session: {id}");
    assert_eq!(client.ask("SETUP", "silent.mp4/track1", &[TCP, &session]).await.status, 200);
    assert_eq!(in_session(&mut client, "PLAY", "silent.mp4", &id).await.status, 200);
    let mut poll = interval(Duration::from_millis(5));
    soon("a report of each track", async {
        while open.counter("sender_reports") < 2 {
            poll.tick().await;
        }
    })
    .await;
    assert_eq!(in_session(&mut client, "TEARDOWN", "silent.mp4", &id).await.status, 200);
    assert_eq!(open.counter("rtcp_byes"), 1);
}

/// Promise: Receiver reports are assigned to their track.
#[tokio::test]
async fn receiver_reports_are_told_apart_by_their_source() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let transport = ["Transport: RTP/AVP/TCP;unicast;interleaved=2-3"];
    let id = client.ask("SETUP", "film.mp4/track2", &transport).await.session();
    let session = format!("Session: {id}");
    let reply = client.ask("SETUP", "film.mp4/track1", &[TCP, &session]).await;
    assert!(reply.header("Transport").contains("interleaved=0-1"), "{reply:?}");
    // One block for each track; the block of the second one reports a total loss.
    let mut report = vec![0x82, 201, 0, 13, 0, 0, 0, 9];
    for (source, fraction) in [(SSRC, 0), (SSRC + 1, 255)] {
        report.extend(source.to_be_bytes());
        report.extend([fraction, 0, 0, 2, 0, 1, 0, 7, 0, 0, 0, 90, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    client.send(&[&[b'$', 3, 0, report.len() as u8], &report[..]].concat()).await;
    assert_eq!(in_session(&mut client, "GET_PARAMETER", FILM, &id).await.status, 200);
    let session = open.sessions().remove(0);
    assert_eq!((&session["tracks"][0]["track"], &session["tracks"][1]["track"]), (&json!(2), &json!(1)));
    assert_eq!(session["tracks"][1]["receiver_report"]["fraction_lost"], json!(0.0));
    assert_eq!(session["receiver_report"]["fraction_lost"], json!(255.0 / 256.0), "that of the worst");
    assert_eq!(session["receiver_report"]["jitter_ms"], json!(90.0 / 48.0), "by the track's own clock");
}

/// Promise: Unsupported requests to a session of several tracks are refused with the status of RFC 2326.
#[tokio::test]
async fn what_tracks_cannot_do_is_refused() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let transport = "Transport: RTP/AVP;unicast;client_port=40000-40001";
    assert_eq!(client.ask("SETUP", FILM, &[transport]).await.status, 459);
    assert_eq!(client.ask("SETUP", "film.mp4/track3", &[transport]).await.status, 404);
    assert_eq!(client.ask("SETUP", "film.mp4/track0", &[transport]).await.status, 404);
    assert_eq!(client.ask("DESCRIBE", "film.mp4/track2", &[]).await.status, 460);
    assert_eq!(client.ask("DESCRIBE", "film.mp4/track3", &[]).await.status, 404);

    let (reply, _rtp, _rtcp) = offer(&mut client, 2, None).await;
    let id = reply.session();
    assert_eq!(
        in_session(&mut client, "PLAY", "film.mp4/track2", &id).await.status,
        200,
        "it is the only one"
    );
    assert_eq!(offer(&mut client, 1, Some(&id)).await.0.status, 455, "it plays");
    assert_eq!(in_session(&mut client, "PAUSE", FILM, &id).await.status, 200);
    let session = format!("Session: {id}");
    for (path, offered, status) in [
        ("film.mp4/track2", transport, 455),
        ("film.mp4/track3", transport, 404),
        ("clip.ts/track1", transport, 459),
        ("film.mp4", transport, 459),
        ("film.mp4/track1", TCP, 461),
        ("film.mp4/track1", "Require: x", 551),
    ] {
        assert_eq!(client.ask("SETUP", path, &[offered, &session]).await.status, status, "{path} {offered}");
    }
    assert_eq!(open.counter("tracks"), 1);
    assert_eq!(offer(&mut client, 1, Some(&id)).await.0.status, 200);
    for method in ["PLAY", "PAUSE", "TEARDOWN"] {
        assert_eq!(in_session(&mut client, method, "film.mp4/track1", &id).await.status, 460, "{method}");
    }
    assert_eq!(in_session(&mut client, "TEARDOWN", FILM, &id).await.status, 200);
}

/// Promise: The socket of each track is counted against the limit of open files.
#[tokio::test]
async fn sockets_of_tracks_are_limited() {
    let open = Open::within(DescriptorBudget::of_clients(4), |_| {}).await;
    let mut client = open.client().await;
    // Descriptors: its connection, its RTP socket, and for a moment the asset.
    let (reply, _rtp, _rtcp) = offer(&mut client, 1, None).await;
    let id = reply.session();
    let [mut second, mut third] = [open.client().await, open.client().await];
    assert!(second.is_served().await && third.is_served().await);
    let (reply, ..) = offer(&mut client, 2, Some(&id)).await;
    assert_eq!(reply.status, 453, "{reply:?}");
    assert_eq!(open.counter("sessions_refused/descriptor_limit"), 1);
    assert_eq!(in_session(&mut client, "PLAY", FILM, &id).await.status, 200, "the first track stays");
}

/// Promise: SETUP without a query sets up the tracks of the presentation that was described by `?demux=1`.
#[tokio::test]
async fn tracks_of_a_transport_stream_are_those_that_were_described() {
    let open = Open::new().await;
    let mut client = open.client().await;
    for (url, set_up, expected) in [
        ("clip.ts", "clip.ts/track2", 404),
        ("clip.ts?demux=1", "clip.ts/track2", 200),
        ("clip.ts", "clip.ts/track2", 404),
        ("clip.ts", "clip.ts/track2?demux=1", 200),
        ("clip.ts", "clip.ts?demux=1/track2", 200),
        ("clip.ts?demux=0", "clip.ts/track2", 404),
    ] {
        let described = client.ask("DESCRIBE", url, &[]).await;
        assert_eq!(described.status, 200, "{url}");
        let reply = client.ask("SETUP", set_up, &[TCP]).await;
        assert_eq!(reply.status, expected, "{set_up} after {url}");
    }
}
