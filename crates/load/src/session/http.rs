//! HTTP sessions: downloads, progressive players, and players of segments.

mod body;
mod connection;
mod ending;
mod fetch;
mod playing;
mod playlists;

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use wirepath_media::random::Random;

use super::{Finished, Plan, Shared};
use crate::failure::Failure;
use crate::mix;
use crate::player::Player;
use crate::record::{Ending, HttpRecord};
use connection::Connection;
use playlists::SharedPlaylist;

pub(super) use playlists::Playlists;

/// Use of the asset by a session.
#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Downloads the asset again and again.
    Download,
    /// Plays the asset at this number of bits per second.
    Paced(u64),
    /// Plays the segments of a playlist.
    Segments,
}

/// HTTP session.
struct Session {
    shared: Arc<Shared>,
    plan: Plan,
    random: Random,
    mode: Mode,
    connection: Option<Connection>,
    player: Player,
    figures: HttpRecord,
    playlist: Option<Arc<SharedPlaylist>>,
    /// Position at which the player started or to which it sought: in bytes for a paced player, in segments
    /// for a player of segments.
    position: u64,
    /// Size of a paced asset in bytes, if known.
    size: Option<u64>,
    /// Time of the first byte of media.
    playing_since_us: Option<i64>,
    /// Time of the last seek, until its first byte is received.
    sought_us: Option<i64>,
    /// Start of the wait for the next byte, while a byte is awaited.
    awaited_since_us: Option<i64>,
    /// True if all media to the end were received, so that the player waits for none.
    is_whole: bool,
    seeks: u64,
}

/// Plays a session from its beginning to its end.
pub(super) async fn play(shared: Arc<Shared>, plan: Plan, mut stop: watch::Receiver<bool>) -> Finished {
    let started_us = shared.clock.now_us();
    let mut session = Session::new(shared, plan);
    let result = session.live(&mut stop).await;
    if session.playing_since_us.is_some() {
        session.shared.totals.playing.fetch_sub(1, Relaxed);
    }
    session.finish(started_us, result)
}

impl Session {
    fn new(shared: Arc<Shared>, plan: Plan) -> Session {
        let target = &shared.options.targets[plan.target];
        let mode = match (target.is_playlist(), shared.options.rate) {
            (true, _) => Mode::Segments,
            (false, Some(rate)) => Mode::Paced(rate),
            (false, None) => Mode::Download,
        };
        Session {
            plan,
            random: Random::new(plan.seed),
            mode,
            connection: None,
            player: Player::new(shared.options.buffer.as_micros() as i64),
            figures: HttpRecord::default(),
            playlist: None,
            position: 0,
            size: None,
            playing_since_us: None,
            sought_us: None,
            awaited_since_us: None,
            is_whole: false,
            seeks: 0,
            shared,
        }
    }

    /// Plays until the session ends.
    async fn live(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Ending, Failure> {
        let leave = self.some_time(self.shared.options.churn);
        let seek_every = match self.mode {
            Mode::Download => None,
            Mode::Paced(_) | Mode::Segments => self.shared.options.seek_every,
        };
        let mut seek = self.some_time(seek_every);
        loop {
            tokio::select! {
                biased; // timers must not wait for bytes that never end
                _ = stop.wait_for(|stop| *stop) => return Ok(Ending::RunOver),
                () = at(leave) => {
                    let vanishes = mix::share(&mut self.random) < self.shared.options.vanish;
                    return Ok(if vanishes { Ending::Vanished } else { Ending::Left });
                }
                () = at(seek) => {}
                result = self.play() => return result.map(|()| Ending::MediaOver),
            }
            self.seek();
            seek = self.some_time(seek_every);
        }
    }

    /// Random time in the future, with this mean delay.
    fn some_time(&mut self, mean: Option<Duration>) -> Option<Instant> {
        mean.map(|mean| Instant::now() + mix::waiting_time(&mut self.random, mean))
    }
}

/// Waits until this time; without a time, forever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
