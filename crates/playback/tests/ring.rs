//! Playbacks with io_urings, over loopback sockets: trains of many in one call, from memory that comes and
//! goes. A runner of its own: where io_uring is not to be had, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::movie::{self, AUDIO, Movie, PICTURE_US, Session, VIDEO};
use support::{
    Flood, Numbered, PACKET_US, Player, TRAIN, TRAINS, packet, playbacks, playbacks_with, position_of, run,
};
use wirepath_datapath::rtp::{HEADER_LENGTH, Header};
use wirepath_datapath::{CopyLayout, DataPath, Lending, MappedFile, Region, SendContext, Train};
use wirepath_engine::Waker;
use wirepath_playback::{
    At, Cursor, Departure, Load, PlayError, PlaybackEvent, Playbacks, RingUse, Segment, TrainSource,
};
use wirepath_testkit::udp::close_port;
use wirepath_testkit::{require, trial, trials};

fn main() -> std::process::ExitCode {
    let missing = SendContext::default().open_ring().err().map(|error| error.to_string());
    let tests = trials![
        every_packet_arrives_in_order_and_in_time,
        playbacks_share_calls,
        trains_leave_from_the_mapping_of_their_file,
        the_rule_of_lending_keeps_trains_from_the_ring,
        a_mapping_is_lent_where_nothing_is_in_hot_memory,
        memory_comes_and_goes_between_trains,
        a_wait_for_a_recorder_is_no_lateness,
        after_a_seek_numbers_go_on,
        a_vanished_client_ends_its_playback_only,
        a_route_that_cannot_is_stepped_down_from,
        an_overloaded_thread_handles_commands,
        memory_is_released_at_the_end,
        tracks_leave_from_hot_memory,
        tracks_that_the_kernel_copies_are_not_lent_for_long,
        what_the_kernel_copies_is_not_lent_for_long,
        a_socket_for_single_packets_is_not_lent_to,
    ];
    trial::run_needing(missing, tests)
}

/// Registers a copy of a file.
fn register_copy(playbacks: &Playbacks, file: &MappedFile) -> Arc<Region> {
    let length = file.file().metadata().unwrap().len();
    let region = Arc::new(file.copy::<io::Error>(length, |_| Ok(())).unwrap());
    file.set_hot(CopyLayout::Packets, Some(&region));
    playbacks.register(&region);
    region
}

/// Waits until something is so.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::yield_now();
    }
}

/// A player that has played three packets from registered memory. A thread registers memory in its turns, so
/// what plays before may leave by another path.
fn player_of_registered(playbacks: &Playbacks, source: &Arc<Numbered>) -> Player {
    let mut player = None;
    wait_for("registered memory", || {
        let player = player.insert(Player::new(playbacks, Arc::clone(source) as Arc<dyn TrainSource>));
        player.play(None, Some(3 * PACKET_US)).unwrap();
        ensure_arrive(player, 0..3);
        player.wait_for_end();
        player.playback.progress().path == Some(DataPath::WireUring)
    });
    player.expect("it has played")
}

fn ensure_arrive(player: &Player, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert_eq!(player.receive(), packet(number), "packet {number}");
    }
}

fn every_packet_arrives_in_order_and_in_time() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(3);
    register_copy(&playbacks, &source.file);
    let player = Player::new(&playbacks, source);
    let begun = Instant::now();
    let position = player.play(None, None).unwrap();
    assert_eq!(position, position_of(65_500, 1000, 0));
    ensure_arrive(&player, 0..3 * TRAINS * TRAIN);
    player.wait_for_end();
    let last_train_us = u64::from(3 * TRAINS - 1) * u64::from(TRAIN) * PACKET_US;
    assert!(begun.elapsed() >= Duration::from_micros(last_train_us), "{:?}", begun.elapsed());
    let progress = player.playback.progress();
    assert_eq!((progress.path, progress.packets, progress.packets_lost), (Some(DataPath::WireUring), 60, 0));
    assert_eq!(progress.position_us, last_train_us);
    let counters = playbacks.counters();
    assert_eq!((counters.packets, counters.trains, counters.lateness_seconds.count()), (60, 15, 15));
    assert_eq!(counters.payload_bytes, progress.payload_bytes);
    assert!((1..=15).contains(&counters.batches), "{} calls", counters.batches);
}

