//! Playbacks over an RTSP connection, through their public interface: every byte that comes is looked at.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::io::Read;
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use support::connection::{
    Came, Client, PATIENCE, Session, connect, ensure_skips_forward, open, wait_for_full, with_lag,
};
use support::{
    Flood, Numbered, PACKET, PACKET_US, TRAIN, TRAINS, on_threads, packet, playbacks, position_of, run,
};
use wirepath_datapath::DataPath;
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_playback::{At, Cursor, Playbacks};

const ALL: u32 = 3 * TRAINS * TRAIN;

/// Promise: Over the RTSP connection each packet is one frame: `$`, channel, length, packet.
#[test]
fn every_packet_is_a_frame_behind_the_response() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 4, Numbered::new(3));
    let begun = Instant::now();
    let position = session.play(&client, None, None);
    assert_eq!(position, position_of(65_500, 1000, 0));
    assert_eq!(client.next(), Came::Response);
    for number in 0..ALL {
        assert_eq!(client.next(), Came::Frame(4, packet(number)), "packet {number}");
    }
    session.wait_for_end();
    assert!(begun.elapsed() >= Duration::from_micros(u64::from(ALL - TRAIN) * PACKET_US));
    let counters = playbacks.counters();
    assert_eq!((counters.packets, counters.trains, counters.sockets_full), (ALL.into(), 15, 0));
    let progress = session.playback.progress();
    assert_eq!((progress.path, progress.forward_skips), (None, 0));
}

/// Promise: No packet is sent before the response to PLAY.
#[test]
fn packets_wait_for_their_release() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let mut client = Client::new(&playbacks, None);
    let (held, other) =
        (open(&playbacks, &client, 0, Numbered::new(3)), open(&playbacks, &client, 2, Numbered::new(3)));
    let (tell, answer) = channel();
    held.playback.play(None, None, move |result| tell.send(result).unwrap());
    assert!(answer.recv_timeout(PATIENCE).unwrap().is_ok());
    assert!(!held.playback.progress().is_playing);
    other.play(&client, None, None);
    assert_eq!(client.next(), Came::Response);
    for number in 0..2 * TRAIN {
        assert_eq!(client.next(), Came::Frame(2, packet(number)));
    }
    held.playback.release();
    let mut first = None;
    while first.is_none() {
        if let Came::Frame(0, frame) = client.next() {
            first = Some(frame);
        }
    }
    assert_eq!(first, Some(packet(0)));
}

#[test]
fn after_a_seek_numbers_go_on() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 0, Numbered::new(3));
    session.play(&client, None, Some(3 * PACKET_US));
    assert_eq!(client.next(), Came::Response);
    for number in 0..3 {
        assert_eq!(client.next(), Came::Frame(0, packet(number)));
    }
    session.wait_for_end();
    let there = Cursor { segment: 2, at: At::Packet { train: 1, packet: 2, skip: 0 } };
    let position = session.play(&client, Some(there), None);
    assert_eq!(position, position_of(65_503, 1000 + 3 * 180, 46 * PACKET_US));
    assert_eq!(client.next(), Came::Response);
    for number in 0..14 {
        let Came::Frame(0, frame) = client.next() else { panic!("no frame {number}") };
        assert_eq!(frame[HEADER_LENGTH..], packet(46 + number)[HEADER_LENGTH..]);
        assert_eq!(frame[2..12], run(3 + number).first.to_bytes()[2..], "packet {number}");
    }
    session.wait_for_end();
}

