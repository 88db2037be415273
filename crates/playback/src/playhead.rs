//! The playhead: the next train of a source. Pure, but for requests to the source.

use std::sync::Arc;

use wirepath_datapath::rtp::Header;
use wirepath_datapath::{Headers, JoinedTrains, MappedFile, prefetch};
use wirepath_engine::{BlockingPool, DropOnPool, Waker};

use crate::numbering::Numbers;
use crate::replay::IntraPictures;
use crate::source::{At, Cursor, Departure, Load, Segment, SegmentClock, TrainSource, numbers};
use crate::speed::Speed;

mod intra;
mod parts;
mod picture;
mod unit;

use intra::Intra;
use parts::{after, at_packet, at_time, before};
use picture::{Picture, is_last};

#[derive(Debug)]
pub(crate) enum Next {
    /// This train of the [`Playhead::mapped_file`].
    Due(Departure),
    /// The segment, from this departure on, has only streams that are not sent.
    Unsent(Departure),
    /// A segment is being read or packed; the source keeps the waker.
    Pending,
    /// A segment cannot be read now.
    Busy,
    /// The picture has ended: nothing more is sent before the playhead is moved.
    PictureEnd,
    /// The source or the requested range has ended.
    End,
    Failed(Arc<str>),
}

/// A position in a source that advances as packets are sent. The last reference to a source or to the file of
/// a segment is often here. These are dropped on the pool, since no engine thread may wait for the closing of
/// a file.
pub(crate) struct Playhead {
    source: DropOnPool<Arc<dyn TrainSource>>,
    waker: Waker,
    is_waiting: bool,
    cursor: Cursor,
    /// The segment at the cursor, and the one after it once it was read.
    segment: Option<Arc<Segment>>,
    ahead: Option<Arc<Segment>>,
    /// Departure at which the next segment is requested; the end of time after that request.
    request_at_us: u64,
    /// Index of the train at the cursor, and the rest of it.
    index: usize,
    rest: Option<Departure>,
    until_us: u64,
    speed: Speed,
    /// Bits of the streams that are sent.
    streams: u64,
    /// The picture at the cursor, if single pictures are sent.
    picture: Option<Picture>,
    /// The pictures that are sent, if those that can be decoded alone are. Boxed, since few playbacks use it.
    intra: Option<Box<Intra>>,
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
            speed: Speed::NORMAL,
            streams: bit(stream),
            picture: None,
            intra: None,
        }
    }

    /// From now on, sends single pictures of a stream, or all added streams.
    pub(crate) fn set_pictures(&mut self, stream: Option<u8>) {
        self.picture = stream.map(Picture::of);
    }

    /// From now on, sends only pictures that can be decoded alone, or all added streams.
    pub(crate) fn set_intra(&mut self, pictures: Option<IntraPictures>) {
        match (&mut self.intra, pictures) {
            (Some(intra), Some(pictures)) => intra.change(pictures),
            (intra, pictures) => *intra = pictures.map(|pictures| Box::new(Intra::new(pictures))),
        }
    }

    /// Returns whether only pictures that can be decoded alone are sent.
    pub(crate) fn has_intra(&self) -> bool {
        self.intra.is_some()
    }

    /// Returns whether the next departure begins a picture that does not follow the one sent before, and was
    /// not asked for yet.
    pub(crate) fn begins_intra(&mut self) -> bool {
        self.intra.as_mut().is_some_and(|intra| std::mem::take(&mut intra.is_new))
    }

    /// The cursor.
    pub(crate) fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The source.
    pub(crate) fn source(&self) -> &dyn TrainSource {
        &**self.source
    }

    /// From now on, includes the trains of this stream.
    pub(crate) fn add_stream(&mut self, stream: u8) {
        self.streams |= bit(stream);
    }

    pub(crate) fn seek(&mut self, cursor: Cursor) {
        self.leave();
        self.cursor = cursor;
        self.picture = self.picture.map(|picture| Picture::of(picture.stream));
        if let Some(intra) = &mut self.intra {
            intra.leave();
        }
    }

    /// Directs the source's wake-ups to another task; called while none is awaited.
    pub(crate) fn set_waker(&mut self, waker: Waker) {
        self.waker = waker;
    }

    /// Moves to the first random access point at or after a time. Returns whether there is one.
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
        self.note_end();
    }

    /// Adopts the end of the range that the source has for the segment at the cursor.
    fn note_end(&mut self) {
        if let Some(until_us) = self.source.until_us(self.cursor.segment) {
            self.until_us = until_us;
        }
    }

    /// Reads ahead for a playback at this speed.
    pub(crate) fn set_speed(&mut self, speed: Speed) {
        self.speed = speed;
    }

    /// Drops the segments, so that their pages are not needed while the playback is paused; the position is
    /// kept.
    pub(crate) fn rest(&mut self) {
        if self.segment.is_some() {
            let (packet, skip) = self.rest.map_or((0, 0), |left| (left.train.first, left.train.skip));
            self.cursor.at = At::Packet { train: self.index as u32, packet, skip };
        }
        self.seek(self.cursor);
    }

    pub(crate) fn next(&mut self) -> Next {
        loop {
            if self.picture.is_some_and(|picture| picture.is_over) {
                return Next::PictureEnd;
            }
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
                if left.at_us >= self.request_at_us && self.picture.is_none() {
                    self.request_ahead();
                }
                if self.is_sent(&left) {
                    if let Some(intra) = &mut self.intra {
                        intra.enter(&left);
                    }
                    if self.picture.as_mut().is_none_or(|picture| picture.enter(&left)) {
                        return Next::Due(due);
                    }
                    continue;
                }
                match self.next_sent() {
                    Some(index) => (self.index, self.rest) = (index, None),
                    // The rest of a picture may be in the next segment.
                    None if self.picture.is_some() => (self.index, self.rest) = (self.trains(), None),
                    None => return Next::Unsent(left),
                }
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

    /// Advances in a segment of which nothing more is sent: to the train at which the next segment is
    /// requested, to the last train, or past it.
    pub(crate) fn pass(&mut self) {
        let Some(segment) = self.segment.as_ref() else { return };
        let request = segment.departures.partition_point(|departure| departure.at_us < self.request_at_us);
        let last = segment.departures.len().saturating_sub(1);
        (self.index, self.rest) = (request.min(last).max(self.index + 1), None);
    }

    fn is_sent(&self, departure: &Departure) -> bool {
        let is_left_out = self.intra.as_ref().is_some_and(|intra| !intra.holds(departure));
        !is_left_out && self.sends(departure.train.run.stream)
    }

    /// Returns whether trains of a stream are sent.
    fn sends(&self, stream: u8) -> bool {
        let streams = self.picture.map_or(self.streams, |picture| self.streams & bit(picture.stream));
        streams & bit(stream) != 0
    }

    /// Number of trains of the segment.
    fn trains(&self) -> usize {
        self.segment.as_ref().map_or(0, |segment| segment.departures.len())
    }

    /// Index of the next sent train after the one at the cursor, if the segment has one.
    fn next_sent(&self) -> Option<usize> {
        let mut behind = self.segment.as_ref()?.departures.iter().enumerate().skip(self.index + 1);
        behind.find(|(_, departure)| self.is_sent(departure)).map(|(index, _)| index)
    }

    /// Departure of the next packet, if its segment is loaded.
    pub(crate) fn at_us(&self) -> Option<u64> {
        self.left().map(|left| left.at_us)
    }

    /// End of the source, if known.
    pub(crate) fn end_us(&self) -> Option<u64> {
        self.source.end_us()
    }

    /// Stored numbers of the next packet of a stream, if it is in the segment at the cursor.
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

    /// Prefetches the departure at the cursor and the next one.
    pub(crate) fn prefetch_departure(&self) {
        let departures = self.segment.iter().flat_map(|segment| segment.departures.iter().skip(self.index));
        departures.take(2).for_each(prefetch);
    }

    /// The departure at the cursor, of which [`Playhead::next`] returned `first`. It contains the packets
    /// before `end_us` of that train and of the trains stored after it, as far as one call can send them: fills
    /// `trains` with the trains of the departure, which itself contains the first of them.
    pub(crate) fn departure(
        &self,
        first: Departure,
        end_us: u64,
        headers: Headers,
        trains: &mut JoinedTrains,
    ) -> Departure {
        let end_us = end_us.min(self.until_us);
        let joined = self.departure_alone(first, end_us, trains);
        let Some(segment) = self.segment.as_ref().filter(|_| self.is_whole(&joined)) else { return joined };
        for next in segment.departures.get(self.index + 1..).unwrap_or_default() {
            let Some(sent) = before(*next, end_us) else { break };
            if !self.is_sent(next) || self.picture.is_some_and(|picture| picture.is_other(next)) {
                break;
            }
            if !trains.join(&sent.train, headers) || sent.train.length < next.train.length {
                break;
            }
        }
        Departure { train: trains.trains()[0], ..joined }
    }

    /// The departure at the cursor, of which [`Playhead::next`] returned `first`, up to `end_us`, without
    /// further trains.
    pub(crate) fn departure_alone(
        &self,
        first: Departure,
        end_us: u64,
        trains: &mut JoinedTrains,
    ) -> Departure {
        let departure = before(first, end_us.min(self.until_us)).unwrap_or(first);
        trains.begin(departure.train);
        departure
    }

    /// Wall clock of the segment at the cursor, if it has one.
    pub(crate) fn clock(&self) -> Option<&SegmentClock> {
        self.segment.as_ref()?.clock.as_deref()
    }

    /// Returns whether this departure sends the rest of the train at the cursor.
    fn is_whole(&self, departure: &Departure) -> bool {
        self.left().is_some_and(|left| left.train.length == departure.train.length)
    }

    /// Advances by packets of this train and the following ones. Returns the stored form of the header of the
    /// packet after them.
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
                if let Some(picture) = &mut self.picture {
                    picture.is_over |= packets > 0 && is_last(&left, packets - 1);
                }
                return Some(left.train.run.header(left.train.first + packets));
            }
            packets -= length;
        }
    }

    /// The departure at the cursor without the packets already sent.
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
        self.request_at_us = end_us.saturating_sub(self.read_ahead_us());
        self.segment = Some(segment);
        self.note_end();
        self.is_waiting = false; // the source has woken the waker, or never kept it
    }

    /// Time of the source that passes while a segment is read.
    fn read_ahead_us(&self) -> u64 {
        self.speed.source_us(self.source.read_ahead_us())
    }

    /// Starts reading the next segment in advance, and further segments for a faster playback.
    #[cold]
    fn request_ahead(&mut self) {
        match self.source.segment(self.cursor.segment + 1, None) {
            Load::Ready(ahead) => self.ahead = Some(ahead),
            Load::Busy => return, // again with the next train
            Load::Pending | Load::End | Load::Failed(_) => {}
        }
        self.request_at_us = u64::MAX;
        if self.speed > Speed::NORMAL {
            self.source.read_further(self.cursor.segment + 1, self.read_ahead_us());
        }
    }

    /// Drops the segments; files are closed on the pool.
    fn leave(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            self.source.forget(&self.waker);
        }
        for segment in [self.segment.take(), self.ahead.take()].into_iter().flatten() {
            // Nearly always others hold the file, too, so nothing is dropped or allocated.
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

/// Bit of a stream; none for a number beyond the limit, which cannot be sent.
fn bit(stream: u8) -> u64 {
    1_u64.checked_shl(stream.into()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
