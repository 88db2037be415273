//! Limits, deaths and ends.

use super::fake::Asked;
use super::{Open, PATIENCE, counter, soon};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use wirepath_datapath::SendError;
use wirepath_net::DescriptorBudget;
use wirepath_playback::{PlayError, PlaybackEvent};

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn sessions_end_with_their_connection() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    open.player.expect(Asked::SetUp).await;
    client.in_session("PLAY", &set_up, &[]).await;
    open.player.expect(Asked::Play { from_us: None, until_us: None }).await;
    drop(client);
    open.player.expect_end().await;
    assert_eq!((open.counter("sessions"), open.counter("sessions_ended/disconnected")), (0, 1));
    assert!(open.sessions().is_empty());
}

#[tokio::test]
async fn a_connection_that_dies_while_it_is_answered_is_noticed() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let _set_up = client.set_up("clip.ts").await;
    open.player.expect(Asked::SetUp).await;
    client.send(b"DESCRIBE /slow.ts RTSP/1.0\r\nCSeq: 9\r\n\r\n").await;
    drop(client);
    open.player.expect_end().await;
}

#[tokio::test]
async fn sessions_end_when_nobody_listens_or_playing_fails() {
    let open = Open::new().await;
    for (error, counter) in [
        (PlayError::Send(SendError::Refused { call: "send" }), "sessions_ended/unreachable"),
        (PlayError::Source("the asset was truncated".into()), "sessions_ended/failed"),
    ] {
        let mut client = open.client().await;
        let set_up = client.set_up("clip.ts").await;
        open.player.expect(Asked::SetUp).await;
        open.player.tell(PlaybackEvent::Failed(error));
        open.player.expect_end().await;
        assert_eq!(client.in_session("PLAY", &set_up, &[]).await.status, 454);
        assert_eq!(open.counter(counter), 1);
        let again = client.set_up("clip.ts").await;
        open.player.expect(Asked::SetUp).await;
        assert_eq!(client.in_session("TEARDOWN", &again, &[]).await.status, 200);
        open.player.expect_end().await;
    }
}

#[tokio::test]
async fn counting_sessions_does_not_read_their_state() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let _set_up = client.set_up("clip.ts").await;
    let is_read = Arc::new(AtomicBool::new(false));
    let read = Arc::clone(&is_read);
    open.player.on_status(move || read.store(true, Relaxed));
    assert_eq!(open.listener.open(), (1, 1));
    assert!(!is_read.load(Relaxed));
    assert_eq!(open.sessions().len(), 1);
    assert!(is_read.load(Relaxed), "the status does");
}

/// Promise: Sessions are set up and end while the status of other sessions is built.
#[tokio::test]
async fn the_status_does_not_lock_the_sessions() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let _set_up = client.set_up("clip.ts").await;
    let listener = Arc::clone(&open.listener);
    open.player.on_status(move || {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(listener.open()));
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok((1, 1)), "the sessions are locked");
    });
    assert_eq!(open.sessions().len(), 1);
}

#[tokio::test]
async fn a_shutdown_ends_everything() {
    let open = Open::new().await;
    let mut client = open.client().await;
    let mut idle = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    client.in_session("PLAY", &set_up, &[]).await;
    open.shutdown.send(true).expect("served");
    client.expect_end().await;
    idle.expect_end().await;
    drop((client, idle));
    let Open { task, listener, .. } = open;
    soon("the end of serving", task).await.expect("no panic");
    let values = ["rtcp_byes", "sessions_ended/shutdown", "connections"].map(|name| counter(&listener, name));
    assert_eq!(values, [1, 1, 0]);
}

/// Promise: 1,000 half-open RTSP connections do not disturb other clients and are closed in time.
#[tokio::test]
async fn half_open_connections_are_closed() {
    let open = Open::with(|options| options.idle_timeout = SOON).await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(open.client().await);
    }
    for client in &mut clients {
        client.expect_end().await;
    }
    assert_eq!(open.counter("connections_timed_out/idle"), 50);
}

#[tokio::test]
async fn a_connection_with_a_session_is_not_idle() {
    let open = Open::with(|options| options.idle_timeout = SOON).await;
    let mut client = open.client().await;
    let set_up = client.set_up("clip.ts").await;
    open.player.expect(Asked::SetUp).await;
    let mut other = open.client().await;
    other.expect_end().await; // so more than the idle time has passed
    assert_eq!(client.in_session("PLAY", &set_up, &[]).await.status, 200);
    assert_eq!(client.in_session("TEARDOWN", &set_up, &[]).await.status, 200);
    client.expect_end().await;
}

