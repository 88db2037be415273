//! Receiving side of a connection.

use super::super::receive::{poll_read, read};
use super::super::tunnels::TunnelInput;
use std::future::{pending, poll_fn};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::sleep;
use wirepath_media::rtsp::Reader;

/// Most bytes of further requests kept while a request is being answered.
const SPILL_LIMIT: usize = 64 * 1024;

/// Time for which a client that has closed its side may still wait for a response; then its sessions end.
const CLOSING_GRACE: Duration = Duration::from_millis(800);

/// Source of the client's bytes.
pub(super) enum Input {
    Connection(OwnedReadHalf),
    Tunnel(Box<TunnelInput>),
}

impl Input {
    /// Passes on the next bytes; returns their length, 0 at the end.
    async fn read(&mut self, take: impl FnOnce(&[u8])) -> io::Result<usize> {
        match self {
            Input::Connection(half) => read(half, take).await,
            // Boxed, so that connections without a tunnel are not larger.
            Input::Tunnel(tunnel) => Box::pin(tunnel.read(take)).await,
        }
    }
}

/// Result of waiting for bytes of the client.
pub(super) enum Filled {
    /// The reader has more.
    More,
    /// The client has closed its side.
    End,
    /// The connection begins with an HTTP request, which is kept.
    Tunnel,
}

pub(super) struct Inbox {
    input: Input,
    /// Bytes that came while a request was being answered.
    spill: Vec<u8>,
    /// True at the end of the client's bytes.
    over: bool,
    /// True before the first byte of a connection that may be half of a tunnel.
    may_be_tunnel: bool,
}

impl Inbox {
    pub(super) fn new(input: Input) -> Self {
        let may_be_tunnel = matches!(input, Input::Connection(_));
        Self { input, spill: Vec::new(), over: false, may_be_tunnel }
    }

    /// Feeds the reader with the next bytes.
    pub(super) async fn fill(&mut self, reader: &mut Reader) -> io::Result<Filled> {
        if !self.spill.is_empty() {
            reader.feed(&std::mem::take(&mut self.spill));
            return Ok(Filled::More);
        }
        if self.over {
            return Ok(Filled::End);
        }
        // A future of this is in each waiting connection, so it consists of only two references.
        let length = match &mut self.input {
            Input::Connection(_) => poll_fn(|context| self.poll_fill(reader, context)).await?,
            Input::Tunnel(tunnel) => Box::pin(tunnel.read(|bytes| reader.feed(bytes))).await?,
        };
        Ok(match length {
            0 => Filled::End,
            _ if !self.spill.is_empty() => Filled::Tunnel,
            _ => Filled::More,
        })
    }

    /// Feeds the reader from a connection, unless the connection is half of a tunnel: then the bytes are
    /// kept.
    fn poll_fill(&mut self, reader: &mut Reader, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let Self { input: Input::Connection(half), spill, may_be_tunnel, .. } = self else {
            return Poll::Ready(Ok(0));
        };
        poll_read(half, context, |bytes| match std::mem::take(may_be_tunnel) && is_http(bytes) {
            true => spill.extend_from_slice(bytes),
            false => reader.feed(bytes),
        })
    }

    /// The receiving half of a connection that is half of a tunnel, and the bytes read from it.
    pub(super) fn into_half(self) -> Option<(OwnedReadHalf, Vec<u8>)> {
        match self.input {
            Input::Connection(half) => Some((half, self.spill)),
            Input::Tunnel(_) => None,
        }
    }

    /// Returns when the connection has been closed for a while; until then keeps received bytes, within
    /// bounds.
    pub(super) async fn gone(&mut self) {
        while !self.over {
            if self.spill.len() >= SPILL_LIMIT {
                pending::<()>().await;
            }
            let length = self.input.read(|bytes| self.spill.extend_from_slice(bytes)).await;
            self.over = !length.is_ok_and(|length| length > 0);
        }
        sleep(CLOSING_GRACE).await;
    }

    pub(super) async fn drain(&mut self) {
        while self.input.read(|_| ()).await.is_ok_and(|length| length > 0) {}
    }
}

/// Returns whether a connection with these first bytes is half of a tunnel: RTSP has neither method.
fn is_http(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GET ") || bytes.starts_with(b"POST ")
}
