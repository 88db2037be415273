use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use wirepath_datapath::Train;
use wirepath_datapath::rtp::{Marker, Run};
use wirepath_engine::{Context, Engine, EngineOptions, Placement, Priority, Task};

use super::parts::at_time;
use super::*;
use crate::numbering::{Numbering, Timestamps};
use crate::streams::Stream;

/// Three segments of two trains of three packets; a packet every 10 ms.
struct Ready;

const PACKET_US: u64 = 10_000;

impl TrainSource for Ready {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        if number == 3 {
            return Load::End;
        }
        let file = File::open("/proc/self/exe").unwrap();
        Load::Ready(segment_of(file, number))
    }
}

fn segment_of(file: File, number: u32) -> Arc<Segment> {
    let train = |index: u32| {
        let place = number * 6 + index * 3;
        let first = Header {
            padding: false,
            marker: false,
            payload_type: 33,
            sequence: place as u16,
            timestamp: place * 900,
            ssrc: 1,
        };
        let run = Run::new(first, 900 << 16);
        let (offset, packets_before) = (u64::from(place) * 200, place);
        let train = Train { offset, length: 600, packet_size: 200, skip: 0, first: 0, packets_before, run };
        Departure { at_us: u64::from(place) * PACKET_US, train }
    };
    let mapped_file = Arc::new(MappedFile::new(file, 4096).unwrap());
    Arc::new(Segment { mapped_file, departures: [train(0), train(1)].into(), original: None, clock: None })
}

fn pool() -> BlockingPool {
    BlockingPool::start("reader", 1, Priority::Normal).unwrap()
}

/// A pool that closes no file until the sender is dropped.
fn pool_with_held_closer() -> (BlockingPool, Sender<()>) {
    struct Gate(Receiver<()>);
    impl Drop for Gate {
        fn drop(&mut self) {
            assert!(self.0.recv().is_err(), "it is only ever dropped");
        }
    }
    let (pool, (open, gate)) = (pool(), channel());
    pool.discard(Gate(gate));
    (pool, open)
}

/// A waker of a task that has ended.
fn waker() -> Waker {
    struct Idle;
    impl Task for Idle {
        fn start(&mut self, _context: &mut Context<'_>) {}
        fn end(self: Box<Self>, _pool: &BlockingPool) {}
    }
    let engine = Engine::start(EngineOptions::default()).unwrap();
    engine.spawn(Box::new(Idle), Placement::default()).waker(7)
}

fn playhead(source: impl TrainSource + 'static) -> Playhead {
    Playhead::new(Arc::new(source), 0, waker(), &pool())
}

/// A source that keeps nothing: the file of a segment is open and locked only while a segment is held.
struct Leaving {
    folder: tempfile::TempDir,
}

impl Leaving {
    fn file(&self, number: u32) -> File {
        File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.folder.path().join(number.to_string()))
            .unwrap()
    }

    fn is_open(&self, number: u32) -> bool {
        self.file(number).try_lock().is_err()
    }
}

impl TrainSource for Leaving {
    fn segment(&self, number: u32, _waker: Option<&Waker>) -> Load {
        let file = self.file(number);
        file.lock_shared().unwrap();
        Load::Ready(segment_of(file, number))
    }
}

/// Promise: No engine thread and no connection thread closes files.
#[test]
fn files_of_segments_are_closed_on_the_pool() {
    for leave in [
        // Into the third segment, back to the first, paused, and dropped.
        (|playhead: &mut Option<Playhead>| {
            for _ in 0..5 {
                let Some(playhead) = playhead else { panic!() };
                assert!(matches!(playhead.next(), Next::Due(_)));
                playhead.advance(3);
            }
            assert!(matches!(playhead.as_mut().unwrap().next(), Next::Due(_)));
        }) as fn(&mut Option<Playhead>),
        |playhead| playhead.as_mut().unwrap().seek(Cursor { segment: 7, ..Cursor::START }),
        |playhead| playhead.as_mut().unwrap().rest(),
        |playhead| *playhead = None,
    ] {
        let source = Arc::new(Leaving { folder: tempfile::tempdir().unwrap() });
        let (pool, close) = pool_with_held_closer();
        let mut playhead =
            Some(Playhead::new(Arc::clone(&source) as Arc<dyn TrainSource>, 0, waker(), &pool));
        assert!(matches!(playhead.as_mut().unwrap().next(), Next::Due(_)));
        leave(&mut playhead);
        assert!(source.is_open(0) && source.is_open(1), "an engine thread closed a file");
        drop((close, playhead));
        while source.is_open(0) || source.is_open(1) {
            std::thread::yield_now();
        }
    }
}

