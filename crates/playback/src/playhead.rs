//! The playhead: the next train of a source. Pure, but for requests to the source.

use std::sync::Arc;

use wirepath_datapath::rtp::Header;
use wirepath_datapath::{Headers, JoinedTrains, MappedFile, Train, prefetch};
use wirepath_engine::{BlockingPool, DropOnPool, Waker};

use crate::numbering::Numbers;
use crate::source::{At, Cursor, Departure, Load, Segment, TrainSource};
use crate::streams::numbers;

#[derive(Debug)]
pub(crate) enum Next {
    /// This train of the [`Playhead::mapped_file`].
    Due(Departure),
    /// The rest of the segment, which begins with this departure, is of streams that are not sent.
    Unsent(Departure),
    /// A segment is read or packed; the source keeps the waker.
    Pending,
    /// A segment cannot be read now.
    Busy,
    /// The source or the requested range is over.
    End,
    Failed(Arc<str>),
}

/// A place in a source that moves on as packets are sent. The last reference to a source or to the file of a
/// segment is often here: these are dropped on the pool, as no engine thread may wait until a file is closed.
pub(crate) struct Playhead {
    source: DropOnPool<Arc<dyn TrainSource>>,
    waker: Waker,
    is_waiting: bool,
    cursor: Cursor,
    /// The segment at the cursor, and the one after it once that was read.
    segment: Option<Arc<Segment>>,
    ahead: Option<Arc<Segment>>,
    /// Departure with which the segment after this one is requested; the end of time once that is done.
    request_at_us: u64,
    /// Index of the train at the cursor, and the rest of it.
    index: usize,
    rest: Option<Departure>,
    until_us: u64,
    /// Bits of the streams that are sent.
    streams: u64,
}

impl Playhead {
    /// A playhead for one stream of a source.
    pub(crate) fn new(
        source: Arc<dyn TrainSource>,
        stream: u8,
        waker: Waker,
        pool: &BlockingPool,
    ) -> Playhead {
        Playhead {
            source: DropOnPool::new(source, pool),
            waker,
            is_waiting: false,
            cursor: Cursor::START,
            segment: None,
            ahead: None,
            request_at_us: u64::MAX,
            index: 0,
            rest: None,
            until_us: u64::MAX,
            streams: bit(stream),
        }
    }

    /// Does not pass over the trains of this stream any longer.
    pub(crate) fn add_stream(&mut self, stream: u8) {
        self.streams |= bit(stream);
    }

    pub(crate) fn seek(&mut self, cursor: Cursor) {
        self.leave();
        self.cursor = cursor;
    }

    /// Has the source wake another task, while none waits for it.
    pub(crate) fn set_waker(&mut self, waker: Waker) {
        self.waker = waker;
    }

    /// Moves to the first random access point at or after a time, if there is one. Returns whether there is.
    pub(crate) fn skip_to_start(&mut self, at_us: u64) -> bool {
        let start = self.source.next_start(at_us);
        if let Some(cursor) = start {
            self.seek(cursor);
        }
        start.is_some()
    }

    /// Ends before the first packet that leaves at `until_us` or later.
    pub(crate) fn set_end(&mut self, until_us: u64) {
        self.until_us = until_us;
    }

    /// Drops the segments, so that nobody relies on their pages while the playback rests; the place is kept.
    pub(crate) fn rest(&mut self) {
        if self.segment.is_some() {
            let (packet, skip) = self.rest.map_or((0, 0), |left| (left.train.first, left.train.skip));
            self.cursor.at = At::Packet { train: self.index as u32, packet, skip };
        }
        self.seek(self.cursor);
    }

    pub(crate) fn next(&mut self) -> Next {
        loop {
            if self.segment.is_none() {
                match self.source.segment(self.cursor.segment, Some(&self.waker)) {
                    Load::Ready(segment) => self.enter(segment),
                    Load::Pending => {
                        self.is_waiting = true;
                        return Next::Pending;
                    }
                    Load::Busy => return Next::Busy,
                    Load::End => return Next::End,
                    Load::Failed(reason) => return Next::Failed(reason),
                }
            }
            if let Some(left) = self.left() {
                let Some(due) = before(left, self.until_us) else { return Next::End };
                if left.at_us >= self.request_at_us {
                    self.request_ahead();
                }
                if self.is_sent(&left) {
                    return Next::Due(due);
                }
                let Some(index) = self.next_sent() else { return Next::Unsent(left) };
                (self.index, self.rest) = (index, None);
                continue;
            }
            self.cursor = Cursor { segment: self.cursor.segment + 1, ..Cursor::START };
            let ahead = self.ahead.take();
            self.leave();
            if let Some(ahead) = ahead {
                self.enter(ahead);
            }
        }
    }

