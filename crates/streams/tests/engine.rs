//! The engine through its public door, over loopback sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::datapath::rtp::{HEADER_LENGTH, Header, Run};
use wirepath_streams::datapath::{Medium, Path, Support, Train};
use wirepath_streams::{
    At, BlockingPool, Cursor, Departure, Engine, EngineOptions, Event, Importance, Load, Part, PlayError,
    Playback, PlaybackOptions, Position, Segment, TrainSource,
};

const PAYLOAD: usize = 188;
const PACKET: usize = HEADER_LENGTH + PAYLOAD;
/// Packets in a train, trains in a segment.
const TRAIN: u32 = 4;
const TRAINS: u32 = 5;
/// One packet each 2 ms: a train each 8 ms, a segment each 40 ms.
const PACKET_US: u64 = 2000;

/// A source of numbered packets. Its second segment takes three questions to come, as one does that is still being packed.
struct Numbered {
    medium: Arc<Medium>,
    segments: u32,
    questions: Mutex<u32>,
}

fn run(packet: u32) -> Run {
    let timestamp = 1000u32.wrapping_add(packet * 180);
    let sequence = 65_500u16.wrapping_add(packet as u16);
    Run { first: Header { marker: false, payload_type: 33, sequence, timestamp, ssrc: 42 }, step: 180 << 16 }
}

fn packet(number: u32) -> Vec<u8> {
    let mut bytes = run(number).header(0).to_bytes().to_vec();
    bytes.extend((0..PAYLOAD).map(|at| (number as usize * 31 + at) as u8));
    bytes
}

impl Numbered {
    fn new(segments: u32) -> Arc<Numbered> {
        let mut file = tempfile::tempfile().unwrap();
        for number in 0..segments * TRAINS * TRAIN {
            file.write_all(&packet(number)).unwrap();
        }
        let length = u64::from(segments * TRAINS * TRAIN) * PACKET as u64;
        let medium = Arc::new(Medium::new(file, length).unwrap());
        Arc::new(Numbered { medium, segments, questions: Mutex::new(0) })
    }
}

impl TrainSource for Numbered {
    fn segment(&self, number: u32) -> Load {
        if number >= self.segments {
            return Load::End;
        }
        if number == 1 {
            let mut questions = self.questions.lock().unwrap();
            *questions += 1;
            if *questions < 3 {
                return Load::Pending;
            }
        }
        let departures = (0..TRAINS)
            .map(|train| {
                let first = (number * TRAINS + train) * TRAIN;
                let train = Train {
                    offset: u64::from(first) * PACKET as u64,
                    length: TRAIN * PACKET as u32,
                    packet_size: PACKET as u16,
                    skip: 0,
                    first: 0,
                    run: run(first),
                };
                Departure { at_us: u64::from(first) * PACKET_US, train }
            })
            .collect();
        Load::Ready(Arc::new(Segment { medium: Arc::clone(&self.medium), departures }))
    }
}

fn engine(path: Path) -> Engine {
    let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
    let options = EngineOptions { threads: 1, download_stall_us: 60_000_000 };
    Engine::start(&options, Arc::new(Support::probe(Some(path), Calibrations::default())), &readers).unwrap()
}

struct Player {
    playback: Playback,
    receiver: UdpSocket,
    events: Receiver<Event>,
}

impl Player {
    fn new(engine: &Engine, source: Arc<dyn TrainSource>) -> Player {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        let (tell, events) = channel();
        let on_event = Box::new(move |event| tell.send(event).unwrap_or_default());
        let options =
            PlaybackOptions { source, socket, packet_size: PACKET as u16, burst_us: 8000, on_event };
        Player { playback: engine.playback(options).unwrap(), receiver, events }
    }

    fn play(&self, from: Option<Cursor>, until_us: Option<u64>) -> Result<Position, PlayError> {
        let (tell, answer) = channel();
        self.playback.play(from, until_us, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    fn pause(&self) -> u64 {
        let (tell, answer) = channel();
        self.playback.pause(move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(Duration::from_secs(5)).unwrap().unwrap()
    }

    fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 2048];
        let length = self.receiver.recv(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    fn wait_for_end(&self) {
        assert!(matches!(self.events.recv_timeout(Duration::from_secs(5)), Ok(Event::Finished)));
    }
}

#[test]
fn every_packet_arrives_in_order_and_in_time_on_every_path() {
    for path in Path::ALL {
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
    let engine = engine(Path::WireSendfile);
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
    let engine = engine(Path::WireSendfile);
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
    let engine = engine(Path::GsoWritev);
    let player = Player::new(&engine, Numbered::new(1));
    let behind = Cursor { segment: 1, ..Cursor::START };
    assert!(matches!(player.play(Some(behind), None), Err(PlayError::BeyondEnd)));
}

#[test]
fn a_vanished_client_ends_its_playback_only() {
    let engine = engine(Path::WireSendfile);
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
    let engine = engine(Path::WireSendfile);
    let player = Player::new(&engine, Numbered::new(3));
    player.play(None, None).unwrap();
    drop(engine);
    assert!(matches!(player.events.recv_timeout(Duration::from_secs(5)), Ok(Event::Failed(PlayError::Over))));
}

/// More than any thread can send: a train each 100 microseconds, for a second or, late, for as long as it takes.
struct Flood(Arc<Segment>);

impl Flood {
    fn new() -> Arc<Flood> {
        let Load::Ready(segment) = Numbered::new(1).segment(0) else { panic!("it is ready") };
        let train = segment.departures[0].train;
        let departures = (0..10_000).map(|number| Departure { at_us: number * 100, train }).collect();
        Arc::new(Flood(Arc::new(Segment { medium: Arc::clone(&segment.medium), departures })))
    }
}

impl TrainSource for Flood {
    fn segment(&self, number: u32) -> Load {
        if number == 0 { Load::Ready(Arc::clone(&self.0)) } else { Load::End }
    }
}

/// A thread that cannot keep up still hears that it may stop.
#[test]
fn an_overloaded_thread_obeys() {
    let engine = engine(Path::ReadWritev);
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
    let engine = engine(Path::WireSendfile);
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
    let engine = engine(Path::WireSendfile);
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
    let options = EngineOptions { threads: 1, download_stall_us: 50_000 };
    let engine =
        Engine::start(&options, Arc::new(Support::probe(None, Calibrations::default())), &readers).unwrap();
    let (file, _) = stored(50_000_000);
    let (server, _client) = connection();
    let (tell, ended) = channel();
    let part = Part::Extent { file, range: 0..50_000_000 };
    let _stalled = engine.download(server.into(), vec![part], move |end| tell.send(end).unwrap());
    let end = ended.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(end.error.unwrap().to_string().contains("took nothing"));
}
