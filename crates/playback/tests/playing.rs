//! Playbacks through their public interface, over loopback sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use support::{
    Flood, Numbered, PACKET_US, PAYLOAD, Player, TRAIN, TRAINS, on_threads, packet, playbacks,
    playbacks_in_bursts, position_of, run,
};
use wirepath_datapath::calibration::Calibrations;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header};
use wirepath_datapath::{DataPath, Lending, Support};
use wirepath_engine::{Engine, EngineOptions, Waker};
use wirepath_playback::{
    At, Burst, Cursor, Load, PlayError, PlaybackEvent, PlaybackSettings, Playbacks, RingUse, TrainSource,
};
use wirepath_testkit::udp::close_port;

/// A source that tells the name of the thread that it is dropped on.
struct Parting {
    numbered: Arc<Numbered>,
    tell: Sender<String>,
}

impl TrainSource for Parting {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        self.numbered.segment(number, waker)
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.tell.send(name).unwrap();
    }
}

/// Promise: No engine thread and no connection thread closes files.
///
/// Closing the last descriptor of a deleted file may take long.
#[test]
fn the_source_of_a_playback_that_ends_is_dropped_on_the_pool() {
    type Leave = fn(Player, Playbacks);
    let ways: [Leave; 3] = [
        |player, playbacks| {
            player.play(None, None).unwrap();
            player.receive();
            drop(player);
            wait_for_no_playbacks(&playbacks);
        },
        |player, playbacks| {
            drop(player); // without ever having played
            wait_for_no_playbacks(&playbacks);
        },
        |player, playbacks| {
            player.play(None, None).unwrap();
            drop(playbacks);
        },
    ];
    for leave in ways {
        let playbacks = playbacks(DataPath::WireSendfile);
        let (tell, told) = channel();
        let player = Player::new(&playbacks, Arc::new(Parting { numbered: Numbered::new(3), tell }));
        leave(player, playbacks);
        assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), "reader-closer");
    }
}

fn wait_for_no_playbacks(playbacks: &Playbacks) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while playbacks.counters().playbacks > 0 {
        assert!(Instant::now() < deadline, "the playback stays");
        std::thread::yield_now();
    }
}

#[test]
fn every_packet_arrives_in_order_and_in_time_on_every_path() {
    for path in DataPath::ALL {
        let playbacks = playbacks(path);
        let player = Player::new(&playbacks, Numbered::new(3));
        let begun = Instant::now();
        let position = player.play(None, None).unwrap();
        assert_eq!(position, position_of(65_500, 1000, 0));
        for number in 0..3 * TRAINS * TRAIN {
            assert_eq!(player.receive(), packet(number), "packet {number} by {path}");
        }
        player.wait_for_end();
        let last_train_us = u64::from(3 * TRAINS - 1) * u64::from(TRAIN) * PACKET_US;
        assert!(begun.elapsed() >= Duration::from_micros(last_train_us), "{:?} by {path}", begun.elapsed());
        let counters = playbacks.counters();
        assert_eq!((counters.packets, counters.trains), (60, 15));
        assert_eq!(counters.payload_bytes, 60 * PAYLOAD as u64);
        assert_eq!(counters.lateness_seconds.count(), 15);
        assert_eq!(counters.io_stalls, 1, "the second segment came late");
    }
}

/// Promise: The rule of lending decides between two trains of a session whether trains are copied.
#[test]
fn the_rule_of_lending_decides_by_which_path_trains_leave() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let player = Player::new(&playbacks, Numbered::new(60));
    player.play(None, None).unwrap();
    let mut arrived = 0..0;
    let mut arrive = |trains: u32| {
        arrived = arrived.end..arrived.end + trains * TRAIN;
        for number in arrived.clone() {
            assert_eq!(player.receive(), packet(number), "packet {number}");
        }
        arrived.end / TRAIN
    };
    let path = || player.playback.progress().path;
    arrive(3);
    playbacks.lending().set(Lending::Safe);
    let mut trains = arrive(3);
    assert_eq!((path(), playbacks.counters().trains_copied_by_rule), (Some(DataPath::WireSendfile), 0));
    for (rule, expected) in [(Lending::Never, DataPath::GsoWritev), (Lending::Always, DataPath::WireSendfile)]
    {
        playbacks.lending().set(rule);
        while path() != Some(expected) {
            trains = arrive(1);
        }
    }
    arrive(60 * TRAINS - trains);
    player.wait_for_end();
    let counters = playbacks.counters();
    assert!((1..counters.trains).contains(&counters.trains_copied_by_rule), "{counters:?}");
}

