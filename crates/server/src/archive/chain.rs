//! Recordings that follow each other in a session since its last seek, with numbers that go on.

use std::collections::VecDeque;
use std::sync::Arc;

use wirepath_datapath::Train;
use wirepath_datapath::rtp::Run;
use wirepath_engine::{BlockingPool, DropOnPool};
use wirepath_media::image::{MAX_STREAMS, StreamPlan};
use wirepath_playback::{Departure, Segment};

use super::Gaps;
use super::opener::Opened;
use crate::images::Image;

/// Longest gap that is none, in microseconds: names of recordings have whole seconds.
const LEAST_GAP_US: i64 = 1_500_000;

/// Recordings that are kept: a playback that rests reads the segment at its place again, while the next recording
/// was begun already.
const KEPT: usize = 3;

/// Recordings in the order in which they are played.
pub(super) struct Chain {
    /// Number of the seek.
    pub(super) epoch: u32,
    pub(super) pieces: VecDeque<Piece>,
    pub(super) following: Following,
}

/// The recording behind the last one.
pub(super) enum Following {
    /// It is not opened yet.
    Unknown,
    Known(Opened),
    /// There is none.
    End,
}

/// Recording at its place.
pub(super) struct Piece {
    /// The last reference to an image closes files, which no engine thread may wait for.
    pub(super) image: DropOnPool<Arc<Image>>,
    /// Time of its beginning, in microseconds since 1970.
    pub(super) start_us: i64,
    /// Number of its first segment in the chain.
    pub(super) first_segment: u32,
    /// Time of the source at which it begins.
    pub(super) begin_us: u64,
    /// Last departure that was given away.
    last_us: u64,
    /// Segments that were given away.
    given: u32,
    /// Sequence number of its first packet of each stream, and of the one behind the last that was given away.
    first: [u16; MAX_STREAMS],
    next: [u16; MAX_STREAMS],
}

impl Chain {
    /// A chain that begins with a recording, at a time of the source.
    pub(super) fn new(
        epoch: u32,
        first: Opened,
        begin_us: u64,
        streams: &[StreamPlan],
        pool: &BlockingPool,
    ) -> Chain {
        let mut numbers = [0; MAX_STREAMS];
        for (number, stream) in numbers.iter_mut().zip(streams) {
            *number = stream.sequence;
        }
        let piece = Piece::new(first, 0, begin_us, numbers, pool);
        Chain { epoch, pieces: VecDeque::from([piece]), following: Following::Unknown }
    }

    /// The recording that has a segment, and whether it is the last one.
    pub(super) fn piece(&mut self, segment: u32) -> Option<(&mut Piece, bool)> {
        let index = self.pieces.iter().rposition(|piece| piece.first_segment <= segment)?;
        let is_last = index + 1 == self.pieces.len();
        self.pieces.get_mut(index).map(|piece| (piece, is_last))
    }

    /// The recording that is played at a time of the source.
    pub(super) fn piece_at(&self, source_us: u64) -> Option<&Piece> {
        self.pieces.iter().rfind(|piece| piece.begin_us <= source_us).or(self.pieces.front())
    }

    /// Puts a recording behind the last one, whose segments end before this one.
    pub(super) fn push(&mut self, next: Opened, segment: u32, gaps: Gaps, pool: &BlockingPool) {
        let Some(last) = self.pieces.back() else { return };
        let length_us = last.image.duration_us().unwrap_or(0).max(last.last_us.saturating_sub(last.begin_us));
        let gap_us = next.start_us.saturating_sub(last.start_us.saturating_add_unsigned(length_us));
        let held_us = if gaps == Gaps::Hold && gap_us > LEAST_GAP_US { gap_us.unsigned_abs() } else { 0 };
        let piece = Piece::new(next, segment, last.begin_us + length_us + held_us, last.next, pool);
        self.pieces.push_back(piece);
        if self.pieces.len() > KEPT {
            self.pieces.pop_front();
        }
    }
}

impl Piece {
    fn new(
        opened: Opened,
        first_segment: u32,
        begin_us: u64,
        first: [u16; MAX_STREAMS],
        pool: &BlockingPool,
    ) -> Piece {
        let Opened { image, start_us } = opened;
        let image = DropOnPool::new(image, pool);
        Piece { image, start_us, first_segment, begin_us, last_us: begin_us, given: 0, first, next: first }
    }

    /// A segment of the recording, in its place.
    pub(super) fn give(&mut self, segment: &Segment, local: u32, streams: &[StreamPlan]) -> Arc<Segment> {
        let departures = segment.departures.iter().map(|departure| self.place(departure, streams));
        let departures: Box<[Departure]> = departures.collect();
        // A playback that rested asks for a segment again.
        if local >= self.given {
            self.given = local + 1;
            for Departure { at_us, train } in &departures {
                self.last_us = self.last_us.max(*at_us);
                if let Some(next) = self.next.get_mut(usize::from(train.run.stream)) {
                    *next = train.run.header(train.first + train.packets()).sequence;
                }
            }
        }
        Arc::new(Segment { mapped_file: Arc::clone(&segment.mapped_file), departures })
    }

    /// A departure with the numbers of the archive.
    fn place(&self, departure: &Departure, streams: &[StreamPlan]) -> Departure {
        let run = departure.train.run;
        let stream = usize::from(run.stream);
        let stored = self.image.plan().streams.get(stream);
        let (Some(own), Some(stored), Some(first)) = (streams.get(stream), stored, self.first.get(stream))
        else {
            return *departure; // of a stream that is not sent
        };
        let ticks = u128::from(self.begin_us) * u128::from(own.clock_hz) / 1_000_000;
        let mut header = run.first;
        header.ssrc = own.ssrc;
        header.sequence = header.sequence.wrapping_sub(stored.sequence).wrapping_add(*first);
        header.timestamp = header
            .timestamp
            .wrapping_sub(stored.timestamp)
            .wrapping_add(own.timestamp)
            .wrapping_add(ticks as u32);
        let train = Train { run: Run { first: header, ..run }, ..departure.train };
        Departure { at_us: departure.at_us + self.begin_us, train }
    }
}
