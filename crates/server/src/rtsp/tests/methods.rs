//! RFC 2326 section 10, method by method.

use super::super::player::PlayRange;
use super::client::Client;
use super::fake::{Asked, SECRET};
use super::{Open, soon};
use std::time::Duration;
use wirepath_playback::{PlaybackEvent, Speed};

const TRANSPORT: &str = "Transport: RTP/AVP;unicast;client_port=40000-40001";

fn play(from_s: Option<u64>, until_s: Option<u64>) -> Asked {
    let us = |seconds: u64| seconds * 1_000_000;
    Asked::Play { from_us: from_s.map(us), until_us: until_s.map(us) }
}

#[tokio::test]
async fn a_whole_conversation() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let reply = client.ask_url("OPTIONS", "*", &[]).await;
    assert_eq!(reply.status, 200);
    let methods = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, SET_PARAMETER";
    assert_eq!(reply.header("Public"), methods);
    assert!(reply.header("Server").starts_with("Wirepath/"));

    let reply = client.ask("DESCRIBE", "clip.ts", &["Accept: application/sdp"]).await;
    assert_eq!((reply.status, reply.header("Content-Type")), (200, "application/sdp"));
    assert_eq!(reply.header("Content-Base"), client.url("clip.ts/"));
    assert!(reply.body.contains("a=range:npt=0.000-60.000\r\n"), "{}", reply.body);

    let set_up = client.set_up("clip.ts").await;
    open.player.expect(Asked::SetUp).await;
    assert_eq!(set_up.id.len(), 16);
    assert_eq!(set_up.reply.header("Session"), format!("{};timeout=60", set_up.id));
    let transport = set_up.reply.header("Transport");
    assert!(transport.contains("ssrc=ABCD1234") && transport.contains("source=127.0.0.1"), "{transport}");

    let reply = client.in_session("PLAY", &set_up, &["Range: npt=10-"]).await;
    open.player.expect(play(Some(10), None)).await;
    assert_eq!((reply.status, reply.header("Range")), (200, "npt=10.000-60.000"));
    let url = client.url("clip.ts/track1");
    assert_eq!(reply.header("RTP-Info"), format!("url={url};seq=1;rtptime=90000"));

    let reply = client.in_session("PAUSE", &set_up, &[]).await;
    open.player.expect(Asked::Pause).await;
    assert_eq!((reply.status, reply.header("Range")), (200, "npt=11.500-"));

    let reply = client.in_session("PLAY", &set_up, &["Scale: 2", "Speed: 1"]).await;
    open.player.expect(play(None, None)).await;
    assert_eq!((reply.status, reply.header("Range")), (200, "npt=11.500-60.000"));
    assert_eq!((reply.header("Scale"), reply.header("Speed")), ("1.0", "1.0"));
    assert_eq!((open.counter("plays"), open.player.plays()), (2, 1), "a session plays its asset once");

    let reply = client.in_session("TEARDOWN", &set_up, &[]).await;
    open.player.expect_end().await;
    assert_eq!(reply.status, 200);
    assert_eq!(client.in_session("PLAY", &set_up, &[]).await.status, 454);
    assert_eq!((open.counter("sessions"), open.counter("sessions_ended/teardown")), (0, 1));
}

/// Promise: Speed 0.25 to 8 is granted, other values become the nearest one; 453 if the load does not allow
/// it.
#[tokio::test]
async fn speeds_are_granted() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    open.player.expect(Asked::SetUp).await;
    let fast = |from_us, speed| {
        Asked::PlayAt(PlayRange { from_us, speed: Speed::nearest(speed), ..PlayRange::default() })
    };

    let reply = client.in_session("PLAY", &set_up, &["Range: npt=10-", "Speed: 2"]).await;
    open.player.expect(fast(Some(10_000_000), 2.0)).await;
    assert_eq!((reply.status, reply.header("Speed")), (200, "2.0"));
    let reply = client.in_session("PLAY", &set_up, &[]).await;
    assert_eq!((reply.status, reply.header("Range")), (200, "npt=10.000-60.000"), "nothing changes");
    let reply = client.in_session("PLAY", &set_up, &["Speed: 0.01"]).await;
    open.player.expect(fast(None, 0.25)).await;
    assert_eq!((reply.status, reply.header("Speed")), (200, "0.25"));
    let reply = client.in_session("PLAY", &set_up, &["Speed: 100"]).await;
    assert_eq!(reply.status, 453, "there is no room for 7.75 more");
    let reply = client.in_session("PLAY", &set_up, &["Speed: 1"]).await;
    open.player.expect(play(None, None)).await;
    assert_eq!((reply.status, reply.header("Speed")), (200, "1.0"));
    assert_eq!(client.in_session("PLAY", &set_up, &["Speed: -2"]).await.status, 400);
}

