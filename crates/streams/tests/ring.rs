//! The engine with rings, over loopback sockets: trains of many playbacks in one call, from memory that comes and goes. A
//! runner of its own: where io_uring is not to be had, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{Flood, Numbered, PACKET_US, Player, TRAIN, TRAINS, engine, packet, run};
use wirepath_streams::datapath::rtp::{HEADER_LENGTH, Header};
use wirepath_streams::datapath::{DataPath, MappedFile, Region, SendContext};
use wirepath_streams::{
    At, Cursor, Departure, Engine, Event, Load, PlayError, Position, Segment, TrainSource,
};
use wirepath_testkit::{trial, trials};

fn main() -> std::process::ExitCode {
    let missing = SendContext::default().open_ring().err().map(|error| error.to_string());
    let tests = trials![
        every_packet_arrives_in_order_and_in_time,
        playbacks_share_calls,
        memory_comes_and_goes_between_trains,
        after_a_seek_numbers_go_on,
        a_vanished_client_ends_its_playback_only,
        a_route_that_cannot_is_stepped_down_from,
        an_overloaded_thread_obeys,
        an_engine_that_ends_lets_go,
    ];
    trial::run_needing(missing, tests)
}

/// Has the engine hold a copy of a medium.
fn heat(engine: &Engine, medium: &MappedFile) -> Arc<Region> {
    let length = medium.file().metadata().unwrap().len();
    let region = Arc::new(medium.copy::<io::Error>(length, |_| Ok(())).unwrap());
    medium.set_hot(Some(&region));
    engine.hold(&region);
    region
}

/// Looks until something is so.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::yield_now();
    }
}

fn ensure_arrive(player: &Player, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert_eq!(player.receive(), packet(number), "packet {number}");
    }
}

fn every_packet_arrives_in_order_and_in_time() {
    let engine = engine(DataPath::WireUring);
    let source = Numbered::new(3);
    heat(&engine, &source.medium);
    let player = Player::new(&engine, source);
    let begun = Instant::now();
    let position = player.play(None, None).unwrap();
    assert_eq!(position, Position { sequence: 65_500, timestamp: 1000, at_us: 0 });
    ensure_arrive(&player, 0..3 * TRAINS * TRAIN);
    player.wait_for_end();
    let last_train_us = u64::from(3 * TRAINS - 1) * u64::from(TRAIN) * PACKET_US;
    assert!(begun.elapsed() >= Duration::from_micros(last_train_us), "{:?}", begun.elapsed());
    let progress = player.playback.progress();
    assert_eq!((progress.path(), progress.packets(), progress.packets_lost()), (DataPath::WireUring, 60, 0));
    assert_eq!(progress.position_us(), last_train_us);
    let counters = engine.counters();
    assert_eq!((counters.packets, counters.trains, counters.lateness.count()), (60, 15, 15));
    assert_eq!(counters.octets, progress.octets());
    assert!((1..=15).contains(&counters.batches), "{} calls", counters.batches);
}

