//! The timeline of a channel: which asset is on when.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use wirepath_engine::{BlockingPool, DropOnPool, Waker, now_us};
use wirepath_playback::Cursor;

use super::LiveChannel;
use crate::images::{Failure, Image, Progress};
use crate::playlist::{Fault, RETRY, formats, wait_until};

/// Least time from the beginning of an asset to that of the next: a list of empty files must not keep a thread busy.
const LEAST_LENGTH_US: u64 = 100_000;

/// Time from when an asset is known to its beginning, if that is late: sessions read it meanwhile.
const LEAD_US: u64 = 300_000;

/// Time for which an asset that is over is kept for sessions that are behind.
const KEPT_US: u64 = 30_000_000;

/// Longest time until a random access point for which a session waits. Encoders have one each ten seconds or more often.
const LONGEST_WAIT_US: u64 = 12_000_000;

/// Timeline of a channel, in microseconds since the channel began.
pub(super) struct Timeline {
    /// Time 0, in microseconds of CLOCK_MONOTONIC.
    origin_us: u64,
    state: Mutex<State>,
    /// Number of the first piece that is not played any more, once the channel was removed; else [`ENDLESS`].
    end: AtomicU64,
    pool: BlockingPool,
}

/// No end.
const ENDLESS: u64 = u64::MAX;

#[derive(Default)]
struct State {
    /// Recent items, the current item and the next items, in order.
    pieces: VecDeque<Arc<Piece>>,
    /// Wakers of playbacks that wait for the next piece.
    waiters: Vec<Waker>,
}

/// Asset in its place.
pub(super) struct Piece {
    /// The last reference to an image closes files, which no engine thread may wait for.
    pub(super) image: DropOnPool<Arc<Image>>,
    pub(super) begin_us: u64,
    /// Number in the timeline.
    number: u64,
}

/// Place where a playback begins.
pub(super) struct Place {
    pub(super) piece: Arc<Piece>,
    /// Place in the piece.
    pub(super) cursor: Cursor,
    /// Departure of the first packet in the timeline.
    pub(super) at_us: u64,
}

/// Answer to the question for the next piece.
pub(super) enum Following {
    Piece(Arc<Piece>),
    /// It is not known yet; the waker is kept.
    NotYet,
    /// It was over long ago.
    Gone,
    /// There is none: the channel was removed.
    End,
}

impl Timeline {
    /// A timeline without assets, which begins now.
    pub(super) fn new(pool: &BlockingPool) -> Timeline {
        let end = AtomicU64::new(ENDLESS);
        Timeline { origin_us: now_us(), state: Mutex::default(), end, pool: pool.clone() }
    }

