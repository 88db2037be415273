//! Splits the bytes of a connection into requests and interleaved frames (RFC 2326 sections 4 and 10.12).

use super::request::{self, Head, Refusal, Request};
use rtsp_types::StatusCode;

/// Longest request line and headers in total, in bytes.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Longest interleaved frame that is read, in bytes: compound RTCP packets do not exceed the path MTU (RFC
/// 3550 section 6.1). Longer frames are skipped.
pub const FRAME_LIMIT: usize = 1500;

/// Bytes of an interleaved frame before its data: `$`, channel, length (RFC 2326 section 10.12).
const FRAME_HEADER_LENGTH: usize = 4;

/// Next item of a connection.
#[derive(Debug)]
pub enum Item {
    /// Complete request.
    Request(Box<Request>),
    /// Interleaved frame: channel and data.
    Frame(u8, Vec<u8>),
    /// Invalid request: answer it, and close the connection if the refusal requires it.
    Refused(Refusal),
}

/// Reader of requests from bytes in pieces.
///
/// Feed the bytes that were read, then call [`Reader::next_item`] until it returns `None`. Then the reader
/// keeps less than a request: at most the limits of a head and a body. Each byte is examined once.
/// ```
/// use wirepath_media::rtsp::{Item, Method, Reader, Response, StatusCode};
///
/// let mut reader = Reader::new();
/// reader.feed(b"OPTIONS * RTSP/1.0\r\nCSe");
/// assert!(reader.next_item().is_none() && reader.is_inside_request());
/// reader.feed(b"q: 1\r\n\r\n");
/// let Some(Item::Request(request)) = reader.next_item() else { panic!("a request") };
/// assert_eq!(request.method, Method::Options);
///
/// let answer = Response::new(StatusCode::Ok, Some(request.cseq)).to_bytes();
/// assert!(answer.starts_with(b"RTSP/1.0 200 OK\r\n"));
/// ```
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
    /// Processed bytes at the start of the buffer; dropped when the buffer is compacted.
    taken: usize,
    state: State,
    skipped_bytes: u64,
}

#[derive(Debug)]
enum State {
    /// Before or within a head: offsets from `taken`.
    Head { scanned: usize, line_start: usize },
    /// Head read, waiting for the body.
    Body(Box<Head>),
    /// Within an interleaved frame: its channel, and its length including the header.
    Frame(u8, usize),
    /// Within an interleaved frame that is skipped: number of bytes left.
    Skipped(usize),
    /// Framing lost: further bytes are dropped.
    Lost,
}

impl Default for State {
    fn default() -> Self {
        Self::Head { scanned: 0, line_start: 0 }
    }
}

impl Reader {
    /// Reader at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes of the connection.
    pub fn feed(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Lost) {
            return;
        }
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next item; `None` if more bytes are needed.
    pub fn next_item(&mut self) -> Option<Item> {
        loop {
            match std::mem::take(&mut self.state) {
                State::Head { scanned, line_start } => {
                    if let Step::Done(item) = self.read_head(scanned, line_start) {
                        return item;
                    }
                }
                State::Body(head) => return self.read_body(head),
                State::Frame(channel, length) => return self.read_frame(channel, length),
                State::Skipped(remaining) => {
                    if !self.skip_frame(remaining) {
                        return None;
                    }
                }
                State::Lost => {
                    self.state = State::Lost;
                    return None;
                }
            }
        }
    }

    /// Returns whether part of a request was received, so that more bytes are expected.
    pub fn is_inside_request(&self) -> bool {
        match self.state {
            State::Head { .. } => self.taken < self.buffer.len(),
            State::Body(_) | State::Frame(..) | State::Skipped(_) => true,
            State::Lost => false,
        }
    }

    /// Bytes kept of an incomplete request.
    pub fn held_bytes(&self) -> usize {
        self.unread().len()
    }

    /// Bytes of long interleaved frames skipped so far.
    pub fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    fn read_head(&mut self, scanned: usize, line_start: usize) -> Step {
        if line_start == 0 && scanned == 0 && !self.skip_line_ends() {
            return Step::Done(None);
        }
        match self.unread()[0] {
            _ if scanned > 0 => {}
            b'$' => return self.begin_frame(),
            byte if byte.is_ascii_alphabetic() => {}
            byte => {
                let why = format!("byte 0x{byte:02x} cannot begin a request");
                return self.lose(StatusCode::BadRequest, why);
            }
        }
        self.find_head_end(scanned, line_start)
    }

