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

/// What a session does with its asset.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Downloads it, again and again.
    Download,
    /// Plays it at so many bits a second.
    Paced(u64),
    /// Plays the segments of a playlist.
    Segments,
}

/// A session.
struct Session {
    shared: Arc<Shared>,
    plan: Plan,
    random: Random,
    manner: Manner,
    connection: Option<Connection>,
    player: Player,
    figures: HttpRecord,
    playlist: Option<Arc<SharedPlaylist>>,
    /// Position of a paced player in bytes, or of a player of segments in segments, at which it began or to
    /// which it sought.
    position: u64,
    /// Bytes of a paced asset.
    size: Option<u64>,
    /// When the first byte of media came.
    playing_since_us: Option<i64>,
    /// When the last seek began, until its first byte comes.
    sought_us: Option<i64>,
    /// Since when the next byte is awaited.
    waiting_since_us: i64,
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
        let manner = match (target.is_playlist(), shared.options.rate) {
            (true, _) => Manner::Segments,
            (false, Some(rate)) => Manner::Paced(rate),
            (false, None) => Manner::Download,
        };
        Session {
            plan,
            random: Random::new(plan.seed),
            manner,
            connection: None,
            player: Player::new(shared.options.buffer.as_micros() as i64),
            figures: HttpRecord::default(),
            playlist: None,
            position: 0,
            size: None,
            playing_since_us: None,
            sought_us: None,
            waiting_since_us: 0,
            seeks: 0,
            shared,
        }
    }

    /// Plays until something ends it.
    async fn live(&mut self, stop: &mut watch::Receiver<bool>) -> Result<Ending, Failure> {
        let leave = self.some_time(self.shared.options.churn);
        let mut seek = self.some_time(self.shared.options.seek_every);
        loop {
            tokio::select! {
                biased; // what is due must not wait for bytes that do not end
                _ = stop.wait_for(|stop| *stop) => return Ok(Ending::RunOver),
                () = at(leave) => {
                    let vanishes = mix::share(&mut self.random) < self.shared.options.vanish;
                    return Ok(if vanishes { Ending::Vanished } else { Ending::Left });
                }
                () = at(seek) => {}
                result = self.play() => return result.map(|()| Ending::MediaOver),
            }
            self.seek();
            seek = self.some_time(self.shared.options.seek_every);
        }
    }

    /// A random time from now on with this mean.
    fn some_time(&mut self, mean: Option<Duration>) -> Option<Instant> {
        mean.map(|mean| Instant::now() + mix::waiting_time(&mut self.random, mean))
    }
}

/// Waits until then; without a time, for ever.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
