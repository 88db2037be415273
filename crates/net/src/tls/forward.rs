//! Bytes between a TLS connection and the served connection.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

/// Bytes read from the service at a time: two TLS records.
const FROM_SERVICE_BYTES: usize = 32 * 1024;

/// Bytes read from the client at a time.
const FROM_CLIENT_BYTES: usize = 4096;

/// Time for which a client is still read after the last byte to it: closing a connection with unread bytes
/// resets it, and the client may lose the response.
const LINGER: Duration = Duration::from_secs(3);

/// Forwards bytes in both directions until both have ended, the service's first, or one has failed. The
/// client's connection must have a limit of unacknowledged bytes; all other timeouts are those of the
/// service.
///
/// # Errors
/// Errors of the client's connection, or a reset by the service: then both connections are reset.
pub(super) async fn forward(client: TlsStream<TcpStream>, service: TcpStream) -> io::Result<()> {
    let mut forwarding = Forwarding {
        client,
        service,
        untaken: Vec::new(),
        from_client: Direction::Open,
        to_client: Direction::Open,
    };
    let ended = forwarding.run().await;
    if ended.is_err() {
        // An orderly shutdown would indicate a complete response.
        reset_when_closed(forwarding.client.get_ref().0);
    }
    // All bytes from the service were read, or have to be discarded. A reset also leaves no port in
    // TIME_WAIT; otherwise each connection would occupy one.
    reset_when_closed(&forwarding.service);
    ended
}

struct Forwarding {
    client: TlsStream<TcpStream>,
    service: TcpStream,
    /// Client bytes that the service has not accepted yet.
    untaken: Vec<u8>,
    from_client: Direction,
    to_client: Direction,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Open,
    /// All bytes are forwarded; the shutdown has to follow.
    Ending,
    Ended,
}

impl Forwarding {
    async fn run(&mut self) -> io::Result<()> {
        let to_client = std::future::poll_fn(|context| {
            match self.poll_from_client(context) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
            self.poll_to_client(context)
        });
        to_client.await?;
        let rest = timeout(LINGER, std::future::poll_fn(|context| self.poll_from_client(context)));
        rest.await.unwrap_or(Ok(()))
    }

    /// Encrypts the bytes of the service. Reads only when the TLS buffer is empty, so that it takes all of
    /// them.
    fn poll_to_client(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let client = Pin::new(&mut self.client);
            match self.to_client {
                Direction::Open => ready!(client.poll_flush(context))?,
                Direction::Ending => {
                    ready!(client.poll_shutdown(context))?;
                    self.to_client = Direction::Ended;
                }
                Direction::Ended => return Poll::Ready(Ok(())),
            }
            if self.to_client != Direction::Open {
                continue;
            }
            // On the stack: of thousands of connections, most wait.
            let mut bytes = [const { MaybeUninit::uninit() }; FROM_SERVICE_BYTES];
            let mut buffer = ReadBuf::uninit(&mut bytes);
            ready!(Pin::new(&mut self.service).poll_read(context, &mut buffer))?;
            if buffer.filled().is_empty() {
                self.to_client = Direction::Ending;
                continue;
            }
            match Pin::new(&mut self.client).poll_write(context, buffer.filled())? {
                Poll::Ready(taken) if taken == buffer.filled().len() => {}
                _ => return Poll::Ready(Err(io::Error::other("TLS took a part of what was to be sent"))),
            }
        }
    }

    /// Forwards the decrypted bytes of the client. A service that accepts no more bytes is not a failure: its
    /// earlier bytes still have to reach the client.
    fn poll_from_client(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if !self.untaken.is_empty() {
                match ready!(Pin::new(&mut self.service).poll_write(context, &self.untaken)) {
                    Ok(taken) => drop(self.untaken.drain(..taken)),
                    Err(_) => self.end_from_client(),
                }
                continue;
            }
            match self.from_client {
                Direction::Open => ready!(self.poll_read_client(context))?,
                Direction::Ending => {
                    // The service may have closed its connection.
                    _ = ready!(Pin::new(&mut self.service).poll_shutdown(context));
                    self.from_client = Direction::Ended;
                }
                Direction::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads bytes of the client, and keeps those that the service does not accept immediately.
    fn poll_read_client(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [const { MaybeUninit::uninit() }; FROM_CLIENT_BYTES];
        let mut buffer = ReadBuf::uninit(&mut bytes);
        match ready!(Pin::new(&mut self.client).poll_read(context, &mut buffer)) {
            // Many clients close without `close_notify`. Requests contain their length.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.from_client = Direction::Ending
            }
            Err(error) => return Poll::Ready(Err(error)),
            Ok(()) if buffer.filled().is_empty() => self.from_client = Direction::Ending,
            Ok(()) => match Pin::new(&mut self.service).poll_write(context, buffer.filled()) {
                Poll::Ready(Ok(taken)) => self.untaken.extend_from_slice(&buffer.filled()[taken..]),
                Poll::Ready(Err(_)) => self.end_from_client(),
                Poll::Pending => self.untaken.extend_from_slice(buffer.filled()),
            },
        }
        Poll::Ready(Ok(()))
    }

    fn end_from_client(&mut self) {
        self.untaken.clear();
        self.from_client = Direction::Ended;
    }
}

fn reset_when_closed(stream: &TcpStream) {
    if let Err(error) = SockRef::from(stream).set_linger(Some(Duration::ZERO)) {
        tracing::debug!(%error, "SO_LINGER failed");
    }
}
