//! Requests of a session, and the figures about their responses.

use std::sync::atomic::Ordering::Relaxed;

use http::{StatusCode, header};
use wirepath_http::{ResponseHead, fields};
use wirepath_media::hls::PLAYLIST_LIMIT;

use super::Session;
use super::body::Body;
use super::connection::{Answer, Connection};
use super::playlists::Reserved;
use crate::failure::Failure;
use crate::record::milliseconds;
use crate::session::USER_AGENT;

/// Range of a request: offset of the first byte, and the number of bytes; `None` is all bytes to the end.
pub(super) type RequestRange = (u64, Option<u64>);

impl Session {
    /// Sends GET and reads the head of the response. If a kept connection has ended, opens a new one.
    pub(super) async fn get(&mut self, path: &str, range: Option<RequestRange>) -> Result<Body, Failure> {
        let request = self.request(path, range);
        let limit = self.shared.options.timeout;
        if self.connection.as_ref().is_some_and(|connection| connection.is_busy || connection.closes) {
            self.connection = None;
        }
        loop {
            let is_kept = self.connection.is_some();
            if !is_kept {
                self.connect().await?;
            }
            let requested_us = self.shared.clock.now_us();
            let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
            self.figures.requests += 1;
            self.awaited_since_us = Some(requested_us);
            let answer = tokio::time::timeout(limit, connection.exchange(&request)).await;
            match answer.map_err(|_| Failure::Timeout("GET"))?? {
                Some(answer) => return self.answered(answer, requested_us, range),
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

    fn request(&self, path: &str, range: Option<RequestRange>) -> Vec<u8> {
        let host = self.shared.options.targets[self.plan.target].authority();
        let range = match range {
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

    fn answered(
        &mut self,
        answer: Answer,
        requested_us: i64,
        range: Option<RequestRange>,
    ) -> Result<Body, Failure> {
        let Answer { head, rest, first_byte } = answer;
        let now_us = self.shared.clock.now_us();
        let first_byte_us = now_us - first_byte.elapsed().as_micros() as i64 - requested_us;
        if self.plan.judged {
            self.figures.first_byte.add(first_byte_us);
            self.shared.totals.first_byte_us.fetch_max(first_byte_us, Relaxed);
        }
        self.end_gap(requested_us + first_byte_us);
        self.awaited_since_us = Some(now_us);
        check_status(&head, range)?;
        let expected = range.map(|range| check_range(&head, range)).transpose()?;
        if let Some(connection) = &mut self.connection {
            connection.closes |= !head.keeps_alive();
        }
        Body::new(&head, rest, requested_us, expected)
    }

    /// Reads up to `most` bytes of media. Returns the time of receipt; `None` at the end of the body.
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
        if self.playing_since_us.is_none() {
            self.playing_since_us = Some(now_us);
            totals.playing.fetch_add(1, Relaxed);
        }
        if let Some(sought_us) = self.sought_us.take() {
            self.figures.seek_starts.push(now_us - sought_us);
        }
        self.end_gap(now_us);
        self.awaited_since_us = Some(now_us);
        Ok(Some(now_us))
    }

    /// Records the time for which a byte was awaited, as far as it is in the judged time.
    pub(super) fn end_gap(&mut self, now_us: i64) {
        let judged_after_us = self.shared.options.judged_after().as_micros() as i64;
        if let Some(since_us) = self.awaited_since_us.take() {
            let gap_ms = milliseconds(now_us - since_us.max(judged_after_us));
            self.figures.longest_gap_ms = self.figures.longest_gap_ms.max(gap_ms);
        }
    }

    /// Reads a text to its end. The text counts as memory of playlists as long as it is kept.
    pub(super) async fn read_text(&mut self, mut body: Body) -> Result<(Vec<u8>, Reserved), Failure> {
        let mut reserved = self.shared.playlists.reserve();
        self.awaited_since_us = None;
        let limit = self.shared.options.timeout;
        let Some(connection) = &mut self.connection else { return Err(Failure::Closed) };
        let mut text = Vec::new();
        let mut keep = |part: &[u8]| text.extend_from_slice(part);
        while let Some(bytes) = body.read(connection, READ_TEXT, false, limit, &mut keep).await? {
            reserved.grow(bytes as usize)?;
            if body.received > PLAYLIST_LIMIT as u64 {
                return Err(Failure::PlaylistSize);
            }
        }
        connection.is_busy = false;
        Ok((text, reserved))
    }

    /// Records a completely received body. `was_paced` is true if the client, and not the server, determined
    /// its duration.
    pub(super) fn complete(&mut self, body: &Body, was_paced: bool) -> Result<(), Failure> {
        self.awaited_since_us = None;
        if body.expected.is_some_and(|expected| expected != body.received) {
            return Err(Failure::RangeLength);
        }
        self.figures.responses += 1;
        self.shared.totals.responses.fetch_add(1, Relaxed);
        if self.plan.judged && !was_paced {
            self.figures.response.add(self.shared.clock.now_us() - body.requested_us);
        }
        if let Some(connection) = &mut self.connection {
            connection.is_busy = false;
        }
        Ok(())
    }
}

/// Maximum number of bytes of a text read at once.
const READ_TEXT: u64 = 64 << 10;

/// Checks that the response has the expected status.
fn check_status(head: &ResponseHead, range: Option<RequestRange>) -> Result<(), Failure> {
    match (head.status, range) {
        (StatusCode::OK, None) | (StatusCode::PARTIAL_CONTENT, Some(_)) => Ok(()),
        (StatusCode::OK, Some(_)) => Err(Failure::NoRange),
        (status, _) if status.is_redirection() => {
            let location = fields::only(&head.fields, &header::LOCATION);
            Err(location.map_or(Failure::NoLocation, Failure::redirected))
        }
        (status, _) => {
            Err(Failure::refused("GET", status.as_u16(), status.canonical_reason().unwrap_or_default()))
        }
    }
}

/// Checks that the response has the requested range. Returns its length.
fn check_range(head: &ResponseHead, (first, length): RequestRange) -> Result<u64, Failure> {
    let field = fields::only(&head.fields, &header::CONTENT_RANGE).unwrap_or("no Content-Range");
    let other = || Failure::other_range(field);
    let (sent_first, sent_last, size) = parse_content_range(field).ok_or_else(other)?;
    let last = match (length, size) {
        (Some(length), _) => first.checked_add(length.saturating_sub(1)),
        (None, Some(size)) => size.checked_sub(1),
        (None, None) => Some(sent_last),
    };
    let is_requested = sent_first == first && Some(sent_last) == last;
    if is_requested { (sent_last - first).checked_add(1).ok_or_else(other) } else { Err(other()) }
}

/// First byte, last byte and size in `bytes 0-9/10` or `bytes 0-9/*` (RFC 9110 section 14.4).
fn parse_content_range(field: &str) -> Option<(u64, u64, Option<u64>)> {
    let (unit, range) = field.trim().split_once(' ')?;
    let (range, size) = range.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (first, last): (u64, u64) = (number(first)?, number(last)?);
    let size = if size == "*" { None } else { Some(number(size)?) };
    let is_valid = unit.eq_ignore_ascii_case("bytes") && first <= last && size.is_none_or(|size| last < size);
    is_valid.then_some((first, last, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue, Version};

    fn head(range: Option<&'static str>) -> ResponseHead {
        let range = range.map(|range| (header::CONTENT_RANGE, HeaderValue::from_static(range)));
        let fields = HeaderMap::from_iter(range);
        ResponseHead { status: StatusCode::PARTIAL_CONTENT, version: Version::HTTP_11, fields }
    }

    /// Promise: `wirepath load` accepts no other range than the one that it requested.
    #[test]
    fn other_ranges_are_refused() {
        for (requested, sent, length) in [
            ((5, Some(10)), "bytes 5-14/100", 10),
            ((5, Some(10)), "Bytes 5-14/*", 10),
            ((5, None), "bytes 5-99/100", 95),
            ((5, None), "bytes 5-14/*", 10),
        ] {
            assert_eq!(check_range(&head(Some(sent)), requested).ok(), Some(length), "{sent}");
        }
        for sent in [
            "bytes 4-13/100",
            "bytes 5-15/100",
            "bytes 5-13/100",
            "bytes 5-14/14",
            "bytes */100",
            "bytes 5-14",
            "bytes +5-14/*",
            "bytes 5-18446744073709551615/*",
            "bytes 14-5/*",
            "items 5-14/100",
            "",
        ] {
            let failure = check_range(&head(Some(sent)), (5, Some(10))).unwrap_err();
            assert_eq!(
                failure.to_string(),
                format!("GET with Range was answered with another range: {sent}")
            );
        }
        assert!(check_range(&head(None), (5, Some(10))).is_err());
        assert!(check_range(&head(Some("bytes 5-98/100")), (5, None)).is_err(), "not to the end");
        assert!(check_range(&head(Some("bytes 0-18446744073709551615/*")), (0, None)).is_err());
    }
}