/// Promise: VLC plays a clip to the end.
///
/// Debian's VLC receives as if from a SAT>IP server: no DESCRIBE, requests numbered from 0, a URL of its own.
#[tokio::test]
async fn vlc_of_debian_is_served() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let setup = format!("SETUP {} RTSP/1.0\r\nCSeq: 0\r\n{TRANSPORT}\r\n\r\n", client.url("clip.ts"));
    client.send(setup.as_bytes()).await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.header("CSeq")), (200, "0"));
    let session = format!("Session: {}", reply.session());
    let reply = client.ask("PLAY", "stream=0", &[&session]).await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("RTP-Info").contains("/clip.ts/track1;"), "{reply:?}");
    assert_eq!(client.ask("OPTIONS", "stream=0", &[&session]).await.status, 200);
    assert_eq!(client.ask("PAUSE", "clip.ts/stream=1", &[&session]).await.status, 200);
    assert_eq!(client.ask("PLAY", "other.ts/stream=0", &[&session]).await.status, 404);
    assert_eq!(client.ask("PLAY", "stream=x", &[&session]).await.status, 404);
    assert_eq!(client.ask("TEARDOWN", "stream=0", &[&session]).await.status, 200);
}

#[tokio::test]
async fn media_comes_from_the_ports_that_were_announced() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    client.in_session("PLAY", &set_up, &[]).await;
    let mut datagram = [0; 100];
    let received = soon("a packet", set_up.rtp.recv_from(&mut datagram)).await.expect("a packet");
    let ports = format!("server_port={}-{}", received.1.port(), received.1.port() + 1);
    assert!(set_up.reply.header("Transport").contains(&ports), "{:?}", set_up.reply);
    assert_eq!((received.1.port() % 2, &datagram[..received.0]), (0, &b"a packet"[..]));
}

/// Promise: Errors have the status codes that RFC 2326 requires.
#[tokio::test]
async fn wrong_requests_get_the_status_of_the_rfc() {
    let open = Open::new().await;
    let mut client = open.client().await;
    for (method, path, headers, status) in [
        ("DESCRIBE", "nothing.ts", &[][..], 404),
        ("DESCRIBE", "clip.ts/", &[], 200),
        ("DESCRIBE", "clip.ts/track1", &[], 460),
        ("DESCRIBE", "nothing.ts/track1", &[], 404),
        ("DESCRIBE", "../clip.ts", &[], 400),
        ("DESCRIBE", "sub%20folder/f%C3%BC.ts", &[], 200),
        ("DESCRIBE", "sub folder/fü.ts", &[], 200),
        ("DESCRIBE", "broken.ts", &[], 415),
        ("DESCRIBE", "busy.ts", &[], 503),
        ("DESCRIBE", "large.ts", &[], 503),
        ("DESCRIBE", "failing.ts", &[], 500),
        ("DESCRIBE", "clip.ts", &["Accept: application/mheg"], 406),
        ("SETUP", "clip.ts/track1", &[], 400),
        ("SETUP", "nothing.ts", &[TRANSPORT], 404),
        ("SETUP", "clip.ts/track2", &[TRANSPORT], 404),
        ("SETUP", "nothing.ts/track1", &[TRANSPORT], 404),
        ("SETUP", "clip.ts/track1", &[TRANSPORT, "Session: 0000000000000000"], 454),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP/TCP;unicast;interleaved=0-256"], 400),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP/TCP;multicast;interleaved=0-1"], 461),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP;multicast;client_port=5000-5001"], 461),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/SAVP;unicast;client_port=5000-5001"], 461),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP;unicast"], 461),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP;unicast;client_port=53-54"], 461),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP;unicast;client_port=5000-5000"], 461),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP;unicast;client_port=0-0"], 400),
        ("SETUP", "clip.ts/track1", &["Transport: RTP/AVP;unicast;client_port=5000-5001;mode=record"], 461),
        (
            "SETUP",
            "clip.ts/track1",
            &["Transport: RTP/AVP;unicast;client_port=5000-5001;destination=10.9.8.7"],
            461,
        ),
        (
            "SETUP",
            "clip.ts/track1",
            &["Transport: RTP/AVP;unicast;client_port=5000-5001;destination=a.b"],
            461,
        ),
        ("PLAY", "clip.ts", &[], 454),
        ("PLAY", "clip.ts", &["Session: 0123456789abcdef"], 454),
        ("PAUSE", "clip.ts", &[], 454),
        ("TEARDOWN", "clip.ts", &[], 454),
        ("OPTIONS", "clip.ts", &["Session: x"], 454),
        ("GET_PARAMETER", "clip.ts", &["Session: x"], 454),
        ("GET_PARAMETER", "clip.ts", &[], 200),
        ("SET_PARAMETER", "clip.ts", &[], 200),
        ("ANNOUNCE", "clip.ts", &[], 405),
        ("RECORD", "clip.ts", &[], 405),
        ("REDIRECT", "clip.ts", &[], 405),
        ("DANCE", "clip.ts", &[], 501),
        ("play", "clip.ts", &[], 501),
        ("OPTIONS", "clip.ts", &["Require: implicit-play"], 551),
        ("OPTIONS", "clip.ts", &["Proxy-Require: gzip"], 551),
    ] {
        let reply = client.ask(method, path, headers).await;
        assert_eq!(reply.status, status, "{method} {path} {headers:?}: {reply:?}");
        assert!(status == 200 || !reply.body.trim().is_empty(), "{method} {path} is not told why");
        assert!(!reply.body.contains(SECRET), "{method} {path} is told too much: {}", reply.body);
    }
    assert_eq!(open.counter("sessions"), 0);
    let reply = client.ask("DESCRIBE", "large.ts", &[]).await;
    assert!(reply.body.contains("--cache-size"), "{}", reply.body);
}

