//! Playbacks of sources with several streams.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use support::playbacks;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header, Marker, Run};
use wirepath_datapath::{DataPath, MappedFile, Train};
use wirepath_engine::Waker;
use wirepath_playback::{
    At, ConnectionWriter, Cursor, Departure, Load, Playback, PlaybackEvent, PlaybackOptions, PlaybackSink,
    Playbacks, Position, Segment, StreamPosition, StreamSink, Timestamps, TrainSource,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// Streams of a movie.
const VIDEO: u8 = 0;
const AUDIO: u8 = 1;

/// A picture of some packets each 40 ms, a frame of sound of one packet each 20 ms.
const PICTURES: u32 = 6;
const PICTURE_PACKETS: u32 = 3;
const PICTURE_US: u64 = 40_000;
const FRAME_US: u64 = 20_000;

/// Bytes of a packet, with its header, by stream.
const SIZES: [usize; 2] = [200, 70];
const CLOCKS_HZ: [u32; 2] = [90_000, 48_000];
/// Timestamp of the start and first sequence number, by stream.
const FIRST_TIMESTAMPS: [u32; 2] = [u32::MAX - 1000, 77];
const FIRST_SEQUENCES: [u16; 2] = [65_530, 4];

/// Time by which pictures are presented after their departure, as with B-frames.
const DELAY_US: u64 = 80_000;

/// A movie of one segment.
struct Movie {
    segment: Arc<Segment>,
    end_us: Option<u64>,
    /// The packets of each stream, in order.
    packets: [Vec<Vec<u8>>; 2],
}

fn ticks(stream: u8, us: u64) -> u32 {
    (us * u64::from(CLOCKS_HZ[usize::from(stream)]) / 1_000_000) as u32
}

impl Movie {
    fn new() -> Arc<Movie> {
        let mut packets = [Vec::new(), Vec::new()];
        let mut departures = Vec::new();
        let mut file = tempfile::tempfile().unwrap();
        let mut offset = 0;
        for at_us in (0..u64::from(PICTURES) * PICTURE_US).step_by(FRAME_US as usize) {
            for stream in [VIDEO, AUDIO].into_iter().filter(|s| *s == AUDIO || at_us % PICTURE_US == 0) {
                let run = run(stream, packets[usize::from(stream)].len() as u16, at_us);
                let count = if stream == VIDEO { PICTURE_PACKETS } else { 1 };
                let size = SIZES[usize::from(stream)];
                for index in 0..count {
                    let mut packet = run.header(index).to_bytes().to_vec();
                    packet.resize(size, (at_us / 1000) as u8 ^ index as u8);
                    file.write_all(&packet).unwrap();
                    packets[usize::from(stream)].push(packet);
                }
                let length = count * size as u32;
                let train = Train { offset, length, packet_size: size as u16, skip: 0, first: 0, run };
                departures.push(Departure { at_us, train });
                offset += u64::from(length);
            }
        }
        let mapped_file = Arc::new(MappedFile::new(file, offset).unwrap());
        let segment = Arc::new(Segment { mapped_file, departures: departures.into() });
        Arc::new(Movie { segment, end_us: Some(u64::from(PICTURES) * PICTURE_US), packets })
    }

    /// Place of the first departure at a time.
    fn at(&self, at_us: u64) -> Cursor {
        let train = self.segment.departures.iter().position(|departure| departure.at_us >= at_us).unwrap();
        Cursor { segment: 0, at: At::Packet { train: train as u32, packet: 0, skip: 0 } }
    }
}

/// Headers of the picture or frame that departs at a time, behind so many packets of the stream.
fn run(stream: u8, packets: u16, at_us: u64) -> Run {
    let index = usize::from(stream);
    let presented_us = if stream == VIDEO { at_us + DELAY_US } else { at_us };
    let first = Header {
        marker: false,
        payload_type: 96 + stream,
        sequence: FIRST_SEQUENCES[index].wrapping_add(packets),
        timestamp: FIRST_TIMESTAMPS[index].wrapping_add(ticks(stream, presented_us)),
        ssrc: 7 + u32::from(stream),
    };
    let (marker, last) = if stream == VIDEO { (Marker::Last, 2) } else { (Marker::Each, 0) };
    Run { marker, last, stream, short: stream == AUDIO, ..Run::new(first, 0) }
}

impl TrainSource for Movie {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        if number == 0 { Load::Ready(Arc::clone(&self.segment)) } else { Load::End }
    }

    fn end_us(&self) -> Option<u64> {
        self.end_us
    }
}