/// A source that has the end of its range from the second segment on.
struct Ending;

impl TrainSource for Ending {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        Ready.segment(number, waker)
    }

    fn until_us(&self, number: u32) -> Option<u64> {
        (number > 0).then_some(8 * PACKET_US)
    }
}

#[test]
fn an_end_that_the_source_knows_later_is_one() {
    let mut playhead = Playhead::new(Arc::new(Ending), 0, waker(), &pool());
    assert_eq!(walk(&mut playhead, 3).last(), Some(&(7, 7 * PACKET_US)));
    playhead.set_end(u64::MAX);
    assert!(matches!(playhead.next(), Next::End), "the source has an end still");
}

/// Sequence numbers and departures of all packets from here, taking `step` packets of a train at a time.
fn walk(playhead: &mut Playhead, step: u32) -> Vec<(u16, u64)> {
    let mut seen = Vec::new();
    loop {
        let departure = match playhead.next() {
            Next::Due(departure) => departure,
            Next::End => return seen,
            other => panic!("{other:?}"),
        };
        let packets = departure.train.packets().min(step);
        for packet in 0..packets {
            let header = departure.train.run.header(departure.train.first + packet);
            seen.push((header.sequence, departure.at_us + u64::from(packet) * PACKET_US));
        }
        playhead.advance(packets);
    }
}

fn packets(range: std::ops::Range<u64>) -> Vec<(u16, u64)> {
    range.map(|place| (place as u16, place * PACKET_US)).collect()
}

#[test]
fn every_packet_once_whatever_a_call_takes() {
    for step in 1..4 {
        let mut playhead = playhead(Ready);
        assert_eq!(walk(&mut playhead, step), packets(0..18));
    }
}

#[test]
fn a_time_is_found_at_its_packet() {
    for (at_us, first) in [(0, 0), (9_999, 0), (10_000, 1), (59_999, 5), (60_000, 6), (75_000, 7)] {
        let segment = u32::from(at_us >= 60_000);
        let mut playhead = playhead(Ready);
        playhead.seek(Cursor { segment, at: At::Time(at_us) });
        assert_eq!(walk(&mut playhead, 3), packets(first..18), "at {at_us}");
    }
}

/// Promise: A seek by time begins with the first fragment of a picture.
#[test]
fn a_time_within_a_picture_is_found_at_its_first_packet() {
    let Load::Ready(ready) = Ready.segment(0, None) else { panic!("it is ready") };
    let mut departures = ready.departures.clone();
    departures.iter_mut().for_each(|departure| departure.train.run.step = 0);
    let segment =
        Segment { mapped_file: Arc::clone(&ready.mapped_file), departures, original: None, clock: None };
    for (at_us, index) in [(0, 0), (29_999, 0), (30_000, 1), (45_000, 1)] {
        assert_eq!(at_time(&segment, at_us), (index, None), "at {at_us}");
    }
}

/// Promise: Sound that departs together is found at its first train, whichever tracks and trains it has.
#[test]
fn a_time_within_a_group_is_found_at_its_first_train() {
    let Load::Ready(ready) = Ready.segment(0, None) else { panic!("it is ready") };
    let together = |at_us, mut departure: Departure| {
        departure.train.run.together = true;
        Departure { at_us, ..departure }
    };
    let [first, second] = *ready.departures else { panic!("two trains") };
    let departures =
        [together(0, first), together(200_000, first), together(200_000, second), together(400_000, first)]
            .into();
    let segment =
        Segment { mapped_file: Arc::clone(&ready.mapped_file), departures, original: None, clock: None };
    for (at_us, index) in [(0, 0), (199_999, 0), (200_000, 1), (390_000, 1), (400_000, 3)] {
        assert_eq!(at_time(&segment, at_us), (index, None), "at {at_us}");
    }
}