    /// Skips line ends that some clients send after a body (RFC 2068). Returns `false` if nothing is left.
    fn skip_line_ends(&mut self) -> bool {
        let blank = self.unread().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.taken += blank;
        if self.unread().is_empty() {
            // Releases the buffer, which is as long as the longest request: most connections are idle for a
            // long time.
            (self.buffer, self.taken) = (Vec::new(), 0);
        }
        !self.buffer.is_empty()
    }

    fn find_head_end(&mut self, mut scanned: usize, mut line_start: usize) -> Step {
        let unread = &self.buffer[self.taken..];
        let window = &unread[..unread.len().min(HEAD_LIMIT)];
        while let Some(offset) = window[scanned..].iter().position(|&byte| byte == b'\n') {
            let line = &window[line_start..scanned + offset];
            scanned += offset + 1;
            if matches!(line, b"" | b"\r") {
                return self.end_head(line_start, scanned);
            }
            line_start = scanned;
        }
        if window.len() == HEAD_LIMIT {
            return self.refuse_long_head(line_start);
        }
        let scanned = window.len();
        self.state = State::Head { scanned, line_start };
        Step::Done(None)
    }

    fn refuse_long_head(&mut self, line_start: usize) -> Step {
        if line_start == 0 {
            let why = format!("the request line is longer than {HEAD_LIMIT} bytes");
            return self.lose(StatusCode::RequestURITooLong, why);
        }
        let why = format!("the request's head is longer than {HEAD_LIMIT} bytes");
        self.lose(StatusCode::BadRequest, why)
    }

    fn end_head(&mut self, length: usize, consumed: usize) -> Step {
        let head = request::parse_head(&self.unread()[..length]);
        self.taken += consumed;
        match head {
            Ok(head) => {
                self.state = State::Body(Box::new(head));
                Step::Again
            }
            Err(refusal) => self.abandon(refusal),
        }
    }

    fn read_body(&mut self, head: Box<Head>) -> Option<Item> {
        if self.unread().len() < head.body_length {
            self.state = State::Body(head);
            return None;
        }
        let body = self.unread()[..head.body_length].to_vec();
        self.taken += body.len();
        Some(match head.into_request(body) {
            Ok(request) => Item::Request(Box::new(request)),
            Err(refusal) => Item::Refused(refusal),
        })
    }

    fn begin_frame(&mut self) -> Step {
        let Some(&[_, channel, high, low]) = self.unread().get(..FRAME_HEADER_LENGTH) else {
            return Step::Done(None);
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let whole = FRAME_HEADER_LENGTH + length;
        self.state = if length <= FRAME_LIMIT { State::Frame(channel, whole) } else { State::Skipped(whole) };
        Step::Again
    }

    fn read_frame(&mut self, channel: u8, length: usize) -> Option<Item> {
        let Some(frame) = self.unread().get(FRAME_HEADER_LENGTH..length) else {
            self.state = State::Frame(channel, length);
            return None;
        };
        let frame = frame.to_vec();
        self.taken += length;
        Some(Item::Frame(channel, frame))
    }

    /// Drops bytes of a frame. Returns `true` if it is complete.
    fn skip_frame(&mut self, remaining: usize) -> bool {
        let present = remaining.min(self.unread().len());
        self.taken += present;
        self.skipped_bytes += present as u64;
        if present < remaining {
            self.state = State::Skipped(remaining - present);
        }
        present == remaining
    }

    fn lose(&mut self, status: StatusCode, why: String) -> Step {
        self.abandon(Refusal { close: true, ..Refusal::new(status, why) })
    }

    fn abandon(&mut self, refusal: Refusal) -> Step {
        self.state = State::Lost;
        self.buffer = Vec::new();
        self.taken = 0;
        Step::Done(Some(Item::Refused(refusal)))
    }
}

enum Step {
    /// Continue in the new state.
    Again,
    /// Return this to the caller.
    Done(Option<Item>),
}

#[cfg(test)]
mod tests;