/// Promise: The burst length applies at sending: stored trains are split and joined to it.
#[test]
fn trains_are_cut_and_joined_for_the_burst() {
    // Stored trains are of 8 ms, segments of 40 ms.
    for (burst_us, trains) in [(2000, 60), (4000, 30), (8000, 15), (16_000, 9), (100_000, 4)] {
        for path in [DataPath::WireSendfile, DataPath::GsoWritev, DataPath::Sendmmsg] {
            let playbacks = playbacks_in_bursts(path, Burst::Fixed(burst_us));
            let player = Player::new(&playbacks, Numbered::new(3));
            player.play(None, None).unwrap();
            for number in 0..3 * TRAINS * TRAIN {
                assert_eq!(player.receive(), packet(number), "packet {number} in bursts of {burst_us} us");
            }
            player.wait_for_end();
            assert_eq!(playbacks.counters().trains, trains, "bursts of {burst_us} us by {path}");
        }
    }
}

/// Promise: A session gets no longer bursts than its client accepts.
#[test]
fn a_receiver_limits_its_bursts() {
    let playbacks = playbacks_in_bursts(DataPath::WireSendfile, Burst::Fixed(100_000));
    let player = Player::accepting(&playbacks, Numbered::new(3), 8000);
    player.play(None, None).unwrap();
    player.wait_for_end();
    assert_eq!(playbacks.counters().trains, 15);
}

#[test]
fn after_a_seek_numbers_go_on_and_the_payload_is_from_there() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let player = Player::new(&playbacks, Numbered::new(3));
    player.play(None, Some(3 * PACKET_US)).unwrap();
    for number in 0..3 {
        assert_eq!(player.receive(), packet(number));
    }
    player.wait_for_end();

    let there = Cursor { segment: 2, at: At::Packet { train: 1, packet: 2, skip: 0 } };
    let position = player.play(Some(there), None).unwrap();
    assert_eq!(position, position_of(65_503, 1000 + 3 * 180, 46 * PACKET_US));
    for number in 0..14 {
        let received = player.receive();
        assert_eq!(received[HEADER_LENGTH..], packet(46 + number)[HEADER_LENGTH..]);
        let header = Header { padding: false, marker: number == 0, ..run(3 + number).first };
        assert_eq!(received[..HEADER_LENGTH], header.to_bytes(), "packet {number}");
    }
    player.wait_for_end();
}

#[test]
fn a_pause_keeps_the_place_and_the_stored_headers() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let player = Player::new(&playbacks, Numbered::new(3));
    player.play(None, None).unwrap();
    let first: Vec<Vec<u8>> = (0..TRAIN).map(|_| player.receive()).collect();
    let at_us = player.pause();
    let sent = player.playback.progress().packets as u32;
    assert_eq!(at_us, u64::from(sent) * PACKET_US);
    assert!(!player.playback.progress().is_playing);
    let position = player.play(None, None).unwrap();
    assert_eq!(position.at_us, at_us);
    assert_eq!(first, (0..TRAIN).map(packet).collect::<Vec<_>>());
    for number in TRAIN..3 * TRAINS * TRAIN {
        assert_eq!(player.receive(), packet(number), "packet {number}");
    }
}