#[tokio::test]
async fn refusals_carry_the_headers_they_must() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let reply = client.ask("OPTIONS", "clip.ts", &["Require: a, b", "Proxy-Require: c"]).await;
    assert_eq!((reply.status, reply.header("Unsupported")), (551, "a, b, c"));
    let reply = client.ask("RECORD", "clip.ts", &[]).await;
    assert!(reply.header("Allow").contains("PLAY"));
    let reply = client.ask_url("DESCRIBE", "*", &[]).await;
    assert_eq!((reply.status, reply.header("Allow")), (405, "OPTIONS, GET_PARAMETER, SET_PARAMETER"));
    client.send(b"SET_PARAMETER * RTSP/1.0\r\nCSeq: 9\r\nContent-Length: 12\r\n\r\nvolume: 11\r\n").await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.body.as_str()), (451, "volume\r\n"));
}

#[tokio::test]
async fn states_are_those_of_the_rfc() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    let session = format!("Session: {}", set_up.id);
    assert_eq!(client.in_session("PAUSE", &set_up, &[]).await.status, 455);
    assert_eq!(client.ask("SETUP", "clip.ts/track1", &[TRANSPORT, &session]).await.status, 455);
    assert_eq!(client.ask("SETUP", "other.ts/track1", &[TRANSPORT, &session]).await.status, 459);
    assert_eq!(client.ask("PLAY", "other.ts", &[&session]).await.status, 404);
    for (range, status) in [("npt=60-", 457), ("npt=5-1", 457), ("smpte=0:10:00-", 501), ("npt=x-", 400)] {
        let range = format!("Range: {range}");
        assert_eq!(client.in_session("PLAY", &set_up, &[&range]).await.status, status, "{range}");
    }
    assert_eq!(client.in_session("PLAY", &set_up, &["Scale: fast"]).await.status, 400);
    assert_eq!(
        client.ask("PLAY", "clip.ts/track1", &[&session]).await.status,
        200,
        "the track's URL will do"
    );
    assert_eq!(client.in_session("PAUSE", &set_up, &["Range: npt=50-"]).await.status, 501);
    assert_eq!(client.in_session("PAUSE", &set_up, &["Range: npt=now-"]).await.status, 200);
    assert_eq!(client.ask("TEARDOWN", "clip.ts/", &[&session]).await.status, 200, "nor does a slash matter");
}

#[tokio::test]
async fn a_session_is_its_connections_own() {
    let open = Open::new().await;
    let mut owner = open.client().await;
    let set_up = owner.set_up("clip.ts").await;
    let mut thief = open.client().await;
    for method in ["PLAY", "PAUSE", "TEARDOWN", "GET_PARAMETER"] {
        assert_eq!(thief.in_session(method, &set_up, &[]).await.status, 454);
    }
    assert_eq!(owner.in_session("PLAY", &set_up, &[]).await.status, 200);
}

