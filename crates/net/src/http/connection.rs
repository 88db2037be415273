//! Connection of an HTTP client: reads heads and writes responses. The engine borrows it while it sends or
//! moves a body.

mod drain;
mod send;

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream as BlockingStream;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};
use wirepath_http::{HeadError, HeadReader};
use wirepath_streams::LendingSwitch;

use drain::Drain;

use super::lazy_timer::{Elapsed, LazyTimer};

/// Bytes read at a time.
const READ_BYTES: usize = 4096;

/// Time and bytes for which a connection is still read after the last response: closing a connection with
/// unread bytes resets it, and the client may lose the response (RFC 9112 section 9.6).
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 256 * 1024;

/// Response to a client beyond the limit.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// Timeouts of a client.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time between requests.
    pub idle: Duration,
    /// Time for a head, from its first byte to its last.
    pub head: Duration,
    /// Time in which the client takes no bytes of a response.
    pub write: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            idle: Duration::from_secs(60),
            head: Duration::from_secs(20),
            write: Duration::from_secs(60),
        }
    }
}

/// Reason why there is no next request.
#[derive(Debug)]
pub enum End {
    /// The client closed, the connection failed, or the listener drains.
    Closed,
    /// The client was idle between requests.
    Idle,
    /// A head took too long.
    Late,
    /// A head cannot be read.
    Malformed(HeadError),
}