/// Promise: At a Speed of 0.25 to 8, the same packets leave faster or slower by that factor, timestamps
/// unchanged.
#[test]
fn a_speed_divides_departures_only() {
    for (factor, segments) in [(0.25, 3), (8.0, 50)] {
        let playbacks = playbacks(DataPath::WireSendfile);
        let player = Player::new(&playbacks, Numbered::new(segments));
        let begun = Instant::now();
        player.play_at(factor).unwrap();
        assert_eq!(playbacks.counters().speed_thousandths, (factor * 1000.0) as u64);
        let clock = player.playback.stream_progress(0).clock.unwrap();
        assert_eq!((clock.speed.factor(), player.playback.progress().speed), (factor, clock.speed));
        for number in 0..segments * TRAINS * TRAIN {
            assert_eq!(player.receive(), packet(number), "packet {number} at {factor}");
        }
        player.wait_for_end();
        let took = begun.elapsed().as_secs_f64() * 1e6;
        let (recorded, burst) = (f64::from(segments * TRAINS * TRAIN) * PACKET_US as f64, 8000.0);
        assert!(took >= recorded / factor - burst - PACKET_US as f64 / factor, "{took} us at {factor}");
        assert!(factor < 1.0 || took < recorded, "{took} us at {factor}");
        assert_eq!(playbacks.counters().speed_thousandths, 0);
    }
}

/// Promise: A change of Speed during playback loses and repeats no packet.
#[test]
fn a_speed_changes_without_a_loss() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let player = Player::new(&playbacks, Numbered::new(5));
    player.play(None, None).unwrap();
    let packets = 5 * TRAINS * TRAIN;
    for number in 0..packets {
        assert_eq!(player.receive(), packet(number), "packet {number}");
        if number % (2 * TRAIN) == 0 && number < packets / 2 {
            player.play_at(f64::from(1 + number % 3)).unwrap();
        }
    }
    player.wait_for_end();
}

#[test]
fn behind_the_end_is_an_error() {
    let playbacks = playbacks(DataPath::GsoWritev);
    let player = Player::new(&playbacks, Numbered::new(1));
    let behind = Cursor { segment: 1, ..Cursor::START };
    assert!(matches!(player.play(Some(behind), None), Err(PlayError::BeyondEnd)));
}

#[test]
fn a_vanished_client_ends_its_playback_only() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let (gone, stays) =
        (Player::new(&playbacks, Numbered::new(3)), Player::new(&playbacks, Numbered::new(3)));
    let Player { playback, receiver, events } = gone;
    close_port(&receiver);
    playback.play(None, None, |_| ());
    stays.play(None, None).unwrap();
    let event = events.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(matches!(event, PlaybackEvent::Failed(PlayError::Send(_))), "{event:?}");
    stays.wait_for_end();
    assert_eq!(playbacks.counters().playbacks, 1);
    drop(playback);
    assert_eq!(stays.playback.progress().packets, 60);
}

#[test]
fn the_end_of_all_playbacks_is_an_event() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let player = Player::new(&playbacks, Numbered::new(3));
    player.play(None, None).unwrap();
    drop(playbacks);
    assert!(matches!(
        player.events.recv_timeout(Duration::from_secs(5)),
        Ok(PlaybackEvent::Failed(PlayError::Over))
    ));
}

/// Promise: An overloaded engine thread still handles commands.
///
/// A thread that cannot keep up still hears that it may stop.
#[test]
fn an_overloaded_thread_handles_commands() {
    let playbacks = playbacks(DataPath::ReadWritev);
    let source = Flood::new();
    let players: Vec<Player> =
        (0..200).map(|_| Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    players.iter().for_each(|player| player.playback.play(None, None, |_| ()));
    let deadline = Instant::now() + Duration::from_secs(20);
    let wait_for = |what: &str, done: &dyn Fn() -> bool| {
        while !done() {
            assert!(Instant::now() < deadline, "{what} does not come");
            std::thread::yield_now();
        }
    };
    wait_for("lateness", &|| playbacks.counters().clock_resyncs > 0);
    // Their receivers stay: a closed port would end them, too.
    let (opened, _receivers): (Vec<_>, Vec<_>) =
        players.into_iter().map(|player| (player.playback, player.receiver)).unzip();
    drop(opened);
    wait_for("the end of all playbacks", &|| playbacks.counters().playbacks == 0);
}

/// A source that cannot read a segment the first time.
struct Busy {
    numbered: Arc<Numbered>,
    refused: AtomicBool,
}

impl TrainSource for Busy {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        if !self.refused.swap(true, Relaxed) {
            return Load::Busy;
        }
        self.numbered.segment(number, waker)
    }
}

