//! RTSP connection of a client: sends requests, and receives responses, requests and interleaved frames.

use std::cell::RefCell;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;
use wirepath_media::rtsp::{ServerFault, ServerItem, ServerReader};
use wirepath_sys::arrivals;
use wirepath_sys::socket::set_receive_low_watermark;

use crate::failure::Failure;
use crate::session::{DISCARD, DISCARD_WATERMARK, READ, USER_AGENT};

/// Maximum number of bytes that wait until the server reads them.
const UNSENT: usize = 64 << 10;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// RTSP connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    reader: ServerReader,
    unsent: Vec<u8>,
    cseq: u64,
    /// True if the kernel discards received bytes.
    discards: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection { stream, reader: ServerReader::default(), unsent: Vec::new(), cseq: 0, discards: false }
    }

    /// Local address.
    pub(crate) fn local(&self) -> io::Result<IpAddr> {
        Ok(self.stream.local_addr()?.ip())
    }

    /// Sends a request with the next CSeq. Returns the CSeq.
    pub(crate) fn request(
        &mut self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
    ) -> Result<u64, Failure> {
        self.cseq += 1;
        let mut text =
            format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\nUser-Agent: {USER_AGENT}\r\n", self.cseq);
        for (name, value) in headers {
            // Values may come from the server, such as a session identifier or a URL.
            let value: String = value.chars().filter(|character| !character.is_control()).collect();
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        self.send(text.as_bytes())?;
        Ok(self.cseq)
    }

    /// Sends a response to a request of the server.
    pub(crate) fn respond(&mut self, status: &str, cseq: &str) -> Result<(), Failure> {
        let cseq: String = cseq.chars().filter(char::is_ascii_digit).take(20).collect();
        self.send(format!("RTSP/1.0 {status}\r\nCSeq: {cseq}\r\n\r\n").as_bytes())
    }

    /// Sends an interleaved frame.
    pub(crate) fn send_frame(&mut self, channel: u8, data: &[u8]) -> Result<(), Failure> {
        let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
        let [high, low] = length.to_be_bytes();
        let mut frame = vec![b'$', channel, high, low];
        frame.extend_from_slice(&data[..length.into()]);
        self.send(&frame)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.unsent.len() + bytes.len() > UNSENT {
            return Err(Failure::Unread);
        }
        self.unsent.extend_from_slice(bytes);
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        while !self.unsent.is_empty() {
            match self.stream.try_write(&self.unsent) {
                Ok(length) => drop(self.unsent.drain(..length)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Failure::Connection(error)),
            }
        }
        Ok(())
    }

    /// Makes the kernel discard all bytes received from now on, including responses.
    pub(crate) fn discard_from_now_on(&mut self) -> io::Result<()> {
        self.discards = true;
        set_receive_low_watermark(self.stream.as_fd(), DISCARD_WATERMARK)
    }

    /// Waits for bytes and reads them. Returns the number of bytes that were discarded instead. Cancellation
    /// loses no bytes.
    pub(crate) async fn fill(&mut self) -> Result<usize, Failure> {
        loop {
            let waiting = !self.unsent.is_empty();
            let interest = if waiting { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            let ready = self.stream.ready(interest).await.map_err(Failure::Connection)?;
            if waiting && ready.is_writable() {
                self.flush()?;
            }
            let read = if self.discards { self.discard() } else { self.read() };
            match read {
                Ok(0) => return Err(Failure::Closed),
                Ok(length) => return Ok(if self.discards { length } else { 0 }),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(Failure::Connection(error)),
            }
        }
    }

    fn read(&mut self) -> io::Result<usize> {
        BUFFER.with_borrow_mut(|buffer| {
            let length = self.stream.try_read(buffer)?;
            self.reader.feed(&buffer[..length]);
            Ok(length)
        })
    }

    fn discard(&self) -> io::Result<usize> {
        self.stream.try_io(Interest::READABLE, || arrivals::discard(self.stream.as_fd(), DISCARD))
    }

    /// Returns the next item of the bytes read.
    pub(crate) fn next_item(&mut self) -> Result<Option<ServerItem<'_>>, ServerFault> {
        self.reader.next_item()
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) -> io::Result<()> {
        self.stream.set_zero_linger()?;
        drop(self.stream);
        Ok(())
    }

    /// Waits until the remaining bytes are sent, at most for `limit`.
    pub(crate) async fn finish(&mut self, limit: Duration) {
        let flushed = async {
            while !self.unsent.is_empty() {
                if self.stream.writable().await.is_err() || self.flush().is_err() {
                    break;
                }
            }
        };
        // If the server does not read, the remaining bytes are dropped.
        _ = tokio::time::timeout(limit, flushed).await;
    }
}