impl End {
    /// Status and explanation for the client before the connection is closed; `None` if no response is
    /// expected.
    pub fn answer(&self) -> Option<(StatusCode, String)> {
        match self {
            End::Closed | End::Idle => None,
            End::Late => Some((StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time".to_owned())),
            End::Malformed(error) => Some((error.status(), error.to_string())),
        }
    }
}

/// Connection of a client.
#[derive(Debug)]
pub struct Connection {
    /// `None` while the stream is lent to the engine.
    stream: Option<TcpStream>,
    reader: HeadReader,
    timeouts: Timeouts,
    timer: LazyTimer,
    drain: Drain,
    /// Rule of sending files; `None` if they are always sent without a copy.
    lending: Option<LendingSwitch>,
}

impl Connection {
    /// Connection from which nothing has been read. No request begins after `drain` has become true.
    pub fn new(stream: TcpStream, timeouts: Timeouts, drain: watch::Receiver<bool>) -> Connection {
        let timer = LazyTimer::default();
        let drain = Drain::new(drain);
        let (stream, reader) = (Some(stream), HeadReader::default());
        Connection { stream, reader, timeouts, timer, drain, lending: None }
    }

    /// The connection, on which this rule decides whether files are sent without a copy.
    pub fn lending(self, switch: Option<LendingSwitch>) -> Connection {
        Connection { lending: switch, ..self }
    }

    /// Returns whether no further requests are read.
    pub fn is_draining(&self) -> bool {
        self.drain.is_drained()
    }

    /// Waits until the connection drains.
    pub async fn draining(&mut self) {
        self.drain.wait().await;
    }

    /// Waits for the next head, as `read` returns it.
    pub async fn next<T>(
        &mut self,
        mut read: impl FnMut(&mut HeadReader) -> Result<Option<T>, HeadError>,
    ) -> Result<T, End> {
        let timeouts = self.timeouts;
        let start = |inside| Instant::now() + if inside { timeouts.head } else { timeouts.idle };
        let mut inside = self.reader.is_inside();
        let mut deadline = start(inside);
        loop {
            if let Some(request) = read(&mut self.reader).map_err(End::Malformed)? {
                return Ok(request);
            }
            if self.reader.is_inside() != inside {
                inside = !inside;
                deadline = start(inside);
            }
            let Some(stream) = &mut self.stream else { return Err(End::Closed) };
            let feeding = self.timer.limit(deadline, |context| feed(stream, &mut self.reader, context));
            tokio::select! {
                biased;
                fed = feeding => match fed {
                    Err(Elapsed) if inside => return Err(End::Late),
                    Err(Elapsed) => return Err(End::Idle),
                    Ok(fed) => fed?,
                },
                () = self.drain.wait(), if !inside => return Err(End::Closed),
            }
        }
    }

    /// Takes up to `most` bytes that were read after the last head.
    pub fn take_read(&mut self, most: u64) -> Vec<u8> {
        self.reader.take(most)
    }

    /// Takes the stream, with the bytes that were read after the last head. The connection is not used
    /// afterwards.
    ///
    /// # Errors
    /// The connection is lent or closed.
    pub fn take_over(&mut self) -> io::Result<(TcpStream, Vec<u8>)> {
        let stream = self.stream.take().ok_or_else(gone)?;
        Ok((stream, self.reader.take(u64::MAX)))
    }

    /// Skips the body of the last request, which has this length.
    pub fn skip_body(&mut self, length: u64) {
        self.reader.skip(length);
    }

    /// Reads the body of the last request, which has this length.
    ///
    /// # Errors
    /// An error of `read`, `UnexpectedEof`, or `TimedOut` if it takes longer than a head may.
    pub async fn read_body(&mut self, length: usize) -> io::Result<Vec<u8>> {
        let deadline = Instant::now() + self.timeouts.head;
        let mut body = self.reader.take(length as u64);
        let stream = self.stream()?;
        let mut filled = body.len();
        body.resize(length, 0);
        while filled < length {
            let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "reading the body timed out"));
            match timeout_at(deadline, stream.read(&mut body[filled..])).await.unwrap_or_else(late)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(body)
    }

    /// Waits until the connection is reset. A client that closed only its sending side may still wait for its
    /// response.
    pub async fn peer_reset(&self) {
        // While the stream is lent, the borrower detects a reset.
        match &self.stream {
            Some(stream) => wait_for_reset(stream).await,
            None => std::future::pending().await,
        }
    }

    /// Writes bytes. A connection with an incomplete response is reset when it is closed.
    ///
    /// # Errors
    /// An error of `write`, or `TimedOut`.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let write = |stream: &mut TcpStream, context: &mut Context<'_>| {
                Pin::new(stream).poll_write(context, bytes)
            };
            match self.when_writable(write).await {
                Ok(written) => bytes = &bytes[written..],
                Err(error) => return Err(self.reset_when_closed(true).err().unwrap_or(error)),
            }
        }
        Ok(())
    }

    /// Waits for `write` up to the write timeout.
    async fn when_writable<T>(
        &mut self,
        mut write: impl FnMut(&mut TcpStream, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + self.timeouts.write;
        let stream = self.stream.as_mut().ok_or_else(gone)?;
        let written = self.timer.limit(deadline, |context| write(stream, context)).await;
        let late = || io::Error::new(io::ErrorKind::TimedOut, "writing the response timed out");
        written.unwrap_or_else(|Elapsed| Err(late()))
    }

    /// Takes the stream out of the runtime, which would otherwise be woken whenever the socket has room;
    /// returns it with a duplicate descriptor to lend.
    ///
    /// # Errors
    /// Error of `dup`, and the stream stays; or the stream is already lent.
    pub fn lend(&mut self) -> io::Result<(BlockingStream, OwnedFd)> {
        let socket = self.stream()?.as_fd().try_clone_to_owned()?;
        let stream = self.stream.take().ok_or_else(gone)?.into_std()?;
        Ok((stream, socket))
    }

    /// Takes back the lent stream.
    pub fn take_back(&mut self, stream: BlockingStream) -> io::Result<()> {
        self.stream = Some(TcpStream::from_std(stream)?);
        Ok(())
    }

    /// Sets whether closing the connection resets it.
    pub fn reset_when_closed(&mut self, resets: bool) -> io::Result<()> {
        SockRef::from(&*self.stream()?).set_linger(resets.then_some(Duration::ZERO))
    }

    /// Ends the connection when nothing sent is acknowledged for the write timeout: small amounts of data to
    /// a client that vanished would fit into the socket buffer for a long time.
    pub fn limit_unacknowledged(&mut self) -> io::Result<()> {
        let limit = self.timeouts.write;
        SockRef::from(&*self.stream()?).set_tcp_user_timeout(Some(limit))
    }

    /// Resets the connection, so that the client sees that bytes are missing; returns an error with the text
    /// `why`.
    pub fn cut(&mut self, why: String) -> io::Error {
        match self.stream.take() {
            Some(stream) => cut(&stream, why),
            None => io::Error::other(why),
        }
    }

    /// Shuts down the sending side. The connection can still be read.
    pub async fn finish(&mut self) -> io::Result<()> {
        self.stream()?.shutdown().await
    }

    /// Shuts down the sending side, and waits a short time for the client to close.
    pub async fn linger(&mut self) -> io::Result<()> {
        self.finish().await?;
        let stream = self.stream()?;
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
        self.stream.as_mut().ok_or_else(gone)
    }
}

/// Rejects a client beyond the limit, without waiting.
pub fn reject(stream: &TcpStream) {
    let sent = send(stream, FULL, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    let shut = shutdown(stream, Shutdown::Write);
    tracing::debug!(peer = ?stream.peer_addr(), ?sent, ?shut, "HTTP connection rejected: limit reached");
}

/// Current time in seconds since 1970, for `Date`.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Random boundary of the parts of a body, which no file can contain on purpose. Without randomness the parts
/// are still correct for files that do not contain the boundary.
pub fn boundary() -> u128 {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random boundary for the parts of a body");
    }
    u128::from_ne_bytes(bytes)
}

/// Waits until a connection is reset; an orderly shutdown of its receiving side does not count.
pub async fn wait_for_reset(stream: &TcpStream) {
    let look = || if has_hung_up(stream) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
    if look().is_err() {
        // Fails only if the runtime ends.
        drop(stream.async_io(Interest::ERROR, look).await);
    }
}