/// Promise: Segments of a track that has ended, or is not set up, are not read before their time.
#[test]
fn segments_without_packets_to_send_take_their_time() {
    let source = Arc::new(Late::default());
    let mut playhead = Playhead::new(Arc::clone(&source) as Arc<dyn TrainSource>, 1, waker(), &pool());
    let mut next = || {
        let at_us = match playhead.next() {
            Next::Unsent(departure) => Some(departure.at_us),
            Next::End => None,
            other => panic!("{other:?}"),
        };
        playhead.pass();
        (at_us, std::mem::take(&mut *source.requested.lock()))
    };
    // Each segment has trains at 0 and 30 ms; the second one is within the read-ahead time.
    for segment in 0..3 {
        let begin_us = u64::from(segment) * 60_000;
        let first = if segment == 0 { vec![(0, true)] } else { vec![] };
        assert_eq!(next(), (Some(begin_us), first));
        assert_eq!(next(), (Some(begin_us + 30_000), vec![(segment + 1, false)]));
    }
    assert_eq!(next(), (None, vec![(3, true)]));
}

/// Promise: A range that ends after the last packet of a track reads nothing beyond its end.
#[test]
fn an_end_is_one_for_streams_that_are_not_sent() {
    let source = Arc::new(Late::default());
    let mut playhead = Playhead::new(Arc::clone(&source) as Arc<dyn TrainSource>, 1, waker(), &pool());
    playhead.set_end(30_000);
    assert!(matches!(playhead.next(), Next::Unsent(departure) if departure.at_us == 0));
    playhead.pass();
    assert!(matches!(playhead.next(), Next::End));
    assert_eq!(*source.requested.lock(), [(0, true)]);
}

#[test]
fn an_end_cuts_a_train() {
    for (until_us, end) in [(0, 0), (1, 1), (40_000, 4), (40_001, 5), (60_000, 6)] {
        let mut playhead = playhead(Ready);
        playhead.set_end(until_us);
        assert_eq!(walk(&mut playhead, 3), packets(0..end), "until {until_us}");
    }
}

#[test]
fn a_skip_sends_one_packet_alone_and_then_the_rest() {
    let mut playhead = playhead(Ready);
    playhead.seek(Cursor { segment: 0, at: At::Packet { train: 0, packet: 1, skip: 50 } });
    let Next::Due(departure) = playhead.next() else { panic!("nothing is due") };
    assert_eq!((departure.train.skip, departure.train.packets(), departure.at_us), (50, 1, PACKET_US));
    playhead.advance(1);
    assert_eq!(walk(&mut playhead, 3), packets(2..18));
}

#[test]
fn rest_keeps_the_place() {
    let mut playhead = playhead(Ready);
    for place in 0..18 {
        assert!(matches!(playhead.next(), Next::Due(_)), "at {place}");
        playhead.rest();
        let Next::Due(departure) = playhead.next() else { panic!("nothing is due at {place}") };
        assert_eq!(departure.at_us, place * PACKET_US);
        playhead.advance(1);
    }
    playhead.rest();
    assert!(matches!(playhead.next(), Next::End));
}

/// A source of three segments; each is requested some time before it is needed.
#[derive(Default)]
struct Late {
    requested: Mutex<Vec<(u32, bool)>>,
    is_busy: AtomicBool,
}

impl TrainSource for Late {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        self.requested.lock().push((number, waker.is_some()));
        if self.is_busy.swap(false, Relaxed) { Load::Busy } else { Ready.segment(number, waker) }
    }

    fn read_ahead_us(&self) -> u64 {
        20_000
    }
}

