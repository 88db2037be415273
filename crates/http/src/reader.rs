//! Request heads from a stream of bytes (RFC 9112 sections 2 to 6), in pieces of any size.

use std::ops::Range;

use crate::{HEAD_LIMIT, HeadError, Request, RequestHead, ResponseHead};

/// Reader of the heads of one connection: [`feed`](Self::feed) received bytes, call [`next`](Self::next)
/// until it returns `None`, then feed again.
#[derive(Debug)]
pub struct HeadReader {
    /// Longest head in bytes.
    limit: usize,
    buffer: Vec<u8>,
    /// Beginning of the unread bytes.
    start: usize,
    /// End of the bytes searched for the end of a head: no byte is searched twice.
    scanned: usize,
    /// Bytes of a body to skip.
    body_length: u64,
}

impl Default for HeadReader {
    fn default() -> Self {
        Self::with_limit(HEAD_LIMIT)
    }
}

impl HeadReader {
    /// Reader of heads of at most `limit` bytes.
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), start: 0, scanned: 0, body_length: 0 }
    }

    /// Accepts received bytes and returns their number: fewer than given, or 0, while unread heads fill the
    /// buffer. After [`next`](Self::next) has returned `None` there is always room for at least one byte.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let skipped = self.skip_body(bytes);
        self.compact();
        let room = self.limit - self.buffer.len();
        let taken = room.min(bytes.len() - skipped);
        self.buffer.extend_from_slice(&bytes[skipped..skipped + taken]);
        skipped + taken
    }

    /// Minimum number of bytes that [`feed`](Self::feed) accepts now.
    pub fn room(&self) -> usize {
        self.limit - (self.buffer.len() - self.start)
    }

    /// Next request, or `None` until more bytes are fed. Its body, if any, is skipped.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end at None; this may go on after it"
    )]
    pub fn next(&mut self) -> Result<Option<Request>, HeadError> {
        let request = self.next_with_body()?;
        if let Some(request) = &request {
            self.skip(request.body_length);
        }
        Ok(request)
    }

    /// Next request, or `None` until more bytes are fed. The caller [takes](Self::take) or
    /// [skips](Self::skip) its body.
    pub fn next_with_body(&mut self) -> Result<Option<Request>, HeadError> {
        self.skip_empty_lines();
        self.check_first_byte()?;
        let Some(head) = self.next_range()? else { return Ok(None) };
        Request::parse(&self.buffer[head]).map(Some)
    }

    /// Skips a body of this length that follows the last head.
    pub fn skip(&mut self, body_length: u64) {
        self.body_length = body_length;
        self.skip_buffered_body();
    }

    /// Next head, or `None` until more bytes are fed. The caller [takes](Self::take) the body that may
    /// follow.
    pub fn next_head(&mut self) -> Result<Option<RequestHead>, HeadError> {
        self.skip_empty_lines();
        self.check_first_byte()?;
        let Some(head) = self.next_range()? else { return Ok(None) };
        RequestHead::parse(&self.buffer[head]).map(Some)
    }

    /// Head of the next response, or `None` until more bytes are fed. The caller [takes](Self::take) its
    /// body.
    pub fn next_response(&mut self) -> Result<Option<ResponseHead>, HeadError> {
        self.skip_empty_lines();
        // Refused immediately, not at the end of the head or after a timeout.
        if self.buffer[self.start..].iter().zip(b"HTTP/1.").any(|(byte, expected)| byte != expected) {
            return Err(HeadError::Malformed(httparse::Error::Version));
        }
        let Some(head) = self.next_range()? else { return Ok(None) };
        // The head ends at its first empty line, so a parser that misses the end has parsed something else.
        let head = ResponseHead::parse(&self.buffer[head])?;
        head.map(|(head, _)| Some(head)).ok_or(HeadError::Malformed(httparse::Error::NewLine))
    }

    /// Takes up to `most` bytes that were fed and follow the last head.
    pub fn take(&mut self, most: u64) -> Vec<u8> {
        let unread = &self.buffer[self.start..];
        let taken = unread[..unread.len().min(usize::try_from(most).unwrap_or(usize::MAX))].to_vec();
        self.start += taken.len();
        self.scanned = self.start;
        taken
    }

    /// Returns whether a head or body is incomplete, which distinguishes a slow client from an idle client.
    pub fn is_inside(&self) -> bool {
        self.body_length > 0 || self.start < self.buffer.len()
    }

    fn compact(&mut self) {
        self.buffer.drain(..self.start);
        self.scanned -= self.start;
        self.start = 0;
    }

    fn skip_body(&mut self, bytes: &[u8]) -> usize {
        let skipped = usize::try_from(self.body_length).unwrap_or(usize::MAX).min(bytes.len());
        self.body_length -= skipped as u64;
        skipped
    }

    fn skip_buffered_body(&mut self) {
        let buffered = (self.buffer.len() - self.start) as u64;
        let skipped = self.body_length.min(buffered);
        self.body_length -= skipped;
        self.start += skipped as usize;
        self.scanned = self.start;
    }

    /// Skips empty lines before a request line, which must be ignored (RFC 9112 section 2.2).
    fn skip_empty_lines(&mut self) {
        let unread = &self.buffer[self.start..];
        self.start += unread.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.scanned = self.scanned.max(self.start);
    }

    /// Takes a complete head out of the buffer.
    fn next_range(&mut self) -> Result<Option<Range<usize>>, HeadError> {
        let Some(end) = self.find_end() else {
            return self.check_length().map(|()| None);
        };
        self.scanned = end;
        Ok(Some(std::mem::replace(&mut self.start, end)..end))
    }

    /// Finds the end of the empty line that ends the head.
    fn find_end(&mut self) -> Option<usize> {
        for at in self.scanned..self.buffer.len() {
            let before = &self.buffer[self.start..at];
            if self.buffer[at] == b'\n' && (before.ends_with(b"\n") || before.ends_with(b"\n\r")) {
                return Some(at + 1);
            }
        }
        self.scanned = self.buffer.len();
        None
    }

    /// Refuses a byte that cannot begin a method immediately, not at the end of the head or after a timeout.
    fn check_first_byte(&self) -> Result<(), HeadError> {
        match self.buffer.get(self.start) {
            Some(&byte) if !is_token(byte) => Err(HeadError::NotHttp(byte)),
            _ => Ok(()),
        }
    }

    /// Refuses a full buffer without a complete head.
    fn check_length(&self) -> Result<(), HeadError> {
        let unread = &self.buffer[self.start..];
        match unread.len() == self.limit {
            true if unread.contains(&b'\n') => Err(HeadError::TooLong(self.limit)),
            true => Err(HeadError::LineTooLong(self.limit)),
            false => Ok(()),
        }
    }
}

/// `tchar` of RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
