//! One connection: heads in, answers out, one after the other.

use super::answer::Answer;
use super::counters::Counters;
use super::door::Shared;
use crate::limits::Permit;
use std::io;
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use wirepath_media::http::{HeadError, HeadReader, Part, Request, Response, Status, Version};
use wirepath_streams::{self as streams, BlockingPool};

/// Bytes read at a time.
const READ_LENGTH: usize = 4096;

/// How long, and for how many bytes, a connection that is closed from here is read on: closing one with unread bytes
/// resets it, and the client may lose the answer (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 256 * 1024;

pub(super) struct Connection {
    stream: Option<TcpStream>,
    peer: SocketAddr,
    shared: Arc<Shared>,
    drain: watch::Receiver<bool>,
    reader: HeadReader,
    _permit: Permit,
}

/// Why there is no next request.
enum End {
    /// The client closed, or the connection broke, or the server drains.
    Closed,
    /// The client was silent between requests.
    Idle,
    /// A head took too long.
    Late,
    /// A head cannot be read.
    Malformed(HeadError),
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        shared: Arc<Shared>,
        permit: Permit,
        drain: watch::Receiver<bool>,
    ) -> Self {
        Counters::add(&shared.counters.accepted, 1);
        Self { stream: Some(stream), peer, shared, drain, reader: HeadReader::default(), _permit: permit }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.exchanges().await {
            tracing::debug!(peer = %self.peer, %error, "an HTTP connection broke");
        }
    }

    /// Answers requests until there are no more.
    async fn exchanges(&mut self) -> io::Result<()> {
        self.stream()?.set_nodelay(true)?;
        loop {
            match self.next_request().await {
                Ok(request) => {
                    if !self.exchange(request).await? {
                        break;
                    }
                }
                Err(End::Closed) => return Ok(()),
                Err(End::Idle) => {
                    Counters::add(&self.shared.counters.timed_out, 1);
                    return Ok(());
                }
                Err(End::Late) => {
                    Counters::add(&self.shared.counters.timed_out, 1);
                    self.refuse(Status::RequestTimeout, "the request took too long to arrive").await?;
                    break;
                }
                Err(End::Malformed(error)) => {
                    Counters::add(&self.shared.counters.malformed, 1);
                    self.refuse(error.status(), &error.to_string()).await?;
                    break;
                }
            }
        }
        self.linger().await
    }

    async fn next_request(&mut self) -> Result<Request, End> {
        let options = &self.shared.options;
        let mut inside = self.reader.is_inside();
        let start =
            |inside| Instant::now() + if inside { options.head_timeout } else { options.idle_timeout };
        let mut deadline = start(inside);
        loop {
            if let Some(request) = self.reader.next().map_err(End::Malformed)? {
                return Ok(request);
            }
            if self.reader.is_inside() != inside {
                inside = !inside;
                deadline = start(inside);
            }
            let Some(stream) = &self.stream else { return Err(End::Closed) };
            tokio::select! {
                _ = self.drain.wait_for(|&drain| drain), if !inside => return Err(End::Closed),
                ready = timeout_at(deadline, stream.readable()) => match ready {
                    Err(_) if inside => return Err(End::Late),
                    Err(_) => return Err(End::Idle),
                    Ok(ready) => ready.map_err(|_| End::Closed)?,
                },
            }
            read(stream, &mut self.reader)?;
        }
    }

    /// Answers one request; says whether the connection stays.
    async fn exchange(&mut self, request: Request) -> io::Result<bool> {
        Counters::add(&self.shared.counters.requests, 1);
        let (version, keep_alive) = (request.version, request.keep_alive);
        let local = self.stream()?.local_addr()?;
        let answer = self.shared.answer(request, local).await;
        let keep_alive = keep_alive && !*self.drain.borrow();
        self.send(answer, version, keep_alive).await?;
        Ok(keep_alive)
    }

    async fn refuse(&mut self, status: Status, explanation: &str) -> io::Result<()> {
        let response = Response::error(status, explanation);
        self.send(Answer { response, file: None }, Version::Http11, false).await
    }

    async fn send(&mut self, answer: Answer, client: Version, keep_alive: bool) -> io::Result<()> {
        let Answer { response, file } = answer;
        let (status, length) = (response.status, response.body_length());
        tracing::debug!(peer = %self.peer, status = status.code(), length, "answer");
        self.shared.counters.response(status);
        let head = response.head(client, keep_alive, now_s());
        let of_file = response.body.iter().any(|part| matches!(part, Part::Extent(_)));
        let sent = match file {
            // Only the parts hold the file from here on, and whoever has the parts discards them.
            Some(file) if of_file => self.send_file(body_parts(head, response.body, file)).await,
            file => {
                if let Some(file) = file {
                    self.readers().discard(file);
                }
                self.write(flatten(head, response.body)).await
            }
        };
        match &sent {
            Ok(()) => Counters::add(&self.shared.counters.body_bytes, length),
            Err(_) => Counters::add(&self.shared.counters.bodies_cut, 1),
        }
        sent
    }

    /// Writes an answer that is in memory.
    async fn write(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let limit = self.shared.options.write_timeout;
        let written = timeout(limit, self.stream()?.write_all(&bytes)).await;
        written.unwrap_or_else(|_| {
            Counters::add(&self.shared.counters.timed_out, 1);
            Err(io::Error::new(io::ErrorKind::TimedOut, "the client took too long to take the answer"))
        })
    }

    /// Lends the connection to the engine. Meanwhile it is not registered with this runtime, which would
    /// be woken each time the connection has room.
    async fn send_file(&mut self, parts: Vec<streams::Part>) -> io::Result<()> {
        let (stream, socket) = match self.lend() {
            Ok(lent) => lent,
            Err(error) => {
                self.readers().discard(parts);
                return Err(error);
            }
        };
        let (on_end, end) = oneshot::channel();
        // Nobody waits any more only when this connection's task was ended, which ends the download.
        let sending = self.shared.site.engine.download(socket, parts, move |end| drop(on_end.send(end)));
        let end = end.await.map_err(|_| io::Error::other("the engine has ended"))?;
        drop(sending);
        self.stream = Some(TcpStream::from_std(stream)?);
        end.error.map_or(Ok(()), |error| {
            Err(io::Error::other(format!("the body ended after {} bytes: {error}", end.sent)))
        })
    }

    /// The connection, taken out of the runtime, and a second descriptor of it.
    fn lend(&mut self) -> io::Result<(BlockingStream, OwnedFd)> {
        let stream: BlockingStream = self.stream.take().ok_or_else(gone)?.into_std()?;
        let socket = stream.try_clone()?.into();
        Ok((stream, socket))
    }

    /// The threads that close files: this one has other connections to serve.
    fn readers(&self) -> &BlockingPool {
        self.shared.site.engine.readers()
    }

    /// Tells the client that nothing more comes, and waits a little for it to close.
    async fn linger(&mut self) -> io::Result<()> {
        let stream = self.stream()?;
        stream.shutdown().await?;
        let rest = async {
            let mut left = LINGER_BYTES;
            loop {
                stream.readable().await?;
                match discard(stream) {
                    Ok(0) => return Ok(()),
                    Ok(length) if length >= left => return Ok(()),
                    Ok(length) => left -= length,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        };
        timeout(LINGER, rest).await.unwrap_or(Ok(()))
    }

    fn stream(&mut self) -> io::Result<&mut TcpStream> {
        self.stream.as_mut().ok_or_else(gone)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        Counters::add(&self.shared.counters.closed, 1);
    }
}

/// The time in seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Feeds what has arrived. Its buffer is not part of the task, of which there may be thousands.
fn read(stream: &TcpStream, reader: &mut HeadReader) -> Result<(), End> {
    let mut bytes = [0; READ_LENGTH];
    let room = reader.room().min(READ_LENGTH);
    match stream.try_read(&mut bytes[..room]) {
        Ok(0) => Err(End::Closed),
        Ok(length) => {
            let taken = reader.feed(&bytes[..length]);
            debug_assert_eq!(taken, length, "there was room");
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(_) => Err(End::Closed),
    }
}

fn discard(stream: &TcpStream) -> io::Result<usize> {
    stream.try_read(&mut [0; READ_LENGTH])
}

fn body_parts(head: Vec<u8>, body: Vec<Part>, file: Arc<std::fs::File>) -> Vec<streams::Part> {
    let parts = body.into_iter().map(|part| match part {
        Part::Bytes(bytes) => streams::Part::Bytes(bytes),
        Part::Extent(extent) => {
            streams::Part::Extent { file: Arc::clone(&file), range: extent.offset..extent.end() }
        }
    });
    std::iter::once(streams::Part::Bytes(head)).chain(parts).collect()
}

fn flatten(mut head: Vec<u8>, body: Vec<Part>) -> Vec<u8> {
    for part in body {
        match part {
            Part::Bytes(bytes) => head.extend_from_slice(&bytes),
            Part::Extent(_) => unreachable!("an answer with extents has a file"),
        }
    }
    head
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection is gone")
}
