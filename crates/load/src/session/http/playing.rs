//! Downloads and players: what is fetched when.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::sleep;
use wirepath_media::hls::{self, Location, Playlist};

use super::playlists::SharedPlaylist;
use super::{Manner, Session};
use crate::failure::Failure;

/// Media that a player reads ahead of its clock.
const AHEAD_US: i64 = 10_000_000;

/// Media by which a paced player falls below that before it reads again.
const STEP_US: i64 = 1_000_000;

/// Fewest bytes that a paced player reads at once.
const LEAST_READ: u64 = 1_024;

impl Session {
    /// Plays from the position to the end of the media; a download never ends.
    pub(super) async fn play(&mut self) -> Result<(), Failure> {
        let path = self.shared.options.targets[self.plan.target].path();
        match self.manner {
            Manner::Download => loop {
                self.download(&path).await?;
            },
            Manner::Paced(rate) => self.play_paced(&path, rate).await,
            Manner::Segments => self.play_segments(path).await,
        }
    }

    async fn download(&mut self, path: &str) -> Result<(), Failure> {
        let mut body = self.get(path, None).await?;
        while self.read(&mut body, u64::MAX).await?.is_some() {}
        self.complete(&body, None, false)
    }

    async fn play_paced(&mut self, path: &str, rate: u64) -> Result<(), Failure> {
        let first = self.position;
        let mut body = self.get(path, (first > 0).then_some((first, None))).await?;
        self.size = body.left().map(|left| first.saturating_add(left));
        let media_us = |bytes: u64| (u128::from(bytes) * 8_000_000 / u128::from(rate)) as i64;
        loop {
            let ahead_us = self.player.ahead_us(self.shared.clock.now_us());
            if ahead_us >= AHEAD_US {
                self.pause(ahead_us - (AHEAD_US - STEP_US)).await;
                continue;
            }
            let room = (AHEAD_US - ahead_us).min(AHEAD_US) as u128 * u128::from(rate) / 8_000_000;
            let begin_us = media_us(first + body.received);
            match self.read(&mut body, (room as u64).max(LEAST_READ)).await? {
                Some(now_us) => self.arrived(begin_us, media_us(first + body.received), now_us),
                None => break,
            }
        }
        self.complete(&body, None, true)?;
        self.play_out().await;
        Ok(())
    }

    async fn play_segments(&mut self, path: String) -> Result<(), Failure> {
        let playlist = match &self.playlist {
            Some(playlist) => Arc::clone(playlist),
            None => self.fetch_playlist(path).await?,
        };
        self.playlist = Some(Arc::clone(&playlist));
        for segment in playlist.segments().iter().skip(self.position as usize) {
            let ahead_us = self.player.ahead_us(self.shared.clock.now_us());
            if ahead_us > AHEAD_US {
                self.pause(ahead_us - AHEAD_US).await;
            }
            let length = segment.range.map(|range| range.length.get());
            let mut body = self.get(&segment.path, segment.range.map(|range| (range.offset, length))).await?;
            while self.read(&mut body, u64::MAX).await?.is_some() {}
            self.complete(&body, length, false)?;
            if segment.duration_us > 0 {
                let end_us = segment.start_us + segment.duration_us;
                self.arrived(segment.start_us, end_us, self.shared.clock.now_us());
            }
        }
        self.play_out().await;
        Ok(())
    }

    /// Fetches the playlist; of a master playlist, that of its best variant.
    async fn fetch_playlist(&mut self, path: String) -> Result<Arc<SharedPlaylist>, Failure> {
        let authority = self.shared.options.targets[self.plan.target].authority().to_owned();
        let mut at = Location { authority, path };
        for _ in 0..2 {
            let body = self.get(&at.path, None).await?;
            let text = self.read_text(body).await?;
            let shared = Arc::clone(&self.shared);
            if let Some(known) = shared.playlists.known(&at, &text) {
                return Ok(known);
            }
            match hls::read(&text, &at)? {
                Playlist::Segments(segments) => return shared.playlists.keep(&at, &text, segments),
                Playlist::Variant(path) => at.path = path,
            }
        }
        Err(Failure::NestedPlaylist)
    }

    /// Goes elsewhere; what is being fetched is given up.
    pub(super) fn seek(&mut self) {
        let now_us = self.shared.clock.now_us();
        let end = match (self.manner, &self.playlist) {
            (Manner::Segments, Some(playlist)) => Some(playlist.segments().len() as u64 - 1),
            (Manner::Paced(_), _) => self.size,
            _ => None,
        };
        self.cut(now_us);
        self.player.rewind();
        if self.connection.as_ref().is_some_and(|connection| connection.is_busy) {
            self.connection = None;
        }
        // Where it began, as long as nothing is known of the asset.
        self.position = end.map_or(0, |end| self.random.below(end * 9 / 10 + 1));
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

    /// No more media come: those that the player waits for are missing.
    pub(super) fn cut(&mut self, now_us: i64) {
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

    /// Reads nothing for this long.
    async fn pause(&mut self, us: i64) {
        sleep(Duration::from_micros(us.max(0) as u64)).await;
        self.waiting_since_us = self.shared.clock.now_us();
        self.connection.iter_mut().for_each(super::Connection::resume);
    }
}