/// Promise: A playback that waits for a segment is woken when the segment's state changes, and polls only
/// then.
#[test]
fn a_busy_source_is_asked_again() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let source = Busy { numbered: Numbered::new(1), refused: AtomicBool::new(false) };
    let player = Player::new(&playbacks, Arc::new(source));
    player.play(None, None).unwrap();
    assert_eq!(player.receive(), packet(0));
    assert_eq!(playbacks.counters().io_stalls, 1);
}

/// Promise: Few playbacks share an otherwise idle engine thread; further ones go to the least loaded thread.
#[test]
fn few_playbacks_share_a_thread_that_has_nothing_else_to_do() {
    let support = Arc::new(Support::probe(Some(DataPath::Sendmmsg), Calibrations::default(), false));
    let engine = Arc::new(Engine::start(EngineOptions { threads: 3, ..EngineOptions::default() }).unwrap());
    let playbacks = Playbacks::start(
        Arc::clone(&engine),
        PlaybackSettings { support, ring: RingUse::Never, burst: Burst::Fixed(8000) },
    );
    let source = Numbered::new(1);
    let open = |count: usize| -> Vec<Player> {
        (0..count).map(|_| Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>)).collect()
    };
    // A unit of each thread is what serves its playbacks.
    let loads = || [0, 1, 2].map(|thread| engine.load(thread) - 1);
    let _few = open(32);
    assert_eq!(loads(), [32, 0, 0]);
    let _more = open(5);
    assert_eq!(loads(), [32, 5, 0]);
    let other = engine.add_load(1);
    let elsewhere = open(5);
    assert_eq!(loads(), [32, 6, 5]);
    drop((other, elsewhere));
    while loads() != [32, 5, 0] {
        std::thread::yield_now(); // playbacks leave on their thread
    }
}

/// Promise: A playback moves to another thread between two trains; no packet is lost, repeated or reordered.
#[test]
fn playbacks_move_between_threads() {
    // Longer than this test may take, so that playbacks end where they are told to.
    const SEGMENTS: u32 = 500;
    const REST: u32 = 4 * TRAINS * TRAIN;
    for path in [DataPath::WireSendfile, DataPath::GsoWritev, DataPath::Sendmmsg] {
        let playbacks = on_threads(2, path);
        let players: Vec<Player> = (0..8).map(|_| Player::new(&playbacks, Numbered::new(SEGMENTS))).collect();
        for player in &players {
            player.play(None, None).unwrap();
            assert_eq!(player.receive(), packet(0));
        }
        playbacks.move_playbacks(0, 1, 5);
        playbacks.move_playbacks(0, 1, 0);
        let moves = || playbacks.counters().moves;
        let receive = |player: &Player, numbers: Range<u32>| {
            for number in numbers {
                assert_eq!(player.receive(), packet(number), "packet {number} by {path}");
            }
        };
        // In turns, since sockets hold few packets.
        for number in 1..2 * TRAINS * TRAIN {
            players.iter().for_each(|player| receive(player, number..number + 1));
        }
        assert_eq!(moves(), 5);
        // Commands find a playback that was moved.
        let paused: Vec<u32> =
            players.iter().map(|player| player.pause().div_ceil(PACKET_US) as u32).collect();
        for (player, end) in players.iter().zip(&paused) {
            receive(player, 2 * TRAINS * TRAIN..*end);
            player.play(None, Some(u64::from(*end + REST) * PACKET_US)).unwrap();
        }
        playbacks.move_playbacks(1, 0, 8);
        playbacks.move_playbacks(0, 0, 8);
        playbacks.move_playbacks(7, 0, 8);
        for (player, end) in players.iter().zip(&paused) {
            receive(player, *end..end + REST);
            player.wait_for_end();
        }
        assert_eq!(moves(), 5, "each moves once");
        let counters = playbacks.counters();
        assert_eq!((counters.playing, counters.playbacks), (0, 8));
        assert_eq!(counters.packets, paused.iter().map(|end| u64::from(end + REST)).sum::<u64>());
        drop(players);
        wait_for_no_playbacks(&playbacks);
    }
}