struct Session {
    playback: Playback,
    events: Receiver<PlaybackEvent>,
}

fn stream(stream: u8, sink: PlaybackSink) -> StreamSink {
    let index = usize::from(stream);
    let timestamps = Timestamps::Presentation { first: FIRST_TIMESTAMPS[index], clock_hz: CLOCKS_HZ[index] };
    StreamSink { stream, timestamps, sink }
}

impl Session {
    fn open(playbacks: &Playbacks, movie: &Arc<Movie>, first: StreamSink) -> Session {
        let (tell, events) = channel();
        let playback = playbacks.open(PlaybackOptions {
            source: Arc::clone(movie) as Arc<dyn TrainSource>,
            streams: 2,
            sink: first,
            most_burst_us: 8000,
            on_event: Box::new(move |event| tell.send(event).unwrap_or_default()),
        });
        Session { playback: playback.unwrap(), events }
    }

    fn play(&self, from: Option<Cursor>, until_us: Option<u64>) -> Position {
        let (tell, answer) = channel();
        self.playback.play(from, until_us, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(PATIENCE).unwrap().unwrap()
    }

    fn wait_for_end(&self) {
        assert_eq!(self.events.recv_timeout(PATIENCE), Ok(PlaybackEvent::Finished));
    }
}

/// A receiver, and a socket that is connected to it.
fn udp(number: u8) -> (UdpSocket, StreamSink) {
    let (receiver, socket) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    (receiver, stream(number, PlaybackSink::Udp { socket, packet_size: SIZES[usize::from(VIDEO)] as u16 }))
}

fn receive(receiver: &UdpSocket) -> Vec<u8> {
    let mut packet = vec![0; 2000];
    let length = receiver.recv(&mut packet).unwrap();
    packet.truncate(length);
    packet
}

/// Nothing more came than was received.
fn ensure_silent(receiver: &UdpSocket) {
    receiver.set_nonblocking(true).unwrap();
    assert!(receiver.recv(&mut [0; 2000]).is_err());
    receiver.set_nonblocking(false).unwrap();
}

/// Promise: Each track of a movie is sent to its own receiver, in every packet as it was packed.
#[test]
fn each_stream_is_sent_to_its_receiver() {
    for path in [DataPath::WireSendfile, DataPath::WireUring, DataPath::GsoWritev, DataPath::Sendmmsg] {
        let (playbacks, movie) = (playbacks(path), Movie::new());
        let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
        let session = Session::open(&playbacks, &movie, video_sink);
        playbacks.add(&session.playback, audio_sink).unwrap();
        let position = session.play(None, None);
        let expected = [VIDEO, AUDIO].map(|stream| StreamPosition {
            stream,
            sequence: Some(FIRST_SEQUENCES[usize::from(stream)]),
            timestamp: FIRST_TIMESTAMPS[usize::from(stream)],
        });
        assert_eq!(position, Position { at_us: 0, streams: expected.to_vec() });
        for (stream, receiver) in [(VIDEO, &video), (AUDIO, &audio)] {
            for packet in &movie.packets[usize::from(stream)] {
                assert_eq!(&receive(receiver), packet, "{path}");
            }
        }
        session.wait_for_end();
        for (stream, packets) in [(VIDEO, PICTURES * PICTURE_PACKETS), (AUDIO, PICTURES * 2)] {
            let progress = session.playback.stream_progress(stream);
            let payload = SIZES[usize::from(stream)] - HEADER_LENGTH;
            assert_eq!(progress.packets, u64::from(packets), "{path}");
            assert_eq!(progress.payload_bytes, u64::from(packets) * payload as u64, "{path}");
            assert_eq!(progress.clock, None, "it has ended");
        }
        assert_eq!(playbacks.counters().packets, session.playback.progress().packets);
    }
}

/// Promise: Tracks that are not set up cost no packet, call or count.
#[test]
fn other_streams_are_passed_over() {
    for (number, packets) in [(VIDEO, PICTURES * PICTURE_PACKETS), (AUDIO, 2 * PICTURES)] {
        let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::new());
        let (receiver, sink) = udp(number);
        let session = Session::open(&playbacks, &movie, sink);
        let position = session.play(Some(movie.at(PICTURE_US)), None);
        assert_eq!((position.at_us, position.streams.len()), (PICTURE_US, 1));
        let behind = packets - packets / PICTURES;
        for packet in &movie.packets[usize::from(number)][(packets - behind) as usize..] {
            assert_eq!(&receive(&receiver), packet);
        }
        session.wait_for_end();
        ensure_silent(&receiver);
        let counters = playbacks.counters();
        assert_eq!(counters.packets, u64::from(behind));
        assert_eq!(session.playback.progress().packets, u64::from(behind));
        assert_eq!(session.playback.stream_progress(1 - number).packets, 0);
    }
}

