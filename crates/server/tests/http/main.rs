//! The HTTP listener over loopback, by raw requests.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod answers;
mod connections;
mod events;
#[path = "../http_support/mod.rs"]
mod http_support;

use http_support::RunningListener;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use wirepath_net::http::HttpOptions;

const WAIT: Duration = Duration::from_secs(10);

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn value(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (other, value) = line.split_once(": ")?;
            other.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A client's end of a connection.
struct Client {
    stream: TcpStream,
}

impl Client {
    fn new(listener: &RunningListener) -> Self {
        let stream = TcpStream::connect(listener.address).unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    /// A client that takes little at a time, so that the server's socket is full after some 100 KB.
    fn slow(listener: &RunningListener) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        // The server's buffer is a multiple of the segment size, which is 64 KiB on loopback.
        socket.set_tcp_mss(1000).unwrap();
        socket.connect(&listener.address.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(WAIT)).unwrap();
        Self { stream }
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The next answer; its body is as long as announced unless `head_only`.
    fn answer(&mut self, head_only: bool) -> Answer {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status = head.get(9..12).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let length = answer.value("Content-Length").filter(|_| !head_only).map_or(0, |l| l.parse().unwrap());
        answer.body.resize(length, 0);
        self.stream.read_exact(&mut answer.body).unwrap();
        answer
    }

    fn ask(&mut self, method: &str, path: &str, fields: &str) -> Answer {
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        self.answer(method == "HEAD")
    }

    /// Waits for the server to close; answers what came before that.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the server does not close: {error}"),
        }
        rest
    }
}

fn get(listener: &RunningListener, path: &str, fields: &str) -> Answer {
    Client::new(listener).ask("GET", path, fields)
}

fn open() -> RunningListener {
    RunningListener::new(HttpOptions::default())
}
