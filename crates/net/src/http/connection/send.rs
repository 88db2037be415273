//! Sending of a response: by the thread that read its request, or by the engine.

use std::io;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use wirepath_engine::Engine;
use wirepath_streams::{
    Framing, Handler, Lending, Object, ObjectPart, SendOutcome, StreamBuilder, StreamEnd, StreamOptions,
};

use super::{Connection, cut};
use crate::http::parts::Parts;
use crate::http::prepared::Body;
use crate::http::unsent_parts::UnsentParts;

/// Longest response that the connection's own thread sends. Handing a response to the engine costs as much as
/// sending 512 KiB; longer responses go there so that other connections get turns.
const SHORT_BYTES: u64 = 2 * 1024 * 1024;

/// Maximum number of bytes of a file sent before other connections of the thread get a turn. Shorter turns
/// cost more, because they wake the receiver more often.
const TURN_BYTES: u64 = 512 * 1024;

/// Bytes sent without a turn for other connections.
const UNNOTICED_BYTES: u64 = 64 * 1024;

/// Longest body that handlers make on the connection's own thread, which is occupied until the client has
/// received the body.
const SHORT_HANDLED_BYTES: u64 = 512 * 1024;

/// Returns whether parts are in memory, and short enough for handlers to run on the connection's own thread.
fn are_short(parts: &[ObjectPart]) -> bool {
    let bytes: u64 = parts.iter().map(ObjectPart::length).sum();
    bytes <= SHORT_BYTES && parts.iter().all(ObjectPart::is_all_in_memory)
}

/// Runs handlers on these parts, on this thread.
fn make_here(parts: Vec<ObjectPart>, handlers: Vec<Handler>, bytes: usize) -> io::Result<Vec<ObjectPart>> {
    let (output, made) = Object::collect("answer", bytes);
    let stream = handlers.into_iter().fold(StreamBuilder::default(), StreamBuilder::handler);
    let mut stream = stream.input(Object::parts("parts", parts), Framing::Whole).output(output).build();
    stream.run().map_err(|error| io::Error::other(format!("making the body failed: {error}")))?;
    Ok(made.take_slices().into_iter().map(ObjectPart::Bytes).collect())
}

impl Connection {
    /// Sends these parts; returns the number of bytes. This thread sends a short body that is in memory, and
    /// the engine sends other bodies, also parts of files that the rule of lending wants copied. A connection
    /// with an incomplete response is reset, since an orderly shutdown could be taken for the end of the
    /// response.
    pub async fn send(&mut self, engine: &Engine, parts: Vec<ObjectPart>) -> io::Result<u64> {
        let mut parts = UnsentParts::new(parts, engine.pool());
        let is_copied = self.lending.as_ref().is_some_and(|switch| switch.rule() != Lending::Always);
        let is_short = parts.bytes() <= SHORT_BYTES && !(is_copied && parts.has_files());
        let sent = if is_short { self.send_here(&mut parts).await } else { Ok(0) };
        if let Some(switch) = &self.lending {
            switch.add_lent(parts.lent_bytes());
        }
        let sent = sent?;
        match parts.take() {
            rest if rest.is_empty() => Ok(sent),
            rest => self.send_by_engine(engine, rest, Vec::new()).await.map(|bytes| sent + bytes),
        }
    }

