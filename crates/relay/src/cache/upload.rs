//! The body of a request on its way to the origin.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::BytesMut;
use rustix::net::{Shutdown, shutdown};
use tokio::net::TcpStream;
use wirepath_streams::{Engine, Framing, Object, StreamBuilder, StreamProgress};

use super::flow::{Flow, Moved, Patience};

/// One that was begun. It is stopped when this is dropped.
pub(super) struct Upload {
    flow: Flow,
    origin: OwnedFd,
    bytes: u64,
    /// When it is over.
    moved: Option<Moved>,
}

impl Upload {
    /// Has the engine move so many bytes from a client, of whom the first have been read, to the origin.
    ///
    /// # Errors
    /// If no more descriptors can be had.
    pub(super) fn start(
        engine: &Engine,
        (client, first): (OwnedFd, &[u8]),
        origin: &TcpStream,
        bytes: u64,
    ) -> io::Result<Upload> {
        let (origin, kept) = (origin.as_fd().try_clone_to_owned()?, origin.as_fd().try_clone_to_owned()?);
        let rest = bytes - first.len() as u64;
        let source = Object::stream("the client", client)?.up_to(rest).preceded_by(BytesMut::from(first));
        let sink = Object::stream("the origin", origin)?;
        let stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
        Ok(Upload { flow: Flow::start(engine, stream), origin: kept, bytes, moved: None })
    }

    /// What it moved so far.
    pub(super) fn progress(&self) -> &Arc<StreamProgress> {
        self.flow.progress()
    }

    /// Waits for its end, and brings it about when one of its ends pauses for too long.
    pub(super) async fn over(&mut self, patience: Patience) {
        if self.moved.is_none() {
            self.moved = Some(self.flow.end(patience, None).await);
        }
    }

    /// Waits for its end, however long that takes.
    pub(super) async fn ended(&mut self) {
        self.over(Patience::ENDLESS).await;
    }

    /// Whether it is over, or has nothing to do any more: then it is over in a moment, for which this waits. The origin may have answered
    /// before the engine has said that all has left.
    pub(super) async fn is_settled(&mut self) -> bool {
        let is_settled =
            self.moved.is_some() || self.flow.state().await.is_none_or(|state| state.bytes_out == self.bytes);
        if is_settled {
            self.ended().await;
        }
        is_settled
    }

    /// Whether all of it has left.
    pub(super) fn is_whole(&self) -> bool {
        self.moved.as_ref().is_some_and(|(sent, _)| *sent == self.bytes)
    }

    /// What is wrong if the client ended before its body did.
    pub(super) fn cut_short(&self) -> Option<String> {
        match self.moved {
            Some((sent, Ok(()))) if sent < self.bytes => {
                Some(format!("the body ended after {sent} of {} bytes", self.bytes))
            }
            _ => None,
        }
    }

    /// Tells the origin that no more comes, if it waits for more.
    pub(super) fn pass_on_a_short_end(&self) {
        if !self.is_whole() {
            // If the origin is gone, it needs not be told.
            _ = shutdown(&self.origin, Shutdown::Write);
        }
    }

    /// Has it end.
    pub(super) fn stop(&self) {
        self.flow.stop();
    }
}
