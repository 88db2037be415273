//! A source of numbered packets, and a client that plays it.

#![allow(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod connection;
pub(crate) mod movie;

use std::io::Write;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use wirepath_datapath::calibration::Calibrations;
use wirepath_datapath::rtp::{HEADER_LENGTH, Header, Run};
use wirepath_datapath::{DataPath, MappedFile, Support, Train};
use wirepath_engine::{Engine, EngineOptions, Waker};
use wirepath_playback::{
    Burst, Cursor, Departure, Load, PlayError, PlayRequest, Playback, PlaybackEvent, PlaybackOptions,
    PlaybackSettings, PlaybackSink, Playbacks, Position, RingUse, Segment, Speed, StreamPosition,
    TrainSource,
};

pub(crate) const PAYLOAD: usize = 188;
pub(crate) const PACKET: usize = HEADER_LENGTH + PAYLOAD;
/// Packets in a train, trains in a segment.
pub(crate) const TRAIN: u32 = 4;
pub(crate) const TRAINS: u32 = 5;
/// One packet each 2 ms: a train each 8 ms, a segment each 40 ms.
pub(crate) const PACKET_US: u64 = 2000;

/// A source of numbered packets. Its second segment comes late, as one does that is still being packed: it is
/// there when it is asked for again after the waker was woken.
pub(crate) struct Numbered {
    pub(crate) file: Arc<MappedFile>,
    segments: u32,
    is_late: Mutex<bool>,
}

pub(crate) fn run(packet: u32) -> Run {
    let timestamp = 1000u32.wrapping_add(packet * 180);
    let sequence = 65_500u16.wrapping_add(packet as u16);
    Run::new(
        Header { padding: false, marker: false, payload_type: 33, sequence, timestamp, ssrc: 42 },
        180 << 16,
    )
}

pub(crate) fn packet(number: u32) -> Vec<u8> {
    let mut bytes = run(number).header(0).to_bytes().to_vec();
    bytes.extend((0..PAYLOAD).map(|at| (number as usize * 31 + at) as u8));
    bytes
}

impl Numbered {
    pub(crate) fn new(segments: u32) -> Arc<Numbered> {
        let mut file = tempfile::tempfile().unwrap();
        for number in 0..segments * TRAINS * TRAIN {
            file.write_all(&packet(number)).unwrap();
        }
        let length = u64::from(segments * TRAINS * TRAIN) * PACKET as u64;
        let file = Arc::new(MappedFile::new(file, length).unwrap());
        Arc::new(Numbered { file, segments, is_late: Mutex::new(true) })
    }
}

impl TrainSource for Numbered {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        if number >= self.segments {
            return Load::End;
        }
        let mut is_late = self.is_late.lock();
        if number == 1 && *is_late {
            if let Some(waker) = waker.cloned() {
                *is_late = false;
                thread::spawn(move || waker.wake());
            }
            return Load::Pending;
        }
        drop(is_late);
        let departures = (0..TRAINS)
            .map(|train| {
                let first = (number * TRAINS + train) * TRAIN;
                let train = Train {
                    offset: u64::from(first) * PACKET as u64,
                    length: TRAIN * PACKET as u32,
                    packet_size: PACKET as u16,
                    skip: 0,
                    first: 0,
                    packets_before: first,
                    run: run(first),
                };
                Departure { at_us: u64::from(first) * PACKET_US, train }
            })
            .collect();
        Load::Ready(Arc::new(Segment {
            mapped_file: Arc::clone(&self.file),
            departures,
            original: None,
            clock: None,
        }))
    }
}

/// The beginning of a request to play a source of one stream.
pub(crate) fn position_of(sequence: u16, timestamp: u32, at_us: u64) -> Position {
    let stream = StreamPosition { stream: 0, sequence: Some(sequence), timestamp };
    Position { at_us, streams: vec![stream] }
}

/// Playbacks of an engine with one thread, which use this path.
pub(crate) fn playbacks(path: DataPath) -> Playbacks {
    playbacks_in_bursts(path, BURST)
}

/// The same, with this use of io_uring.
pub(crate) fn playbacks_with(path: DataPath, ring: RingUse) -> Playbacks {
    start(path, ring, BURST)
}

pub(crate) fn playbacks_in_bursts(path: DataPath, burst: Burst) -> Playbacks {
    start(path, if path.needs_ring() { RingUse::Always { maps: false } } else { RingUse::Never }, burst)
}

