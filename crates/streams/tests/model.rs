//! Random operations on a stream, against a model that knows every record: nothing is lost, doubled, cut or out of order, whatever
//! is attached, detached, written in part, not read for a while, or killed.
//!
//! `WIREPATH_MODEL_SECONDS=1800` runs for so long instead of a fixed number of rounds; a round that fails says its seed.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::collections::{BTreeMap, HashMap};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use wirepath_streams::datapath::Support;
use wirepath_streams::datapath::calibration::Calibrations;
use wirepath_streams::{
    BlockingPool, Engine, EngineOptions, Framing, Importance, InputOrder, Object, OutputOptions,
    OutputPattern, Port, RunningStream, StreamBuilder, StreamOptions,
};

/// Rounds where no time is asked for.
const ROUNDS: u64 = 150;

/// Operations of a round.
const STEPS: usize = 300;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn nothing_is_lost_doubled_or_out_of_order_whatever_happens() {
    let seconds =
        std::env::var("WIREPATH_MODEL_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let end = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
    let support = std::sync::Arc::new(Support::probe(None, Calibrations::default(), false));
    let engine = Engine::start(&EngineOptions::default(), support, &readers).unwrap();
    let mut seed = 0;
    while end.map_or(seed < ROUNDS, |end| Instant::now() < end) {
        let outcome =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| Round::new(seed, &engine).play()));
        assert!(outcome.is_ok(), "the round with seed {seed} failed");
        seed += 1;
    }
}

/// Numbers that look random: SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// Where records come from.
struct Feed {
    number: u32,
    near: Option<UnixStream>,
    /// Where the stream has it; None while it is detached.
    port: Option<Port>,
    records: u32,
    /// Not written yet.
    pending: Vec<u8>,
}

/// Where records go.
struct Sink {
    far: UnixStream,
    port: Option<Port>,
    bytes: Vec<u8>,
    /// Attached when the round began, and never taken away.
    is_whole: bool,
    was_killed: bool,
}

struct Round {
    dice: Dice,
    running: RunningStream,
    mirror: bool,
    feeds: Vec<Feed>,
    sinks: Vec<Sink>,
    /// Inputs that were detached, by the number of their feed.
    parked: Receiver<(u32, Object)>,
    park: Sender<(u32, Object)>,
}

impl Round {
    fn new(seed: u64, engine: &Engine) -> Round {
        let mut dice = Dice(seed);
        let mirror = dice.below(2) == 0;
        let pattern = match dice.below(3) {
            _ if mirror => OutputPattern::Mirror,
            0 => OutputPattern::Stripe,
            1 => OutputPattern::Random { seed },
            _ => OutputPattern::Capacity,
        };
        let order = match dice.below(3) {
            0 => InputOrder::RoundRobin,
            1 => InputOrder::Random { seed },
            _ => InputOrder::Arrival,
        };
        let mut stream = StreamBuilder::default().order(order).pattern(pattern).build();
        // An input that never ends keeps the stream while others come and go.
        let feeds = (0..=dice.below(3) as u32).map(|number| {
            let (near, far) = UnixStream::pair().unwrap();
            let port = stream.attach_input(inlet(far), Framing::rtp());
            feed(number, near, Some(port))
        });
        let feeds = feeds.collect();
        let waiting_bytes = 1 + dice.below(5000);
        let sinks = (0..=dice.below(3)).map(|_| {
            let (near, far) = UnixStream::pair().unwrap();
            let port = stream
                .attach_output(outlet(near), OutputOptions { waiting_bytes, ..OutputOptions::default() });
            sink(far, Some(port), true)
        });
        let sinks = sinks.collect();
        let running = engine.start_stream(stream, StreamOptions::default());
        let (park, parked) = channel();
        Round { dice, running, mirror, feeds, sinks, parked, park }
    }

    fn play(mut self) {
        for _ in 0..STEPS {
            match self.dice.below(20) {
                0..7 => self.add_record(),
                7..11 => self.write_some(),
                11..16 => self.read_some(),
                16 => self.attach_input(),
                17 => self.detach_input(),
                18 => self.attach_output(),
                _ => self.detach_output(),
            }
        }
        self.end();
        self.verify();
    }