    /// Moves on in a segment of which nothing more is sent: to the train with which the next segment is
    /// requested, to the last one, or behind that.
    pub(crate) fn pass(&mut self) {
        let Some(segment) = self.segment.as_ref() else { return };
        let request = segment.departures.partition_point(|departure| departure.at_us < self.request_at_us);
        let last = segment.departures.len().saturating_sub(1);
        (self.index, self.rest) = (request.min(last).max(self.index + 1), None);
    }

    fn is_sent(&self, departure: &Departure) -> bool {
        self.streams & bit(departure.train.run.stream) != 0
    }

    /// Index of the next train behind the one at the cursor that is sent, if the segment has one.
    fn next_sent(&self) -> Option<usize> {
        let mut behind = self.segment.as_ref()?.departures.iter().enumerate().skip(self.index + 1);
        behind.find(|(_, departure)| self.is_sent(departure)).map(|(index, _)| index)
    }

    /// Departure of the next packet, if its segment is there.
    pub(crate) fn at_us(&self) -> Option<u64> {
        self.left().map(|left| left.at_us)
    }

    /// End of the source, if that is known.
    pub(crate) fn end_us(&self) -> Option<u64> {
        self.source.end_us()
    }

    /// Stored numbers of the next packet of a stream, if that is in the segment at the cursor.
    pub(crate) fn next_numbers(&self, stream: u8) -> Option<Numbers> {
        let behind =
            || self.segment.iter().flat_map(|segment| segment.departures.iter().skip(self.index + 1));
        let mut rest = self.left().into_iter().chain(behind().copied());
        let next = rest.find(|departure| departure.train.run.stream == stream)?;
        Some(numbers(&next))
    }

    pub(crate) fn mapped_file(&self) -> Option<&MappedFile> {
        self.segment.as_deref().map(|segment| &*segment.mapped_file)
    }

    /// Prefetches the segment at the cursor, without its departures.
    pub(crate) fn prefetch_segment(&self) {
        if let Some(segment) = self.segment.as_deref() {
            prefetch(segment);
        }
    }

    /// Prefetches the departure at the cursor and the one behind it.
    pub(crate) fn prefetch_departure(&self) {
        let departures = self.segment.iter().flat_map(|segment| segment.departures.iter().skip(self.index));
        departures.take(2).for_each(prefetch);
    }

    /// The departure at the cursor, of which [`Playhead::next`] returned `first`: what leaves before `end_us`
    /// of that train and of those stored behind it, as far as one call can send it.
    pub(crate) fn departure(&self, first: Departure, end_us: u64, headers: Headers) -> Departure {
        let end_us = end_us.min(self.until_us);
        let mut joined = before(first, end_us).unwrap_or(first);
        let Some(segment) = self.segment.as_ref().filter(|_| self.is_whole(&joined)) else { return joined };
        let behind = segment.departures.get(self.index + 1..).unwrap_or_default();
        let mut trains = JoinedTrains::new(joined.train);
        for next in behind {
            let Some(sent) = before(*next, end_us) else { break };
            if !trains.join(&sent.train, headers) || sent.train.length < next.train.length {
                break;
            }
        }
        joined.train = trains.train();
        joined
    }

    /// Returns whether nothing is left of the train at the cursor after this departure.
    fn is_whole(&self, departure: &Departure) -> bool {
        self.left().is_some_and(|left| left.train.length == departure.train.length)
    }

    /// Moves on by packets of this train and those behind it. Returns the header, as it would be stored, of a
    /// packet behind them.
    pub(crate) fn advance(&mut self, packets: u32) -> Option<Header> {
        let mut packets = packets;
        loop {
            let left = self.left()?;
            let length = left.train.packets();
            self.rest = after(left, packets);
            if self.rest.is_none() {
                self.index += 1;
            }
            if packets <= length {
                return Some(left.train.run.header(left.train.first + packets));
            }
            packets -= length;
        }
    }

    /// The departure at the cursor without what was sent of it.
    fn left(&self) -> Option<Departure> {
        self.rest.or_else(|| self.segment.as_ref()?.departures.get(self.index).copied())
    }

    /// Enters the segment at the cursor.
    fn enter(&mut self, segment: Arc<Segment>) {
        (self.index, self.rest) = match self.cursor.at {
            At::Packet { train, packet, skip } => at_packet(&segment, train as usize, packet, skip),
            At::Time(at_us) => at_time(&segment, at_us),
        };
        let end_us = segment.departures.last().map_or(0, |last| last.at_us);
        self.request_at_us = end_us.saturating_sub(self.source.read_ahead_us());
        self.segment = Some(segment);
        self.is_waiting = false; // the source has woken the waker, or never kept it
    }

    /// Has the segment after this one read, in advance.
    #[cold]
    fn request_ahead(&mut self) {
        match self.source.segment(self.cursor.segment + 1, None) {
            Load::Ready(ahead) => self.ahead = Some(ahead),
            Load::Busy => return, // again with the next train
            Load::Pending | Load::End | Load::Failed(_) => {}
        }
        self.request_at_us = u64::MAX;
    }

