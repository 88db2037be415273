//! Downloads and players: the order and times of their requests.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::sleep;
use wirepath_media::hls::{self, Location, Playlist};

use super::playlists::SharedPlaylist;
use super::{Mode, Session};
use crate::failure::Failure;

/// Media that a player reads ahead of its clock, or its buffer if that is longer.
const AHEAD_US: i64 = 10_000_000;

/// Media by which a paced player falls below that before it reads again.
const STEP_US: i64 = 1_000_000;

/// Fewest bytes that a paced player reads at once.
const LEAST_READ: u64 = 1_024;

impl Session {
    /// Plays from the position to the end of the media; a download never ends.
    pub(super) async fn play(&mut self) -> Result<(), Failure> {
        let path = self.shared.options.targets[self.plan.target].path();
        match self.mode {
            Mode::Download => loop {
                self.download(&path).await?;
            },
            Mode::Paced(rate) => self.play_paced(&path, rate).await,
            Mode::Segments => self.play_segments(path).await,
        }
    }

    async fn download(&mut self, path: &str) -> Result<(), Failure> {
        let mut body = self.get(path, None).await?;
        while self.read(&mut body, u64::MAX).await?.is_some() {}
        self.complete(&body, false)
    }

    async fn play_paced(&mut self, path: &str, rate: u64) -> Result<(), Failure> {
        let first = self.position;
        let mut body = self.get(path, (first > 0).then_some((first, None))).await?;
        self.size = body.left().map(|left| first.saturating_add(left));
        let media_us = |bytes: u64| media_us(bytes, rate);
        let most_ahead_us = self.most_ahead_us();
        loop {
            let ahead_us = self.player.ahead_us(self.shared.clock.now_us());
            if ahead_us >= most_ahead_us {
                self.pause(ahead_us - (most_ahead_us - STEP_US)).await;
                continue;
            }
            let room = (most_ahead_us - ahead_us).min(most_ahead_us) as u128 * u128::from(rate) / 8_000_000;
            let begin_us = media_us(first.saturating_add(body.received));
            match self.read(&mut body, u64::try_from(room).unwrap_or(u64::MAX).max(LEAST_READ)).await? {
                Some(now_us) => {
                    self.arrived(begin_us, media_us(first.saturating_add(body.received)), now_us);
                }
                None => break,
            }
        }
        self.complete(&body, true)?;
        if body.received == 0 {
            return Err(Failure::EmptyBody);
        }
        self.is_whole = true;
        self.play_out().await;
        Ok(())
    }

    async fn play_segments(&mut self, path: String) -> Result<(), Failure> {
        let playlist = match &self.playlist {
            Some(playlist) => Arc::clone(playlist),
            None => self.fetch_playlist(path).await?,
        };
        self.playlist = Some(Arc::clone(&playlist));
        let most_ahead_us = self.most_ahead_us();
        for segment in playlist.segments().iter().skip(self.position as usize) {
            let ahead_us = self.player.ahead_us(self.shared.clock.now_us());
            if ahead_us > most_ahead_us {
                self.pause(ahead_us - most_ahead_us).await;
            }
            let length = segment.range.map(|range| range.length.get());
            let mut body = self.get(&segment.path, segment.range.map(|range| (range.offset, length))).await?;
            while self.read(&mut body, u64::MAX).await?.is_some() {}
            self.complete(&body, false)?;
            if segment.duration_us > 0 {
                let end_us = segment.start_us + segment.duration_us;
                self.arrived(segment.start_us, end_us, self.shared.clock.now_us());
            }
        }
        self.is_whole = true;
        self.play_out().await;
        Ok(())
    }

    /// Fetches the playlist; of a master playlist, that of its best variant.
    async fn fetch_playlist(&mut self, path: String) -> Result<Arc<SharedPlaylist>, Failure> {
        let authority = self.shared.options.targets[self.plan.target].authority().to_owned();
        let mut at = Location { authority, path };
        for _ in 0..2 {
            let body = self.get(&at.path, None).await?;
            // The text counts as memory until its segments do.
            let (text, _memory) = self.read_text(body).await?;
            let shared = Arc::clone(&self.shared);
            if let Some(known) = shared.playlists.known(&at, &text) {
                return Ok(known);
            }
            match hls::read(&text, &at)? {
                Playlist::Segments(segments) if segments.iter().all(|segment| segment.duration_us <= 0) => {
                    return Err(Failure::NoDuration);
                }
                Playlist::Segments(segments) => return shared.playlists.keep(&at, &text, segments),
                Playlist::Variant(path) => at.path = path,
            }
        }
        Err(Failure::NestedPlaylist)
    }

    /// Goes elsewhere; what is being fetched is given up.
    pub(super) fn seek(&mut self) {
        let now_us = self.shared.clock.now_us();
        let end = match (self.mode, &self.playlist) {
            (Mode::Segments, Some(playlist)) => Some(playlist.segments().len() as u64 - 1),
            (Mode::Paced(_), _) => self.size,
            _ => None,
        };
        self.cut(now_us);
        self.end_gap(now_us);
        self.is_whole = false;
        self.player.rewind();
        if self.connection.as_ref().is_some_and(|connection| connection.is_busy) {
            self.connection = None;
        }
        // The beginning, as long as the size of the asset is unknown.
        let most = end.map_or(0, |end| (u128::from(end) * 9 / 10) as u64);
        self.position = self.random.below(most.saturating_add(1));
        self.seeks += 1;
        self.sought_us = Some(now_us);
    }

    /// The player gets media from this time to that.
    fn arrived(&mut self, begin_us: i64, end_us: i64, now_us: i64) {
        let underruns = self.player.underruns;
        self.player.packet(begin_us, now_us);
        self.player.extend(end_us);
        self.count_underruns(underruns, now_us);
    }

    /// No more media come: those that the player waits for are missing, unless it has all.
    pub(super) fn cut(&mut self, now_us: i64) {
        if self.is_whole {
            return;
        }
        let underruns = self.player.underruns;
        self.player.cut(now_us);
        self.count_underruns(underruns, now_us);
    }

    fn count_underruns(&mut self, before: u64, now_us: i64) {
        if now_us < self.shared.options.judged_after().as_micros() as i64 {
            self.player.forgive();
        } else if self.plan.judged {
            self.shared.totals.underruns.fetch_add(self.player.underruns - before, Relaxed);
        }
    }

    /// Plays what is left.
    async fn play_out(&mut self) {
        let left_us = self.player.ahead_us(self.shared.clock.now_us());
        self.pause(left_us).await;
    }

    /// Media that the player reads ahead of its clock.
    fn most_ahead_us(&self) -> i64 {
        i64::try_from(self.shared.options.buffer.as_micros()).unwrap_or(i64::MAX).max(AHEAD_US)
    }

    /// Reads nothing for this long.
    async fn pause(&mut self, us: i64) {
        let awaited = self.awaited_since_us.take();
        sleep(Duration::from_micros(us.max(0) as u64)).await;
        self.awaited_since_us = awaited.map(|_| self.shared.clock.now_us());
        self.connection.iter_mut().for_each(super::Connection::resume);
    }
}

/// Media time of so many bytes; a quarter of what the type holds at most, so that sums do not overflow.
fn media_us(bytes: u64, rate: u64) -> i64 {
    let us = u128::from(bytes) * 8_000_000 / u128::from(rate);
    i64::try_from(us).unwrap_or(i64::MAX).min(i64::MAX / 4)
}
