//! An HTTP client of a page: enough to ask, and to see every byte of the answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// An answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Names in lower case, and values, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name; `name` in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// Fetches `path` over a connection of its own.
pub fn get(address: SocketAddr, path: &str) -> Result<Response> {
    request(address, "GET", path, &[])
}

/// Sends one request over a connection of its own.
pub fn request(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
    let mut connection = connect(address)?;
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    connection.write_all(text.as_bytes()).context("sending the request")?;
    let mut buffer = Vec::new();
    read_response(&mut connection, &mut buffer, method == "HEAD")
}

/// Connects, with a time limit on every read and write.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let limit = Duration::from_secs(10);
    let connection =
        TcpStream::connect_timeout(&address, limit).with_context(|| format!("connecting to {address}"))?;
    connection.set_read_timeout(Some(limit)).context("setting a limit")?;
    connection.set_write_timeout(Some(limit)).context("setting a limit")?;
    Ok(connection)
}

/// Reads one answer; `buffer` keeps what came after it.
pub fn read_response(stream: &mut impl Read, buffer: &mut Vec<u8>, head_only: bool) -> Result<Response> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        ensure!(fill(stream, buffer)?, "the connection ended within a response's head");
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let (status, headers) = head_of(&head)?;
    let mut response = Response { status, headers, body: Vec::new() };
    buffer.drain(..end);
    if head_only || matches!(status, 100..200 | 204 | 304) {
        return Ok(response);
    }
    let length = match response.header("content-length") {
        Some(length) => Some(length.parse::<usize>().context("Content-Length")?),
        None if response.header("transfer-encoding").is_some() => bail!("a chunked body was not expected"),
        None => None,
    };
    while length.is_none_or(|length| buffer.len() < length) {
        if !fill(stream, buffer)? {
            ensure!(length.is_none(), "the connection ended within a body");
            break;
        }
    }
    response.body = buffer.drain(..length.unwrap_or(buffer.len())).collect();
    Ok(response)
}

fn fill(stream: &mut impl Read, buffer: &mut Vec<u8>) -> Result<bool> {
    let mut more = [0; 65536];
    let length = crate::uninterrupted(|| stream.read(&mut more)).context("reading a response")?;
    buffer.extend_from_slice(&more[..length]);
    Ok(length > 0)
}

/// Status and headers of a response's head, of HTTP and of RTSP.
pub(crate) fn head_of(head: &str) -> Result<(u16, Vec<(String, String)>)> {
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.with_context(|| format!("`{first}` is no status line"))?;
    Ok((status, lines.filter_map(header_of).collect()))
}

/// Names in lower case, and values, of lines that end in CRLF.
pub(crate) fn headers_of(lines: &str) -> Vec<(String, String)> {
    lines.split("\r\n").filter_map(header_of).collect()
}

fn header_of(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_ascii_lowercase(), value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelined_answers_are_told_apart() {
        let text =
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nA: b\r\n\r\nabcHTTP/1.1 304 Not Modified\r\n\r\n";
        let (mut stream, mut buffer) = (&text[..], Vec::new());
        let first = read_response(&mut stream, &mut buffer, false).unwrap();
        assert_eq!((first.status, first.body.as_slice(), first.header("a")), (200, &b"abc"[..], Some("b")));
        assert_eq!(read_response(&mut stream, &mut buffer, false).unwrap().status, 304);
    }

    #[test]
    fn a_body_that_ends_early_is_an_error() {
        let mut stream = &b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"[..];
        assert!(read_response(&mut stream, &mut Vec::new(), false).is_err());
    }
}
