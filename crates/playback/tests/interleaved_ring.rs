//! Playbacks over RTSP connections from registered memory: trains of many connections in one call. A runner of
//! its own: where io_uring is not to be had, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::connection::{
    Came, Client, PATIENCE, Session, ensure_skips_forward, open, wait_for_full, with_lag,
};
use support::{Flood, Numbered, PACKET, PACKET_US, TRAIN, TRAINS, packet, playbacks, playbacks_with};
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_datapath::{CopyLayout, DataPath, Lending, MappedFile, Region, SendContext, Train};
use wirepath_playback::{At, Cursor, Load, Playbacks, RingUse, TrainSource};
use wirepath_testkit::{require, trial, trials};

fn main() -> std::process::ExitCode {
    let missing = SendContext::default().open_ring().err().map(|error| error.to_string());
    let tests = trials![
        connections_share_calls,
        the_rule_of_lending_has_frames_copied,
        what_others_write_comes_between_frames_however_little_fits,
        another_channel_is_sent_with_a_copy,
        two_sessions_of_a_connection_are_sent_with_a_copy,
        after_a_seek_frames_are_sent_with_a_copy,
        a_client_that_reads_too_slowly_skips_forward,
        a_client_that_is_gone_disturbs_no_other,
        what_the_kernel_copies_is_not_lent_for_long,
        memory_is_released_while_a_client_plays,
    ];
    trial::run_needing(missing, tests)
}

/// Registers a copy with framing of a file of numbered packets, all of one size.
fn register_framed(playbacks: &Playbacks, file: &MappedFile, train: Train) -> Arc<Region> {
    let length = file.file().metadata().unwrap().len();
    let packets = (length / PACKET as u64) as u32;
    let region = file.copy_framed::<io::Error>(length, packets.into(), |copy| {
        copy.read(0..length)?;
        copy.add(&Train { offset: 0, length: length as u32, packets_before: 0, ..train })
    });
    let region = Arc::new(region.unwrap());
    file.set_hot(CopyLayout::Frames, Some(&region));
    playbacks.register(&region);
    region
}

/// A source of so many segments that is registered with all threads: a session has played from there.
fn registered(playbacks: &Playbacks, segments: u32) -> Arc<Numbered> {
    let source = Numbered::new(segments);
    register_and_wait(playbacks, &source.file, Arc::clone(&source) as Arc<dyn TrainSource>);
    source
}

/// Registers a file, and waits until sessions are sent from there: a thread registers memory in its turns.
fn register_and_wait(playbacks: &Playbacks, file: &MappedFile, source: Arc<dyn TrainSource>) -> Arc<Region> {
    let Load::Ready(segment) = source.segment(0, None) else { panic!("it is ready") };
    let region = register_framed(playbacks, file, segment.departures[0].train);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let client = Client::new(playbacks, None);
        let session = open(playbacks, &client, 0, Arc::clone(&source));
        session.play(&client, None, Some(PACKET_US));
        session.wait_for_end();
        if session.playback.progress().path == Some(DataPath::WireUring) {
            return region;
        }
        assert!(Instant::now() < deadline, "registered memory is not used");
    }
}

fn ensure_frames(client: &mut Client, channel: u8, numbers: std::ops::Range<u32>) {
    for number in numbers {
        assert_eq!(client.next(), Came::Frame(channel, packet(number)), "packet {number}");
    }
}

/// Promise: Trains of many TCP clients leave from hot memory in one call, without a copy.
fn connections_share_calls() {
    const ALL: u32 = 3 * TRAINS * TRAIN;
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 3);
    let before = playbacks.counters();
    let clients: Vec<(Client, Session)> = (0..50)
        .map(|_| {
            let client = Client::new(&playbacks, None);
            let session = open(&playbacks, &client, 0, Arc::clone(&source) as Arc<dyn TrainSource>);
            (client, session)
        })
        .collect();
    for (client, session) in &clients {
        session.play(client, None, None);
    }
    for (mut client, session) in clients {
        assert_eq!(client.next(), Came::Response);
        ensure_frames(&mut client, 0, 0..ALL);
        session.wait_for_end();
        let progress = session.playback.progress();
        assert_eq!((progress.path, progress.packets), (Some(DataPath::WireUring), ALL.into()));
    }
    let after = playbacks.counters();
    let (trains, calls) = (after.trains - before.trains, after.batches - before.batches);
    assert_eq!((trains, after.trains_lent - before.trains_lent), (50 * 15, 50 * 15));
    assert!(calls < trains / 2, "{calls} calls for {trains} trains");
    assert_eq!(after.packets - before.packets, u64::from(50 * ALL));
}

