//! The recordings of an archive as the source of one session's playback.
//!
//! Each seek begins a new chain, whose segments have their own numbers: the playback still requests segments
//! of the old chain until it is told to switch.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;
use wirepath_engine::{BlockingPool, Waker};
use wirepath_media::image::StreamPlan;
use wirepath_playback::{At, Cursor, Load, TrainSource};

use super::Gaps;
use super::chain::{Chain, Following, Join, NextCheck, Rest};
use super::opener::{Opened, Opener, RETRIES, RETRY, Search};
use crate::epoch;
use crate::formats::Formats;

/// Source of one session.
pub(super) struct ArchiveSource {
    /// Numbers of the streams of all recordings.
    streams: Vec<StreamPlan>,
    gaps: Gaps,
    /// Time 0 of the archive, in microseconds since 1970.
    origin_us: i64,
    state: Mutex<State>,
    /// Notified when the recording after the last one should be opened.
    wanted: Arc<Notify>,
    pool: BlockingPool,
    /// True if segments have the wall clock of their recordings.
    has_clock: bool,
}

struct State {
    chain: Chain,
    /// The old chain, which the playback is leaving.
    left: Option<Chain>,
    /// Wakers of the playback while it waits for the next recording.
    waiters: Vec<Waker>,
    /// End of the range, in microseconds since 1970.
    until_us: Option<i64>,
}

impl ArchiveSource {
    /// A source that begins with the first recording, at time 0 of the archive.
    pub(super) fn new(
        first: Opened,
        streams: Vec<StreamPlan>,
        gaps: Gaps,
        has_clock: bool,
        pool: &BlockingPool,
    ) -> Arc<Self> {
        let origin_us = first.start_us;
        let chain = Chain::new(0, first, 0, &streams, pool);
        let state = Mutex::new(State { chain, left: None, waiters: Vec::new(), until_us: None });
        let wanted = Arc::new(Notify::new());
        wanted.notify_one();
        Arc::new(ArchiveSource { streams, gaps, origin_us, state, wanted, pool: pool.clone(), has_clock })
    }

    /// Continues at a position in a recording, up to the end of a range. Returns the position in this source.
    pub(super) fn begin(&self, opened: Opened, place: Cursor, until_us: Option<i64>) -> Cursor {
        let begin_us = opened.start_us.saturating_sub(self.origin_us).max(0).unsigned_abs();
        let mut state = self.state.lock();
        let number = epoch::next(state.chain.epoch);
        let chain = Chain::new(number, opened, begin_us, &self.streams, &self.pool);
        state.left = Some(std::mem::replace(&mut state.chain, chain));
        state.until_us = until_us;
        self.wanted.notify_one();
        let at = match place.at {
            At::Time(at_us) => At::Time(at_us + begin_us),
            at @ At::Packet { .. } => at,
        };
        Cursor { segment: epoch::join(number, place.segment), at }
    }

    /// Continues at the playback's position, up to the end of another range.
    pub(super) fn go_on(&self, until_us: Option<i64>) {
        let mut state = self.state.lock();
        state.until_us = until_us;
        if matches!(state.chain.following, Following::End(_)) {
            // New recordings may exist by now.
            state.chain.following = Following::Unknown;
            self.wanted.notify_one();
        }
    }

    /// Time of the archive at a time of the source.
    pub(super) fn archive_us(&self, source_us: u64) -> u64 {
        let state = self.state.lock();
        let Some(piece) = state.chain.piece_at(source_us) else { return source_us };
        let at_us = piece.start_us.saturating_sub(self.origin_us).max(0).unsigned_abs();
        at_us + source_us.saturating_sub(piece.joined.begin_us)
    }

    /// Start of the recording after which the next one should be opened, and its chain; none if the
    /// next one is open.
    fn wanted(&self) -> Option<(u32, i64)> {
        let state = self.state.lock();
        let end_us = state.chain.end_us()?;
        matches!(state.chain.following, Following::Unknown).then_some((state.chain.epoch, end_us))
    }

