//! HTTP connection of a client: one request at a time, and what comes of its answer.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use wirepath_http::{HeadReader, ResponseHead};
use wirepath_sys::arrivals;
use wirepath_sys::socket::set_receive_low_watermark;

use crate::failure::Failure;
use crate::session::{DISCARD, DISCARD_WATERMARK, READ};

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ]);
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    /// A response is awaited or not read to its end: no other request can be sent.
    pub(super) is_busy: bool,
    /// The server wants to close it.
    pub(super) closes: bool,
    /// Wakes its reader only when many bytes have come.
    has_watermark: bool,
    timer: Pin<Box<Sleep>>,
    /// When bytes came, or waiting for them began.
    progress: Instant,
}

/// Head of a response, and what came behind it.
pub(super) struct Answer {
    pub(super) head: ResponseHead,
    pub(super) rest: Vec<u8>,
    /// When its first byte came.
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

    /// Sends a request and reads the head of its response. `Ok(None)` if the connection ends before the
    /// response begins, which a kept connection may at any time.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<Option<Answer>, Failure> {
        self.is_busy = true;
        self.set_watermark(false)?;
        if let Err(error) = self.stream.write_all(request).await {
            return if is_end(&error) { Ok(None) } else { Err(Failure::Connection(error)) };
        }
        let (mut reader, mut first_byte) = (HeadReader::default(), None);
        loop {
            self.stream.readable().await.map_err(Failure::Connection)?;
            match self.read_head(&mut reader) {
                Ok(0) if first_byte.is_none() => return Ok(None),
                Ok(0) => return Err(Failure::Closed),
                Ok(_) => {}
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

    /// Time for which nothing is read on purpose is over.
    pub(super) fn resume(&mut self) {
        self.progress = Instant::now();
    }

    /// Reads up to `most` bytes of a body, and passes them on.
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

    /// Has the kernel throw away up to `most` bytes of a body.
    pub(super) async fn discard(&mut self, most: u64, limit: Duration) -> Result<usize, Failure> {
        self.set_watermark(most >= 2 * u64::from(DISCARD_WATERMARK))?;
        let most = usize::try_from(most).unwrap_or(DISCARD).min(DISCARD);
        loop {
            self.wait(limit).await?;
            let discard = || arrivals::discard(self.stream.as_fd(), most);
            let read = self.stream.try_io(Interest::READABLE, discard);
            if let Some(length) = self.progress(read)? {
                return Ok(length);
            }
        }
    }

    /// Has the connection end with a reset.
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

    /// Waits for bytes, no longer than the limit since the last ones.
    async fn wait(&mut self, limit: Duration) -> Result<(), Failure> {
        // What does not end must let others have their turns.
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

/// Returns whether the error is how the end of a connection looks to one who writes or reads.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted)
}