fn playbacks_share_calls() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(3);
    register_copy(&playbacks, &source.file);
    let players: Vec<Player> =
        (0..50).map(|_| Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    for player in &players {
        player.play(None, None).unwrap();
    }
    for player in &players {
        ensure_arrive(player, 0..3 * TRAINS * TRAIN);
        player.wait_for_end();
        assert_eq!(player.playback.progress().path, Some(DataPath::WireUring));
    }
    let counters = playbacks.counters();
    assert_eq!(counters.trains, 50 * 15);
    assert!(counters.batches < counters.trains / 2, "{} calls for {}", counters.batches, counters.trains);
}

/// Promise: Trains leave from the mapping of their file by io_uring, many in a call, without a wrong byte.
fn trains_leave_from_the_mapping_of_their_file() {
    let playbacks = playbacks(DataPath::WireMapping);
    let source = Numbered::new(3);
    let players: Vec<Player> =
        (0..50).map(|_| Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    for player in &players {
        player.play(None, None).unwrap();
    }
    for player in &players {
        ensure_arrive(player, 0..3 * TRAINS * TRAIN);
        player.wait_for_end();
        assert_eq!(player.playback.progress().path, Some(DataPath::WireMapping));
    }
    let counters = playbacks.counters();
    let all = 50 * 15;
    assert_eq!((counters.trains, counters.trains_lent, counters.trains_mapped), (all, all, all));
    assert!(counters.batches < counters.trains / 2, "{} calls for {}", counters.batches, counters.trains);
}

/// Promise: Under the rule `never`, no train is lent, neither over UDP nor over TCP.
fn the_rule_of_lending_keeps_trains_from_the_ring() {
    let playbacks = playbacks(DataPath::WireMapping);
    let source = Numbered::new(3);
    for (rule, path, lent, copied) in [
        (Lending::Never, DataPath::GsoWritev, 0, 15),
        (Lending::Safe, DataPath::WireMapping, 15, 15),
        (Lending::Always, DataPath::WireMapping, 30, 15),
    ] {
        playbacks.lending().set(rule);
        let player = Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>);
        player.play(None, None).unwrap();
        ensure_arrive(&player, 0..3 * TRAINS * TRAIN);
        player.wait_for_end();
        assert_eq!(player.playback.progress().path, Some(path), "{rule}");
        let counters = playbacks.counters();
        assert_eq!((counters.trains_lent, counters.trains_copied_by_rule), (lent, copied), "{rule}");
    }
}

/// Promise: Without hot memory, trains leave from the mapping of their file, until the kernel copies them.
///
/// Loopback receivers are such.
fn a_mapping_is_lent_where_nothing_is_in_hot_memory() -> anyhow::Result<()> {
    let mut context = SendContext::default();
    context.open_ring()?;
    require!(
        context.copied_by_kernel().is_some(),
        "before Linux 6.2 the kernel does not tell what it copies"
    );
    let playbacks = playbacks_with(DataPath::WireSendfile, RingUse::UnlessCopied { maps: true });
    let player = Player::new(&playbacks, Numbered::new(40));
    player.play(None, None)?;
    ensure_arrive(&player, 0..TRAIN);
    wait_for("the mapping", || playbacks.counters().trains_lent > 0);
    ensure_arrive(&player, TRAIN..40 * TRAINS * TRAIN);
    player.wait_for_end();
    let counters = playbacks.counters();
    assert!(counters.trains_copied >= 8, "{counters:?}");
    assert!(counters.trains_lent < counters.trains / 2, "{counters:?}");
    assert_eq!(player.playback.progress().path, Some(DataPath::WireSendfile));
    assert!(playbacks.support().step_downs().is_empty(), "it is no fault of the route");
    Ok(())
}

