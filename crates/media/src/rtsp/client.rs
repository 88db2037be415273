//! Client's side of a connection (RFC 2326 sections 7 and 10.12): splits its bytes into responses, requests
//! of the server, and interleaved frames.

use super::headers::{BadLine, Headers};
use super::reader::HEAD_LIMIT;

/// Longest body of a response, in bytes: session descriptions take a few kilobytes.
pub const RESPONSE_BODY_LIMIT: usize = 1 << 20;

/// Bytes of an interleaved frame before its data: `$`, channel, length.
const FRAME_HEADER_LENGTH: usize = 4;

/// Next item of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerItem<'a> {
    /// Response of the server.
    Response(ServerResponse),
    /// Request of the server, such as a keep-alive.
    Request(ServerRequest),
    /// Interleaved frame.
    Frame {
        /// Channel agreed on by SETUP.
        channel: u8,
        /// RTP or RTCP packet.
        data: &'a [u8],
    },
}

/// Response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerResponse {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// All header fields.
    pub headers: Headers,
    /// Body; empty if there is none.
    pub body: Vec<u8>,
}

/// Request of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRequest {
    /// Method, as written.
    pub method: String,
    /// All header fields.
    pub headers: Headers,
}

/// Error in a server's bytes. The rest of the connection cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// First byte that begins neither a message nor a frame.
    #[error("byte 0x{0:02x} begins neither an RTSP message nor a frame")]
    FirstByte(u8),
    /// First line of neither a response nor a request.
    #[error("`{0}` begins neither a response nor a request")]
    FirstLine(String),
    /// Header line without a colon.
    #[error("line {0} of a message is not `name: value`")]
    Line(usize),
    /// Head too long.
    #[error("a message's head is longer than {HEAD_LIMIT} bytes")]
    LongHead,
    /// Content-Length that is not a number, or is too large.
    #[error("Content-Length: `{0}` is not a number up to {RESPONSE_BODY_LIMIT}")]
    BodyLength(String),
}

/// Reader of a server's bytes, in pieces of any size. Keeps at most one head and one body.
/// ```
/// use wirepath_media::rtsp::{ServerItem, ServerReader};
///
/// let mut reader = ServerReader::default();
/// reader.feed(b"$\x00\x00\x02abRTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n");
/// assert_eq!(reader.next_item(), Ok(Some(ServerItem::Frame { channel: 0, data: b"ab" })));
/// let Ok(Some(ServerItem::Response(response))) = reader.next_item() else { panic!("a response") };
/// assert_eq!((response.status, response.headers.first("CSeq")), (200, Some("1")));
/// ```
#[derive(Debug, Default)]
pub struct ServerReader {
    buffer: Vec<u8>,
    /// Processed bytes at the start of the buffer.
    taken: usize,
    /// Bytes after the processed bytes that do not contain the end of a head.
    scanned: usize,
}

impl ServerReader {
    /// Takes bytes of the connection. Call [`Self::next_item`] until it returns `None`, then feed again.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next item; `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`ServerFault`]; the rest of the connection cannot be read.
    pub fn next_item(&mut self) -> Result<Option<ServerItem<'_>>, ServerFault> {
        let blank = self.unread().iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        if self.scanned == 0 {
            self.taken += blank;
        }
        match self.unread().first() {
            None => Ok(self.release()),
            Some(b'$') => Ok(self.frame()),
            Some(byte) if byte.is_ascii_alphabetic() => self.message(),
            Some(byte) => Err(ServerFault::FirstByte(*byte)),
        }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Releases the memory of a large message, because thousands of connections are idle.
    fn release<T>(&mut self) -> Option<T> {
        const MOST_KEPT: usize = 64 << 10;
        self.buffer.clear();
        self.taken = 0;
        self.buffer.shrink_to(MOST_KEPT);
        None
    }

    fn frame(&mut self) -> Option<ServerItem<'_>> {
        let &[_, channel, high, low] = self.unread().first_chunk::<FRAME_HEADER_LENGTH>()?;
        let start = self.taken + FRAME_HEADER_LENGTH;
        let end = start + usize::from(u16::from_be_bytes([high, low]));
        if end > self.buffer.len() {
            return None;
        }
        self.taken = end;
        Some(ServerItem::Frame { channel, data: &self.buffer[start..end] })
    }

    fn message(&mut self) -> Result<Option<ServerItem<'_>>, ServerFault> {
        let Some(head_length) = self.head_length()? else { return Ok(None) };
        let (line, headers) = parse_head(&self.unread()[..head_length])?;
        let body_length = body_length(&headers)?;
        let Some(body) = self.unread().get(head_length..head_length + body_length) else {
            return Ok(None);
        };
        let body = body.to_vec();
        self.taken += head_length + body_length;
        self.scanned = 0;
        match parse_status(&line) {
            Some((status, reason)) => {
                let response = ServerResponse { status, reason, headers, body };
                Ok(Some(ServerItem::Response(response)))
            }
            None => parse_method(line, headers).map(Some),
        }
    }

    /// Length of the head, including the empty line at its end.
    fn head_length(&mut self) -> Result<Option<usize>, ServerFault> {
        let unread = &self.buffer[self.taken..];
        let window = &unread[..unread.len().min(HEAD_LIMIT)];
        // The line ends of an empty line have at most three bytes.
        let mut from = self.scanned.saturating_sub(3);
        while let Some(offset) = window[from..].iter().position(|byte| *byte == b'\n') {
            from += offset + 1;
            let rest = &window[from..];
            if rest.first() == Some(&b'\n') {
                return Ok(Some(from + 1));
            }
            if rest.starts_with(b"\r\n") {
                return Ok(Some(from + 2));
            }
        }
        if window.len() == HEAD_LIMIT {
            return Err(ServerFault::LongHead);
        }
        self.scanned = window.len();
        Ok(None)
    }
}