/// Playbacks of an engine with so many threads.
pub(crate) fn on_threads(threads: usize, path: DataPath) -> Playbacks {
    let support = Arc::new(Support::probe(Some(path), Calibrations::default(), false));
    let engine = Arc::new(Engine::start(EngineOptions { threads, ..EngineOptions::default() }).unwrap());
    Playbacks::start(engine, PlaybackSettings { support, ring: RingUse::Never, burst: BURST })
}

const BURST: Burst = Burst::Fixed(TRAIN as u64 * PACKET_US);

fn start(path: DataPath, ring: RingUse, burst: Burst) -> Playbacks {
    let support = Arc::new(Support::probe(Some(path), Calibrations::default(), false));
    let engine = Arc::new(Engine::start(EngineOptions::default()).unwrap());
    Playbacks::start(engine, PlaybackSettings { support, ring, burst })
}

pub(crate) struct Player {
    pub(crate) playback: Playback,
    pub(crate) receiver: UdpSocket,
    pub(crate) events: Receiver<PlaybackEvent>,
}

impl Player {
    pub(crate) fn new(playbacks: &Playbacks, source: Arc<dyn TrainSource>) -> Player {
        Player::with_packets_of(playbacks, source, PACKET as u16)
    }

    pub(crate) fn with_packets_of(
        playbacks: &Playbacks,
        source: Arc<dyn TrainSource>,
        packet_size: u16,
    ) -> Player {
        Player::open(playbacks, source, packet_size, 500_000)
    }

    pub(crate) fn accepting(
        playbacks: &Playbacks,
        source: Arc<dyn TrainSource>,
        most_burst_us: u64,
    ) -> Player {
        Player::open(playbacks, source, PACKET as u16, most_burst_us)
    }

    fn open(
        playbacks: &Playbacks,
        source: Arc<dyn TrainSource>,
        packet_size: u16,
        most_burst_us: u64,
    ) -> Player {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(receiver.local_addr().unwrap()).unwrap();
        let (tell, events) = channel();
        let on_event = Box::new(move |event| tell.send(event).unwrap_or_default());
        let sink = PlaybackSink::Udp { socket, packet_size };
        let options = PlaybackOptions { source, streams: 1, sink: sink.into(), most_burst_us, on_event };
        Player { playback: playbacks.open(options).unwrap(), receiver, events }
    }

    pub(crate) fn play(&self, from: Option<Cursor>, until_us: Option<u64>) -> Result<Position, PlayError> {
        let (tell, answer) = channel();
        self.playback.play(from, until_us, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    pub(crate) fn play_at(&self, factor: f64) -> Result<Position, PlayError> {
        let (tell, answer) = channel();
        let request = PlayRequest { speed: Speed::nearest(factor), ..PlayRequest::default() };
        self.playback.play_as(request, move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    pub(crate) fn pause(&self) -> u64 {
        let (tell, answer) = channel();
        self.playback.pause(move |result| tell.send(result).unwrap_or_default());
        answer.recv_timeout(Duration::from_secs(5)).unwrap().unwrap()
    }

    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        loop {
            match self.receiver.recv(&mut buffer) {
                Ok(length) => {
                    buffer.truncate(length);
                    return buffer;
                }
                // A ring of this thread that is closed has its work done by a signal.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn wait_for_end(&self) {
        assert!(matches!(self.events.recv_timeout(Duration::from_secs(5)), Ok(PlaybackEvent::Finished)));
    }
}

/// More than any thread can send: a train each 100 microseconds, for a second or, late, for as long as it
/// takes.
pub(crate) struct Flood(pub(crate) Arc<Segment>);

impl Flood {
    pub(crate) fn new() -> Arc<Flood> {
        let Load::Ready(segment) = Numbered::new(1).segment(0, None) else { panic!("it is ready") };
        let train = segment.departures[0].train;
        let departures = (0..10_000).map(|number| Departure { at_us: number * 100, train }).collect();
        Arc::new(Flood(Arc::new(Segment {
            mapped_file: Arc::clone(&segment.mapped_file),
            departures,
            original: None,
            clock: None,
        })))
    }
}

impl TrainSource for Flood {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        if number == 0 { Load::Ready(Arc::clone(&self.0)) } else { Load::End }
    }
}
