//! RTSP connection of a client: requests out; responses, requests and interleaved frames in.

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

/// Bytes that may wait for the server to read them.
const UNSENT: usize = 64 << 10;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    reader: ServerReader,
    unsent: Vec<u8>,
    cseq: u64,
    /// True if the kernel throws away the bytes that come.
    discards: bool,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection { stream, reader: ServerReader::default(), unsent: Vec::new(), cseq: 0, discards: false }
    }

    /// Own address.
    pub(crate) fn local(&self) -> io::Result<IpAddr> {
        Ok(self.stream.local_addr()?.ip())
    }

    /// Sends a request with the next CSeq, and answers that.
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
            // Values may have come from the server: a session's identifier, a URL.
            let value: String = value.chars().filter(|character| !character.is_control()).collect();
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        self.send(text.as_bytes())?;
        Ok(self.cseq)
    }

    /// Answers a request of the server.
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

    /// From now on, what comes is thrown away by the kernel, responses too.
    pub(crate) fn discard_from_now_on(&mut self) -> io::Result<()> {
        self.discards = true;
        set_receive_low_watermark(self.stream.as_fd(), DISCARD_WATERMARK)
    }

    /// Waits for bytes and reads them; answers how many were thrown away instead. Nothing is lost when it is
    /// dropped before its end.
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

    /// The next item of what was read.
    pub(crate) fn next_item(&mut self) -> Result<Option<ServerItem<'_>>, ServerFault> {
        self.reader.next_item()
    }

    /// Has the connection end with a reset.
    pub(crate) fn reset(self) -> io::Result<()> {
        self.stream.set_zero_linger()?;
        drop(self.stream);
        Ok(())
    }

    /// Gives what is still to be sent a moment to leave.
    pub(crate) async fn finish(&mut self, limit: Duration) {
        let flushed = async {
            while !self.unsent.is_empty() {
                if self.stream.writable().await.is_err() || self.flush().is_err() {
                    break;
                }
            }
        };
        // A server that does not read is left without a word.
        _ = tokio::time::timeout(limit, flushed).await;
    }
}
