//! The engine through its public door, over loopback sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use support::{Flood, Numbered, PACKET_US, PAYLOAD, Player, TRAIN, TRAINS, engine, packet, run};
use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::datapath::rtp::{HEADER_LENGTH, Header};
use wirepath_streams::datapath::{DataPath, Support};
use wirepath_streams::{
    At, BlockingPool, Cursor, Engine, EngineOptions, Event, Importance, Load, Part, PlayError, Position,
    TrainSource,
};

/// A source that tells the name of the thread that it is dropped on.
struct Parting {
    numbered: Arc<Numbered>,
    tell: Sender<String>,
}

impl TrainSource for Parting {
    fn segment(&self, number: u32) -> Load {
        self.numbered.segment(number)
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.tell.send(name).unwrap();
    }
}

/// Promise: Files are closed on no engine thread and on no thread that serves connections.
///
/// Closing the last descriptor of a deleted file may take long.
#[test]
fn a_session_that_leaves_has_its_source_dropped_where_nobody_waits() {
    type Leave = fn(Player, Engine);
    let ways: [Leave; 3] = [
        |player, engine| {
            player.play(None, None).unwrap();
            player.receive();
            drop(player);
            wait_for_no_playbacks(&engine);
        },
        |player, engine| {
            drop(player); // without ever having played
            wait_for_no_playbacks(&engine);
        },
        |player, engine| {
            player.play(None, None).unwrap();
            drop(engine);
        },
    ];
    for leave in ways {
        let engine = engine(DataPath::WireSendfile);
        let (tell, told) = channel();
        let player = Player::new(&engine, Arc::new(Parting { numbered: Numbered::new(3), tell }));
        leave(player, engine);
        assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), "reader-closer");
    }
}

fn wait_for_no_playbacks(engine: &Engine) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while engine.counters().playbacks > 0 {
        assert!(Instant::now() < deadline, "the playback stays");
        std::thread::yield_now();
    }
}

#[test]
fn every_packet_arrives_in_order_and_in_time_on_every_path() {
    for path in DataPath::ALL {
        let engine = engine(path);
        let player = Player::new(&engine, Numbered::new(3));
        let begun = Instant::now();
        let position = player.play(None, None).unwrap();
        assert_eq!(position, Position { sequence: 65_500, timestamp: 1000, at_us: 0 });
        for number in 0..3 * TRAINS * TRAIN {
            assert_eq!(player.receive(), packet(number), "packet {number} by {path}");
        }
        player.wait_for_end();
        let last_train_us = u64::from(3 * TRAINS - 1) * u64::from(TRAIN) * PACKET_US;
        assert!(begun.elapsed() >= Duration::from_micros(last_train_us), "{:?} by {path}", begun.elapsed());
        let counters = engine.counters();
        assert_eq!((counters.packets, counters.trains), (60, 15));
        assert_eq!(counters.octets, 60 * PAYLOAD as u64);
        assert_eq!(counters.lateness.count(), 15);
        assert_eq!(counters.cold_waits, 1, "the second segment came late");
    }
}

#[test]
fn after_a_seek_numbers_go_on_and_the_payload_is_from_there() {
    let engine = engine(DataPath::WireSendfile);
    let player = Player::new(&engine, Numbered::new(3));
    player.play(None, Some(3 * PACKET_US)).unwrap();
    for number in 0..3 {
        assert_eq!(player.receive(), packet(number));
    }
    player.wait_for_end();

    let there = Cursor { segment: 2, at: At::Packet { train: 1, packet: 2, skip: 0 } };
    let position = player.play(Some(there), None).unwrap();
    assert_eq!(position, Position { sequence: 65_503, timestamp: 1000 + 3 * 180, at_us: 46 * PACKET_US });
    for number in 0..14 {
        let received = player.receive();
        assert_eq!(received[HEADER_LENGTH..], packet(46 + number)[HEADER_LENGTH..]);
        let header = Header { marker: number == 0, ..run(3 + number).first };
        assert_eq!(received[..HEADER_LENGTH], header.to_bytes(), "packet {number}");
    }
    player.wait_for_end();
}

#[test]
fn a_pause_keeps_the_place_and_the_stored_headers() {
    let engine = engine(DataPath::WireSendfile);
    let player = Player::new(&engine, Numbered::new(3));
    player.play(None, None).unwrap();
    let first: Vec<Vec<u8>> = (0..TRAIN).map(|_| player.receive()).collect();
    let at_us = player.pause();
    let sent = player.playback.progress().packets() as u32;
    assert_eq!(at_us, u64::from(sent) * PACKET_US);
    assert_eq!(player.playback.progress().clock(), None);
    let position = player.play(None, None).unwrap();
    assert_eq!(position.at_us, at_us);
    assert_eq!(first, (0..TRAIN).map(packet).collect::<Vec<_>>());
    for number in TRAIN..3 * TRAINS * TRAIN {
        assert_eq!(player.receive(), packet(number), "packet {number}");
    }
}

#[test]
fn behind_the_end_is_an_error() {
    let engine = engine(DataPath::GsoWritev);
    let player = Player::new(&engine, Numbered::new(1));
    let behind = Cursor { segment: 1, ..Cursor::START };
    assert!(matches!(player.play(Some(behind), None), Err(PlayError::BeyondEnd)));
}