/// Promise: Read-ahead is measured in time, whatever the bit rate, and does not begin earlier than needed.
#[test]
fn a_segment_is_requested_a_while_before_it_is_due() {
    let source = Arc::new(Late::default());
    let mut playhead = Playhead::new(Arc::clone(&source) as Arc<dyn TrainSource>, 0, waker(), &pool());
    let requested = || std::mem::take(&mut *source.requested.lock());
    // The last train of the segment leaves at 30 ms.
    assert!(matches!(playhead.next(), Next::Due(departure) if departure.at_us == 0));
    assert_eq!(requested(), [(0, true)]);
    playhead.advance(1);
    source.is_busy.store(true, Relaxed);
    assert!(matches!(playhead.next(), Next::Due(departure) if departure.at_us == PACKET_US));
    assert_eq!(requested(), [(1, false)], "in advance; the source has no time for it");
    playhead.advance(1);
    assert!(matches!(playhead.next(), Next::Due(_)));
    assert_eq!(requested(), [(1, false)]);
    assert_eq!(walk(&mut playhead, 3), packets(2..18));
    assert_eq!(requested(), [(2, false), (3, false), (3, true)], "each once, and the end");
}

/// A source whose segments never arrive, and the wakers that it stores.
#[derive(Default)]
struct Never {
    kept: Mutex<Vec<(u32, Waker)>>,
}

impl TrainSource for Never {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        self.kept.lock().extend(waker.cloned().map(|waker| (number, waker)));
        Load::Pending
    }

    fn forget(&self, waker: &Waker) {
        self.kept.lock().retain(|(_, kept)| kept != waker);
    }
}

/// Promise: A playback that waits for a segment is woken when the segment's state changes, and polls only
/// then.
#[test]
fn a_source_keeps_the_waker_only_while_somebody_waits() {
    let source = Arc::new(Never::default());
    let mut playhead = Playhead::new(Arc::clone(&source) as Arc<dyn TrainSource>, 0, waker(), &pool());
    let kept = || source.kept.lock().iter().map(|(number, _)| *number).collect::<Vec<_>>();
    assert!(matches!(playhead.next(), Next::Pending));
    assert_eq!(kept(), [0]);
    playhead.seek(Cursor { segment: 7, ..Cursor::START });
    assert!(kept().is_empty());
    assert!(matches!(playhead.next(), Next::Pending));
    assert_eq!(kept(), [7]);
    playhead.rest();
    assert!(kept().is_empty());
    assert!(matches!(playhead.next(), Next::Pending));
    drop(playhead);
    assert!(kept().is_empty());
}

/// Packets of two streams in segments: stream, timestamp, marker. Each is a train.
struct Units {
    segments: Vec<Vec<(u8, u32, bool)>>,
    /// True if no segment is read in advance.
    is_late: bool,
}

impl TrainSource for Units {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let Some(packets) = self.segments.get(number as usize) else { return Load::End };
        if self.is_late && waker.is_none() {
            return Load::Pending;
        }
        let before = self.segments[..number as usize].concat();
        let mut departures = Vec::new();
        for (index, (stream, timestamp, is_last)) in packets.iter().copied().enumerate() {
            let earlier = before.iter().chain(&packets[..index]);
            let sequence = earlier.filter(|packet| packet.0 == stream).count() as u16;
            let (padding, marker, payload_type, ssrc) = (false, false, 96, 1);
            let first = Header { padding, marker, payload_type, sequence, timestamp, ssrc };
            let marker = if is_last { Marker::Last } else { Marker::None };
            let run = Run { marker, stream, together: true, ..Run::new(first, 0) };
            let (length, packet_size, at_us) = (200, 200, u64::from(timestamp) * PACKET_US);
            let train = Train { offset: 0, length, packet_size, skip: 0, first: 0, packets_before: 0, run };
            departures.push(Departure { at_us, train });
        }
        let mapped_file = Arc::new(MappedFile::new(File::open("/proc/self/exe").unwrap(), 4096).unwrap());
        Load::Ready(Arc::new(Segment {
            mapped_file,
            departures: departures.into(),
            original: None,
            clock: None,
        }))
    }
}