    /// Returns whether a recorder writes the last recording of a chain, or may go on behind it.
    fn is_live(&self, epoch: u32) -> bool {
        let state = self.state.lock();
        let last = state.chain.pieces.back().filter(|_| state.chain.epoch == epoch);
        last.is_some_and(|last| last.image.may_be_continued())
    }

    /// Has the next recording searched again if none was found some time ago. Returns whether it does.
    fn search_again(&self, chain: &mut Chain) -> bool {
        let is_sought = chain.forget_end();
        if is_sought {
            self.wanted.notify_one();
        }
        is_sought
    }

    /// Passes over the recording after the last one if it begins in the range, and nothing of it can be read.
    fn check_next(&self, chain: &mut Chain, until_us: Option<i64>, waker: Option<&Waker>) -> NextCheck {
        let is_in_range = |next: &Opened| until_us.is_none_or(|until_us| next.start_us < until_us);
        if !matches!(&chain.following, Following::Known(next) if is_in_range(next)) {
            return NextCheck::Readable;
        }
        let check = chain.check_next(waker, &self.pool);
        if matches!(check, NextCheck::PassedOver) {
            self.wanted.notify_one();
        }
        check
    }

    /// Sets the recording after the last one of a chain, unless the playback was told to leave that chain.
    fn follow(&self, epoch: u32, following: Following) {
        let mut state = self.state.lock();
        if state.chain.epoch == epoch && matches!(state.chain.following, Following::Unknown) {
            if let (Following::Known(_), Some(last)) = (&following, state.chain.pieces.back()) {
                last.image.note_successor();
            }
            state.chain.following = following;
            for waiter in state.waiters.drain(..) {
                waiter.wake();
            }
        }
    }
}

/// Keeps a waker until the next recording is known.
fn wait(waiters: &mut Vec<Waker>, waker: Option<&Waker>) -> Load {
    let new = waker.filter(|waker| !waiters.contains(waker));
    waiters.extend(new.cloned());
    Load::Pending
}

/// Opens each recording when the previous one begins, or as soon as there is one. Ends with the source.
pub(super) async fn feed(source: Weak<ArchiveSource>, opener: Opener, like: Formats) {
    let Some(wanted) = source.upgrade().map(|source| Arc::clone(&source.wanted)) else { return };
    let folder = Arc::clone(&opener.folder);
    loop {
        wanted.notified().await;
        let Some(there) = source.upgrade() else { return };
        let Some((epoch, mut after_us)) = there.wanted() else { continue };
        drop(there);
        // A search may take long, and a seek needs another one.
        let is_wanted = || {
            let wanted = source.upgrade().and_then(|source| source.wanted());
            wanted.is_some_and(|(wanted, _)| wanted == epoch)
        };
        let (mut failures, mut is_logged) = (0, false);
        let following = loop {
            // Asked before the search, which may miss a recording that is begun meanwhile.
            let is_live = source.upgrade().is_some_and(|source| source.is_live(epoch));
            let (opener, like) = (opener.clone(), like.clone());
            let search = tokio::task::spawn_blocking(move || opener.after(after_us, &like)).await;
            match search {
                Ok(Ok(Search::Found(opened))) => break Following::Known(opened),
                Ok(Ok(Search::NotYet(up_to_us))) if is_wanted() => after_us = up_to_us,
                Ok(Ok(Search::Later(recording, error))) if failures == RETRIES => {
                    folder.note_failure(&recording, &error);
                    (after_us, failures) = (recording.start_us, 0);
                }
                Ok(Ok(Search::Later(..))) if is_wanted() => {
                    failures += 1;
                    tokio::time::sleep(RETRY).await;
                }
                Ok(Ok(Search::End)) if is_live && is_wanted() => tokio::time::sleep(RETRY).await,
                Ok(Ok(Search::End | Search::NotYet(_) | Search::Later(..))) => break ended(),
                Ok(Err(error)) if is_live && is_wanted() => {
                    if !is_logged {
                        tracing::warn!(%error, "an archive cannot be read: it is tried again while its recording grows");
                    }
                    is_logged = true;
                    tokio::time::sleep(RETRY).await;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "an archive cannot be read: a session ends with its recording");
                    break ended();
                }
                Err(error) if error.is_panic() => {
                    if failures == 0 {
                        tracing::error!(
                            archive = folder.path(),
                            "the search for a recording panicked, which is a bug: report it with the panic's message; \
                             it is tried again"
                        );
                    }
                    if failures == RETRIES || !is_wanted() {
                        break ended();
                    }
                    failures += 1;
                    tokio::time::sleep(RETRY).await;
                }
                Err(_) => return, // the runtime ends
            }
        };
        if let Some(source) = source.upgrade() {
            source.follow(epoch, following);
        }
    }
}