/// Promise: Responses and reports are sent between frames, never inside a frame.
///
/// The buffers are so small that hardly a train fits, and full when the client begins to read.
#[test]
fn what_others_write_comes_between_frames_however_little_fits() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let mut client = Client::new(&playbacks, Some(1));
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 1).unwrap();
    const MANY: u32 = 12 * TRAINS * TRAIN;
    let sessions = [0, 2].map(|number| with_lag(&playbacks, &client, number, Numbered::new(12), u64::MAX));
    for session in &sessions {
        session.play(&client, None, None);
    }
    wait_for_full(&playbacks);
    let mut responses = 0;
    let (mut next, mut reports) = ([0; 2], 0);
    while next != [MANY; 2] {
        match client.next() {
            Came::Frame(number @ (0 | 2), frame) => {
                let next = &mut next[usize::from(number / 2)];
                assert_eq!(frame, packet(*next), "packet {next} of channel {number}");
                *next += 1;
                client.respond();
                client.writer.write_report(number + 1, b"a report");
            }
            Came::Frame(1 | 3, frame) => {
                assert_eq!(frame, b"a report");
                reports += 1;
            }
            Came::Response => responses += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(responses > MANY && reports > MANY, "{responses} responses, {reports} reports");
}

/// Promise: A client over TCP that reads too slowly skips forward to a random access point, and is counted.
///
/// 40,000 packets a second for a second: 8.5 MB, of which the connection holds a part. The client reads
/// nothing for the first 400 ms of media.
#[test]
fn a_client_that_reads_too_slowly_skips_forward() {
    let playbacks = playbacks(DataPath::WireSendfile);
    ensure_skips_forward(&playbacks, Flood::new());
}

/// Promise: A session over TCP that ends leaves only whole frames on the connection.
#[test]
fn a_session_that_ends_leaves_whole_frames_and_the_others() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let mut client = Client::new(&playbacks, Some(1));
    let goes = open(&playbacks, &client, 0, Flood::new());
    goes.play(&client, None, None);
    wait_for_full(&playbacks);
    goes.pause();
    drop(goes);
    let stays = open(&playbacks, &client, 6, Numbered::new(1));
    stays.play(&client, None, None);
    let mut came = 0;
    while came < TRAINS * TRAIN {
        match client.next() {
            Came::Frame(0, frame) => assert_eq!((frame.len(), came), (PACKET, 0)),
            Came::Frame(6, frame) => {
                assert_eq!(frame, packet(came));
                came += 1;
            }
            Came::Response => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Promise: A connection that fails is closed, and tasks that wait for it are notified.
#[test]
fn a_client_that_is_gone_is_noticed_by_the_reader() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let mut client = Client::new(&playbacks, None);
    let session = open(&playbacks, &client, 0, Numbered::new(3));
    session.play(&client, None, None);
    assert_eq!(client.next(), Came::Response);
    client.stream.shutdown(Shutdown::Both).unwrap(); // what comes from now on is answered by a reset
    client.near.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(matches!(client.near.read(&mut [0; 1]), Ok(0) | Err(_)));
    let deadline = Instant::now() + PATIENCE;
    while client.respond().recv().is_ok() {
        assert!(Instant::now() < deadline, "the connection takes what nobody reads");
    }
    assert!(session.events.try_recv().is_err(), "it is the reader who ends the session");
    drop(session);
    drop(client);
    while playbacks.counters().playbacks > 0 {
        assert!(Instant::now() < deadline, "the playback stays");
        std::thread::yield_now();
    }
}

#[test]
fn a_writer_that_is_dropped_closes_its_descriptor() {
    let playbacks = playbacks(DataPath::WireSendfile);
    let (near, mut far) = connect(None);
    let writer = playbacks.open_writer(near.into()).unwrap();
    drop(writer);
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0, "the other end sees it");
}

/// A client whose frames are looked at, and what its server writes beside the packets.
struct Watched {
    client: Client,
    /// The next packet of each channel.
    next: [u32; 8],
    /// Responses that were written and have not come yet.
    responses: u32,
    /// Numbers of the last report that was written and that came.
    reports: [u32; 2],
}

impl Watched {
    fn new(playbacks: &Playbacks) -> Watched {
        Watched { client: Client::new(playbacks, None), next: [0; 8], responses: 0, reports: [0; 2] }
    }

    fn open(&mut self, playbacks: &Playbacks, channel_number: u8) -> Session {
        let session = open(playbacks, &self.client, channel_number, Numbered::new(500));
        self.play(&session);
        session
    }

    fn play(&mut self, session: &Session) {
        session.play(&self.client, None, None);
        self.responses += 1;
    }

    /// Reads until the packet of this number has come on a channel, and writes a response and a report for
    /// each packet.
    fn read_to(&mut self, channel_number: u8, packet_number: u32) {
        while self.next[usize::from(channel_number)] <= packet_number {
            if self.read() {
                self.respond();
                self.reports[0] += 1;
                self.client.writer.write_report(1, &self.reports[0].to_be_bytes());
            }
        }
    }

    /// Reads all that was written before.
    fn read_rest(&mut self) {
        self.respond();
        while self.responses > 0 {
            self.read();
        }
        assert_eq!(self.reports[0], self.reports[1], "reports that were written and that came");
    }

    fn respond(&mut self) {
        self.client.respond();
        self.responses += 1;
    }

    /// Reads what comes next: packets and reports in order, whole, and none missing. Returns whether it was a
    /// packet.
    fn read(&mut self) -> bool {
        match self.client.next() {
            Came::Frame(1, number) => {
                self.reports[1] += 1;
                assert_eq!(number, self.reports[1].to_be_bytes());
            }
            Came::Frame(channel_number, frame) => {
                let next = &mut self.next[usize::from(channel_number)];
                assert_eq!(frame, packet(*next), "packet {next} of channel {channel_number}");
                *next += 1;
                return true;
            }
            Came::Response => self.responses -= 1,
            Came::End => panic!("the connection ends"),
        }
        false
    }
}

/// Promise: A connection moves to another thread between two frames; no byte is lost or reordered.
#[test]
fn connections_move_between_threads() {
    /// Behind the segment that comes late, for which playbacks wait.
    const EARLY: u32 = 2 * TRAINS * TRAIN;
    let playbacks = on_threads(2, DataPath::WireSendfile);
    let (mut one, mut other) = (Watched::new(&playbacks), Watched::new(&playbacks));
    let mut sessions = vec![one.open(&playbacks, 0), other.open(&playbacks, 2), other.open(&playbacks, 4)];
    one.read_to(0, EARLY);
    other.read_to(2, EARLY);
    other.read_to(4, EARLY);
    // One of a connection rests, and moves with the other.
    sessions[2].pause();
    playbacks.move_playbacks(0, 1, 10);
    one.read_to(0, 3 * EARLY);
    other.read_to(2, 3 * EARLY);
    assert_eq!(playbacks.counters().moves, 3);
    // A session on a connection that was moved, and commands for sessions that were.
    sessions.push(one.open(&playbacks, 6));
    other.play(&sessions[2]);
    one.read_to(6, 2 * EARLY);
    other.read_to(4, 4 * EARLY);
    playbacks.move_playbacks(1, 0, 10);
    one.read_to(6, 3 * EARLY);
    for session in &sessions {
        session.pause();
    }
    one.read_rest();
    other.read_rest();
    let counters = playbacks.counters();
    assert_eq!((counters.moves, counters.playing, counters.playbacks), (3, 0, 4), "each moves once");
    assert_eq!(counters.packets, u64::from(one.next.iter().chain(&other.next).sum::<u32>()));
    drop(sessions);
    for Client { writer, near, mut stream } in [one.client, other.client] {
        drop((writer, near));
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "its descriptor is closed");
    }
    assert_eq!(playbacks.counters().playbacks, 0);
}

/// A connection that has no room stays where it is, and so do its sessions.
#[test]
fn a_full_connection_stays_on_its_thread() {
    let playbacks = on_threads(2, DataPath::WireSendfile);
    let client = Client::new(&playbacks, Some(1));
    client.acknowledge_nothing();
    let session = with_lag(&playbacks, &client, 0, Flood::new(), u64::MAX);
    session.play(&client, None, None);
    wait_for_full(&playbacks);
    playbacks.move_playbacks(0, 1, 1);
    session.pause();
    assert_eq!(playbacks.counters().moves, 0);
}
