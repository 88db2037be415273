//! Playbacks of sources with several streams.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use support::movie::{
    AUDIO, CLOCKS_HZ, DELAY_US, FIRST_SEQUENCES, FIRST_TIMESTAMPS, Movie, PATIENCE, PICTURE_PACKETS,
    PICTURE_US, PICTURES, SIZES, START_US, Session, VIDEO, receive, stream, ticks, udp,
};
use support::playbacks;
use wirepath_datapath::DataPath;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header};
use wirepath_playback::{
    ConnectionWriter, Cursor, PlaybackSink, Playbacks, Position, StreamPosition, StreamSink,
};

/// Nothing more came than was received.
fn ensure_silent(receiver: &UdpSocket) {
    receiver.set_nonblocking(true).unwrap();
    assert!(receiver.recv(&mut [0; 2000]).is_err());
    receiver.set_nonblocking(false).unwrap();
}

/// Promise: Each track of a movie is sent to its own receiver, with every packet as packed.
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

/// Promise: Tracks that are not set up cost no packet or call, and are not counted.
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

/// Promise: After a seek, sequence numbers of each track continue, and the times of all tracks stay in sync.
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

/// Packets that came, from one on.
fn waiting(receiver: &UdpSocket, from: u16) -> Vec<Vec<u8>> {
    receiver.set_nonblocking(true).unwrap();
    let mut packets = Vec::new();
    let mut packet = [0; 2000];
    while let Ok(length) = receiver.recv(&mut packet) {
        packets.push(packet[..length].to_vec());
    }
    receiver.set_nonblocking(false).unwrap();
    let first = packets.iter().position(|packet| Header::parse(packet).unwrap().sequence == from).unwrap();
    packets.split_off(first)
}

/// Ensures that packets are whole pictures of a movie that can be decoded alone, with numbers that go on, each
/// behind the first by the time that passes at a scale. Returns when they depart as recorded.
fn ensure_scanned(movie: &Movie, packets: &[Vec<u8>], scale: u64) -> Vec<u64> {
    let first = Header::parse(&packets[0]).unwrap();
    let mut pictures = Vec::new();
    for (picture, packets) in packets.chunks(PICTURE_PACKETS as usize).enumerate() {
        let stored = &movie.packets[usize::from(VIDEO)];
        let is_same = |stored: &Vec<u8>| stored[HEADER_LENGTH..] == packets[0][HEADER_LENGTH..];
        let starts = (0..movie.end_us()).step_by(START_US as usize);
        let index = |at_us: u64| (at_us / SHORT_US) as usize * PICTURE_PACKETS as usize;
        let at_us = starts.into_iter().find(|at_us| is_same(&stored[index(*at_us)])).unwrap();
        pictures.push(at_us);
        for (packet, received) in packets.iter().enumerate() {
            assert_eq!(received[HEADER_LENGTH..], stored[index(at_us) + packet][HEADER_LENGTH..]);
            let header = Header::parse(received).unwrap();
            let number = picture * PICTURE_PACKETS as usize + packet;
            assert_eq!(header.sequence, first.sequence.wrapping_add(number as u16));
            let after = ticks(VIDEO, pictures[0].abs_diff(at_us) / scale);
            let apart = header.timestamp.wrapping_sub(first.timestamp.wrapping_add(after)) as i32;
            assert!(apart.abs() <= 1, "{apart} ticks from the time of the scale");
            assert_eq!(header.marker, packet + 1 == PICTURE_PACKETS as usize);
        }
    }
    pictures
}

/// Interval of pictures in a movie to scan.
const SHORT_US: u64 = 25_000;

/// Promise: Fast forward sends whole random access pictures, in order, with timestamps of real time, and no
/// sound.
#[test]
fn fast_forward_sends_random_access_points() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::of(80, SHORT_US));
    let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
    let session = Session::open(&playbacks, &movie, audio_sink);
    playbacks.add(&session.playback, video_sink).unwrap();
    let begun = Instant::now();
    let position = session.scan(4.0);
    assert_eq!(position.at_us, 0);
    session.wait_for_end();
    assert!(begun.elapsed().as_millis() >= 400, "2 s at Scale 4, up to the last picture");
    let packets = waiting(&video, position.streams[1].sequence.unwrap());
    let pictures = ensure_scanned(&movie, &packets, 4);
    assert!(pictures.is_sorted() && pictures.len() > 5, "{pictures:?}");
    ensure_silent(&audio);
}

/// Promise: Rewind ends at the beginning; PLAY at Scale 1 continues from the current picture.
#[test]
fn rewind_sends_random_access_points_in_reverse() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::of(80, SHORT_US));
    let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
    let session = Session::open(&playbacks, &movie, video_sink);
    playbacks.add(&session.playback, audio_sink).unwrap();
    session.play(Some(movie.at(1_500_000)), None);
    let before = Header::parse(&receive(&video)).unwrap();
    receive(&audio);
    let position = session.scan(-8.0);
    assert!((1_500_000..1_900_000).contains(&position.at_us), "{}", position.at_us);
    session.wait_for_end();
    let packets = waiting(&video, position.streams[0].sequence.unwrap());
    let pictures = ensure_scanned(&movie, &packets, 8);
    assert!(pictures.is_sorted_by(|one, next| one > next) && pictures.len() > 5, "{pictures:?}");
    assert_eq!(pictures[0], position.at_us);
    let last = Header::parse(packets.last().unwrap()).unwrap();
    let since = last.timestamp.wrapping_sub(before.timestamp);
    assert!(since < ticks(VIDEO, 1_000_000), "timestamps go back, or jump: by {since} ticks");

    let position = session.play(None, Some(200_000));
    assert_eq!(position.at_us, *pictures.last().unwrap());
    session.wait_for_end();
    let packets = waiting(&video, last.sequence.wrapping_add(1));
    let left_us = 200_000_u64.saturating_sub(position.at_us);
    assert_eq!(packets.len() as u64, left_us / SHORT_US * u64::from(PICTURE_PACKETS));
    let since = Header::parse(&packets[0]).unwrap().timestamp.wrapping_sub(last.timestamp);
    assert!((1..ticks(VIDEO, 200_000)).contains(&since), "{since}");
}