fn playbacks_share_calls() {
    let engine = engine(DataPath::WireUring);
    let source = Numbered::new(3);
    heat(&engine, &source.medium);
    let players: Vec<Player> =
        (0..50).map(|_| Player::new(&engine, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    for player in &players {
        player.play(None, None).unwrap();
    }
    for player in &players {
        ensure_arrive(player, 0..3 * TRAINS * TRAIN);
        player.wait_for_end();
        assert_eq!(player.playback.progress().path(), DataPath::WireUring);
    }
    let counters = engine.counters();
    assert_eq!(counters.trains, 50 * 15);
    assert!(counters.batches < counters.trains / 2, "{} calls for {}", counters.batches, counters.trains);
}

/// Promise: Sessions change to and from hot memory between two trains, without a wrong byte.
///
/// From the file, from the copy, and from the file again; no packet is lost or comes twice.
fn memory_comes_and_goes_between_trains() {
    let engine = engine(DataPath::WireUring);
    let source = Numbered::new(40);
    let player = Player::new(&engine, Arc::clone(&source) as Arc<dyn TrainSource>);
    player.play(None, None).unwrap();
    let mut next = 0;
    let mut arrive_until = |path: DataPath| loop {
        ensure_arrive(&player, next..next + TRAIN);
        next += TRAIN;
        if player.playback.progress().path() == path {
            break;
        }
    };
    arrive_until(DataPath::WireSendfile);
    let region = heat(&engine, &source.medium);
    arrive_until(DataPath::WireUring);
    source.medium.set_hot(None);
    engine.let_go(&region);
    arrive_until(DataPath::WireSendfile);
    wait_for("the last reference", || Arc::strong_count(&region) == 1);
    ensure_arrive(&player, next..40 * TRAINS * TRAIN);
    player.wait_for_end();
    assert!(engine.hold_failures().is_empty());
}

fn after_a_seek_numbers_go_on() {
    let engine = engine(DataPath::WireUring);
    let source = Numbered::new(3);
    heat(&engine, &source.medium);
    let player = Player::new(&engine, source);
    player.play(None, Some(3 * PACKET_US)).unwrap();
    ensure_arrive(&player, 0..3);
    player.wait_for_end();
    assert_eq!(player.playback.progress().path(), DataPath::WireUring);

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
    assert_eq!(player.playback.progress().path(), DataPath::GsoWritev);
}

fn a_vanished_client_ends_its_playback_only() {
    let engine = engine(DataPath::WireUring);
    let source = Numbered::new(3);
    heat(&engine, &source.medium);
    let player = || Player::new(&engine, Arc::clone(&source) as Arc<dyn TrainSource>);
    let (gone, stays) = (player(), player());
    let Player { playback, receiver, events } = gone;
    drop(receiver);
    playback.play(None, None, |_| ());
    stays.play(None, None).unwrap();
    let event = events.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(matches!(event, Event::Failed(PlayError::Send(_))), "{event:?}");
    ensure_arrive(&stays, 0..3 * TRAINS * TRAIN);
    stays.wait_for_end();
    assert_eq!(engine.counters().playbacks, 1);
}

/// Trains of packets that no MTU takes: the paths that segment are refused, one after the other, and nothing is lost.
fn a_route_that_cannot_is_stepped_down_from() {
    const PACKET: u16 = 20_000;
    struct Large(Arc<Segment>);
    impl TrainSource for Large {
        fn segment(&self, number: u32) -> Load {
            if number == 0 { Load::Ready(Arc::clone(&self.0)) } else { Load::End }
        }
    }
    let (engine, numbered) = (engine(DataPath::WireUring), Numbered::new(20));
    let Load::Ready(segment) = numbered.segment(0) else { panic!("it is ready") };
    let train = segment.departures[0].train;
    let large =
        wirepath_streams::datapath::Train { length: 4 * u32::from(PACKET), packet_size: PACKET, ..train };
    heat(&engine, &numbered.medium);
    let departures = [Departure { at_us: 0, train: large }].into();
    let source = Arc::new(Large(Arc::new(Segment { medium: Arc::clone(&numbered.medium), departures })));
    let player = Player::with_packets_of(&engine, source, PACKET);
    player.play(None, None).unwrap();
    let stored: Vec<u8> = (0..400).flat_map(packet).collect();
    for (index, expected) in stored[..80_000].chunks(PACKET.into()).enumerate() {
        let received = player.receive();
        // Headers are those of the run, not those that happen to be stored there.
        assert!(received[HEADER_LENGTH..] == expected[HEADER_LENGTH..], "packet {index}");
    }
    player.wait_for_end();
    assert_eq!(player.playback.progress().path(), DataPath::Sendmmsg);
    assert_eq!(engine.counters().packets, 4);
    let noted = engine.support().step_downs();
    for failed in ["wire_uring failed", "wire_sendfile failed"] {
        assert!(noted.iter().any(|(_, choice)| choice.reason.contains(failed)), "{noted:?}");
    }
}

/// Promise: An overloaded engine thread still handles commands.
fn an_overloaded_thread_obeys() {
    let engine = engine(DataPath::WireUring);
    let source = Flood::new();
    heat(&engine, &source.0.medium);
    let players: Vec<Player> =
        (0..200).map(|_| Player::new(&engine, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    players.iter().for_each(|player| player.playback.play(None, None, |_| ()));
    wait_for("lateness", || engine.counters().slips > 0);
    assert!(engine.counters().batches > 0);
    // Their receivers stay: a closed port would end them, too.
    let (playbacks, _receivers): (Vec<_>, Vec<_>) =
        players.into_iter().map(|player| (player.playback, player.receiver)).unzip();
    drop(playbacks);
    wait_for("the end of all playbacks", || engine.counters().playbacks == 0);
}

fn an_engine_that_ends_lets_go() {
    let engine = engine(DataPath::WireUring);
    let source = Numbered::new(3);
    let region = heat(&engine, &source.medium);
    let player = Player::new(&engine, source);
    player.play(None, None).unwrap();
    ensure_arrive(&player, 0..TRAIN);
    drop(engine);
    assert_eq!(Arc::strong_count(&region), 1);
}
