//! HTTP connection of a client, with one request and its response at a time.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use wirepath_http::{HEAD_LIMIT, HeadReader, ResponseHead};
use wirepath_sys::arrivals;
use wirepath_sys::socket::set_receive_low_watermark;

use crate::failure::Failure;
use crate::session::{DISCARD, DISCARD_WATERMARK, READ};

/// Maximum number of informational responses before the final one.
const MOST_INFORMATIONAL: usize = 16;

/// Maximum number of bytes up to the end of the final head.
const MOST_HEAD_BYTES: usize = 4 * HEAD_LIMIT;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// HTTP connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// True if a response is awaited or not completely read: no other request can be sent.
    pub(super) is_busy: bool,
    /// True if the connection must be closed after the response.
    pub(super) closes: bool,
    /// True if the reader is woken only after many bytes.
    has_watermark: bool,
    timer: Pin<Box<Sleep>>,
    /// Time at which the last bytes were received, or at which waiting for bytes started.
    progress: Instant,
}

/// Head of a response, and the bytes after it.
pub(super) struct Answer {
    pub(super) head: ResponseHead,
    pub(super) rest: Vec<u8>,
    /// Time of the first byte of the response.
    pub(super) first_byte: Instant,
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Connection {
        let now = Instant::now();
        Connection {
            stream,
            is_busy: false,
            closes: false,
            has_watermark: false,
            timer: Box::pin(tokio::time::sleep_until(now)),
            progress: now,
        }
    }

    /// Sends a request and reads the head of its response. Returns `Ok(None)` if the connection ends before
    /// the response begins, which may happen on a kept connection at any time.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<Option<Answer>, Failure> {
        self.is_busy = true;
        self.set_watermark(false)?;
        if let Err(error) = self.stream.write_all(request).await {
            return if is_end(&error) { Ok(None) } else { Err(Failure::Connection(error)) };
        }
        let (mut reader, mut first_byte) = (HeadReader::default(), None);
        let (mut bytes, mut informational) = (0, 0);
        loop {
            // A server that floods the connection must not block other sessions and timers.
            tokio::task::consume_budget().await;
            self.stream.readable().await.map_err(Failure::Connection)?;
            match self.read_head(&mut reader) {
                Ok(0) if first_byte.is_none() => return Ok(None),
                Ok(0) => return Err(Failure::Closed),
                Ok(length) => bytes += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) if first_byte.is_none() && is_end(&error) => return Ok(None),
                Err(error) => return Err(Failure::Connection(error)),
            }
            let first_byte = *first_byte.get_or_insert_with(Instant::now);
            while let Some(head) = reader.next_response()? {
                if !head.status.is_informational() {
                    self.progress = Instant::now();
                    return Ok(Some(Answer { head, rest: reader.take(u64::MAX), first_byte }));
                }
                informational += 1;
            }
            if informational > MOST_INFORMATIONAL || bytes > MOST_HEAD_BYTES {
                return Err(Failure::NoFinalResponse);
            }
        }
    }

    fn read_head(&self, reader: &mut HeadReader) -> io::Result<usize> {
        BUFFER.with_borrow_mut(|buffer| {
            let length = self.stream.try_read(&mut buffer[..reader.room().min(READ)])?;
            let taken = reader.feed(&buffer[..length]);
            debug_assert_eq!(taken, length, "no more was read than there was room for");
            Ok(length)
        })
    }

    /// Restarts stall detection after a pause.
    pub(super) fn resume(&mut self) {
        self.progress = Instant::now();
    }

    /// Reads up to `most` bytes of a body, and passes them to `data`.
    pub(super) async fn read(
        &mut self,
        most: u64,
        limit: Duration,
        mut data: impl FnMut(&[u8]),
    ) -> Result<usize, Failure> {
        self.set_watermark(false)?;
        let most = usize::try_from(most).unwrap_or(READ).min(READ);
        loop {
            self.wait(limit).await?;
            let read = BUFFER.with_borrow_mut(|buffer| {
                let length = self.stream.try_read(&mut buffer[..most])?;
                data(&buffer[..length]);
                Ok(length)
            });
            if let Some(length) = self.progress(read)? {
                return Ok(length);
            }
        }
    }

    /// Makes the kernel discard up to `most` bytes of a body.
    pub(super) async fn discard(&mut self, most: u64, limit: Duration) -> Result<usize, Failure> {
        self.set_watermark(most >= 2 * u64::from(DISCARD_WATERMARK))?;
        let most = usize::try_from(most).unwrap_or(DISCARD).min(DISCARD);
        loop {
            let read = match self.wait(limit).await {
                Ok(()) => {
                    self.stream.try_io(Interest::READABLE, || arrivals::discard(self.stream.as_fd(), most))
                }
                // Bytes below the watermark may have arrived, for which no reader is woken.
                Err(Failure::Stalled) if self.has_watermark => {
                    self.set_watermark(false)?;
                    arrivals::discard(self.stream.as_fd(), most)
                }
                Err(failure) => return Err(failure),
            };
            if let Some(length) = self.progress(read)? {
                return Ok(length);
            }
        }
    }

    /// Makes the connection end with a reset.
    pub(super) fn reset(self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }

    fn progress(&mut self, read: io::Result<usize>) -> Result<Option<usize>, Failure> {
        match read {
            Ok(length) => {
                self.progress = Instant::now();
                Ok(Some(length))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Failure::Connection(error)),
        }
    }

    /// Waits for bytes, at most for the limit since the last bytes.
    async fn wait(&mut self, limit: Duration) -> Result<(), Failure> {
        // An endless body must not block other sessions and timers.
        tokio::task::consume_budget().await;
        loop {
            tokio::select! {
                biased;
                ready = self.stream.readable() => return ready.map_err(Failure::Connection),
                () = self.timer.as_mut() => {}
            }
            let deadline = self.progress + limit;
            if deadline <= Instant::now() {
                return Err(Failure::Stalled);
            }
            self.timer.as_mut().reset(deadline);
        }
    }

    fn set_watermark(&mut self, on: bool) -> Result<(), Failure> {
        if std::mem::replace(&mut self.has_watermark, on) != on {
            let bytes = if on { DISCARD_WATERMARK } else { 1 };
            set_receive_low_watermark(self.stream.as_fd(), bytes).map_err(Failure::Connection)?;
        }
        Ok(())
    }
}

/// Returns whether the error means that the peer has closed the connection.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted)
}