/// Promise: Sessions change to and from hot memory between two trains, without a wrong byte.
///
/// From the file, from the copy, and from the file again; no packet is lost or comes twice.
fn memory_comes_and_goes_between_trains() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(40);
    let player = Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>);
    player.play(None, None).unwrap();
    let mut next = 0;
    let mut arrive_until = |path: DataPath| loop {
        ensure_arrive(&player, next..next + TRAIN);
        next += TRAIN;
        if player.playback.progress().path == Some(path) {
            break;
        }
    };
    arrive_until(DataPath::WireSendfile);
    let region = register_copy(&playbacks, &source.file);
    arrive_until(DataPath::WireUring);
    source.file.set_hot(CopyLayout::Packets, None);
    playbacks.unregister(&region);
    arrive_until(DataPath::WireSendfile);
    wait_for("the last reference", || Arc::strong_count(&region) == 1);
    ensure_arrive(&player, next..40 * TRAINS * TRAIN);
    player.wait_for_end();
    assert!(playbacks.registration_failures().is_empty());
}

/// Promise: Default hot memory is not used for receivers whose trains the kernel copies.
///
/// Loopback receivers are such; the path for stored headers is another than `wire_uring`.
fn what_the_kernel_copies_is_not_lent_for_long() -> anyhow::Result<()> {
    let mut context = SendContext::default();
    context.open_ring()?;
    require!(
        context.copied_by_kernel().is_some(),
        "before Linux 6.2 the kernel does not tell what it copies"
    );
    let playbacks = playbacks_with(DataPath::WireSendfile, RingUse::UnlessCopied { maps: false });
    let source = Numbered::new(40);
    register_copy(&playbacks, &source.file);
    let player = Player::new(&playbacks, source);
    player.play(None, None)?;
    ensure_arrive(&player, 0..40 * TRAINS * TRAIN);
    player.wait_for_end();
    let counters = playbacks.counters();
    assert!(counters.trains_copied >= 8, "{counters:?}");
    assert!(counters.trains_lent < counters.trains / 2, "{counters:?}");
    assert_eq!(player.playback.progress().path, Some(DataPath::WireSendfile));
    assert!(playbacks.support().step_downs().is_empty(), "it is no fault of the route");
    Ok(())
}

/// A source whose second segment is recorded a second after its first one.
struct Recorded {
    numbered: Arc<Numbered>,
    begun: Instant,
}

const RECORDER_LATE: Duration = Duration::from_secs(1);

impl TrainSource for Recorded {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        if number == 0 || !self.is_at_edge(number) {
            return self.numbered.segment(number, waker);
        }
        if let (1, Some(waker)) = (number, waker.cloned()) {
            let left = RECORDER_LATE.saturating_sub(self.begun.elapsed());
            std::thread::spawn(move || {
                std::thread::sleep(left);
                waker.wake();
            });
        }
        Load::Pending
    }

    fn is_at_edge(&self, segment: u32) -> bool {
        segment > 0 && self.begun.elapsed() < RECORDER_LATE
    }
}

/// Promise: Trains that wait for a recorder do not count as late, also if they leave by io_uring.
fn a_wait_for_a_recorder_is_no_lateness() {
    let playbacks = playbacks(DataPath::WireUring);
    let numbered = Numbered::new(2);
    register_copy(&playbacks, &numbered.file);
    let player = Player::new(&playbacks, Arc::new(Recorded { numbered, begun: Instant::now() }));
    player.play(None, None).unwrap();
    ensure_arrive(&player, 0..2 * TRAINS * TRAIN);
    player.wait_for_end();
    assert_eq!(player.playback.progress().path, Some(DataPath::WireUring));
    let lateness = playbacks.counters().lateness_seconds;
    assert_eq!(lateness.count(), u64::from(2 * TRAINS));
    assert!(lateness.largest_us() < 700_000, "{} us late", lateness.largest_us());
}

/// A session of both tracks of a movie, and their receivers.
fn session_of(playbacks: &Playbacks, movie: &Arc<Movie>) -> (Session, [UdpSocket; 2]) {
    let ((video, video_sink), (audio, audio_sink)) = (movie::udp(VIDEO), movie::udp(AUDIO));
    let session = Session::open(playbacks, movie, video_sink);
    playbacks.add(&session.playback, audio_sink).unwrap();
    (session, [video, audio])
}

