//! Pauses and seeks at the end of access units: no picture is sent in part.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod support;

use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use support::connection::{Came, Client};
use support::movie::{AUDIO, FIRST_TIMESTAMPS, PATIENCE, VIDEO, receive, stream, ticks, udp};
use support::playbacks_in_bursts;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header, Marker, Run};
use wirepath_datapath::{DataPath, MappedFile, Train};
use wirepath_engine::Waker;
use wirepath_playback::{
    At, Burst, Cursor, Departure, IntraPictures, Load, Pictures, PlayError, PlayRequest, Playback,
    PlaybackEvent, PlaybackOptions, PlaybackSink, Playbacks, Position, ReplayRequest, Scale, Segment,
    StreamSink, TrainSource,
};

/// A picture each 40 ms, of some packets that leave one by one.
const PICTURE_US: u64 = 40_000;
const PICTURE_PACKETS: u64 = 5;
const APART_US: u64 = 7000;
/// A decoder can begin with the first of so many pictures.
const PICTURES_OF_START: u64 = 3;
/// A frame of sound each 20 ms, of one packet without the marker, as Opus has it, or of two.
const FRAME_US: u64 = 20_000;
const FRAMES_OF_TWO: u64 = 5;
/// Bytes of a packet, with its header.
const SIZE: usize = 200;
/// Trains of a segment: it ends inside a picture.
const TRAINS: usize = 9;
const BURST: Burst = Burst::Fixed(3000);

/// A movie in many segments.
struct Spread {
    segments: Vec<Arc<Segment>>,
    /// All departures, in order.
    departures: Vec<Departure>,
    /// Packets of each stream, in order.
    packets: [Vec<Vec<u8>>; 2],
    /// True if no packet begins another access unit.
    is_endless: bool,
}

/// A packet of a stream.
struct Packet {
    at_us: u64,
    stream: u8,
    time_us: u64,
    is_last: bool,
    /// True if a decoder can begin with it.
    is_start: bool,
}

impl Spread {
    fn of(pictures: u64) -> Arc<Spread> {
        Spread::with(pictures, false)
    }

    /// A movie of one picture without end.
    fn endless() -> Arc<Spread> {
        Spread::with(100, true)
    }

    fn with(pictures: u64, is_endless: bool) -> Arc<Spread> {
        let mut all = Vec::new();
        for picture in 0..pictures {
            let time_us = picture * PICTURE_US;
            all.extend((0..PICTURE_PACKETS).map(|packet| Packet {
                at_us: time_us + packet * APART_US,
                stream: VIDEO,
                time_us: if is_endless { 0 } else { time_us },
                is_last: packet + 1 == PICTURE_PACKETS && !is_endless,
                is_start: packet == 0 && picture % PICTURES_OF_START == 0,
            }));
        }
        for frame in 0..pictures * PICTURE_US / FRAME_US {
            let time_us = frame * FRAME_US;
            let packets = if frame % FRAMES_OF_TWO == 0 { 2 } else { 1 };
            all.extend((0..packets).map(|packet| Packet {
                at_us: time_us + packet * APART_US,
                stream: AUDIO,
                time_us,
                is_last: packet == 1,
                is_start: false,
            }));
        }
        all.sort_by_key(|packet| packet.at_us);
        let (mut file, mut departures) = (tempfile::tempfile().unwrap(), Vec::new());
        let mut packets = [Vec::new(), Vec::new()];
        for (number, packet) in (0_u32..).zip(all) {
            let index = usize::from(packet.stream);
            let run = run(&packet, packets[index].len() as u16);
            let mut bytes = run.header(0).to_bytes().to_vec();
            bytes.extend((HEADER_LENGTH..SIZE).map(|at| (number as usize * 31 + at) as u8));
            file.write_all(&bytes).unwrap();
            packets[index].push(bytes);
            let (length, packet_size, offset) = (SIZE as u32, SIZE as u16, u64::from(number) * SIZE as u64);
            let train = Train { offset, length, packet_size, skip: 0, first: 0, packets_before: number, run };
            departures.push(Departure { at_us: packet.at_us, train });
        }
        let mapped_file = Arc::new(MappedFile::new(file, (departures.len() * SIZE) as u64).unwrap());
        let segment = |departures: &[Departure]| {
            let (mapped_file, departures) = (Arc::clone(&mapped_file), departures.into());
            Arc::new(Segment { mapped_file, departures, original: None, clock: None })
        };
        let segments = departures.chunks(TRAINS).map(segment).collect();
        Arc::new(Spread { segments, departures, packets, is_endless })
    }

