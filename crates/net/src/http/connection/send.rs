//! Sending a response: by the thread that read its request, or by the engine.

use std::io;
use std::task::{Poll, ready};

use tokio::io::Interest;
use tokio::sync::oneshot;
use wirepath_engine::Engine;
use wirepath_streams::{Framing, Object, ObjectPart, SendOutcome, StreamBuilder, StreamEnd, StreamOptions};

use super::{Connection, cut};
use crate::http::unsent_parts::UnsentParts;

/// Longest response that the connection's own thread sends. Handing one to the engine costs as much as sending
/// 512 KiB; longer ones go there so that others get turns.
const SHORT_BYTES: u64 = 2 * 1024 * 1024;

/// Most bytes of a file that are sent before other connections of the thread have a turn. Shorter turns cost
/// more, because they wake the receiver more often.
const TURN_BYTES: u64 = 512 * 1024;

/// Bytes that are sent without a turn for other connections.
const UNNOTICED_BYTES: u64 = 64 * 1024;

impl Connection {
    /// Sends these parts; returns the number of bytes. This thread sends a short body that is in memory, and
    /// the engine all else. A connection on which bytes are missing is reset: an orderly end could be taken
    /// for that of the answer.
    pub async fn send(&mut self, engine: &Engine, parts: Vec<ObjectPart>) -> io::Result<u64> {
        let mut parts = UnsentParts::new(parts, engine.pool());
        let is_short = parts.bytes() <= SHORT_BYTES;
        let sent = if is_short { self.send_here(&mut parts).await? } else { 0 };
        match parts.take() {
            rest if rest.is_empty() => Ok(sent),
            rest => self.send_by_engine(engine, rest).await.map(|bytes| sent + bytes),
        }
    }

    /// Sends the front of the parts on this thread; returns the number of bytes.
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

    /// Sends the front of the parts when the connection takes more; none if there is none, or the engine has
    /// to send it.
    async fn send_front(&mut self, parts: &mut UnsentParts<'_>) -> io::Result<Option<usize>> {
        self.when_writable(|stream, context| {
            loop {
                ready!(stream.poll_write_ready(context))?;
                let mut short = None;
                let sent = stream.try_io(Interest::WRITABLE, || match parts.send(&*stream, TURN_BYTES)? {
                    None => Ok(None),
                    Some(SendOutcome { bytes, fills_socket: false }) => Ok(Some(bytes)),
                    // To wait now saves the call that would say so.
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

    /// Has the engine send these parts; returns the number of bytes.
    async fn send_by_engine(&mut self, engine: &Engine, parts: Vec<ObjectPart>) -> io::Result<u64> {
        let (stream, socket) = match self.lend() {
            Ok(lent) => lent,
            Err(error) => {
                // Closing files may wait for storage.
                engine.pool().discard(parts);
                return Err(error);
            }
        };
        let (on_end, end) = oneshot::channel();
        let body = StreamBuilder::default()
            .input(Object::parts("answer", parts), Framing::Whole)
            .output(Object::stream("client", socket)?)
            .output_timeout(self.timeouts.write)
            .build();
        // Sending fails only if this connection's task was ended, which stops the stream.
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

    /// Cuts the connection after a part of a response.
    fn cut_after(&mut self, sent: u64, error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::TimedOut => self.reset_when_closed(true).err().unwrap_or(error),
            _ => self.cut(format!("sending the body failed after {sent} bytes: {error}")),
        }
    }
}