#[test]
fn a_vanished_client_ends_its_playback_only() {
    let engine = engine(DataPath::WireSendfile);
    let (gone, stays) = (Player::new(&engine, Numbered::new(3)), Player::new(&engine, Numbered::new(3)));
    let Player { playback, receiver, events } = gone;
    drop(receiver);
    playback.play(None, None, |_| ());
    stays.play(None, None).unwrap();
    let event = events.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(matches!(event, Event::Failed(PlayError::Send(_))), "{event:?}");
    stays.wait_for_end();
    assert_eq!(engine.counters().playbacks, 1);
    drop(playback);
    assert_eq!(stays.playback.progress().packets(), 60);
}

#[test]
fn an_engine_that_ends_tells_its_playbacks() {
    let engine = engine(DataPath::WireSendfile);
    let player = Player::new(&engine, Numbered::new(3));
    player.play(None, None).unwrap();
    drop(engine);
    assert!(matches!(player.events.recv_timeout(Duration::from_secs(5)), Ok(Event::Failed(PlayError::Over))));
}

/// Promise: An overloaded engine thread still handles commands.
///
/// A thread that cannot keep up still hears that it may stop.
#[test]
fn an_overloaded_thread_obeys() {
    let engine = engine(DataPath::ReadWritev);
    let source = Flood::new();
    let players: Vec<Player> =
        (0..200).map(|_| Player::new(&engine, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    players.iter().for_each(|player| player.playback.play(None, None, |_| ()));
    let deadline = Instant::now() + Duration::from_secs(20);
    let wait_for = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(Instant::now() < deadline, "{what} does not come");
            std::thread::yield_now();
        }
    };
    wait_for("lateness", &|| engine.counters().slips > 0);
    // Their receivers stay: a closed port would end them, too.
    let (playbacks, _receivers): (Vec<_>, Vec<_>) =
        players.into_iter().map(|player| (player.playback, player.receiver)).unzip();
    drop(playbacks);
    wait_for("the end of all playbacks", &|| engine.counters().playbacks == 0);
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (server, client)
}

fn stored(length: usize) -> (Arc<File>, Vec<u8>) {
    let bytes: Vec<u8> = (0..length).map(|at| (at / 251 + at) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Arc::new(file), bytes)
}

#[test]
fn a_download_sends_bytes_and_extents_and_leaves_the_connection_open() {
    let engine = engine(DataPath::WireSendfile);
    let (file, bytes) = stored(5_000_000);
    // Drop what is cached, so that the readers have something to do.
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let (server, mut client) = connection();
    let parts = vec![
        Part::Bytes(b"head".to_vec()),
        Part::Extent { file: Arc::clone(&file), range: 1..4_999_999 },
        Part::Bytes(b"between".to_vec()),
        Part::Extent { file, range: 7..7 },
        Part::Bytes(Vec::new()),
    ];
    let (tell, ended) = channel();
    let download =
        engine.download(server.try_clone().unwrap().into(), parts, move |end| tell.send(end).unwrap());
    let mut received = vec![0; 4 + 4_999_998 + 7];
    client.read_exact(&mut received).unwrap();
    let expected = [b"head", &bytes[1..4_999_999], b"between"].concat();
    assert!(received == expected, "other bytes arrived");
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.error.is_none(), "{:?}", end.error);
    assert_eq!(end.sent, expected.len() as u64);
    (&server).write_all(b"more").unwrap();
    client.read_exact(&mut received[..4]).unwrap();
    assert_eq!(&received[..4], b"more");
    assert_eq!(engine.counters().downloads, 0);
    drop(download);
}

#[test]
fn a_file_that_ends_too_early_and_a_client_that_leaves_are_told() {
    let engine = engine(DataPath::WireSendfile);
    let (file, _) = stored(1000);
    let (server, _client) = connection();
    let (tell, ended) = channel();
    let tell_too = tell.clone();
    let part = Part::Extent { file: Arc::clone(&file), range: 0..2000 };
    let _short = engine.download(server.into(), vec![part], move |end| tell.send(end).unwrap());
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(end.sent, 1000);
    assert!(end.error.unwrap().to_string().contains("truncated"));

    let (server, client) = connection();
    let (file, _) = stored(50_000_000);
    let part = Part::Extent { file, range: 0..50_000_000 };
    let _left = engine.download(server.into(), vec![part], move |end| tell_too.send(end).unwrap());
    drop(client);
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.sent < 50_000_000 && end.error.is_some());
}

#[test]
fn a_client_that_takes_nothing_is_let_go() {
    let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
    let options =
        EngineOptions { threads: 1, download_stall_us: 50_000, ring: false, ..EngineOptions::default() };
    let support = Support::probe(None, Calibrations::default(), false);
    let engine = Engine::start(&options, Arc::new(support), &readers).unwrap();
    let (file, _) = stored(50_000_000);
    let (server, _client) = connection();
    let (tell, ended) = channel();
    let part = Part::Extent { file, range: 0..50_000_000 };
    let _stalled = engine.download(server.into(), vec![part], move |end| tell.send(end).unwrap());
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.error.unwrap().to_string().contains("took nothing"));
}