    /// Place of a picture.
    fn picture(&self, picture: u64) -> Cursor {
        let at_us = picture * PICTURE_US;
        let train = self.departures.iter().position(|departure| departure.at_us == at_us).unwrap();
        let at = At::Packet { train: (train % TRAINS) as u32, packet: 0, skip: 0 };
        Cursor { segment: (train / TRAINS) as u32, at }
    }

    /// Ensures that packets are the first ones of the movie, by stream, and that they end with an access
    /// unit. Returns the departure of the next one.
    fn ensure_whole(&self, came: &[Vec<Vec<u8>>; 2]) -> u64 {
        let count = came[0].len() + came[1].len();
        let mut sent = [0, 0];
        for departure in &self.departures[..count] {
            sent[usize::from(departure.train.run.stream)] += 1;
        }
        for (stream, came) in came.iter().enumerate() {
            assert_eq!(came.len(), sent[stream], "packets of stream {stream} came out of order");
            assert!(came[..] == self.packets[stream][..came.len()], "stream {stream}");
            if let (Some(last), Some(next)) = (came.last(), self.packets[stream].get(came.len())) {
                let [last, next] = [last, next].map(|packet| Header::parse(packet).unwrap());
                let is_whole = last.marker || last.timestamp != next.timestamp;
                assert!(is_whole, "stream {stream} ends inside an access unit: {last:?}");
            }
        }
        self.departures.get(count).map_or(u64::MAX, |next| next.at_us)
    }
}

fn run(packet: &Packet, number: u16) -> Run {
    let Packet { stream, time_us, is_last, is_start, .. } = *packet;
    let first = Header {
        padding: false,
        marker: false,
        payload_type: 96 + stream,
        sequence: 65_500_u16.wrapping_add(number),
        timestamp: FIRST_TIMESTAMPS[usize::from(stream)].wrapping_add(ticks(stream, time_us)),
        ssrc: 7 + u32::from(stream),
    };
    let marker = if is_last { Marker::Last } else { Marker::None };
    Run { marker, stream, start: is_start, together: true, ..Run::new(first, 0) }
}

impl TrainSource for Spread {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        self.segments.get(number as usize).map_or(Load::End, |segment| Load::Ready(Arc::clone(segment)))
    }

    fn read_ahead_us(&self) -> u64 {
        if self.is_endless { 0 } else { 2_000_000 }
    }

    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let picture = at_us.div_ceil(PICTURE_US);
        (picture * PICTURE_US < self.departures.last().unwrap().at_us).then(|| self.picture(picture))
    }

    fn start_before(&self, at_us: u64) -> Option<Cursor> {
        Some(self.picture(at_us / PICTURE_US))
    }
}

struct Session {
    playback: Playback,
    events: Receiver<PlaybackEvent>,
}

impl Session {
    fn open(playbacks: &Playbacks, movie: &Arc<impl TrainSource + 'static>, sink: StreamSink) -> Session {
        let (tell, events) = channel();
        let options = PlaybackOptions {
            source: Arc::clone(movie) as Arc<dyn TrainSource>,
            streams: 2,
            sink,
            most_burst_us: 8000,
            on_event: Box::new(move |event| tell.send(event).unwrap_or_default()),
        };
        Session { playback: playbacks.open(options).unwrap(), events }
    }