/// Promise: Under the rule `never`, no train is lent, neither over UDP nor over TCP.
fn the_rule_of_lending_has_frames_copied() {
    const ALL: u32 = 3 * TRAINS * TRAIN;
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 3);
    let before = playbacks.counters().trains_lent;
    for (rule, lent) in [(Lending::Never, 0), (Lending::Safe, 15)] {
        playbacks.lending().set(rule);
        let mut client = Client::new(&playbacks, None);
        let session = open(&playbacks, &client, 0, Arc::clone(&source) as Arc<dyn TrainSource>);
        session.play(&client, None, None);
        assert_eq!(client.next(), Came::Response);
        ensure_frames(&mut client, 0, 0..ALL);
        session.wait_for_end();
        assert_eq!(playbacks.counters().trains_lent - before, lent, "{rule}");
    }
}

/// Promise: Responses and reports come between frames from hot memory, too.
///
/// The buffers hold a third of the clip, and are full when the client begins to read.
fn what_others_write_comes_between_frames_however_little_fits() {
    const MANY: u32 = 12 * TRAINS * TRAIN;
    /// Responses and reports that wait when the client begins to read.
    const WAITING: u32 = 10;
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 12);
    let before = playbacks.counters();
    let mut client = Client::new(&playbacks, Some(1));
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 8192).unwrap();
    let session = with_lag(&playbacks, &client, 0, source, u64::MAX);
    session.play(&client, None, None);
    wait_for_full(&playbacks);
    for _ in 0..WAITING {
        client.respond();
        client.writer.write_report(1, b"a report");
    }
    let (mut responses, mut reports, mut next) = (0, 0, 0);
    while next < MANY {
        match client.next() {
            Came::Frame(0, frame) => {
                assert_eq!(frame, packet(next), "packet {next}");
                next += 1;
                client.respond();
                client.writer.write_report(1, b"a report");
            }
            Came::Frame(1, frame) => {
                assert_eq!(frame, b"a report");
                reports += 1;
            }
            Came::Response => responses += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(responses > WAITING && reports >= WAITING, "{responses} responses, {reports} reports");
    session.wait_for_end();
    let after = playbacks.counters();
    assert_eq!(after.packets - before.packets, u64::from(MANY));
    assert!(after.trains_lent > before.trains_lent);
}

/// The copy has the framing of channel 0.
fn another_channel_is_sent_with_a_copy() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 3);
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 4, source);
    session.play(&client, None, None);
    assert_eq!(client.next(), Came::Response);
    ensure_frames(&mut client, 4, 0..3 * TRAINS * TRAIN);
    session.wait_for_end();
    assert_eq!(session.playback.progress().path, None);
}

/// Either might send while a train of the other one is queued.
fn two_sessions_of_a_connection_are_sent_with_a_copy() {
    const MANY: u32 = 12 * TRAINS * TRAIN;
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 12);
    let mut client = Client::new(&playbacks, Some(1));
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 8192).unwrap();
    let sessions =
        [0, 0].map(|channel| with_lag(&playbacks, &client, channel, Arc::clone(&source) as _, u64::MAX));
    for session in &sessions {
        session.play(&client, None, None);
    }
    wait_for_full(&playbacks);
    let mut frames = 0;
    while frames < 2 * MANY {
        match client.next() {
            Came::Frame(0, frame) => {
                assert_eq!(frame.len(), PACKET);
                frames += 1;
            }
            other => assert_eq!(other, Came::Response),
        }
    }
    sessions.iter().for_each(Session::wait_for_end);
    sessions.iter().for_each(|session| assert_eq!(session.playback.progress().path, None));
}