    fn add_record(&mut self) {
        let (place, length) = (self.dice.below(self.feeds.len()), self.dice.below(3000));
        let feed = &mut self.feeds[place];
        if feed.near.is_some() {
            let record = record(feed.number, feed.records, length);
            feed.pending.extend(record);
            feed.records += 1;
        }
    }

    fn write_some(&mut self) {
        let (place, most) = (self.dice.below(self.feeds.len()), 1 + self.dice.below(10_000));
        self.feeds[place].write(most);
    }

    fn read_some(&mut self) {
        let (place, most) = (self.dice.below(self.sinks.len()), 1 + self.dice.below(20_000));
        self.sinks[place].read(most);
    }

    fn attach_input(&mut self) {
        if let Ok((number, object)) = self.parked.try_recv() {
            let port = self.ask(move |stream| stream.attach_input(object, Framing::rtp()));
            self.feeds[number as usize].port = Some(port);
        } else if self.feeds.len() < 6 {
            let (near, far) = UnixStream::pair().unwrap();
            let port = self.ask(move |stream| stream.attach_input(inlet(far), Framing::rtp()));
            self.feeds.push(feed(self.feeds.len() as u32, near, Some(port)));
        }
    }

    /// Never the first, so that the stream goes on.
    fn detach_input(&mut self) {
        let place = 1 + self.dice.below(6);
        let Some(feed) = self.feeds.get_mut(place) else { return };
        if let Some(port) = feed.port.take() {
            let (park, number) = (self.park.clone(), feed.number);
            let is_there = self.ask(move |stream| {
                stream.detach_input(port, move |object| park.send((number, object)).unwrap())
            });
            assert!(is_there);
        }
    }

    fn attach_output(&mut self) {
        if self.sinks.len() < 8 {
            let (near, far) = UnixStream::pair().unwrap();
            let port = self.ask(move |stream| stream.attach_output(outlet(near), OutputOptions::default()));
            self.sinks.push(sink(far, Some(port), false));
        }
    }

    /// Lets go of an output, or kills it where others have what it had; never the first.
    fn detach_output(&mut self) {
        let (place, kill) = (1 + self.dice.below(8), self.mirror && self.dice.below(3) == 0);
        let Some(sink) = self.sinks.get_mut(place) else { return };
        let Some(port) = sink.port.take() else { return };
        sink.is_whole = false;
        if kill {
            sink.was_killed = true;
            sink.far.shutdown(std::net::Shutdown::Both).unwrap();
            return;
        }
        // Closed when it has sent what it had: whoever reads sees the end.
        assert!(self.ask(move |stream| stream.detach_output(port, drop)));
    }