/// Promise: A pause during fast forward keeps its picture; PLAY continues there in either direction.
#[test]
fn a_scan_pauses_and_turns_round() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::of(80, SHORT_US));
    let (video, video_sink) = udp(VIDEO);
    let session = Session::open(&playbacks, &movie, video_sink);
    session.scan(2.0);
    (0..4 * PICTURE_PACKETS).for_each(|_| drop(receive(&video)));
    let (tell, answer) = channel();
    session.playback.pause(move |result| tell.send(result).unwrap());
    let at_us = answer.recv_timeout(PATIENCE).unwrap().unwrap();
    assert!(at_us >= 3 * START_US && at_us.is_multiple_of(START_US), "{at_us}");
    let position = session.scan(-2.0);
    assert!(position.at_us.abs_diff(at_us) <= START_US, "{} after {at_us}", position.at_us);
    session.wait_for_end();
    let packets = waiting(&video, position.streams[0].sequence.unwrap());
    assert_eq!(ensure_scanned(&movie, &packets, 2).last(), Some(&0));
}

/// Promise: When a movie plays again after its end, timestamps of all tracks continue from the end.
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

/// Promise: Two seeks in quick succession advance timestamps only by what was played, not by what was
/// skipped.
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

/// Both ends of a connection: that of the client, and the other.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let near = listener.accept().unwrap().0;
    near.set_nodelay(true).unwrap();
    (client, near)
}

/// A client's end of a connection, and the writer of the other.
fn connect(playbacks: &Playbacks) -> (TcpStream, Arc<ConnectionWriter>) {
    let (client, near) = pair();
    (client, Arc::new(playbacks.open_writer(near.into()).unwrap()))
}

/// Promise: Tracks over TCP share the connection, each on its channel, in order of departure.
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

/// Promise: If a client over TCP reads too slowly, all tracks skip the same time and stay in sync.
///
/// The client reads nothing for the first 300 ms of two seconds of media.
#[test]
fn all_streams_skip_forward_together() {
    let (playbacks, movie) = (playbacks(DataPath::WireSendfile), Movie::of(500, 4000));
    let (mut client, near) = pair();
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 10_000).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&client, 10_000).unwrap();
    let writer = Arc::new(playbacks.open_writer(near.into()).unwrap());
    let sink =
        |channel| PlaybackSink::Interleaved { writer: Arc::clone(&writer), channel, max_lag_us: 50_000 };
    let session = Session::open(&playbacks, &movie, stream(VIDEO, sink(0)));
    playbacks.add(&session.playback, stream(AUDIO, sink(2))).unwrap();
    session.play(None, None);
    session.playback.release();
    let deadline = Instant::now() + PATIENCE;
    let is_late = || {
        let clock = session.playback.stream_progress(VIDEO).clock;
        clock.is_some_and(|clock| wirepath_engine::now_us() > clock.at_us + 300_000)
    };
    while !is_late() {
        assert!(Instant::now() < deadline, "it does not play");
        std::thread::yield_now();
    }

    let mut next = [0; 2];
    let mut skipped_to = [const { Vec::new() }; 2];
    let last = movie.packets.each_ref().map(Vec::len);
    while next[usize::from(AUDIO)] < last[usize::from(AUDIO)] {
        let mut head = [0; 4];
        client.read_exact(&mut head).unwrap();
        let index = usize::from(head[1] / 2);
        assert_eq!(head, [b'$', 2 * index as u8, 0, SIZES[index] as u8]);
        let mut packet = vec![0; SIZES[index]];
        client.read_exact(&mut packet).unwrap();
        let Header { sequence, timestamp, .. } = Header::parse(&packet).unwrap();
        let number = usize::from(sequence.wrapping_sub(FIRST_SEQUENCES[index]));
        assert_eq!(packet, movie.packets[index][number], "numbers are those of the timetable");
        if number != next[index] {
            let ticks = u64::from(timestamp.wrapping_sub(FIRST_TIMESTAMPS[index]));
            let at_us = ticks * 1_000_000 / u64::from(CLOCKS_HZ[index]);
            skipped_to[index].push(at_us - if index == 0 { DELAY_US } else { 0 });
        }
        next[index] = number + 1;
    }
    session.wait_for_end();
    let [video, audio] = skipped_to;
    let progress = session.playback.progress();
    assert!(progress.forward_skips > 0 && !audio.is_empty(), "{progress:?}");
    assert!(video.iter().all(|at_us| at_us % START_US == 0), "{video:?}");
    // Of a picture that just fitted, sound may be behind the next skip.
    assert!(audio.iter().all(|at_us| video.contains(at_us)), "{audio:?} and {video:?}");
}