fn ensure_all_tracks_arrive(session: &Session, receivers: &[UdpSocket; 2], movie: &Movie) {
    session.play(None, None);
    for (receiver, packets) in receivers.iter().zip(&movie.packets) {
        for (index, packet) in packets.iter().enumerate() {
            assert_eq!(&movie::receive(receiver), packet, "packet {index}");
        }
    }
    session.wait_for_end();
}

/// Promise: All tracks of a movie are sent from hot memory, each to its receiver.
fn tracks_leave_from_hot_memory() {
    let (playbacks, movie) = (playbacks(DataPath::WireUring), Movie::of(25, PICTURE_US));
    register_copy(&playbacks, &movie.segment.mapped_file);
    wait_for("registered memory", || {
        let (session, _receivers) = session_of(&playbacks, &movie);
        session.play(None, Some(PICTURE_US));
        session.wait_for_end();
        session.playback.progress().path == Some(DataPath::WireUring)
    });
    let before = playbacks.counters();
    let (session, receivers) = session_of(&playbacks, &movie);
    ensure_all_tracks_arrive(&session, &receivers, &movie);
    let after = playbacks.counters();
    let departures = movie.segment.departures.len() as u64;
    assert_eq!(after.trains_lent - before.trains_lent, departures);
    assert_eq!(after.trains - before.trains, departures);
    for (stream, packets) in (0..).zip(&movie.packets) {
        assert_eq!(session.playback.stream_progress(stream).packets, packets.len() as u64);
    }
}

/// The kernel does not say of which track it copied a train: all of them stop.
fn tracks_that_the_kernel_copies_are_not_lent_for_long() -> anyhow::Result<()> {
    let mut context = SendContext::default();
    context.open_ring()?;
    require!(
        context.copied_by_kernel().is_some(),
        "before Linux 6.2 the kernel does not tell what it copies"
    );
    let playbacks = playbacks_with(DataPath::WireSendfile, RingUse::UnlessCopied { maps: false });
    let movie = Movie::of(50, PICTURE_US);
    register_copy(&playbacks, &movie.segment.mapped_file);
    let (session, receivers) = session_of(&playbacks, &movie);
    ensure_all_tracks_arrive(&session, &receivers, &movie);
    let counters = playbacks.counters();
    assert!(counters.trains_copied >= 8, "{counters:?}");
    assert!(counters.trains_lent < counters.trains / 2, "{counters:?}");
    assert_eq!(session.playback.progress().path, Some(DataPath::WireSendfile));
    Ok(())
}

/// Promise: A session that stepped down to single packets gets no trains from hot memory.
///
/// Its socket cuts no trains any more: one would leave as a single datagram.
fn a_socket_for_single_packets_is_not_lent_to() {
    let (playbacks, numbered) =
        (playbacks_with(DataPath::WireSendfile, RingUse::UnlessCopied { maps: false }), Numbered::new(20));
    let first = large_train(&numbered, 4);
    let second = Departure { at_us: 10_000, train: Train { first: 4, ..large_train(&numbered, 3).train } };
    let source = Arc::new(Large::new(&numbered, [first, second].into()));
    let player = Player::with_packets_of(&playbacks, source, LARGE_PACKET);
    let ensure_packets = |packets| {
        for index in 0..packets {
            assert_eq!(player.receive().len(), usize::from(LARGE_PACKET), "packet {index}");
        }
        player.wait_for_end();
        assert_eq!(player.playback.progress().path, Some(DataPath::Sendmmsg));
    };
    player.play(None, Some(second.at_us)).unwrap();
    ensure_packets(4);
    register_copy(&playbacks, &numbered.file);
    player_of_registered(&playbacks, &numbered);
    player.play(None, None).unwrap();
    ensure_packets(3);
}

fn after_a_seek_numbers_go_on() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(3);
    register_copy(&playbacks, &source.file);
    let player = player_of_registered(&playbacks, &source);

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
    assert_eq!(player.playback.progress().path, Some(DataPath::GsoWritev));
}