#[tokio::test]
async fn plays_with_an_end_are_played_one_after_the_other() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    open.player.expect(Asked::SetUp).await;
    client.in_session("PLAY", &set_up, &["Range: npt=10-15"]).await;
    open.player.expect(play(Some(10), Some(15))).await;
    let reply = client.in_session("PLAY", &set_up, &["Range: npt=20-25"]).await;
    assert_eq!((reply.status, reply.header("Range")), (200, "npt=20.000-25.000"));
    assert!(!reply.headers.contains_key("rtp-info"));
    client.in_session("PLAY", &set_up, &["Range: npt=30-"]).await;

    open.player.tell(PlaybackEvent::Finished);
    open.player.expect(play(Some(20), Some(25))).await;
    open.player.tell(PlaybackEvent::Finished);
    open.player.expect(play(Some(30), None)).await;
    // Now an open-ended range is active: a seek takes effect at once.
    let reply = client.in_session("PLAY", &set_up, &["Range: npt=40-"]).await;
    assert_eq!(reply.header("Range"), "npt=40.000-60.000");
    open.player.expect(play(Some(40), None)).await;
    open.player.tell(PlaybackEvent::Finished);
    open.player.tell(PlaybackEvent::Finished);
    // At the end, PLAY without Range begins at the beginning.
    client.in_session("GET_PARAMETER", &set_up, &[]).await;
    let reply = client.in_session("PLAY", &set_up, &[]).await;
    assert_eq!(reply.header("Range"), "npt=0.000-60.000");
    open.player.expect(play(Some(0), None)).await;
}

/// Promise: A failed seek leaves the session unchanged.
///
/// The length of what is still being packed is not known, so only the playback can tell that a place is not
/// there.
#[tokio::test]
async fn a_seek_that_fails_leaves_the_session_as_it_was() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("growing.ts").await;
    open.player.expect(Asked::SetUp).await;
    let session = format!("Session: {}", set_up.id);
    let far = ["Range: npt=100-", session.as_str()];
    assert_eq!(client.ask("PLAY", "growing.ts", &far).await.status, 457);
    open.player.expect(play(Some(100), None)).await;
    open.player.expect(Asked::Pause).await; // so that it rests for certain
    assert_eq!(client.ask("PAUSE", "growing.ts", &[&session]).await.status, 455, "it was not playing");

    assert_eq!(client.ask("PLAY", "growing.ts", &["Range: npt=10-", &session]).await.status, 200);
    open.player.expect(play(Some(10), None)).await;
    assert_eq!(client.ask("PLAY", "growing.ts", &far).await.status, 457);
    open.player.expect(play(Some(100), None)).await;
    assert_eq!(open.sessions()[0]["state"], "playing");
    assert_eq!(client.ask("PAUSE", "growing.ts", &[&session]).await.status, 200, "it was playing");
    open.player.expect(Asked::Pause).await;
    assert_eq!((open.counter("plays"), open.counter("pauses")), (1, 1));
}

/// Promise: A PLAY that takes too long is answered with 503 and sends nothing later.
///
/// After a 503 no packets are sent, even if the late answer comes after all.
#[tokio::test]
async fn a_play_that_takes_too_long_is_called_off() {
    let open = Open::with(|options| options.answer_timeout = Duration::from_millis(100)).await;
    let mut client = open.client().await;
    let set_up = client.set_up("growing.ts").await;
    open.player.expect(Asked::SetUp).await;
    let session = format!("Session: {}", set_up.id);
    for range in [None, Some("Range: npt=10-")] {
        if let Some(range) = range {
            assert_eq!(client.ask("PLAY", "growing.ts", &[range, &session]).await.status, 200);
            open.player.expect(play(Some(10), None)).await;
        }
        let reply = client.ask("PLAY", "growing.ts", &["Range: npt=3600-", &session]).await;
        assert_eq!(reply.status, 503);
        assert!(reply.body.contains("paused"), "{}", reply.body);
        open.player.expect(play(Some(3600), None)).await;
        open.player.expect(Asked::Pause).await;
        open.player.answer_late();
        assert_eq!(client.ask("GET_PARAMETER", "growing.ts", &[&session]).await.status, 200);
        assert_eq!(open.sessions()[0]["state"], "resting");
        assert_eq!(client.ask("PAUSE", "growing.ts", &[&session]).await.status, 455, "it rests");
    }
    assert_eq!(open.counter("plays"), 1);
}