    fn play(&self, request: PlayRequest) -> Result<Position, PlayError> {
        let (tell, answer) = channel();
        self.playback.play_as(request, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(PATIENCE).unwrap()
    }

    fn pause(&self) -> u64 {
        self.begin_to_pause().recv_timeout(PATIENCE).unwrap().unwrap()
    }

    fn begin_to_pause(&self) -> Receiver<Result<u64, PlayError>> {
        let (tell, answer) = channel();
        self.playback.pause(move |result| tell.send(result).unwrap_or_default());
        answer
    }

    fn stop(&self) -> u64 {
        let (tell, answer) = channel();
        self.playback.stop(move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(PATIENCE).unwrap().unwrap()
    }
}

/// A request to play from a place.
fn from(cursor: Cursor) -> PlayRequest {
    PlayRequest { from: Some(cursor), ..PlayRequest::default() }
}

/// Adds the packets that have come.
fn take(receiver: &UdpSocket, came: &mut Vec<Vec<u8>>) {
    receiver.set_nonblocking(true).unwrap();
    let mut packet = [0; 2000];
    while let Ok(length) = receiver.recv(&mut packet) {
        came.push(packet[..length].to_vec());
    }
    receiver.set_nonblocking(false).unwrap();
}

/// Time without packets that shows a pause.
const SILENCE: Duration = Duration::from_millis(100);

/// Ensures that no packet comes during a pause.
fn ensure_silent(receiver: &UdpSocket) {
    receiver.set_read_timeout(Some(SILENCE)).unwrap();
    let came = receiver.recv(&mut [0; 2000]).map_err(|error| error.kind());
    assert_eq!(came, Err(ErrorKind::WouldBlock), "a packet came after the pause");
}

/// Times from the answer to a PLAY to the next request: all phases of a picture.
fn moments() -> impl Iterator<Item = Duration> {
    (0..40).map(|moment| Duration::from_millis(3 + moment * 11 % 40))
}

/// Promise: PAUSE ends after a whole access unit in all tracks; its response has the position of the next
/// packet.
#[test]
fn a_pause_ends_with_whole_access_units() {
    for path in [DataPath::WireSendfile, DataPath::WireUring] {
        let (playbacks, movie) = (playbacks_in_bursts(path, BURST), Spread::of(400));
        let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
        let session = Session::open(&playbacks, &movie, video_sink);
        playbacks.add(&session.playback, audio_sink).unwrap();
        let (mut came, mut places) = ([Vec::new(), Vec::new()], Vec::new());
        for moment in moments() {
            let position = session.play(PlayRequest::default()).unwrap();
            assert!(places.last().is_none_or(|place| *place == position.at_us), "{position:?}, {places:?}");
            std::thread::sleep(moment);
            let at_us = session.pause();
            take(&video, &mut came[0]);
            take(&audio, &mut came[1]);
            assert_eq!(movie.ensure_whole(&came), at_us, "{path}, after {moment:?}");
            places.push(at_us);
        }
        assert!(came[0].len() > 100, "{} packets came", came[0].len());
    }
}

/// Promise: PAUSE over TCP ends after a whole access unit in all tracks, too.
#[test]
fn a_pause_over_tcp_ends_with_whole_access_units() {
    let (playbacks, movie) = (playbacks_in_bursts(DataPath::WireSendfile, BURST), Spread::of(400));
    let mut client = Client::new(&playbacks, None);
    let sink = |channel| PlaybackSink::Interleaved {
        writer: Arc::clone(&client.writer),
        channel,
        max_lag_us: 2_000_000,
    };
    let session = Session::open(&playbacks, &movie, stream(VIDEO, sink(0)));
    playbacks.add(&session.playback, stream(AUDIO, sink(2))).unwrap();
    let mut came = [Vec::new(), Vec::new()];
    for moment in moments() {
        session.play(PlayRequest::default()).unwrap();
        session.playback.release();
        std::thread::sleep(moment);
        let at_us = session.pause();
        client.respond();
        loop {
            match client.next() {
                Came::Frame(channel, packet) => came[usize::from(channel / 2)].push(packet),
                Came::Response => break,
                Came::End => panic!("the connection ended"),
            }
        }
        assert_eq!(movie.ensure_whole(&came), at_us, "after {moment:?}");
    }
    assert!(came[0].len() > 100, "{} packets came", came[0].len());
}

/// Promise: A seek leaves the old position after a whole access unit in all tracks.
#[test]
fn a_seek_leaves_whole_access_units() {
    let (playbacks, movie) = (playbacks_in_bursts(DataPath::WireSendfile, BURST), Spread::of(400));
    let ((video, video_sink), (audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
    let session = Session::open(&playbacks, &movie, video_sink);
    playbacks.add(&session.playback, audio_sink).unwrap();
    session.play(PlayRequest::default()).unwrap();
    for (moment, seek) in moments().zip(0..) {
        std::thread::sleep(moment);
        let position = session.play(from(movie.picture(seek * 7 % 90))).unwrap();
        assert_eq!(position.at_us, seek * 7 % 90 * PICTURE_US);
    }
    session.stop();
    let mut came = [Vec::new(), Vec::new()];
    take(&video, &mut came[0]);
    take(&audio, &mut came[1]);
    let headers: Vec<_> = came[0].iter().map(|packet| Header::parse(packet).unwrap()).collect();
    let pairs = || headers.windows(2).map(|pair| (pair[0], pair[1]));
    assert!(pairs().all(|(one, next)| next.sequence == one.sequence.wrapping_add(1)), "a gap");
    for (one, next) in pairs() {
        assert_eq!(one.marker, one.timestamp != next.timestamp, "a picture is cut: {one:?}, {next:?}");
    }
    assert!(headers.len() > 150, "{} packets came", headers.len());
    // A frame of two packets is whole.
    let headers = came[1].iter().map(|packet| Header::parse(packet).unwrap());
    let two: Vec<_> = headers.map(|header| (header.timestamp, header.marker)).collect();
    let pairs = two.windows(2).filter(|pair| pair[0].0 == pair[1].0);
    let marked = two.iter().filter(|(_, marker)| *marker).count();
    assert_eq!(pairs.count(), marked);
    assert!(marked > 5, "{marked} frames of two packets came");
}

/// Promise: A change of Scale leaves the old position after a whole access unit.
#[test]
fn a_change_of_scale_leaves_whole_pictures() {
    let (playbacks, movie) = (playbacks_in_bursts(DataPath::WireSendfile, BURST), Spread::of(400));
    let ((video, video_sink), (_audio, audio_sink)) = (udp(VIDEO), udp(AUDIO));
    let session = Session::open(&playbacks, &movie, video_sink);
    playbacks.add(&session.playback, audio_sink).unwrap();
    let scales = [2.0, 1.0, -2.0, 1.0];
    session.play(PlayRequest::default()).unwrap();
    for (moment, factor) in moments().zip(scales.into_iter().cycle()) {
        std::thread::sleep(moment);
        let scale = Scale::nearest(factor);
        let scan = Pictures { scale, stream: VIDEO, bits_per_second: 8_000_000 };
        let pictures = (!scale.is_normal()).then_some(scan);
        let result = session.play(PlayRequest { pictures, ..PlayRequest::default() });
        assert!(result.is_ok(), "{result:?} at {factor}");
    }
    session.pause();
    let mut came = Vec::new();
    take(&video, &mut came);
    let headers: Vec<_> = came.iter().map(|packet| Header::parse(packet).unwrap()).collect();
    for pair in headers.windows(2) {
        assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
    }
    let pictures = headers.chunk_by(|one, next| one.timestamp == next.timestamp);
    let mut count = 0;
    for picture in pictures {
        assert_eq!(picture.len() as u64, PICTURE_PACKETS, "{picture:?}");
        let markers = picture.iter().filter(|header| header.marker).count();
        assert!(markers == 1 && picture[PICTURE_PACKETS as usize - 1].marker, "{picture:?}");
        count += 1;
    }
    assert!(count > 20, "{count} pictures came");
}

/// Promise: A PAUSE during the last picture is answered at the end of the movie.
#[test]
fn a_pause_in_the_last_picture_ends_with_it() {
    let (playbacks, movie) = (playbacks_in_bursts(DataPath::WireSendfile, BURST), Spread::of(2));
    let (video, sink) = udp(VIDEO);
    let session = Session::open(&playbacks, &movie, sink);
    session.play(PlayRequest::default()).unwrap();
    (0..PICTURE_PACKETS + 2).for_each(|_| drop(receive(&video)));
    session.pause();
    assert_eq!(session.events.try_recv(), Ok(PlaybackEvent::Finished));
    let mut came = Vec::new();
    take(&video, &mut came);
    assert_eq!(came.len() as u64, PICTURE_PACKETS - 2);
}

/// Promise: PAUSE and seeks end within a second in a file whose picture never ends.
#[test]
fn a_picture_without_an_end_does_not_delay_a_pause_for_long() {
    let (playbacks, movie) = (playbacks_in_bursts(DataPath::WireSendfile, BURST), Spread::endless());
    let (video, sink) = udp(VIDEO);
    let session = Session::open(&playbacks, &movie, sink);
    let ensure_waited = |begun: Instant| {
        let waited = begun.elapsed();
        assert!((900..5000).contains(&waited.as_millis()), "{waited:?}");
    };
    session.play(PlayRequest::default()).unwrap();
    receive(&video);
    let begun = Instant::now();
    let at_us = session.pause();
    ensure_waited(begun);
    assert!(at_us > 0);
    let position = session.play(PlayRequest::default()).unwrap();
    assert_eq!(position.at_us, at_us, "it continues");
    let begun = Instant::now();
    assert_eq!(session.play(from(Cursor::START)).unwrap().at_us, 0);
    ensure_waited(begun);
    // A session that ends does not wait, and ends what waits.
    receive(&video);
    let (tell, answer) = channel();
    session.playback.pause(move |result| tell.send(result).unwrap_or_default());
    let begun = Instant::now();
    session.stop();
    assert!(begun.elapsed().as_millis() < 900, "{:?}", begun.elapsed());
    assert!(answer.recv_timeout(PATIENCE).unwrap().is_ok());
}

/// The first picture of a movie with its sound, and the rest, which comes late. The last frame of sound of the first
/// picture has no marker.
struct Late {
    segments: [Arc<Segment>; 2],
    is_at_edge: bool,
    /// The waker of the playback, or none once the rest has come.
    waiting: Mutex<Option<Vec<Waker>>>,
}

impl Late {
    fn of(movie: &Spread, is_at_edge: bool) -> Arc<Late> {
        let first = movie.departures.iter().position(|departure| departure.at_us == PICTURE_US).unwrap();
        let (one, rest) = movie.departures.split_at(first);
        let segments = [one, rest].map(|departures| {
            let mapped_file = Arc::clone(&movie.segments[0].mapped_file);
            Arc::new(Segment { mapped_file, departures: departures.into(), original: None, clock: None })
        });
        Arc::new(Late { segments, is_at_edge, waiting: Mutex::new(Some(Vec::new())) })
    }

    fn come(&self) {
        self.waiting.lock().unwrap().take().into_iter().flatten().for_each(|waker| waker.wake());
    }
}

impl TrainSource for Late {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        match (number, &mut *self.waiting.lock().unwrap()) {
            (1, Some(waiting)) => {
                waiting.extend(waker.cloned());
                Load::Pending
            }
            (number @ (0 | 1), _) => Load::Ready(Arc::clone(&self.segments[number as usize])),
            _ => Load::End,
        }
    }

    fn is_at_edge(&self, _segment: u32) -> bool {
        self.is_at_edge
    }
}

/// Promise: A PAUSE while the next segment is read sends nothing of the next picture; at the edge of a recording it does
/// not wait.
#[test]
fn a_pause_between_segments_begins_no_picture() {
    for is_at_edge in [false, true] {
        let playbacks = playbacks_in_bursts(DataPath::WireSendfile, BURST);
        let (movie, ((video, video_sink), (audio, audio_sink))) = (Spread::of(4), (udp(VIDEO), udp(AUDIO)));
        let late = Late::of(&movie, is_at_edge);
        let session = Session::open(&playbacks, &late, video_sink);
        playbacks.add(&session.playback, audio_sink).unwrap();
        session.play(PlayRequest::default()).unwrap();
        (0..PICTURE_PACKETS).for_each(|_| drop(receive(&video)));
        // A frame of two packets, and one of one.
        (0..3).for_each(|_| drop(receive(&audio)));
        let begun = Instant::now();
        let answer = session.begin_to_pause();
        if is_at_edge {
            answer.recv_timeout(PATIENCE).unwrap().unwrap();
            assert!(begun.elapsed().as_millis() < 900, "{:?}", begun.elapsed());
        }
        if !is_at_edge {
            let early = answer.recv_timeout(SILENCE / 2);
            assert!(early.is_err(), "the pause does not wait for the next segment: {early:?}");
        }
        late.come();
        if !is_at_edge {
            assert_eq!(answer.recv_timeout(PATIENCE).unwrap().unwrap(), PICTURE_US);
        }
        ensure_silent(&video);
        ensure_silent(&audio);
    }
}

/// Promise: A change to intra frames leaves whole pictures; its response has the first sequence number.
#[test]
fn intra_frames_begin_where_the_session_is() {
    let playbacks = playbacks_in_bursts(DataPath::WireSendfile, BURST);
    let mut skipped = 0;
    for moment in moments().take(20) {
        let (movie, (video, sink)) = (Spread::of(40), udp(VIDEO));
        let session = Session::open(&playbacks, &movie, sink);
        session.play(PlayRequest::default()).unwrap();
        std::thread::sleep(moment + Duration::from_millis(40));
        let intra = Some(IntraPictures { stream: VIDEO, interval_us: 0 });
        let replay = ReplayRequest { intra, ..ReplayRequest::default() };
        let position = session.play(PlayRequest { replay, ..PlayRequest::default() }).unwrap();
        let told = position.streams.iter().find(|stream| stream.stream == VIDEO).unwrap();
        let is_told = |packet: &Vec<u8>| Header::parse(packet).unwrap().sequence == told.sequence.unwrap();
        let mut came = vec![receive(&video)];
        while !came.last().is_some_and(is_told) {
            came.push(receive(&video));
        }
        session.pause();
        take(&video, &mut came);
        let headers: Vec<_> = came.iter().map(|packet| Header::parse(packet).unwrap()).collect();
        for (one, next) in headers.iter().zip(&headers[1..]) {
            assert_eq!(next.sequence, one.sequence.wrapping_add(1));
            assert_eq!(one.marker, one.timestamp != next.timestamp, "a picture is cut: {one:?}, {next:?}");
        }
        let first =
            headers.iter().find(|header| Some(header.sequence) == told.sequence).expect("it was told");
        let place = headers.iter().position(|header| header.timestamp == first.timestamp).unwrap();
        assert_eq!(headers[place].sequence, first.sequence, "it is the first packet of a picture");
        let pictures_us = first.timestamp.wrapping_sub(headers[place - 1].timestamp) / 90 * 1000;
        skipped += usize::from(u64::from(pictures_us) > PICTURE_US);
    }
    assert!(skipped > 3, "{skipped} changes left pictures out");
}