    /// Sends a head followed by a mapped file. A connection with an incomplete response is reset when it is
    /// closed.
    ///
    /// # Errors
    /// An error of `sendmsg`, that the file has become shorter, or `TimedOut`.
    pub(in crate::http) async fn send_mapped(&mut self, head: &[u8], body: &Body) -> io::Result<()> {
        let (mut sent, length) = (0, head.len() + body.length());
        while sent < length {
            let front = |stream: &mut TcpStream, context: &mut Context<'_>| {
                loop {
                    ready!(stream.poll_write_ready(context))?;
                    match stream.try_io(Interest::WRITABLE, || body.send_behind(&*stream, head, sent)) {
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        sent => return Poll::Ready(sent),
                    }
                }
            };
            let taken = self.when_writable(front).await;
            let taken = taken.and_then(|taken| body.check_length().map(|()| taken));
            match taken {
                Ok(taken) => sent += taken,
                Err(error) => return Err(self.reset_when_closed(true).err().unwrap_or(error)),
            }
        }
        Ok(())
    }

    /// Sends a head, and parts unchanged or processed by handlers; returns the number of bytes.
    pub(in crate::http) async fn send_parts(
        &mut self,
        engine: &Engine,
        head: Vec<u8>,
        Parts { mut parts, handlers, bytes }: Parts,
    ) -> io::Result<u64> {
        let expected = head.len() as u64 + bytes;
        let sent = if handlers.is_empty() {
            parts.insert(0, ObjectPart::Bytes(head.into()));
            self.send(engine, parts).await?
        } else if bytes <= SHORT_HANDLED_BYTES && are_short(&parts) {
            let mut made = make_here(parts, handlers, bytes as usize)?;
            made.insert(0, ObjectPart::Bytes(head.into()));
            self.send(engine, made).await?
        } else {
            self.write(&head).await?;
            head.len() as u64 + self.send_by_engine(engine, parts, handlers).await?
        };
        if sent != expected {
            return Err(self.cut(format!("sending the body ended after {sent} of {expected} bytes")));
        }
        Ok(sent)
    }

    /// Sends leading parts on this thread; returns the number of bytes.
    async fn send_here(&mut self, parts: &mut UnsentParts<'_>) -> io::Result<u64> {
        let mut sent = 0;
        loop {
            match self.send_front(parts).await {
                Ok(None) => return Ok(sent),
                Ok(Some(bytes)) => sent += bytes as u64,
                Err(error) => return Err(self.cut_after(sent, error)),
            }
            if sent > UNNOTICED_BYTES {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Sends the leading part when the connection has room; `None` if there is no part, or the engine has to
    /// send it.
    async fn send_front(&mut self, parts: &mut UnsentParts<'_>) -> io::Result<Option<usize>> {
        self.when_writable(|stream, context| {
            loop {
                ready!(stream.poll_write_ready(context))?;
                let mut short = None;
                let sent = stream.try_io(Interest::WRITABLE, || match parts.send(&*stream, TURN_BYTES)? {
                    None => Ok(None),
                    Some(SendOutcome { bytes, fills_socket: false }) => Ok(Some(bytes)),
                    // Waiting now saves the call that would return EAGAIN.
                    Some(SendOutcome { bytes, fills_socket: true }) => {
                        short = Some(bytes);
                        Err(io::ErrorKind::WouldBlock.into())
                    }
                });
                match sent {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if short.is_some() {
                            return Poll::Ready(Ok(short));
                        }
                    }
                    sent => return Poll::Ready(sent),
                }
            }
        })
        .await
    }

    /// Sends by the engine the output of the handlers for these parts; returns the number of bytes.
    async fn send_by_engine(
        &mut self,
        engine: &Engine,
        parts: Vec<ObjectPart>,
        handlers: Vec<Handler>,
    ) -> io::Result<u64> {
        let (stream, socket) = match self.lend() {
            Ok(lent) => lent,
            Err(error) => {
                // Closing files may wait for storage.
                engine.pool().discard(parts);
                return Err(error);
            }
        };
        let (on_end, end) = oneshot::channel();
        let body = handlers.into_iter().fold(StreamBuilder::default(), StreamBuilder::handler);
        let body = body
            .lending(self.lending.clone().unwrap_or_default())
            .input(Object::parts("answer", parts), Framing::Whole)
            .output(Object::stream("client", socket)?)
            .output_timeout(self.timeouts.write)
            .build();
        // The send fails only if this connection's task has ended, which stops the stream.
        let on_end = Box::new(move |end| drop(on_end.send(end)));
        let sending = body.start(engine, StreamOptions { on_end: Some(on_end), ..StreamOptions::default() });
        let StreamEnd { result, status } = end.await.map_err(|_| io::Error::other("the engine has ended"))?;
        drop(sending);
        let sent = status.bytes_out;
        match result {
            Ok(()) => self.take_back(stream).map(|()| sent),
            Err(error) => Err(cut(&stream, format!("sending the body failed after {sent} bytes: {error}"))),
        }
    }

    /// Cuts the connection after part of a response.
    fn cut_after(&mut self, sent: u64, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::TimedOut => self.reset_when_closed(true).err().unwrap_or(error),
            _ => self.cut(format!("sending the body failed after {sent} bytes: {error}")),
        }
    }
}
