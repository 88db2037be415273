//! Request heads from a stream of bytes (RFC 9112 sections 2 to 6), however it is cut into pieces.

use super::{PathError, Request, Status};

/// Longest head in bytes, and all that is ever buffered of a connection.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Most header fields in a head.
pub const HEADER_LIMIT: usize = 100;

/// Longest body in bytes that is read over; after a longer one the connection is closed.
pub const SKIPPED_BODY_LIMIT: u64 = 64 * 1024;

/// Reads the heads of one connection: [`feed`](Self::feed) what arrives, then take
/// [`next`](Self::next) until there is none, then feed again.
#[derive(Debug, Default)]
pub struct HeadReader {
    buffer: Vec<u8>,
    /// Where the unread bytes begin.
    start: usize,
    /// Up to where the end of the head has been looked for: no byte is looked at twice.
    scanned: usize,
    /// Bytes of a body still to be skipped.
    body_length: u64,
}

/// A head that cannot be answered as a request. The client's fault. The connection must be closed after the
/// answer: where the next head begins is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The first byte cannot begin a method: this is not HTTP, or it is HTTP in TLS.
    #[error(
        "the first byte of the request, {0:#04x}, cannot begin a method; this port speaks plain HTTP/1.1"
    )]
    NotHttp(u8),
    /// Not a request line followed by header fields.
    #[error("the request head is malformed: {0}")]
    Malformed(httparse::Error),
    /// A version other than 1.0 and 1.1.
    #[error("only HTTP/1.1 and HTTP/1.0 are spoken here")]
    Version,
    /// The request line alone is longer than a head may be.
    #[error("the request line is longer than {HEAD_LIMIT} bytes")]
    LineTooLong,
    /// The head is too long.
    #[error("the request head is longer than {HEAD_LIMIT} bytes")]
    TooLong,
    /// The head has too many fields.
    #[error("the request head has more than {HEADER_LIMIT} fields")]
    TooManyFields,
    /// No `Host` in HTTP/1.1, more than one, or one that is no host (RFC 9112 section 3.2).
    #[error("the request must have one Host field, with a host name and perhaps a port")]
    Host,
    /// The length of the body is not a number, or is stated twice (RFC 9112 section 6.3).
    #[error("the length of the request's body is not stated once and as a number")]
    BodyLength,
    /// The path cannot name anything.
    #[error(transparent)]
    Path(PathError),
}

impl HeadError {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            Self::Version => Status::VersionNotSupported,
            Self::LineTooLong => Status::UriTooLong,
            Self::TooLong | Self::TooManyFields => Status::HeadTooLarge,
            _ => Status::BadRequest,
        }
    }
}

impl HeadReader {
    /// Takes bytes that arrived and answers how many: fewer than given, or none, while unread heads fill the
    /// buffer. After [`next`](Self::next) has answered `None` there is always room for one.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let skipped = self.skip_body(bytes);
        self.compact();
        let room = HEAD_LIMIT - self.buffer.len();
        let taken = room.min(bytes.len() - skipped);
        self.buffer.extend_from_slice(&bytes[skipped..skipped + taken]);
        skipped + taken
    }

    /// How many bytes [`feed`](Self::feed) takes now at least.
    pub fn room(&self) -> usize {
        HEAD_LIMIT - (self.buffer.len() - self.start)
    }

    /// The next request, or `None` until more bytes are fed.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end at None; this may go on after it"
    )]
    pub fn next(&mut self) -> Result<Option<Request>, HeadError> {
        let Some(head) = self.next_head()? else { return Ok(None) };
        let request = parse(head)?;
        self.body_length = request.skipped_body_length;
        self.skip_buffered_body();
        Ok(Some(request))
    }

    /// The bytes of the next head, for who needs more of it than a [`Request`] keeps, or `None` until more bytes are fed. The body
    /// that may follow is [taken](Self::take) by the caller.
    pub fn next_head(&mut self) -> Result<Option<&[u8]>, HeadError> {
        self.skip_empty_lines();
        self.check_first_byte()?;
        let Some(end) = self.find_end() else {
            return self.check_length().map(|()| None);
        };
        let start = std::mem::replace(&mut self.start, end);
        self.scanned = end;
        Ok(Some(&self.buffer[start..end]))
    }

    /// Takes up to `most` bytes that were fed and follow the last head.
    pub fn take(&mut self, most: u64) -> Vec<u8> {
        let unread = &self.buffer[self.start..];
        let taken = unread[..unread.len().min(usize::try_from(most).unwrap_or(usize::MAX))].to_vec();
        self.start += taken.len();
        self.scanned = self.start;
        taken
    }

    /// Whether a head or a body has begun and not ended: what tells a client that went away in the middle, or
    /// is slow, from one that is idle.
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

    /// Empty lines before a request line are to be ignored (RFC 9112 section 2.2).
    fn skip_empty_lines(&mut self) {
        let unread = &self.buffer[self.start..];
        self.start += unread.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.scanned = self.scanned.max(self.start);
    }

    /// Just past the empty line that ends the head, looking only at what has not been looked at.
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

    /// What cannot begin a method is refused at once, not when its end or a time-out comes.
    fn check_first_byte(&self) -> Result<(), HeadError> {
        match self.buffer.get(self.start) {
            Some(&byte) if !is_token(byte) => Err(HeadError::NotHttp(byte)),
            _ => Ok(()),
        }
    }

    /// A full buffer without an end of the head in it.
    fn check_length(&self) -> Result<(), HeadError> {
        let unread = &self.buffer[self.start..];
        match unread.len() == HEAD_LIMIT {
            true if unread.contains(&b'\n') => Err(HeadError::TooLong),
            true => Err(HeadError::LineTooLong),
            false => Ok(()),
        }
    }
}

/// `tchar` of RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Parses one complete head, once.
fn parse(head: &[u8]) -> Result<Request, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; HEADER_LIMIT];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => Request::read(&request),
        // The head ends at its first empty line, so a parser that sees another end has seen something else.
        Ok(_) => Err(HeadError::Malformed(httparse::Error::NewLine)),
        Err(httparse::Error::TooManyHeaders) => Err(HeadError::TooManyFields),
        Err(httparse::Error::Version) => Err(HeadError::Version),
        Err(error) => Err(HeadError::Malformed(error)),
    }
}

#[cfg(test)]
mod tests;
