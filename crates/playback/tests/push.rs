//! Playbacks to receivers that did not ask, over loopback sockets.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::{Numbered, PACKET, PACKET_US, TRAIN, TRAINS, packet, playbacks};
use wirepath_datapath::DataPath;
use wirepath_datapath::rtp::HEADER_LENGTH;
use wirepath_playback::{Playback, PlaybackEvent, PlaybackOptions, PlaybackSink, Playbacks, TrainSource};
use wirepath_testkit::udp::close_port;

/// Segments of the source, and packets.
const SEGMENTS: u32 = 3;
const PACKETS: u32 = SEGMENTS * TRAINS * TRAIN;

/// A playback that begins, and its events.
fn push(playbacks: &Playbacks, socket: UdpSocket, has_headers: bool) -> (Playback, Receiver<PlaybackEvent>) {
    let (tell, events) = channel();
    let source = Numbered::new(SEGMENTS) as Arc<dyn TrainSource>;
    let sink = PlaybackSink::Push { socket, packet_size: PACKET as u16, has_headers };
    let on_event = Box::new(move |event| tell.send(event).unwrap_or_default());
    let options =
        PlaybackOptions { source, streams: 1, sink: sink.into(), most_burst_us: 10 * PACKET_US, on_event };
    let playback = playbacks.open(options).unwrap();
    playback.play(None, None, |_| {});
    (playback, events)
}

fn end(events: &Receiver<PlaybackEvent>) -> PlaybackEvent {
    events.recv_timeout(Duration::from_secs(5)).unwrap()
}

/// Packets that are sent to a socket by a path.
fn received(path: DataPath, has_headers: bool) -> Vec<Vec<u8>> {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    let playbacks = playbacks(path);
    let (playback, events) = push(&playbacks, socket, has_headers);
    let mut buffer = [0; 2 * PACKET];
    let packets = (0..PACKETS).map(|_| {
        let length = receiver.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    });
    let packets = packets.collect();
    assert_eq!(end(&events), PlaybackEvent::Finished);
    let progress = playback.progress();
    let payload_bytes = u64::from(PACKETS) * (PACKET - HEADER_LENGTH) as u64;
    assert_eq!((progress.packets, progress.payload_bytes), (PACKETS.into(), payload_bytes));
    packets
}

const PATHS: [DataPath; 4] =
    [DataPath::WireSendfile, DataPath::GsoWritev, DataPath::Sendmmsg, DataPath::ReadWritev];

/// Promise: Each data path can send packets without RTP headers.
#[test]
fn packets_leave_without_headers() {
    let expected: Vec<Vec<u8>> =
        (0..PACKETS).map(|number| packet(number)[HEADER_LENGTH..].to_vec()).collect();
    for path in PATHS {
        assert!(received(path, false) == expected, "{path}");
    }
}

#[test]
fn headers_are_those_of_the_records() {
    let expected: Vec<Vec<u8>> = (0..PACKETS).map(packet).collect();
    for path in PATHS {
        assert!(received(path, true) == expected, "{path}");
    }
}

/// Promise: Packets to a closed port are lost, and the playback continues to its end.
#[test]
fn a_closed_port_loses_packets_and_ends_nothing() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap();
    close_port(&closed);
    socket.connect(port).unwrap();
    let playbacks = playbacks(DataPath::GsoWritev);
    let (playback, events) = push(&playbacks, socket, true);
    assert_eq!(end(&events), PlaybackEvent::Finished);
    let progress = playback.progress();
    assert!(progress.packets_lost > 0, "{progress:?}");
    assert_eq!(progress.packets + progress.packets_lost, u64::from(PACKETS));
}
