//! An RTSP client that sends what it is told, right or wrong.

use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::http::{self, Response};

/// A request that should have succeeded was answered, but not with 200.
#[derive(Debug)]
pub struct Refused {
    request: String,
    /// The answer.
    pub response: Response,
}

impl Refused {
    fn new(method: &str, url: &str, response: Response) -> Self {
        Self { request: format!("{method} {url}"), response }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} was answered with {:?}", self.request, self.response)
    }
}

impl std::error::Error for Refused {}

/// A connection.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    sequence: u32,
}

impl Client {
    /// Connects from this process's network namespace.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        Ok(Self::over(http::connect(address)?))
    }

    /// Speaks over a connection made elsewhere.
    pub fn over(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::new(), sequence: 0 }
    }

    /// The connection, to do something unexpected with.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Sends a request with the next CSeq and answers the response, which must carry the same.
    pub fn request(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Result<Response> {
        self.send(method, url, headers)?;
        let response = self.response().with_context(|| format!("the answer to {method} {url}"))?;
        let expected = self.sequence.to_string();
        ensure!(
            response.header("cseq") == Some(&expected),
            "CSeq {:?} for {expected}",
            response.header("cseq")
        );
        Ok(response)
    }

    /// Like [`request`](Self::request), and the answer must be 200; any other is a [`Refused`].
    pub fn succeed(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Result<Response> {
        let response = self.request(method, url, headers)?;
        if response.status == 200 { Ok(response) } else { Err(Refused::new(method, url, response).into()) }
    }

    /// Sends a request and waits for nothing.
    pub fn send(&mut self, method: &str, url: &str, headers: &[(&str, &str)]) -> Result<()> {
        self.sequence += 1;
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n", self.sequence);
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        self.send_raw((text + "\r\n").as_bytes())
    }

    /// Sends bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).context("sending a request")
    }

    /// Reads the next response.
    pub fn response(&mut self) -> Result<Response> {
        // RTSP has no bodies without a length (RFC 2326 section 4.4); the reader of HTTP would wait for the
        // end.
        let stream = &mut self.stream;
        read_without_length_is_empty(stream, &mut self.buffer)
    }

    /// Returns whether the server has closed the connection, waiting at most so long for it; answers before
    /// that are dropped.
    pub fn is_closed_within(&mut self, limit: Duration) -> Result<bool> {
        let until = std::time::Instant::now() + limit;
        let mut buffer = [0; 4096];
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.stream.set_read_timeout(Some(left)).context("setting a limit")?;
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(true),
                Err(error) => return Err(error).context("reading"),
            }
        }
    }
}

fn read_without_length_is_empty(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<Response> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        let mut more = [0; 4096];
        let length = crate::uninterrupted(|| stream.read(&mut more)).context("reading a response")?;
        ensure!(length > 0, "the connection ended");
        buffer.extend_from_slice(&more[..length]);
    };
    let has_length =
        String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase().contains("\r\ncontent-length:");
    http::read_response(stream, buffer, !has_length)
}

/// The value of `key=value` in a header like Transport, Session or RTP-Info.
pub fn parameter<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    header.split(';').find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_found_by_their_whole_name() {
        let transport = "RTP/AVP;unicast;client_port=5000-5001;server_port=6000-6001;ssrc=0011AABB";
        assert_eq!(parameter(transport, "server_port"), Some("6000-6001"));
        assert_eq!(parameter(transport, "port"), None);
    }
}