/// Promise: Access units are recognised across the ends of segments, also while the next segment is still
/// read.
#[test]
fn access_units_are_seen_across_segments() {
    // Pictures with a marker at their end, of which one is cut; sound without a marker, of which a frame has
    // two packets.
    let segments = vec![
        vec![(0, 1, false), (1, 1, false), (1, 1, false), (0, 1, false)],
        vec![(0, 1, true), (1, 2, false), (0, 2, false), (0, 2, true)],
        vec![(1, 3, false), (0, 3, true)],
    ];
    let all = segments.concat();
    for is_late in [false, true] {
        let source = Units { segments: segments.clone(), is_late };
        let mut playhead = Playhead::new(Arc::new(source), 0, waker(), &pool());
        playhead.add_stream(1);
        let timestamps = Timestamps::Presentation { first: 0, clock_hz: 90_000 };
        let mut streams =
            [0, 1].map(|number| Stream { number, numbering: Numbering::new(timestamps, 0), replay: None });
        assert!(!streams.iter().any(|stream| playhead.is_within_unit(stream)), "nothing was sent");
        for sent in 1..=all.len() {
            let Next::Due(departure) = playhead.next() else { panic!("there is packet {sent}") };
            let numbering = &mut streams[usize::from(departure.train.run.stream)].numbering;
            numbering.begin(numbers(&departure));
            let next = playhead.advance(1).unwrap();
            numbering.advance((next.sequence, next.timestamp));
            for stream in &streams {
                let is_of_stream = |packet: &&(u8, u32, bool)| packet.0 == stream.number;
                let last = all[..sent].iter().rfind(is_of_stream);
                let next = all[sent..].iter().find(is_of_stream);
                let is_within = last.zip(next).is_some_and(|(last, next)| last.1 == next.1);
                let seen = playhead.is_within_unit(stream);
                // Without a marker, the end of sound is known with the next segment only.
                if stream.number == 0 || !is_late && next.is_some() {
                    assert_eq!(seen, is_within, "stream {} after {sent} packets, {is_late}", stream.number);
                }
                assert!(seen || !is_within);
            }
        }
        streams[0].numbering.seek(5);
        assert!(!playhead.is_within_unit(&streams[0]), "another position is sought");
    }
}

/// Promise: At the edge of a recording, and in a transport stream, the last packet so far is complete.
#[test]
fn the_last_packet_so_far_is_complete_at_an_edge() {
    struct Edge {
        units: Units,
        is_at_edge: bool,
    }
    impl TrainSource for Edge {
        fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
            if number == 0 { self.units.segment(number, waker) } else { Load::Pending }
        }
        fn is_at_edge(&self, segment: u32) -> bool {
            assert_eq!(segment, 1);
            self.is_at_edge
        }
    }
    let presentation = Timestamps::Presentation { first: 0, clock_hz: 90_000 };
    for (is_at_edge, timestamps, is_within) in
        [(false, presentation, true), (true, presentation, false), (false, Timestamps::Departure, false)]
    {
        let units = Units { segments: vec![vec![(0, 1, false)]], is_late: false };
        let mut playhead = playhead(Edge { units, is_at_edge });
        let mut stream = Stream { number: 0, numbering: Numbering::new(timestamps, 0), replay: None };
        let Next::Due(departure) = playhead.next() else { panic!("there is a packet") };
        stream.numbering.begin(numbers(&departure));
        let next = playhead.advance(1).unwrap();
        stream.numbering.advance((next.sequence, next.timestamp));
        for _ in 0..2 {
            assert_eq!(playhead.is_within_unit(&stream), is_within, "{is_at_edge}, {timestamps:?}");
            assert!(matches!(playhead.next(), Next::Pending));
        }
    }
}

/// Promise: In transport streams and runs of sound, each packet is complete.
#[test]
fn packets_with_times_of_their_own_are_whole() {
    let mut playhead = playhead(Ready);
    let mut stream = Stream { number: 0, numbering: Numbering::new(Timestamps::Departure, 0), replay: None };
    for _ in 0..6 {
        let Next::Due(departure) = playhead.next() else { panic!("there is a packet") };
        stream.numbering.begin(numbers(&departure));
        let next = playhead.advance(1).unwrap();
        stream.numbering.advance((next.sequence, next.timestamp));
        assert!(!playhead.is_within_unit(&stream));
    }
}
