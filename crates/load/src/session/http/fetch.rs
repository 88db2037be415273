//! Requests of a session, and what is noted of their answers.

use std::sync::atomic::Ordering::Relaxed;

use http::{StatusCode, header};
use wirepath_http::{ResponseHead, fields};
use wirepath_media::hls::PLAYLIST_LIMIT;

use super::Session;
use super::body::Body;
use super::connection::{Answer, Connection};
use crate::failure::Failure;
use crate::record::milliseconds;
use crate::session::USER_AGENT;

/// Range of a request: offset of the first byte, and the number of bytes if not all to the end.
pub(super) type Wanted = (u64, Option<u64>);

impl Session {
    /// Sends GET and reads the head of its answer. A kept connection that has ended is opened again.
    pub(super) async fn get(&mut self, path: &str, wanted: Option<Wanted>) -> Result<Body, Failure> {
        let request = self.request(path, wanted);
        let limit = self.shared.options.timeout;
        if self.connection.as_ref().is_some_and(|connection| connection.is_busy || connection.closes) {
            self.connection = None;
        }
        loop {
            let is_kept = self.connection.is_some();
            if !is_kept {
                self.connect().await?;
            }
            let asked_us = self.shared.clock.now_us();
            let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
            self.figures.requests += 1;
            let answer = tokio::time::timeout(limit, connection.exchange(&request)).await;
            match answer.map_err(|_| Failure::Timeout("GET"))?? {
                Some(answer) => return self.answered(answer, asked_us, wanted),
                None if is_kept => self.connection = None,
                None => return Err(Failure::Closed),
            }
        }
    }

    async fn connect(&mut self) -> Result<(), Failure> {
        let before_us = self.shared.clock.now_us();
        let stream = self.shared.connect(self.plan).await?;
        self.connection = Some(Connection::new(stream));
        self.figures.connections += 1;
        self.figures.connect.add(self.shared.clock.now_us() - before_us);
        Ok(())
    }

    fn request(&self, path: &str, wanted: Option<Wanted>) -> Vec<u8> {
        let host = self.shared.options.targets[self.plan.target].authority();
        let range = match wanted {
            Some((first, Some(length))) => format!("Range: bytes={first}-{}\r\n", first + (length - 1)),
            Some((first, None)) => format!("Range: bytes={first}-\r\n"),
            None => String::new(),
        };
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {USER_AGENT}\r\nAccept: */*\r\n\
             Accept-Encoding: identity\r\n{range}\r\n"
        )
        .into_bytes()
    }

    fn answered(&mut self, answer: Answer, asked_us: i64, wanted: Option<Wanted>) -> Result<Body, Failure> {
        let Answer { head, rest, first_byte } = answer;
        let now_us = self.shared.clock.now_us();
        let first_byte_us = now_us - first_byte.elapsed().as_micros() as i64 - asked_us;
        if self.plan.judged {
            self.figures.first_byte.add(first_byte_us);
            self.shared.totals.first_byte_us.fetch_max(first_byte_us, Relaxed);
        }
        self.waiting_since_us = now_us;
        check_status(&head, wanted)?;
        if let Some(connection) = &mut self.connection {
            let options = fields::joined(&head.fields, &header::CONNECTION).unwrap_or_default();
            connection.closes |= options.split(',').any(|option| option.trim().eq_ignore_ascii_case("close"));
        }
        Body::new(&head, rest, asked_us)
    }

    /// Reads up to `most` bytes of media. Returns when they came; `None` at the end of the body.
    pub(super) async fn read(&mut self, body: &mut Body, most: u64) -> Result<Option<i64>, Failure> {
        let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
        let (limit, discards) = (self.shared.options.timeout, !self.plan.judged);
        let Some(bytes) = body.read(connection, most, discards, limit, |_| {}).await? else {
            return Ok(None);
        };
        let (now_us, totals) = (self.shared.clock.now_us(), &self.shared.totals);
        let counted = if discards { &totals.discarded } else { &totals.bytes };
        counted.fetch_add(bytes, Relaxed);
        self.figures.bytes += bytes;
        let gap_ms = milliseconds(now_us - self.waiting_since_us);
        self.figures.longest_gap_ms = self.figures.longest_gap_ms.max(gap_ms);
        self.waiting_since_us = now_us;
        if self.playing_since_us.is_none() {
            self.playing_since_us = Some(now_us);
            totals.playing.fetch_add(1, Relaxed);
        }
        if let Some(sought_us) = self.sought_us.take() {
            self.figures.seek_starts.push(now_us - sought_us);
        }
        Ok(Some(now_us))
    }

    /// Reads a text to its end.
    pub(super) async fn read_text(&mut self, mut body: Body) -> Result<Vec<u8>, Failure> {
        let limit = self.shared.options.timeout;
        let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
        let mut text = Vec::new();
        let mut keep = |part: &[u8]| text.extend_from_slice(part);
        while body.read(connection, READ_TEXT, false, limit, &mut keep).await?.is_some() {
            if body.received > PLAYLIST_LIMIT as u64 {
                return Err(Failure::PlaylistSize);
            }
        }
        connection.is_busy = false;
        Ok(text)
    }

    /// Notes a body that has come to its end, and whether its duration is the server's.
    pub(super) fn complete(
        &mut self,
        body: &Body,
        expected: Option<u64>,
        was_paced: bool,
    ) -> Result<(), Failure> {
        if expected.is_some_and(|expected| expected != body.received) {
            return Err(Failure::RangeLength);
        }
        self.figures.responses += 1;
        self.shared.totals.responses.fetch_add(1, Relaxed);
        if self.plan.judged && !was_paced {
            self.figures.response.add(self.shared.clock.now_us() - body.asked_us);
        }
        if let Some(connection) = &mut self.connection {
            connection.is_busy = false;
        }
        Ok(())
    }
}

/// Bytes of a text that are read at once.
const READ_TEXT: u64 = 64 << 10;

/// Ensures that the answer is what was asked for.
fn check_status(head: &ResponseHead, wanted: Option<Wanted>) -> Result<(), Failure> {
    match (head.status, wanted) {
        (StatusCode::OK, None) | (StatusCode::PARTIAL_CONTENT, Some(_)) => Ok(()),
        (StatusCode::OK, Some(_)) => Err(Failure::NoRange),
        (status, _) if status.is_redirection() => {
            let location = fields::only(&head.fields, &header::LOCATION).unwrap_or("no URL");
            Err(Failure::redirected(location))
        }
        (status, _) => {
            Err(Failure::refused("GET", status.as_u16(), status.canonical_reason().unwrap_or_default()))
        }
    }
}