    /// Has the engine thread do something between two turns of the stream.
    fn ask<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut wirepath_streams::Stream) -> T + Send + 'static,
    ) -> T {
        let (tell, told) = channel();
        self.running.with(move |stream| tell.send(act(stream)).unwrap());
        told.recv_timeout(PATIENCE).expect("the stream is over before its time")
    }

    /// Everything is written, all inputs come back and end, and everything is read.
    fn end(&mut self) {
        let patience = Instant::now() + PATIENCE;
        loop {
            while let Ok((number, object)) = self.parked.try_recv() {
                let port = self.ask(move |stream| stream.attach_input(object, Framing::rtp()));
                self.feeds[number as usize].port = Some(port);
            }
            self.feeds.iter_mut().for_each(|feed| feed.write(usize::MAX));
            self.sinks.iter_mut().for_each(|sink| sink.read(usize::MAX));
            // What is being detached may wait for the rest of a record that another input has the turn for: it comes back first.
            let all_attached = self.feeds.iter().all(|feed| feed.port.is_some());
            for feed in self
                .feeds
                .iter_mut()
                .filter(|feed| feed.pending.is_empty() && (feed.number > 0 || all_attached))
            {
                feed.near = None;
            }
            if self.running.has_ended() {
                break;
            }
            assert!(Instant::now() < patience, "it does not end: {:?}", self.running.status());
            std::thread::yield_now();
        }
        assert_eq!(self.running.wait().result, Ok(()));
        self.sinks.iter_mut().for_each(|sink| sink.read(usize::MAX));
    }

    fn verify(&self) {
        let mut times: HashMap<(u32, u32), usize> = HashMap::new();
        for (place, sink) in self.sinks.iter().enumerate() {
            let mut last: BTreeMap<u32, u32> = BTreeMap::new();
            let mut rest = &sink.bytes[..];
            while let Some((number, index, length)) = read_record(rest, sink.was_killed) {
                if let Some(before) = last.insert(number, index) {
                    let follows = if self.mirror { index == before + 1 } else { index > before };
                    assert!(follows, "sink {place}: record {index} of {number} behind {before}");
                }
                *times.entry((number, index)).or_default() += 1;
                rest = &rest[length..];
            }
            assert!(rest.is_empty() || sink.was_killed, "sink {place} has a part of a record");
            for feed in self.feeds.iter().filter(|feed| sink.is_whole && self.mirror && feed.records > 0) {
                assert_eq!(
                    last.get(&feed.number),
                    Some(&(feed.records - 1)),
                    "sink {place}: the end of {}",
                    feed.number
                );
            }
        }
        for feed in self.feeds.iter().filter(|_| !self.mirror) {
            for index in 0..feed.records {
                assert_eq!(times.get(&(feed.number, index)), Some(&1), "record {index} of {}", feed.number);
            }
        }
    }
}

impl Feed {
    fn write(&mut self, most: usize) {
        let Some(near) = &mut self.near else { return };
        while !self.pending.is_empty() {
            match near.write(&self.pending[..most.min(self.pending.len())]) {
                Ok(written) => {
                    self.pending.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
            if most < usize::MAX {
                return;
            }
        }
    }
}

impl Sink {
    fn read(&mut self, most: usize) {
        let mut buffer = vec![0; most.min(1 << 16)];
        loop {
            match self.far.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => self.bytes.extend(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => panic!("{error}"),
            }
            if most < usize::MAX {
                return;
            }
        }
    }
}

fn feed(number: u32, near: UnixStream, port: Option<Port>) -> Feed {
    near.set_nonblocking(true).unwrap();
    Feed { number, near: Some(near), port, records: 0, pending: Vec::new() }
}

fn sink(far: UnixStream, port: Option<Port>, is_whole: bool) -> Sink {
    far.set_nonblocking(true).unwrap();
    Sink { far, port, bytes: Vec::new(), is_whole, was_killed: false }
}

fn inlet(socket: UnixStream) -> Object {
    Object::stream("inlet", socket.into()).unwrap()
}

fn outlet(socket: UnixStream) -> Object {
    Object::stream("outlet", socket.into()).unwrap()
}

/// A record that says where it comes from, and whose other bytes follow from that.
fn record(number: u32, index: u32, length: usize) -> Vec<u8> {
    let mut record = ((8 + length) as u16).to_be_bytes().to_vec();
    record.extend(number.to_be_bytes());
    record.extend(index.to_be_bytes());
    record.extend((0..length).map(|at| filler(number, index, at)));
    record
}

fn filler(number: u32, index: u32, at: usize) -> u8 {
    (number.wrapping_mul(31) ^ index.wrapping_mul(7) ^ at as u32) as u8
}

/// Where the record in front comes from, and its length; None if there is none, or a part that may be one.
fn read_record(bytes: &[u8], may_be_cut: bool) -> Option<(u32, u32, usize)> {
    let whole = 2 + usize::from(u16::from_be_bytes([*bytes.first()?, *bytes.get(1)?]));
    if bytes.len() < whole {
        assert!(may_be_cut, "a record of {whole} bytes is cut to {}", bytes.len());
        return None;
    }
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (number, index) = (word(2), word(6));
    for (at, byte) in bytes[10..whole].iter().enumerate() {
        assert_eq!(*byte, filler(number, index, at), "record {index} of {number} has other bytes");
    }
    Some((number, index, whole))
}