#[tokio::test]
async fn a_request_must_come_to_its_end() {
    let open = Open::with(|options| options.request_timeout = SOON).await;
    let mut client = open.client().await;
    client.send(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n").await;
    let reply = client.reply().await;
    assert_eq!((reply.status, reply.header("Connection")), (408, "close"));
    client.expect_end().await;
    assert_eq!(open.counter("connections_timed_out/request"), 1);
}

#[tokio::test]
async fn garbage_is_answered_once_and_closed() {
    let open = Open::new().await;
    for garbage in [
        &b"\x16\x03\x01\x00\xa5\x01\x00\x00"[..],
        b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\nContent-Length: 4294967296\r\n\r\n",
        &[b'A'; 40_000],
        b"OPTIONS * RTSP/1.0\r\nno header\r\n\r\nOPTIONS * RTSP/1.0\r\nCSeq: 2\r\n\r\n",
    ] {
        let mut client = open.client().await;
        client.send(garbage).await;
        let reply = client.reply().await;
        assert!(matches!(reply.status, 400 | 413 | 414), "{reply:?}");
        assert_eq!(reply.header("Connection"), "close");
        client.expect_end().await;
    }
    let mut client = open.client().await;
    assert_eq!(client.ask("OPTIONS", "clip.ts", &[]).await.status, 200);
}

/// Promise: Sessions and connections are limited in total, per address and per connection.
#[tokio::test]
async fn connections_and_sessions_are_limited() {
    let open = Open::with(|options| {
        options.connections_per_address = 2;
        options.sessions = 1;
    })
    .await;
    let (mut first, mut second) = (open.client().await, open.client().await);
    let set_up = first.set_up("clip.ts").await;
    assert_eq!(second.ask("OPTIONS", "clip.ts", &[]).await.status, 200);
    open.client().await.expect_rejection().await;
    assert_eq!(open.counter("connections_refused/address_limit"), 1);

    let transport = "Transport: RTP/AVP;unicast;client_port=40000-40001";
    assert_eq!(second.ask("SETUP", "clip.ts/track1", &[transport]).await.status, 453);
    assert_eq!(open.counter("sessions_refused/total_limit"), 1);
    first.in_session("TEARDOWN", &set_up, &[]).await;
    second.set_up("clip.ts").await;
    drop(first);
    // The place becomes free when the listener has noticed; until then it refuses.
    soon("a free place", async {
        loop {
            let mut client = open.client().await;
            if client.is_served().await {
                break;
            }
        }
    })
    .await;
}

/// Promise: Sessions and connections are limited in total, per address and per connection.
#[tokio::test]
async fn one_client_does_not_take_all_sessions() {
    let open = Open::with(|options| {
        options.sessions_per_connection = 2;
        options.sessions_per_address = 3;
    })
    .await;
    let (mut first, mut second) = (open.client().await, open.client().await);
    let set_up = first.set_up("clip.ts").await;
    first.set_up("clip.ts").await;
    let transport = "Transport: RTP/AVP;unicast;client_port=40000-40001";
    let reply = first.ask("SETUP", "clip.ts/track1", &[transport]).await;
    assert!(reply.status == 453 && reply.body.contains("connection"), "{reply:?}");
    second.set_up("clip.ts").await;
    let reply = second.ask("SETUP", "clip.ts/track1", &[transport]).await;
    assert!(reply.status == 453 && reply.body.contains("address"), "{reply:?}");
    let refused = [
        "sessions_refused/total_limit",
        "sessions_refused/address_limit",
        "sessions_refused/connection_limit",
    ];
    assert_eq!(refused.map(|name| open.counter(name)), [0, 1, 1]);
    first.in_session("TEARDOWN", &set_up, &[]).await;
    second.set_up("clip.ts").await;
}

/// Promise: Sessions and connections are limited in total, per address and per connection.
#[tokio::test]
async fn the_listener_is_full_when_it_is_full() {
    let open = Open::with(|options| options.connections = 1).await;
    let mut first = open.client().await;
    assert_eq!(first.ask("OPTIONS", "clip.ts", &[]).await.status, 200);
    open.client().await.expect_rejection().await;
    assert_eq!(open.counter("connections_refused/total_limit"), 1);
}

/// Promise: Without free descriptors SETUP gets 453 and a new connection 503; sessions continue.
#[tokio::test]
async fn without_descriptors_clients_are_refused() {
    let open = Open::within(DescriptorBudget::of_clients(4), |_| {}).await;
    let mut first = open.client().await;
    // Descriptors: its connection, its RTP socket, and for a moment the asset.
    let set_up = first.set_up("clip.ts").await;
    let mut second = open.client().await;
    assert_eq!(second.ask("OPTIONS", "clip.ts", &[]).await.status, 200);
    let transport = "Transport: RTP/AVP;unicast;client_port=40000-40001";
    assert_eq!(second.ask("SETUP", "clip.ts/track1", &[transport]).await.status, 453);
    let mut third = open.client().await;
    assert_eq!(third.ask("OPTIONS", "clip.ts", &[]).await.status, 200);
    open.client().await.expect_rejection().await;
    assert_eq!(open.counter("connections_refused/descriptor_limit"), 1);
    assert_eq!(first.in_session("PLAY", &set_up, &[]).await.status, 200);
    drop(third);
    first.in_session("TEARDOWN", &set_up, &[]).await;
    second.set_up("clip.ts").await;
}

/// The program that has the port is this test.
#[tokio::test]
async fn ports_that_others_have_are_a_clear_answer() {
    let open =
        Open::with(|options| options.ports = *options.ports.start()..=*options.ports.start() + 1).await;
    let port = *open.listener.0.options.ports.start();
    let other = std::net::UdpSocket::bind(("127.0.0.1", port)).expect("free");
    let mut client = open.client().await;
    let transport = "Transport: RTP/AVP;unicast;client_port=40000-40001";
    let reply = client.ask("SETUP", "clip.ts/track1", &[transport]).await;
    assert_eq!(reply.status, 503);
    assert!(reply.body.contains("ports"), "{}", reply.body);
    drop(other);
    client.set_up("clip.ts").await;
}