/// No recording follows at present.
fn ended() -> Following {
    Following::End(Instant::now())
}

impl Drop for ArchiveSource {
    fn drop(&mut self) {
        self.wanted.notify_one();
    }
}

impl TrainSource for ArchiveSource {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let (epoch, number) = epoch::split(number);
        let mut state = self.state.lock();
        let State { chain, left, waiters, until_us } = &mut *state;
        let is_left = chain.epoch != epoch;
        let chain = match left.as_mut().filter(|left| is_left && left.epoch == epoch) {
            Some(left) => left,
            None if is_left => return Load::Pending, // the playback is about to be told of another place
            None => chain,
        };
        if number == epoch::LAST {
            return Load::Failed(
                "an archive was played for too long without a seek: PLAY from a time".into(),
            );
        }
        loop {
            let Some((piece, is_last)) = chain.piece(number) else {
                return Load::Failed("the place is in a recording that is closed".into());
            };
            let local = number - piece.first_segment;
            match piece.image.segment(local, waker) {
                Load::Ready(segment) if self.has_clock => {
                    // The last access units before a gap are marked, so what follows must be known.
                    let rest = match piece.rest(local, waker) {
                        Ok(rest) => rest,
                        Err(Some(load)) => return load,
                        Err(None) => continue, // it has changed meanwhile
                    };
                    if is_last && matches!(rest, Rest::None | Rest::Segment(_)) {
                        if self.search_again(chain) {
                            return wait(waiters, waker);
                        }
                        match self.check_next(chain, *until_us, waker) {
                            NextCheck::Waiting(load) => return load,
                            NextCheck::PassedOver => return wait(waiters, waker),
                            NextCheck::Readable => {}
                        }
                    }
                    let Some((piece, _)) = chain.piece(number) else { continue };
                    let given = piece.joined.give_own(&segment, local);
                    let join = match &rest {
                        Rest::Long => Some(Join::Continuous),
                        Rest::None | Rest::Segment(_) => chain.join_after(number),
                    };
                    let piece = chain.piece(number).map(|(piece, _)| piece);
                    let Some((piece, join)) = piece.zip(join) else { return wait(waiters, waker) };
                    return Load::Ready(piece.with_clock(given, self.streams.len(), join, &rest));
                }
                Load::Ready(segment) => return Load::Ready(piece.joined.give(&segment, local)),
                load @ (Load::Pending | Load::Busy) => return load,
                Load::End => {}
                Load::Failed(reason) => {
                    let asset = piece.image.name();
                    tracing::warn!(asset, %reason, "a recording of an archive ends early");
                    piece.joined.is_cut = true;
                }
            }
            if !is_last {
                return Load::Failed("a recording was changed while it was played".into());
            }
            if self.search_again(chain) {
                return wait(waiters, waker);
            }
            match std::mem::replace(&mut chain.following, Following::Unknown) {
                Following::Known(next) if until_us.is_some_and(|until_us| next.start_us >= until_us) => {
                    chain.following = Following::Known(next);
                    return Load::End;
                }
                Following::Known(next) => {
                    chain.push(next, number, self.gaps, &self.streams, &self.pool);
                    self.wanted.notify_one();
                }
                Following::End(found) => {
                    chain.following = Following::End(found);
                    return Load::End;
                }
                Following::Unknown => return wait(waiters, waker),
            }
        }
    }

    fn read_ahead_us(&self) -> u64 {
        let image = self.state.lock().chain.pieces.back().map(|piece| Arc::clone(&piece.image));
        image.map_or(0, |image| image.read_ahead_us())
    }

    fn has_own_numbers(&self) -> bool {
        true
    }

    fn until_us(&self, number: u32) -> Option<u64> {
        let mut state = self.state.lock();
        let until_us = state.until_us?;
        let (epoch, number) = epoch::split(number);
        if state.chain.epoch != epoch {
            return None;
        }
        let (piece, _) = state.chain.piece(number)?;
        let local_us = until_us.saturating_sub(piece.start_us).max(0).unsigned_abs();
        Some(piece.joined.begin_us.saturating_add(local_us))
    }

    fn is_growing(&self) -> bool {
        false
    }

    fn is_at_edge(&self, number: u32) -> bool {
        let (epoch, number) = epoch::split(number);
        let mut state = self.state.lock();
        let chain = Some(&mut state.chain).filter(|chain| chain.epoch == epoch);
        let Some((piece, is_last)) = chain.and_then(|chain| chain.piece(number)) else { return false };
        // The last access units before a gap are marked, so a segment waits for two more.
        let awaited = number - piece.first_segment + if self.has_clock { 2 } else { 0 };
        match piece.image.has_segment(awaited) {
            Some(true) => false,
            Some(false) => is_last && piece.image.is_recorded(),
            None => piece.image.grows_with_recording(),
        }
    }

    fn forget(&self, waker: &Waker) {
        let mut state = self.state.lock();
        state.waiters.retain(|waiter| waiter != waker);
        let State { chain, left, .. } = &*state;
        for chain in std::iter::once(chain).chain(left) {
            chain.pieces.iter().for_each(|piece| piece.image.forget(waker));
            if let Following::Known(next) = &chain.following {
                next.image.forget(waker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use wirepath_engine::Priority;
    use wirepath_media::ts::synthetic::Sample;

    use super::*;
    use crate::images::{ImageFolder, Store};

    /// Promise: An archive whose segments cannot be counted any more ends with an error, and plays again after a seek.
    #[test]
    fn segments_that_cannot_be_counted_end_the_chain() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("clip.ts"), Sample::default().stream().bytes).unwrap();
        let pool = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let cache = ImageFolder::open(&home.path().join("cache"), 1 << 30).unwrap();
        let store = Store::new(cache, pool.clone(), 1).unwrap();
        let asset = Arc::new(File::open(home.path().join("clip.ts")).unwrap());
        let image = store.image(asset, "clip.ts", store.usual_limits()).unwrap();
        let opened = || Opened { image: Arc::clone(&image), start_us: 0 };
        let streams = image.plan().streams.to_vec();
        let source = ArchiveSource::new(opened(), streams, Gaps::Skip, false, &pool);
        for round in 1..=20_u32 {
            let place = source.begin(opened(), Cursor::START, None);
            let (epoch, _) = epoch::split(place.segment);
            assert_eq!(epoch, round % 16, "chains that follow each other have other numbers");
            let last = epoch::join(epoch, epoch::LAST);
            assert!(matches!(source.segment(last, None), Load::Failed(_)));
            let next = source.segment(last.wrapping_add(1), None);
            assert!(matches!(next, Load::Pending), "it is of another chain: {next:?}");
            while !matches!(source.segment(place.segment, None), Load::Ready(_)) {
                std::thread::yield_now();
            }
        }
    }
}