/// Promise: A session does not time out while its client waits for a response.
#[tokio::test]
async fn waiting_for_an_answer_is_no_silence() {
    let open = Open::with(|options| {
        options.session_timeout = Duration::from_secs(1);
        options.answer_timeout = Duration::from_millis(1200);
    })
    .await;
    let mut client = open.client().await;
    let session = format!("Session: {}", client.set_up("growing.ts").await.id);
    let reply = client.ask("PLAY", "growing.ts", &["Range: npt=3600-", &session]).await;
    assert_eq!(reply.status, 503);
    assert_eq!(client.ask("GET_PARAMETER", "growing.ts", &[&session]).await.status, 200);
}

/// Promise: If the server fails, the client's error names no file or folder; the log has the details.
#[tokio::test]
async fn a_failure_does_not_tell_about_the_machine() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("growing.ts").await;
    open.player.expect(Asked::SetUp).await;
    let session = format!("Session: {}", set_up.id);
    let headers = ["Range: npt=3600-", session.as_str()];
    let fail = async {
        open.player.expect(play(Some(3600), None)).await;
        open.player.fail_waiting();
    };
    let (reply, ()) = tokio::join!(client.ask("PLAY", "growing.ts", &headers), fail);
    assert_eq!(reply.status, 500);
    assert!(reply.body.contains("log") && !reply.body.contains(SECRET), "{}", reply.body);
}

/// Promise: PLAY of a file that proves unplayable gets 415, or 503 if the server is at fault, with the
/// reason.
#[tokio::test]
async fn a_file_that_turns_out_unplayable_is_named_at_fault() {
    for (is_asset, status) in [(true, 415), (false, 503)] {
        let open = Open::new().await;
        open.player.set_failure(is_asset);
        let mut client = open.client().await;
        let set_up = client.set_up("growing.ts").await;
        open.player.expect(Asked::SetUp).await;
        let session = format!("Session: {}", set_up.id);
        let headers = ["Range: npt=3600-", session.as_str()];
        let fail = async {
            open.player.expect(play(Some(3600), None)).await;
            open.player.fail_waiting();
        };
        let (reply, ()) = tokio::join!(client.ask("PLAY", "growing.ts", &headers), fail);
        assert_eq!(reply.status, status);
        assert!(reply.body.contains("no clock") && !reply.body.contains(SECRET), "{}", reply.body);
    }
}

#[tokio::test]
async fn requests_may_be_pipelined_and_split_anywhere() {
    let open = Open::new().await;
    let requests = [
        &b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n"[..],
        b"$\x00\x00\x02ab\r\nDESCRIBE /clip.ts RTSP/1.0\nCSeq: 2\n\n",
        b"GET_PARAMETER * RTSP/1.0\r\ncseq: 3\r\nContent-Length: 2\r\n\r\n\r\n",
        b"OPTIONS * RTSP/2.0\r\nCSeq: 4\r\n\r\n",
    ];
    let bytes = requests.concat();
    let ends: Vec<usize> = (1..=requests.len()).map(|count| requests[..count].concat().len()).collect();
    for cut in 1..bytes.len() {
        let mut client = open.client().await;
        client.send(&bytes[..cut]).await;
        let mut replies = Vec::new();
        // The response to the first part, so that the second part arrives separately.
        for _ in ends.iter().filter(|end| **end <= cut) {
            replies.push(client.reply().await);
        }
        client.send(&bytes[cut..]).await;
        while replies.len() < requests.len() {
            replies.push(client.reply().await);
        }
        let found: Vec<_> = replies.iter().map(|reply| (reply.header("CSeq"), reply.status)).collect();
        assert_eq!(found, [("1", 200), ("2", 200), ("3", 200), ("4", 505)], "cut at {cut}");
    }
}

#[tokio::test]
async fn a_client_that_has_said_all_it_had_to_is_answered() {
    let open = Open::new().await;
    let mut client: Client = open.client().await;
    client.send(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\nDESCRIBE /clip.ts RTSP/1.0\r\nCSeq: 2\r\n\r\n").await;
    client.close_write().await;
    assert_eq!(client.reply().await.status, 200);
    let reply = client.reply().await;
    assert!(reply.header("Content-Base").starts_with("rtsp://127.0.0.1:"), "{reply:?}");
    client.expect_end().await;
}