fn parse_head(head: &[u8]) -> Result<(String, Headers), ServerFault> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let line = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let headers = Headers::parse(lines.filter(|line| !line.is_empty()));
    Ok((line, headers.map_err(|BadLine(number)| ServerFault::Line(number))?))
}

/// Reads status code and reason phrase of `RTSP/1.0 200 OK`.
fn parse_status(line: &str) -> Option<(u16, String)> {
    let mut words = line.splitn(3, ' ');
    let version = words.next()?;
    if !version.get(..5)?.eq_ignore_ascii_case("RTSP/") {
        return None;
    }
    let status = words.next()?.parse().ok().filter(|status| (100..1000).contains(status))?;
    Some((status, words.next().unwrap_or_default().trim().to_owned()))
}

fn parse_method<'a>(line: String, headers: Headers) -> Result<ServerItem<'a>, ServerFault> {
    const SHOWN: usize = 80;
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(method), Some(_), Some(version)) if version.starts_with("RTSP/") => {
            Ok(ServerItem::Request(ServerRequest { method: method.to_owned(), headers }))
        }
        _ => Err(ServerFault::FirstLine(line.chars().take(SHOWN).collect())),
    }
}

fn body_length(headers: &Headers) -> Result<usize, ServerFault> {
    let Some(value) = headers.first("Content-Length") else { return Ok(0) };
    let length = value.parse().ok().filter(|length| *length <= RESPONSE_BODY_LIMIT);
    length.ok_or_else(|| ServerFault::BodyLength(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] = b"RTSP/1.0 200 OK\r\nCSeq: 1\r\nContent-Length: 5\r\n\r\nv=0\r\n\
        $\x01\x00\x03abc\r\nOPTIONS * RTSP/1.0\nCSeq: 9\n\nRTSP/1.0 453\r\nSession:x\r\n\r\n$\x00\x00\x00";

    /// Items of a connection in text form.
    fn items(pieces: &[&[u8]]) -> Result<Vec<String>, ServerFault> {
        let mut reader = ServerReader::default();
        let mut items = Vec::new();
        for piece in pieces {
            reader.feed(piece);
            while let Some(item) = reader.next_item()? {
                items.push(match item {
                    ServerItem::Response(ServerResponse { status, reason, headers, body }) => {
                        format!("{status} {reason} {:?} {}", headers.first("CSeq"), body.len())
                    }
                    ServerItem::Request(request) => request.method,
                    ServerItem::Frame { channel, data } => format!("{channel} {}", data.len()),
                });
            }
        }
        Ok(items)
    }

    #[test]
    fn responses_requests_and_frames_come_in_any_pieces() {
        let expected = ["200 OK Some(\"1\") 5", "1 3", "OPTIONS", "453  None 0", "0 0"];
        assert_eq!(items(&[STREAM]).expect("valid"), expected);
        let bytes: Vec<&[u8]> = STREAM.chunks(1).collect();
        assert_eq!(items(&bytes).expect("valid"), expected);
        for cut in 0..STREAM.len() {
            assert_eq!(items(&[&STREAM[..cut], &STREAM[cut..]]).expect("valid"), expected, "{cut}");
        }
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(items(&[b"\x80\x21"]), Err(ServerFault::FirstByte(0x80)));
        assert_eq!(
            items(&[b"HTTP/1.1 400 Bad\r\n\r\n"]),
            Err(ServerFault::FirstLine("HTTP/1.1 400 Bad".to_owned()))
        );
        assert_eq!(items(&[b"RTSP/1.0 200 OK\r\nnonsense\r\n\r\n"]), Err(ServerFault::Line(2)));
        let long = [b"RTSP/1.0 200 OK\r\nX: ".as_slice(), &[b'a'; HEAD_LIMIT]].concat();
        assert_eq!(items(&[&long]), Err(ServerFault::LongHead));
        let large = b"RTSP/1.0 200 OK\r\nContent-Length: 1048577\r\n\r\n";
        assert_eq!(items(&[large]), Err(ServerFault::BodyLength("1048577".to_owned())));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, cut: usize) {
            let cut = cut % (bytes.len() + 1);
            _ = items(&[&bytes[..cut], &bytes[cut..]]);
            _ = items(&[b"RTSP/1.0 200 OK\r\n", &bytes]);
        }
    }
}
