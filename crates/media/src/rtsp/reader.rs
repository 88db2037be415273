//! RFC 2326 section 4 and 10.12: cuts the bytes of a connection into requests and interleaved frames.

use super::request::{self, Head, Refusal, Request};
use rtsp_types::StatusCode;

/// Longest request line and headers together, in bytes.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// Longest interleaved frame that is read, in bytes: a compound RTCP packet keeps to the path's MTU (RFC 3550
/// section 6.1). Longer ones are skipped.
pub const FRAME_LIMIT: usize = 1500;

/// Bytes in front of an interleaved frame's data: `$`, channel, length (RFC 2326 section 10.12).
const FRAME_HEADER_LENGTH: usize = 4;

/// Next item of a connection.
#[derive(Debug)]
pub enum Item {
    /// A whole request.
    Request(Box<Request>),
    /// A frame of a channel.
    Frame(u8, Vec<u8>),
    /// An invalid request: answer it, and close the connection where the refusal says so.
    Refused(Refusal),
}

/// Reads requests from bytes that arrive in pieces.
///
/// Feed it what was read, then call [`Reader::next_item`] until it has nothing more: then it holds less than
/// a request, at most the limits of a head and a body. Each byte is looked at once.
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
    /// Bytes at the buffer's start that are done with; dropped when the buffer is compacted.
    taken: usize,
    state: State,
    skipped_bytes: u64,
}

#[derive(Debug)]
enum State {
    /// In front of or inside a head: offsets from `taken`.
    Head { scanned: usize, line_start: usize },
    /// The head is read, its body is awaited.
    Body(Box<Head>),
    /// Inside an interleaved frame of a channel and of this length, its head included.
    Frame(u8, usize),
    /// Inside an interleaved frame that is skipped, with this many bytes to go.
    Skipped(usize),
    /// Framing is lost: whatever else comes is dropped.
    Lost,
}

impl Default for State {
    fn default() -> Self {
        Self::Head { scanned: 0, line_start: 0 }
    }
}

impl Reader {
    /// A reader at the start of a connection.
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

    /// The next request or refusal; nothing when more bytes are needed.
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

    /// Returns whether part of a request is held, so that its sender is expected to go on.
    pub fn is_inside_request(&self) -> bool {
        match self.state {
            State::Head { .. } => self.taken < self.buffer.len(),
            State::Body(_) | State::Frame(..) | State::Skipped(_) => true,
            State::Lost => false,
        }
    }

    /// Bytes held because they are not yet a whole request.
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

    /// Skips line ends that some clients send after a body (RFC 2068). False when nothing is left.
    fn skip_line_ends(&mut self) -> bool {
        let blank = self.unread().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        self.taken += blank;
        if self.unread().is_empty() {
            // Most connections are idle for long, each with a buffer as long as its longest request.
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

    /// Drops the bytes of a frame; true when it is complete.
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
        self.abandon(Refusal { status, why, cseq: None, close: true })
    }

    fn abandon(&mut self, refusal: Refusal) -> Step {
        self.state = State::Lost;
        self.buffer = Vec::new();
        self.taken = 0;
        Step::Done(Some(Item::Refused(refusal)))
    }
}

enum Step {
    /// Go on in the new state.
    Again,
    /// The caller gets this.
    Done(Option<Item>),
}

#[cfg(test)]
mod tests;
