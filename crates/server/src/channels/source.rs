//! A channel as the source of one playback: that of a session, or of a group.
//!
//! Each PLAY begins at another place of the timeline, and segments from there on have numbers of their own.

use std::sync::Arc;

use parking_lot::Mutex;
use wirepath_engine::Waker;
use wirepath_media::image::StreamPlan;
use wirepath_playback::{At, Cursor, Load, TrainSource};

use super::LiveChannel;
use super::timeline::{Following, Piece, Place};
use crate::epoch;
use crate::joined::Joined;
use crate::sending::OutputSource;

/// Source of one playback.
pub(super) struct ChannelSource {
    channel: Arc<LiveChannel>,
    /// Numbers of the streams of all assets.
    streams: Vec<StreamPlan>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Number of the last PLAY.
    epoch: u32,
    /// None before the first PLAY.
    at: Option<Played>,
}

/// Asset that is played.
struct Played {
    piece: Arc<Piece>,
    /// Number of the asset's first segment since the last PLAY.
    first_segment: u32,
    joined: Joined,
    /// True once all of the asset was given away.
    has_ended: bool,
}

impl ChannelSource {
    /// A source whose packets have the numbers of these streams.
    pub(super) fn new(channel: Arc<LiveChannel>, streams: Vec<StreamPlan>) -> ChannelSource {
        ChannelSource { channel, streams, state: Mutex::default() }
    }

    pub(super) fn channel(&self) -> &Arc<LiveChannel> {
        &self.channel
    }

    /// Goes on at a place of the timeline. Returns the place in this source.
    pub(super) fn begin(&self, place: Place) -> Cursor {
        let Place { piece, cursor, .. } = place;
        let begin_us = piece.begin_us;
        let mut state = self.state.lock();
        state.epoch = epoch::next(state.epoch);
        let joined = Joined::first(&piece.image, &self.streams, begin_us);
        state.at = Some(Played { piece, first_segment: 0, joined, has_ended: false });
        let at = match cursor.at {
            At::Time(at_us) => At::Time(at_us + begin_us),
            at @ At::Packet { .. } => at,
        };
        Cursor { segment: epoch::join(state.epoch, cursor.segment), at }
    }
}

impl TrainSource for ChannelSource {
    fn segment(&self, number: u32, waker: Option<&Waker>) -> Load {
        let (epoch, number) = epoch::split(number);
        let mut state = self.state.lock();
        if state.epoch != epoch {
            return Load::Pending; // the playback is about to be told of another place
        }
        if number == epoch::LAST {
            return Load::Failed("a channel was played for too long without a PLAY: PLAY again".into());
        }
        let Some(played) = &mut state.at else { return Load::Pending };
        loop {
            let Some(local) = number.checked_sub(played.first_segment) else {
                return Load::Failed("a channel does not go back".into());
            };
            if self.channel.timeline.is_beyond_end(&played.piece) {
                return Load::End;
            }
            if !played.has_ended {
                match played.piece.image.segment(local, waker) {
                    Load::Ready(segment) => return Load::Ready(played.joined.give(&segment, local)),
                    load @ (Load::Pending | Load::Busy) => return load,
                    Load::End => {}
                    Load::Failed(reason) => {
                        let asset = played.piece.image.name();
                        tracing::debug!(asset, %reason, "an asset of a channel ends early for a session");
                    }
                }
                played.has_ended = true;
            }
            match self.channel.timeline.following(&played.piece, waker) {
                Following::Piece(next) => played.enter(next, number, &self.streams),
                Following::NotYet => return Load::Pending,
                Following::End => return Load::End,
                Following::Gone => return Load::Failed("the client is too far behind the channel".into()),
            }
        }
    }

    fn read_ahead_us(&self) -> u64 {
        let piece = self.state.lock().at.as_ref().map(|played| Arc::clone(&played.piece));
        piece.map_or(0, |piece| piece.image.read_ahead_us())
    }

    /// In the asset that is played: numbers of later ones are not known yet.
    fn next_start(&self, at_us: u64) -> Option<Cursor> {
        let state = self.state.lock();
        let played = state.at.as_ref()?;
        let cursor = played.piece.image.next_start(at_us.checked_sub(played.piece.begin_us)?)?;
        let at = match cursor.at {
            At::Time(at_us) => At::Time(at_us + played.piece.begin_us),
            at @ At::Packet { .. } => at,
        };
        Some(Cursor { segment: epoch::join(state.epoch, played.first_segment + cursor.segment), at })
    }

    fn has_own_numbers(&self) -> bool {
        true
    }

    fn is_growing(&self) -> bool {
        false
    }

    fn forget(&self, waker: &Waker) {
        self.channel.timeline.forget(waker);
        if let Some(played) = &self.state.lock().at {
            played.piece.image.forget(waker);
        }
    }
}

impl OutputSource for ChannelSource {
    fn asset(&self) -> String {
        let state = self.state.lock();
        state.at.as_ref().map_or_else(String::new, |played| played.piece.image.name().to_owned())
    }
}

impl Played {
    /// The next asset begins with segment `number`.
    fn enter(&mut self, piece: Arc<Piece>, number: u32, streams: &[StreamPlan]) {
        self.joined = self.joined.next(&piece.image, streams, piece.begin_us);
        (self.piece, self.first_segment, self.has_ended) = (piece, number, false);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::ts::synthetic::Sample;

    use super::super::LiveChannelOptions;
    use super::*;
    use crate::images::{ImageFolder, Store};

    /// Promise: A channel whose segments cannot be counted any more ends with an error, and plays again after PLAY.
    #[test]
    fn segments_that_cannot_be_counted_end_the_session() {
        let home = tempfile::tempdir().unwrap();
        let playlist = home.path().join("clip.ts");
        fs::write(&playlist, Sample::default().stream().bytes).unwrap();
        let pool = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let cache = ImageFolder::open(&home.path().join("cache"), 1 << 30).unwrap();
        let store = Store::new(cache, pool.clone(), 1).unwrap();
        let options = LiveChannelOptions { name: "news".to_owned(), playlist };
        let list = options.playlist().unwrap();
        let channel = LiveChannel::open(options, list, &store, &pool).unwrap();
        channel.timeline.push(Arc::clone(&channel.first), channel.timeline.now_us() + 1_000_000);
        let streams = channel.first.plan().streams.to_vec();
        let source = ChannelSource::new(Arc::clone(&channel), streams);
        let Place { piece, cursor, at_us } = channel.timeline.next_place().expect("its only asset");
        for round in 1..=20_u32 {
            let place = Place { piece: Arc::clone(&piece), cursor, at_us };
            let (epoch, local) = epoch::split(source.begin(place).segment);
            assert_eq!(epoch, round % 16, "PLAYs that follow each other have other numbers");
            assert!(matches!(source.segment(epoch::join(epoch, epoch::LAST), None), Load::Failed(_)));
            while !matches!(source.segment(epoch::join(epoch, local), None), Load::Ready(_)) {
                std::thread::yield_now();
            }
        }
    }
}
