//! One client: heads in, answers out, one after the other.

use std::io;
use std::net::TcpStream as BlockingStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use wirepath_media::http::{HeadReader, Status, Version};
use wirepath_streams::{Object, Part, Stream};

use super::Shared;
use super::answer;
use super::flow;
use super::head::{Asked, Refusal};
use super::status::count;

/// How long a connection may stay silent between requests.
const IDLE_LIMIT: Duration = Duration::from_secs(60);

/// How long a request head may take from its first byte to its last.
const HEAD_LIMIT: Duration = Duration::from_secs(20);

/// How long a client may take to take an answer that is in memory.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Bytes read at a time.
const READ_BYTES: usize = 4096;

/// How long, and for how many bytes, a connection that is closed from here is read on: closing one with unread bytes resets it, and
/// the client may lose the answer (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 256 * 1024;

pub(super) struct Connection {
    /// Not there while it is lent to the engine.
    stream: Option<TcpStream>,
    pub(super) shared: Arc<Shared>,
    drain: watch::Receiver<bool>,
    pub(super) reader: HeadReader,
    _place: OwnedSemaphorePermit,
}

/// Why there is no next request.
enum End {
    /// The client closed or is silent, or the connection broke, or the cache drains.
    Closed,
    /// What came is no request.
    Refused(Refusal),
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        shared: Arc<Shared>,
        place: OwnedSemaphorePermit,
        drain: watch::Receiver<bool>,
    ) -> Connection {
        count(&shared.counters.connections);
        Connection { stream: Some(stream), shared, drain, reader: HeadReader::default(), _place: place }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.exchanges().await {
            tracing::debug!(%error, "a client's connection broke");
        }
    }

    async fn exchanges(&mut self) -> io::Result<()> {
        self.stream()?.set_nodelay(true)?;
        loop {
            match self.next_request().await {
                Ok(asked) => {
                    if !self.exchange(asked).await? {
                        break;
                    }
                }
                Err(End::Closed) => return Ok(()),
                Err(End::Refused(refusal)) => {
                    self.write(&answer::refusal(&refusal, false, Version::Http11, false, now_s())).await?;
                    break;
                }
            }
        }
        self.linger().await
    }

    async fn next_request(&mut self) -> Result<Asked, End> {
        let mut inside = self.reader.is_inside();
        let start = |inside| Instant::now() + if inside { HEAD_LIMIT } else { IDLE_LIMIT };
        let mut deadline = start(inside);
        loop {
            if let Some(head) = self.reader.next_head().map_err(|error| End::Refused(error.into()))? {
                return Asked::read(head).map_err(End::Refused);
            }
            if self.reader.is_inside() != inside {
                inside = !inside;
                deadline = start(inside);
            }
            let Some(stream) = &self.stream else { return Err(End::Closed) };
            tokio::select! {
                _ = self.drain.wait_for(|&drain| drain), if !inside => return Err(End::Closed),
                ready = timeout_at(deadline, stream.readable()) => match ready {
                    Err(_) if inside => {
                        let words = "the request took too long to arrive";
                        return Err(End::Refused(Refusal::new(Status::RequestTimeout, words)));
                    }
                    Err(_) => return Err(End::Closed),
                    Ok(ready) => ready.map_err(|_| End::Closed)?,
                },
            }
            read(stream, &mut self.reader)?;
        }
    }

    /// Whether the connection outlives an answer that leaves it open.
    pub(super) fn stays(&self, asked: &Asked) -> bool {
        asked.keep_alive && !*self.drain.borrow()
    }

    /// Says why not.
    pub(super) async fn refuse(&mut self, refusal: &Refusal, asked: &Asked) -> io::Result<bool> {
        let is_head = asked.method == http::Method::HEAD;
        let answer = answer::refusal(refusal, is_head, asked.version, asked.keep_alive, now_s());
        self.write(&answer).await.map(|()| asked.keep_alive)
    }

    /// Writes an answer that is in memory.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = timeout(WRITE_LIMIT, self.stream()?.write_all(bytes)).await;
        written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Has the engine send these parts; answers how many bytes that is.
    pub(super) async fn send(&mut self, parts: Vec<Part>) -> io::Result<u64> {
        let (stream, socket) = match self.lend() {
            Ok(lent) => lent,
            Err(error) => {
                self.shared.engine.readers().discard(parts);
                return Err(error);
            }
        };
        let (on_end, end) = oneshot::channel();
        // Nobody waits any more only when this connection's task was ended, which ends the download.
        let sending = self.shared.engine.download(socket, parts, move |end| drop(on_end.send(end)));
        let end = end.await.map_err(|_| io::Error::other("the engine has ended"))?;
        drop(sending);
        match end.error {
            None => self.take_back(stream).map(|()| end.sent),
            Some(error) => Err(cut(&stream, format!("after {} bytes: {error}", end.sent))),
        }
    }

    /// Has the engine move a stream from or to this connection; `build` gets it as an object. Answers how many bytes left.
    pub(super) async fn relay(
        &mut self,
        build: impl FnOnce(Object) -> io::Result<Stream>,
    ) -> io::Result<(u64, Result<(), String>)> {
        let (stream, socket) = self.lend()?;
        let relayed = build(Object::stream("the client", socket)?)?;
        let moved = flow::run(&self.shared.engine, relayed, self.shared.origin_limit).await;
        self.take_back(stream)?;
        Ok(moved)
    }

    /// Whether the client sees a reset, and no end, when the connection is closed from here on.
    pub(super) fn reset_when_closed(&mut self, resets: bool) -> io::Result<()> {
        SockRef::from(&*self.stream()?).set_linger(resets.then_some(Duration::ZERO))
    }

    /// Ends the connection so that the client sees that something is missing.
    pub(super) fn cut(&mut self, why: String) -> io::Error {
        match self.stream.take() {
            Some(stream) => cut(&stream, why),
            None => io::Error::other(why),
        }
    }

    /// The connection, taken out of the runtime, which would be woken each time it has room; and a second descriptor of it.
    fn lend(&mut self) -> io::Result<(BlockingStream, OwnedFd)> {
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?.into_std()?;
        let socket = stream.try_clone()?.into();
        Ok((stream, socket))
    }

    fn take_back(&mut self, stream: BlockingStream) -> io::Result<()> {
        self.stream = Some(TcpStream::from_std(stream)?);
        Ok(())
    }

    /// Tells the client that nothing more comes, and waits a little for it to close.
    async fn linger(&mut self) -> io::Result<()> {
        let stream = self.stream()?;
        stream.shutdown().await?;
        let rest = async {
            let mut left = LINGER_BYTES;
            loop {
                stream.readable().await?;
                match stream.try_read(&mut [0; READ_BYTES]) {
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
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// Resets a connection when it is closed: its end would be taken for that of the answer.
fn cut<'a>(stream: impl Into<SockRef<'a>>, why: String) -> io::Error {
    match stream.into().set_linger(Some(Duration::ZERO)) {
        Ok(()) => io::Error::other(why),
        Err(error) => error,
    }
}

/// Feeds what has arrived. Its buffer is not part of the task, of which there may be thousands.
fn read(stream: &TcpStream, reader: &mut HeadReader) -> Result<(), End> {
    let mut bytes = [0; READ_BYTES];
    let room = reader.room().min(READ_BYTES);
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

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