fn after_a_seek_frames_are_sent_with_a_copy() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 3);
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 0, source);
    session.play(&client, None, Some(3 * PACKET_US));
    assert_eq!(client.next(), Came::Response);
    ensure_frames(&mut client, 0, 0..3);
    session.wait_for_end();
    assert_eq!(session.playback.progress().path, Some(DataPath::WireUring));
    session.play(&client, Some(Cursor { segment: 2, at: At::Packet { train: 1, packet: 2, skip: 0 } }), None);
    assert_eq!(client.next(), Came::Response);
    for number in 0..14 {
        let Came::Frame(0, frame) = client.next() else { panic!("no frame {number}") };
        assert_eq!(frame[HEADER_LENGTH..], packet(46 + number)[HEADER_LENGTH..]);
    }
    session.wait_for_end();
    assert_eq!(session.playback.progress().path, None);
}

/// 40,000 packets a second for a second: 8.5 MB, of which the connection holds a part. The client reads
/// nothing for the first 400 ms of media.
fn a_client_that_reads_too_slowly_skips_forward() {
    let playbacks = playbacks(DataPath::WireUring);
    let flood = Flood::new();
    register_and_wait(&playbacks, &flood.0.mapped_file, Arc::clone(&flood) as Arc<dyn TrainSource>);
    let lent = playbacks.counters().trains_lent;
    ensure_skips_forward(&playbacks, flood);
    assert!(playbacks.counters().trains_lent > lent, "the flood was not lent");
}

fn a_client_that_is_gone_disturbs_no_other() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = registered(&playbacks, 12);
    let client = || Client::new(&playbacks, None);
    let (gone, mut stays) = (client(), client());
    let [goes, other] = [&gone, &stays]
        .map(|client| open(&playbacks, client, 0, Arc::clone(&source) as Arc<dyn TrainSource>));
    goes.play(&gone, None, None);
    other.play(&stays, None, None);
    gone.stream.shutdown(Shutdown::Both).unwrap(); // what comes from now on is answered by a reset
    assert_eq!(stays.next(), Came::Response);
    ensure_frames(&mut stays, 0, 0..12 * TRAINS * TRAIN);
    other.wait_for_end();
    assert_eq!(other.playback.progress().path, Some(DataPath::WireUring));
    assert!(goes.events.try_recv().is_err(), "it is the reader who ends the session");
}

/// Loopback receivers are such.
fn what_the_kernel_copies_is_not_lent_for_long() -> anyhow::Result<()> {
    let mut context = SendContext::default();
    context.open_ring()?;
    require!(
        context.copied_by_kernel().is_some(),
        "before Linux 6.2 the kernel does not tell what it copies"
    );
    let playbacks = playbacks_with(DataPath::WireSendfile, RingUse::UnlessCopied { maps: false });
    let source = registered(&playbacks, 40);
    let before = playbacks.counters();
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 0, source);
    session.play(&client, None, None);
    assert_eq!(client.next(), Came::Response);
    ensure_frames(&mut client, 0, 0..40 * TRAINS * TRAIN);
    session.wait_for_end();
    let after = playbacks.counters();
    let (lent, trains) = (after.trains_lent - before.trains_lent, after.trains - before.trains);
    assert!(lent >= 8 && lent < trains / 2, "{lent} of {trains} trains were lent");
    assert_eq!(session.playback.progress().path, None);
    Ok(())
}

fn memory_is_released_while_a_client_plays() {
    let playbacks = playbacks(DataPath::WireUring);
    let source = Numbered::new(40);
    let region = register_and_wait(&playbacks, &source.file, Arc::clone(&source) as Arc<dyn TrainSource>);
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 0, Arc::clone(&source) as Arc<dyn TrainSource>);
    session.play(&client, None, None);
    assert_eq!(client.next(), Came::Response);
    ensure_frames(&mut client, 0, 0..TRAIN);
    source.file.set_hot(CopyLayout::Frames, None);
    playbacks.unregister(&region);
    ensure_frames(&mut client, 0, TRAIN..40 * TRAINS * TRAIN);
    session.wait_for_end();
    assert_eq!(session.playback.progress().path, None);
    let deadline = Instant::now() + Duration::from_secs(20);
    while Arc::strong_count(&region) > 1 {
        assert!(Instant::now() < deadline, "the region is held");
        std::thread::yield_now();
    }
}