    /// Ends the timeline with the asset that is on.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        let now_us = self.now_us();
        state.pieces.retain(|piece| piece.begin_us <= now_us);
        self.end.store(state.pieces.back().map_or(0, |last| last.number + 1), Relaxed);
        state.waiters.drain(..).for_each(|waiter| waiter.wake());
    }

    /// Returns whether an asset is, or was, on or next.
    pub(super) fn has_begun(&self) -> bool {
        !self.state.lock().pieces.is_empty()
    }

    /// Returns whether the timeline ends with the asset that is on, or has ended.
    pub(super) fn is_ending(&self) -> bool {
        self.end.load(Relaxed) != ENDLESS
    }

    /// Returns whether a piece is beyond the end of the timeline. Takes no lock.
    pub(super) fn is_beyond_end(&self, piece: &Piece) -> bool {
        piece.number >= self.end.load(Relaxed)
    }

    /// The time now.
    pub(super) fn now_us(&self) -> u64 {
        now_us().saturating_sub(self.origin_us)
    }

    /// Name of the asset that is on.
    pub(super) fn asset(&self) -> Option<String> {
        let (state, now_us) = (self.state.lock(), self.now_us());
        let piece = state.pieces.iter().rfind(|piece| piece.begin_us <= now_us)?;
        Some(piece.image.name().to_owned())
    }

    /// Adds an asset, which begins then.
    pub(super) fn push(&self, image: Arc<Image>, begin_us: u64) {
        let mut state = self.state.lock();
        if self.is_ending() {
            return;
        }
        let number = state.pieces.back().map_or(0, |last| last.number + 1);
        let image = DropOnPool::new(image, &self.pool);
        state.pieces.push_back(Arc::new(Piece { image, begin_us, number }));
        let over_us = self.now_us().saturating_sub(KEPT_US);
        while state.pieces.get(1).is_some_and(|second| second.begin_us < over_us) {
            state.pieces.pop_front();
        }
        state.waiters.drain(..).for_each(|waiter| waiter.wake());
    }

    /// The piece behind one. Keeps the waker while that is not known.
    pub(super) fn following(&self, piece: &Piece, waker: Option<&Waker>) -> Following {
        let mut state = self.state.lock();
        let first = state.pieces.front().map_or(0, |first| first.number);
        let Some(index) = (piece.number + 1).checked_sub(first) else { return Following::Gone };
        if let Some(next) = state.pieces.get(index as usize) {
            return Following::Piece(Arc::clone(next));
        }
        if self.is_ending() {
            return Following::End;
        }
        let new = waker.filter(|waker| !state.waiters.contains(waker));
        state.waiters.extend(new.cloned());
        Following::NotYet
    }

    /// Drops a waker that was kept.
    pub(super) fn forget(&self, waker: &Waker) {
        self.state.lock().waiters.retain(|waiter| waiter != waker);
    }

    /// The next place where a decoder can begin, or any if that is far. None if it is not known yet.
    pub(super) fn next_place(&self) -> Option<Place> {
        let (state, now_us) = (self.state.lock(), self.now_us());
        let current = state.pieces.iter().rposition(|piece| piece.begin_us <= now_us);
        let from_now = state.pieces.range(current.unwrap_or(0)..);
        let mut starts = from_now.filter_map(|piece| piece.start_after(now_us));
        if let Some(place) = starts.next().filter(|place| place.at_us <= now_us + LONGEST_WAIT_US) {
            return Some(place);
        }
        let piece = state.pieces.get(current?)?;
        let local_us = now_us - piece.begin_us;
        // Its end, and so the next piece, is near.
        if piece.image.duration_us().is_none_or(|end_us| end_us < local_us + LONGEST_WAIT_US) {
            return None;
        }
        let (cursor, _) = piece.image.any_place(local_us)?;
        Some(Place { piece: Arc::clone(piece), cursor, at_us: now_us })
    }
}

impl Piece {
    /// The first place at or after a time where a decoder can begin.
    fn start_after(self: &Arc<Self>, at_us: u64) -> Option<Place> {
        let (cursor, local_us) = match at_us.checked_sub(self.begin_us) {
            Some(local_us @ 1..) => self.image.start_after(local_us)?,
            Some(0) | None => (Cursor::START, 0),
        };
        Some(Place { piece: Arc::clone(self), cursor, at_us: self.begin_us + local_us })
    }
}

/// Runs the timeline of a channel: opens each asset when the one before it begins. Never ends.
pub(super) async fn run(channel: Arc<LiveChannel>) {
    let LiveChannel { list, first, timeline } = &*channel;
    let (mut place, not_before_s) = list.first_place();
    let like = Arc::new(formats(first));
    wait_until(not_before_s).await;
    let (mut image, mut begin_us) = (Arc::clone(first), timeline.now_us());
    let mut failures = 0;
    loop {
        timeline.push(Arc::clone(&image), begin_us);
        tokio::time::sleep(Duration::from_micros(begin_us.saturating_sub(timeline.now_us()))).await;
        // Channels repeat, so there is a next one.
        let Some((next, found)) = list.next(&like, place.clone()).await else { return };
        let before = std::mem::replace(&mut place, found);
        let end_us = match length_us(&image).await {
            Some(length_us) => {
                failures = 0;
                list.unplayable().note_played(&before.entry.path);
                begin_us + length_us.max(LEAST_LENGTH_US)
            }
            None => {
                failures += 1;
                match &*image.progress().borrow() {
                    Progress::Failed(Failure { is_asset: true, reason, .. }) => {
                        list.unplayable().log(&before.entry, Fault::LeftOut, reason);
                    }
                    // The store logs other failures.
                    _ => list.unplayable().note(&before.entry, Fault::LeftOut),
                }
                if failures >= list.length() {
                    failures = 0;
                    tokio::time::sleep(RETRY).await;
                }
                begin_us + LEAST_LENGTH_US
            }
        };
        let now_us = timeline.now_us();
        begin_us = if end_us < now_us { now_us + LEAD_US } else { end_us };
        image = next;
    }
}

/// Length of an asset, once that is known; none if the asset cannot be read.
async fn length_us(image: &Image) -> Option<u64> {
    let mut progress = image.progress();
    let ended = progress.wait_for(|progress| !matches!(progress, Progress::Growing { .. })).await;
    let is_complete = ended.is_ok_and(|ended| *ended == Progress::Complete);
    image.duration_us().filter(|_| is_complete)
}
