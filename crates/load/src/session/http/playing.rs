//! Downloads and players: the order and timing of their requests.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::sleep;
use wirepath_media::hls::{self, Location, Playlist};

use super::playlists::SharedPlaylist;
use super::{Mode, Session};
use crate::failure::Failure;

/// Duration of media that a player reads ahead of its clock, unless its buffer is longer.
const AHEAD_US: i64 = 10_000_000;

/// Duration of media by which a paced player drops below this before it reads again.
const STEP_US: i64 = 1_000_000;

/// Minimum number of bytes that a paced player reads at once.
const LEAST_READ: u64 = 1_024;

impl Session {
    /// Plays from the position to the end of the media. A download never ends.
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

    /// Fetches the playlist; for a master playlist, the playlist of its best variant.
    async fn fetch_playlist(&mut self, path: String) -> Result<Arc<SharedPlaylist>, Failure> {
        let authority = self.shared.options.targets[self.plan.target].authority().to_owned();
        let mut at = Location { authority, path };
        for _ in 0..2 {
            let body = self.get(&at.path, None).await?;
            // The text counts as memory until the segments do.
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

    /// Seeks to a random position, and abandons the current request.
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
        // The start, if the size of the asset is not known yet.
        let most = end.map_or(0, |end| (u128::from(end) * 9 / 10) as u64);
        self.position = self.random.below(most.saturating_add(1));
        self.seeks += 1;
        self.sought_us = Some(now_us);
    }

    /// Notes that the player received the media from `begin_us` to `end_us`.
    fn arrived(&mut self, begin_us: i64, end_us: i64, now_us: i64) {
        let underruns = self.player.underruns;
        self.player.packet(begin_us, now_us);
        self.player.extend(end_us);
        self.count_underruns(underruns, now_us);
    }

    /// Notes that no more media will be received. The media that the player waits for are missing, unless it
    /// has all media.
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

    /// Plays the remaining media.
    async fn play_out(&mut self) {
        let left_us = self.player.ahead_us(self.shared.clock.now_us());
        self.pause(left_us).await;
    }

    /// Duration of media that the player reads ahead of its clock.
    fn most_ahead_us(&self) -> i64 {
        i64::try_from(self.shared.options.buffer.as_micros()).unwrap_or(i64::MAX).max(AHEAD_US)
    }

    /// Reads nothing for this long. The pause does not count as waiting.
    async fn pause(&mut self, us: i64) {
        let awaited = self.awaited_since_us.take();
        sleep(Duration::from_micros(us.max(0) as u64)).await;
        self.awaited_since_us = awaited.map(|_| self.shared.clock.now_us());
        self.connection.iter_mut().for_each(super::Connection::resume);
    }
}

/// Media time of so many bytes, limited to a quarter of the type's maximum so that sums do not overflow.
fn media_us(bytes: u64, rate: u64) -> i64 {
    let us = u128::from(bytes) * 8_000_000 / u128::from(rate);
    i64::try_from(us).unwrap_or(i64::MAX).min(i64::MAX / 4)
}