/// Promise: After a seek, sequence numbers of each track go on, and the times of all tracks stay in step.
#[test]
fn streams_stay_in_step_across_seeks() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::new());
    let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
    let session = Session::open(&playbacks, &movie, audio_sink);
    playbacks.add(&session.playback, video_sink).unwrap();
    session.play(None, Some(3 * PICTURE_US));
    session.wait_for_end();
    (0..3 * PICTURE_PACKETS).for_each(|_| drop(receive(&video)));
    (0..6).for_each(|_| drop(receive(&audio)));

    // Back to the second picture, as if that came next.
    let position = session.play(Some(movie.at(PICTURE_US)), None);
    let next = [(AUDIO, 6), (VIDEO, 3 * PICTURE_PACKETS as u16)].map(|(stream, packets)| {
        let index = usize::from(stream);
        let timestamp = FIRST_TIMESTAMPS[index].wrapping_add(ticks(stream, 3 * PICTURE_US));
        let sequence = Some(FIRST_SEQUENCES[index].wrapping_add(packets));
        StreamPosition { stream, sequence, timestamp }
    });
    assert_eq!(position, Position { at_us: PICTURE_US, streams: next.to_vec() });
    let clocks = [AUDIO, VIDEO].map(|stream| session.playback.stream_progress(stream).clock.unwrap());
    assert_eq!(clocks[0].at_us, clocks[1].at_us, "the clocks are of the same moment");
    assert_eq!(clocks.map(|clock| clock.timestamp), next.map(|stream| stream.timestamp));

    for (stream, receiver) in [(VIDEO, &video), (AUDIO, &audio)] {
        let stored = &movie.packets[usize::from(stream)];
        let first = stored.len() / PICTURES as usize;
        let StreamPosition { sequence, .. } = next[usize::from(1 - stream)];
        for (index, stored) in (0..).zip(&stored[first..]) {
            let (received, stored) = (receive(receiver), Header::parse(stored).unwrap());
            let header = Header::parse(&received).unwrap();
            let expected = Header {
                sequence: sequence.unwrap().wrapping_add(index),
                timestamp: stored.timestamp.wrapping_add(ticks(stream, 2 * PICTURE_US)),
                ..stored
            };
            assert_eq!(header, expected, "packet {index} of stream {stream}");
            let packet = &movie.packets[usize::from(stream)][first + usize::from(index)];
            assert_eq!(received[HEADER_LENGTH..], packet[HEADER_LENGTH..]);
        }
    }
    session.wait_for_end();
}