/// Returns whether both directions are closed.
fn has_hung_up(stream: &TcpStream) -> bool {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut polled, Some(&NOW)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Feeds received bytes, or waits for some. The buffer is not part of the task, since there may be thousands
/// of tasks.
fn feed(stream: &mut TcpStream, reader: &mut HeadReader, context: &mut Context<'_>) -> Poll<Result<(), End>> {
    let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
    let room = reader.room().min(READ_BYTES);
    let mut buffer = ReadBuf::uninit(&mut bytes[..room]);
    let read = ready!(Pin::new(stream).poll_read(context, &mut buffer));
    Poll::Ready(match read {
        Ok(()) if buffer.filled().is_empty() => Err(End::Closed),
        Ok(()) => {
            let taken = reader.feed(buffer.filled());
            debug_assert_eq!(taken, buffer.filled().len(), "there was room");
            Ok(())
        }
        Err(_) => Err(End::Closed),
    })
}

/// Resets a connection when it is closed.
fn cut<'a>(stream: impl Into<SockRef<'a>>, why: String) -> io::Error {
    match stream.into().set_linger(Some(Duration::ZERO)) {
        Ok(()) => io::Error::other(why),
        Err(error) => error,
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the connection is lent or closed")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    /// End of the connection of a client that sends these bytes and then waits, or closes.
    fn end_of(sent: &[u8], closes: bool, timeouts: Timeouts) -> End {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = BlockingStream::connect(listener.local_addr().expect("bound")).expect("connected");
        client.write_all(sent).expect("written");
        let kept = (!closes).then_some(client);
        let (stream, _) = listener.accept().expect("it came");
        stream.set_nonblocking(true).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (_drain, draining) = watch::channel(false);
        runtime.block_on(async {
            let mut connection =
                Connection::new(TcpStream::from_std(stream).expect("a socket"), timeouts, draining);
            let end = connection.next(HeadReader::next).await.expect_err("no request came");
            if let Some((status, words)) = end.answer() {
                connection.write(words.as_bytes()).await.expect("the client is there");
                assert!(status.as_u16() >= 400);
                connection.linger().await.expect("the client waits");
            }
            drop(connection);
            if let Some(mut client) = kept {
                let mut said = String::new();
                client.read_to_string(&mut said).expect("it ends in order");
                assert_eq!(said, end.answer().map(|(_, words)| words).unwrap_or_default());
            }
            end
        })
    }

    #[test]
    fn silence_slowness_nonsense_and_a_close_are_told_apart() {
        let short = Timeouts { idle: SHORT, head: SHORT, ..Timeouts::default() };
        assert!(matches!(end_of(b"", false, short), End::Idle));
        assert!(matches!(end_of(b"GET / HT", false, short), End::Late));
        assert!(matches!(
            end_of(b"\x16\x03\x01", false, Timeouts::default()),
            End::Malformed(HeadError::NotHttp(0x16))
        ));
        assert!(matches!(end_of(b"GET / HT", true, Timeouts::default()), End::Closed));
    }

    /// Promise: A client that resets while it waits loses its place in the queue; a client that half-closes
    /// keeps it.
    ///
    /// Only a reset shows that the client no longer waits for the response.
    #[test]
    fn a_client_that_sends_no_more_is_there_until_it_breaks_off() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = BlockingStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (stream, _) = listener.accept().expect("it came");
        stream.set_nonblocking(true).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (_drain, draining) = watch::channel(false);
        runtime.block_on(async {
            let stream = TcpStream::from_std(stream).expect("a socket");
            let mut connection = Connection::new(stream, Timeouts::default(), draining);
            (&client).write_all(b"next").expect("it is there");
            client.shutdown(std::net::Shutdown::Write).expect("it ends in order");
            timeout(SHORT, connection.peer_reset()).await.expect_err("it waits");
            let (lent, _second) = connection.lend().expect("it is there");
            timeout(SHORT, connection.peer_reset()).await.expect_err("others have it");
            connection.take_back(lent).expect("the runtime takes it");
            SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("a socket");
            // The reset comes while the wait is in progress.
            tokio::join!(connection.peer_reset(), async { drop(client) });
            connection.peer_reset().await;
        });
    }

    /// A lent connection is unavailable until it is taken back.
    #[test]
    fn a_lent_connection_is_gone_until_it_is_back() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = BlockingStream::connect(listener.local_addr().expect("bound")).expect("connected");
        client.set_nonblocking(true).expect("a socket");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (_drain, draining) = watch::channel(false);
        runtime.block_on(async {
            let stream = TcpStream::from_std(client).expect("a socket");
            let mut connection = Connection::new(stream, Timeouts::default(), draining);
            let (lent, _second) = connection.lend().expect("it is there");
            assert_eq!(
                connection.write(b"x").await.expect_err("it is lent").kind(),
                io::ErrorKind::NotConnected
            );
            assert!(connection.lend().is_err());
            connection.take_back(lent).expect("the runtime takes it");
            connection.write(b"x").await.expect("it is back");
        });
    }
}