    /// Drops the segments; files are closed on the pool.
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.source.forget(&self.waker);
        }
        for segment in [self.segment.take(), self.ahead.take()].into_iter().flatten() {
            // Nearly always others have the file too, and nothing is dropped or allocated.
            if let Some(file) = Arc::into_inner(segment).and_then(|last| Arc::into_inner(last.mapped_file)) {
                self.source.pool().discard(file);
            }
        }
        (self.rest, self.request_at_us) = (None, u64::MAX);
    }
}

impl Drop for Playhead {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Bit of a stream; none of those beyond the limit, which cannot be sent.
fn bit(stream: u8) -> u64 {
    1_u64.checked_shl(stream.into()).unwrap_or(0)
}

/// The part of a departure before a time; none if all of it is behind that.
fn before(departure: Departure, end_us: u64) -> Option<Departure> {
    let left_us = end_us.checked_sub(departure.at_us).filter(|left_us| *left_us > 0)?;
    if departure.train.skip > 0 {
        // A start in the middle of a packet: that one goes alone, the rest of the train follows.
        return Some(Departure { train: departure.train.up_to(1), ..departure });
    }
    let train = departure.train.up_to(departure.train.packets_within(left_us - 1));
    Some(Departure { train, ..departure })
}

/// Index and rest of the train at a packet.
fn at_packet(segment: &Segment, index: usize, packet: u32, skip: u16) -> (usize, Option<Departure>) {
    let left = segment.departures.get(index).and_then(|departure| after(*departure, packet));
    (index, left.map(|left| Departure { train: Train { skip, ..left.train }, ..left }))
}

/// Index and rest of the train at a time.
fn at_time(segment: &Segment, at_us: u64) -> (usize, Option<Departure>) {
    let index = segment.departures.partition_point(|departure| departure.at_us <= at_us).saturating_sub(1);
    let Some(departure) = segment.departures.get(index) else { return (index, None) };
    if departure.train.run.step == 0 {
        return (index, None); // all its packets are of one time
    }
    let late_us = at_us.saturating_sub(departure.at_us);
    (index, after(*departure, departure.train.packets_within(late_us) - 1))
}

/// The rest of a departure after its first packets.
fn after(departure: Departure, packets: u32) -> Option<Departure> {
    let train = departure.train.after(packets)?;
    Some(Departure { at_us: departure.at_us + departure.train.delay_us(packets), train })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use parking_lot::Mutex;
    use wirepath_datapath::rtp::Run;
    use wirepath_engine::{Context, Engine, EngineOptions, Placement, Priority, Task};

    use super::*;

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
                marker: false,
                payload_type: 33,
                sequence: place as u16,
                timestamp: place * 900,
                ssrc: 1,
            };
            let run = Run::new(first, 900 << 16);
            let train = Train {
                offset: u64::from(place) * 200,
                length: 600,
                packet_size: 200,
                skip: 0,
                first: 0,
                run,
            };
            Departure { at_us: u64::from(place) * PACKET_US, train }
        };
        let mapped_file = Arc::new(MappedFile::new(file, 4096).unwrap());
        Arc::new(Segment { mapped_file, departures: [train(0), train(1)].into() })
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

    /// A source that keeps nothing: each segment is in a file that is open, and locked, only as long as
    /// somebody has the segment.
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

    /// Promise: Files are closed on no engine thread and on no thread that serves connections.
    #[test]
    fn files_of_segments_are_closed_on_the_pool() {
        for leave in [
            // Into the third segment, back to the first, at rest, and gone.
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
        let segment = Segment { mapped_file: Arc::clone(&ready.mapped_file), departures };
        for (at_us, index) in [(0, 0), (29_999, 0), (30_000, 1), (45_000, 1)] {
            assert_eq!(at_time(&segment, at_us), (index, None), "at {at_us}");
        }
    }

    /// Promise: A track that has ended, or is not set up, does not have its segments read ahead of time.
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
        // Each segment has trains at 0 and 30 ms, of which the second is within the time of reading ahead.
        for segment in 0..3 {
            let begin_us = u64::from(segment) * 60_000;
            let first = if segment == 0 { vec![(0, true)] } else { vec![] };
            assert_eq!(next(), (Some(begin_us), first));
            assert_eq!(next(), (Some(begin_us + 30_000), vec![(segment + 1, false)]));
        }
        assert_eq!(next(), (None, vec![(3, true)]));
    }

    /// Promise: A range that ends behind the last packet of a track reads nothing behind its end.
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

    /// A source of three segments that is asked for each a while before it is needed.
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

    /// Promise: Media is read ahead by time, whatever the bit rate, and not earlier than it is needed.
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

    /// A source whose segments never come, and the wakers that it keeps.
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

    /// Promise: A playback that waits for a segment is woken when the answer has changed, and asks only then.
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
}