/// Promise: Playing a movie again after its end, timestamps go on from its end in all tracks.
#[test]
fn a_movie_that_is_played_again_follows_its_end() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::new());
    let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
    let session = Session::open(&playbacks, &movie, video_sink);
    playbacks.add(&session.playback, audio_sink).unwrap();
    session.play(None, None);
    session.wait_for_end();
    let position = session.play(Some(Cursor::START), None);
    session.wait_for_end();
    for (stream, receiver) in [(VIDEO, &video), (AUDIO, &audio)] {
        let index = usize::from(stream);
        let stored = &movie.packets[index];
        stored.iter().for_each(|_| drop(receive(receiver)));
        let end = FIRST_TIMESTAMPS[index].wrapping_add(ticks(stream, u64::from(PICTURES) * PICTURE_US));
        let StreamPosition { sequence, timestamp, .. } = position.streams[index];
        assert_eq!((position.at_us, timestamp), (0, end));
        assert_eq!(sequence, Some(FIRST_SEQUENCES[index].wrapping_add(stored.len() as u16)));
        let first = Header::parse(&receive(receiver)).unwrap();
        let delay = ticks(stream, if stream == VIDEO { DELAY_US } else { 0 });
        assert_eq!((Some(first.sequence), first.timestamp), (sequence, end.wrapping_add(delay)));
    }
}

/// Promise: Seeks in quick succession move timestamps by what was played, not by what was passed over.
///
/// The packets of a session over TCP wait for the response, so nothing is sent between the two seeks.
#[test]
fn a_second_seek_before_the_first_packet_goes_on_from_the_first() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::new());
    let (mut client, writer) = connect(&playbacks);
    let sink = PlaybackSink::Interleaved { writer, channel: 0, max_lag_us: 2_000_000 };
    let session = Session::open(&playbacks, &movie, stream(AUDIO, sink));
    session.play(Some(movie.at(4 * PICTURE_US)), Some(5 * PICTURE_US));
    session.playback.release();
    session.wait_for_end();
    let next = FIRST_TIMESTAMPS[1].wrapping_add(ticks(AUDIO, 5 * PICTURE_US));
    for pictures in [1, 2] {
        let position = session.play(Some(movie.at(pictures * PICTURE_US)), None);
        assert_eq!(position.at_us, pictures * PICTURE_US);
        assert_eq!(position.streams[0].timestamp, next, "nothing was played since");
    }
    session.playback.release();
    session.wait_for_end();
    let mut frames = vec![0; (2 + 8) * (4 + SIZES[1])];
    client.read_exact(&mut frames).unwrap();
    let third = Header::parse(&frames[2 * (4 + SIZES[1]) + 4..]).unwrap();
    assert_eq!(third.timestamp, next, "the first packet of the second seek");
}

/// Both ends of a connection: that of the client, and the writer of the other.
fn connect(playbacks: &Playbacks) -> (TcpStream, Arc<ConnectionWriter>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let near = listener.accept().unwrap().0;
    (client, Arc::new(playbacks.open_writer(near.into()).unwrap()))
}

/// Promise: Tracks over TCP share the connection, each in its channel, in the order in which they depart.
#[test]
fn streams_share_a_connection() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::new());
    let (mut client, writer) = connect(&playbacks);
    let sink =
        |channel| PlaybackSink::Interleaved { writer: Arc::clone(&writer), channel, max_lag_us: 2_000_000 };
    let session = Session::open(&playbacks, &movie, stream(VIDEO, sink(0)));
    let (_receiver, over_udp) = udp(AUDIO);
    let refused = playbacks.add(&session.playback, over_udp).unwrap_err().to_string();
    assert!(refused.contains("one lower transport"), "{refused}");
    let third = StreamSink { stream: 2, ..stream(AUDIO, sink(6)) };
    assert!(playbacks.add(&session.playback, third).is_err(), "there is no third stream");
    playbacks.add(&session.playback, stream(AUDIO, sink(6))).unwrap();
    session.play(None, None);
    session.playback.release();
    let mut next = [0, 0];
    for departure in &movie.segment.departures {
        let index = usize::from(departure.train.run.stream);
        for _ in 0..departure.train.packets() {
            let mut head = [0; 4];
            client.read_exact(&mut head).unwrap();
            assert_eq!(head, [b'$', 6 * index as u8, 0, SIZES[index] as u8]);
            let mut packet = vec![0; SIZES[index]];
            client.read_exact(&mut packet).unwrap();
            assert_eq!(packet, movie.packets[index][next[index]]);
            next[index] += 1;
        }
    }
    session.wait_for_end();
}