fn a_vanished_client_ends_its_playback_only() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(3);
    register_copy(&playbacks, &source.file);
    let player = || Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>);
    let (gone, stays) = (player(), player());
    let Player { playback, receiver, events } = gone;
    close_port(&receiver);
    playback.play(None, None, |_| ());
    stays.play(None, None).unwrap();
    let event = events.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(matches!(event, PlaybackEvent::Failed(PlayError::Send(_))), "{event:?}");
    ensure_arrive(&stays, 0..3 * TRAINS * TRAIN);
    stays.wait_for_end();
    assert_eq!(playbacks.counters().playbacks, 1);
}

/// Size of packets of which four are more than a datagram.
const LARGE_PACKET: u16 = 20_000;

/// A train of so many large packets, due at once.
fn large_train(numbered: &Numbered, packets: u32) -> Departure {
    let Load::Ready(segment) = numbered.segment(0, None) else { panic!("it is ready") };
    let train = segment.departures[0].train;
    let length = packets * u32::from(LARGE_PACKET);
    Departure { at_us: 0, train: Train { length, packet_size: LARGE_PACKET, ..train } }
}

/// A source of one segment.
struct Large(Arc<Segment>);

impl Large {
    fn new(numbered: &Numbered, departures: Box<[Departure]>) -> Large {
        Large(Arc::new(Segment {
            mapped_file: Arc::clone(&numbered.file),
            departures,
            original: None,
            clock: None,
        }))
    }
}

impl TrainSource for Large {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        if number == 0 { Load::Ready(Arc::clone(&self.0)) } else { Load::End }
    }
}

/// A train that is longer than a datagram: the paths that segment are refused, one after the other, and
/// nothing is lost.
fn a_route_that_cannot_is_stepped_down_from() {
    const PACKET: u16 = LARGE_PACKET;
    let (playbacks, numbered) = (playbacks(DataPath::WireUring), Numbered::new(20));
    register_copy(&playbacks, &numbered.file);
    player_of_registered(&playbacks, &numbered);
    let before = playbacks.counters().packets;
    let source = Arc::new(Large::new(&numbered, [large_train(&numbered, 4)].into()));
    let player = Player::with_packets_of(&playbacks, source, PACKET);
    player.play(None, None).unwrap();
    let stored: Vec<u8> = (0..400).flat_map(packet).collect();
    for (index, expected) in stored[..80_000].chunks(PACKET.into()).enumerate() {
        let received = player.receive();
        // Headers are those of the run, not those that happen to be stored there.
        assert!(received[HEADER_LENGTH..] == expected[HEADER_LENGTH..], "packet {index}");
    }
    player.wait_for_end();
    assert_eq!(player.playback.progress().path, Some(DataPath::Sendmmsg));
    assert_eq!(playbacks.counters().packets - before, 4);
    let noted = playbacks.support().step_downs();
    for failed in ["wire_uring failed", "wire_sendfile failed"] {
        assert!(noted.iter().any(|(_, choice)| choice.reason.contains(failed)), "{noted:?}");
    }
}

/// Promise: An overloaded engine thread still handles commands.
fn an_overloaded_thread_handles_commands() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Flood::new();
    register_copy(&playbacks, &source.0.mapped_file);
    let players: Vec<Player> =
        (0..200).map(|_| Player::new(&playbacks, Arc::clone(&source) as Arc<dyn TrainSource>)).collect();
    players.iter().for_each(|player| player.playback.play(None, None, |_| ()));
    wait_for("lateness", || playbacks.counters().clock_resyncs > 0);
    assert!(playbacks.counters().batches > 0);
    // Their receivers stay: a closed port would end them, too.
    let (opened, _receivers): (Vec<_>, Vec<_>) =
        players.into_iter().map(|player| (player.playback, player.receiver)).unzip();
    drop(opened);
    wait_for("the end of all playbacks", || playbacks.counters().playbacks == 0);
}

fn memory_is_released_at_the_end() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(3);
    let region = register_copy(&playbacks, &source.file);
    let player = Player::new(&playbacks, source);
    player.play(None, None).unwrap();
    ensure_arrive(&player, 0..TRAIN);
    drop(playbacks);
    assert_eq!(Arc::strong_count(&region), 1);
}
