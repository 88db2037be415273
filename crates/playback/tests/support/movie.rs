//! A movie of picture and sound, and sessions of it.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::Write;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use wirepath_datapath::rtp::{Header, Marker, Run};
use wirepath_datapath::{MappedFile, Train};
use wirepath_engine::Waker;
use wirepath_playback::{
    At, Cursor, Departure, Load, Pictures, PlayRequest, Playback, PlaybackEvent, PlaybackOptions,
    PlaybackSink, Playbacks, Position, Scale, Segment, StreamSink, Timestamps, TrainSource,
};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Streams of a movie.
pub(crate) const VIDEO: u8 = 0;
pub(crate) const AUDIO: u8 = 1;

/// A picture of some packets each 40 ms, a frame of sound of one packet each 20 ms.
pub(crate) const PICTURES: u32 = 6;
pub(crate) const PICTURE_PACKETS: u32 = 3;
pub(crate) const PICTURE_US: u64 = 40_000;

/// Interval of the places where a decoder can begin.
pub(crate) const START_US: u64 = 100_000;

/// Bytes of a packet, with its header, by stream.
pub(crate) const SIZES: [usize; 2] = [200, 70];
pub(crate) const CLOCKS_HZ: [u32; 2] = [90_000, 48_000];
/// Timestamp of the start and first sequence number, by stream.
pub(crate) const FIRST_TIMESTAMPS: [u32; 2] = [u32::MAX - 1000, 77];
pub(crate) const FIRST_SEQUENCES: [u16; 2] = [65_530, 4];

/// Time by which pictures are presented after their departure, as with B-frames.
pub(crate) const DELAY_US: u64 = 80_000;

/// A movie of one segment.
pub(crate) struct Movie {
    pub(crate) segment: Arc<Segment>,
    end_us: u64,
    /// The packets of each stream, in order.
    pub(crate) packets: [Vec<Vec<u8>>; 2],
}

pub(crate) fn ticks(stream: u8, us: u64) -> u32 {
    (us * u64::from(CLOCKS_HZ[usize::from(stream)]) / 1_000_000) as u32
}

impl Movie {
    pub(crate) fn new() -> Arc<Movie> {
        Movie::of(PICTURES, PICTURE_US)
    }

    /// A movie of so many pictures in these intervals, and two frames of sound in each.
    pub(crate) fn of(pictures: u32, picture_us: u64) -> Arc<Movie> {
        let end_us = u64::from(pictures) * picture_us;
        let mut packets = [Vec::new(), Vec::new()];
        let mut departures = Vec::new();
        let mut file = tempfile::tempfile().unwrap();
        let (mut offset, mut packets_before) = (0, 0);
        for at_us in (0..end_us).step_by(picture_us as usize / 2) {
            for stream in [VIDEO, AUDIO].into_iter().filter(|s| *s == AUDIO || at_us % picture_us == 0) {
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
                let packet_size = size as u16;
                let train = Train { offset, length, packet_size, skip: 0, first: 0, packets_before, run };
                departures.push(Departure { at_us, train });
                offset += u64::from(length);
                packets_before += count;
            }
        }
        let mapped_file = Arc::new(MappedFile::new(file, offset).unwrap());
        let segment =
            Arc::new(Segment { mapped_file, departures: departures.into(), original: None, clock: None });
        Arc::new(Movie { segment, end_us, packets })
    }

    /// End of the last picture.
    pub(crate) fn end_us(&self) -> u64 {
        self.end_us
    }

    /// Place of the first departure at a time.
    pub(crate) fn at(&self, at_us: u64) -> Cursor {
        let train = self.segment.departures.iter().position(|departure| departure.at_us >= at_us).unwrap();
        Cursor { segment: 0, at: At::Packet { train: train as u32, packet: 0, skip: 0 } }
    }
}

/// Headers of the picture or frame that departs at a time, behind so many packets of the stream.
fn run(stream: u8, packets: u16, at_us: u64) -> Run {
    let index = usize::from(stream);
    let presented_us = if stream == VIDEO { at_us + DELAY_US } else { at_us };
    let first = Header {
        padding: false,
        marker: false,
        payload_type: 96 + stream,
        sequence: FIRST_SEQUENCES[index].wrapping_add(packets),
        timestamp: FIRST_TIMESTAMPS[index].wrapping_add(ticks(stream, presented_us)),
        ssrc: 7 + u32::from(stream),
    };
    let (marker, last) = if stream == VIDEO { (Marker::Last, 2) } else { (Marker::Each, 0) };
    Run { marker, last, stream, together: true, ..Run::new(first, 0) }
}

impl TrainSource for Movie {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        if number == 0 { Load::Ready(Arc::clone(&self.segment)) } else { Load::End }
    }

    fn end_us(&self) -> Option<u64> {
        Some(self.end_us)
    }

    fn start_before(&self, at_us: u64) -> Option<Cursor> {
        Some(self.at(at_us.min(self.end_us - 1) / START_US * START_US))
    }

    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let start_us = at_us.next_multiple_of(START_US);
        (start_us < self.end_us).then(|| self.at(start_us))
    }
}

pub(crate) struct Session {
    pub(crate) playback: Playback,
    pub(crate) events: Receiver<PlaybackEvent>,
}

pub(crate) fn stream(stream: u8, sink: PlaybackSink) -> StreamSink {
    let index = usize::from(stream);
    let timestamps = Timestamps::Presentation { first: FIRST_TIMESTAMPS[index], clock_hz: CLOCKS_HZ[index] };
    StreamSink { stream, timestamps, sink, key: None, replay: None }
}

impl Session {
    pub(crate) fn open(playbacks: &Playbacks, movie: &Arc<Movie>, first: StreamSink) -> Session {
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

    pub(crate) fn play(&self, from: Option<Cursor>, until_us: Option<u64>) -> Position {
        let (tell, answer) = channel();
        self.playback.play(from, until_us, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(PATIENCE).unwrap().unwrap()
    }

    /// Plays pictures that can be decoded alone, from where the session is.
    pub(crate) fn scan(&self, factor: f64) -> Position {
        let pictures = Pictures { scale: Scale::nearest(factor), stream: VIDEO, bits_per_second: 8_000_000 };
        let request = PlayRequest { pictures: Some(pictures), ..PlayRequest::default() };
        let (tell, answer) = channel();
        self.playback.play_as(request, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(PATIENCE).unwrap().unwrap()
    }

    pub(crate) fn wait_for_end(&self) {
        assert_eq!(self.events.recv_timeout(PATIENCE), Ok(PlaybackEvent::Finished));
    }
}

/// A receiver, and a socket that is connected to it.
pub(crate) fn udp(number: u8) -> (UdpSocket, StreamSink) {
    let (receiver, socket) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    receiver.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(receiver.local_addr().unwrap()).unwrap();
    (receiver, stream(number, PlaybackSink::Udp { socket, packet_size: SIZES[usize::from(VIDEO)] as u16 }))
}

pub(crate) fn receive(receiver: &UdpSocket) -> Vec<u8> {
    let mut packet = vec![0; 2000];
    let length = receiver.recv(&mut packet).unwrap();
    packet.truncate(length);
    packet
}
