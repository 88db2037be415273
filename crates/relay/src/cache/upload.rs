//! The body of a request on its way to the origin.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytes::BytesMut;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::TcpStream;
use wirepath_engine::Engine;
use wirepath_streams::{Framing, Object, ObjectError, StreamBuilder, StreamEnd, StreamError, StreamProgress};

use super::flow::{Flow, FlowError, Moved, Patience};

/// What errors call where it goes.
const ORIGIN: &str = "the origin";

/// One that was begun. It is stopped when this is dropped.
pub(super) struct Upload {
    flow: Flow,
    origin: OwnedFd,
    bytes: u64,
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
        let sink = Object::stream(ORIGIN, origin)?;
        let stream = StreamBuilder::default().input(source, Framing::Whole).output(sink).build();
        Ok(Upload { flow: Flow::start(engine, stream), origin: kept, bytes })
    }

    /// What it moved so far.
    pub(super) fn progress(&self) -> &Arc<StreamProgress> {
        self.flow.progress()
    }

    /// Waits for its end, and brings it about when one of its ends pauses for too long.
    pub(super) async fn over(&self, patience: Patience) -> Moved {
        self.flow.end(patience, None).await
    }

    /// Waits for its end, however long that takes.
    pub(super) async fn ended(&self) {
        // How it ended can be asked later.
        _ = self.over(Patience::ENDLESS).await;
    }

    /// Returns whether it is over, or has nothing to do any more: then it is over in a moment, for which this
    /// waits. The origin may have answered before the engine has said that all has left.
    pub(super) async fn is_settled(&self) -> bool {
        let is_settled = self.flow.state().await.is_none_or(|state| state.bytes_out == self.bytes);
        if is_settled {
            self.ended().await;
        }
        is_settled
    }

    /// Returns whether all of it has left, and it is over.
    pub(super) fn is_whole(&self) -> bool {
        self.flow.ended().is_some_and(|end| end.status.bytes_out == self.bytes)
    }

    /// What is wrong with the client's body if it came to this end: it ended too early, or for too long
    /// nothing came of it.
    pub(super) fn cut_short(&self, moved: &Moved) -> Option<String> {
        let about = |sent| format!("after {sent} of {} bytes of a request's body", self.bytes);
        match moved {
            (sent, Ok(())) if *sent < self.bytes => Some(format!("{} it ended", about(sent))),
            (sent, Err(error @ FlowError::Silent(_))) => Some(format!("{} {error}", about(sent))),
            _ => None,
        }
    }

    /// What broke the connection to the origin, if this was told. The kernel tells once, and whoever reads
    /// there finds an end in order then. That nobody takes anything after the origin's own end (`EPIPE`)
    /// breaks nothing.
    pub(super) async fn broke_origin(&self) -> Option<Errno> {
        if self.flow.state().await.is_none() {
            self.ended().await;
        }
        match self.flow.ended() {
            Some(StreamEnd { result: Err(StreamError::Object(ObjectError { name, errno, .. })), .. }) => {
                (name == ORIGIN && errno != Errno::PIPE).then_some(errno)
            }
            _ => None,
        }
    }

    /// Waits until the origin sends nothing more: then it wants nothing more either (RFC 9112 section 9.6).
    ///
    /// # Errors
    /// What `dup` and `epoll_ctl` say.
    pub(super) async fn origin_ended(&self) -> io::Result<()> {
        let origin = TcpStream::from_std(self.origin.try_clone()?.into())?;
        let look = || if has_ended(&origin) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
        origin.async_io(Interest::READABLE, look).await
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

/// Returns whether what comes of a connection has an end, in order or not, though there may be some to read
/// before that.
fn has_ended(connection: &impl AsFd) -> bool {
    const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(connection, PollFlags::RDHUP)];
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut polled, Some(&NOW)).is_ok() && polled[0].revents().intersects(ended)
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream as BlockingStream};
    use std::time::Duration;

    use rustix::net::sockopt::set_socket_linger;
    use wirepath_engine::EngineOptions;

    use super::*;

    /// More than a connection holds.
    const LONG: usize = 80_000_000;

    fn engine() -> Engine {
        Engine::start(EngineOptions::default()).unwrap()
    }

    fn connection() -> (BlockingStream, BlockingStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = BlockingStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        (near, far)
    }

    /// What broke the connection to an origin that ends it so, while it takes nothing.
    fn broken_by(end: impl FnOnce(BlockingStream)) -> Option<Errno> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (engine, (client, _sender), (near, far)) = (engine(), connection(), connection());
        runtime.block_on(async {
            let origin = TcpStream::from_std(near).unwrap();
            let sent = vec![7; LONG];
            let upload = Upload::start(&engine, (client.into(), &sent), &origin, LONG as u64 + 1).unwrap();
            assert_eq!(far.peek(&mut [0]).unwrap(), 1);
            assert_eq!(upload.broke_origin().await, None);
            end(far);
            upload.ended().await;
            upload.broke_origin().await
        })
    }

    /// Promise: An answer that the origin cuts is cut for the client.
    #[test]
    fn only_a_reset_before_the_origins_end_breaks_its_answer() {
        let reset = |origin: BlockingStream| set_socket_linger(&origin, Some(Duration::ZERO)).unwrap();
        assert_eq!(broken_by(reset), Some(Errno::CONNRESET));
        // What is unread resets it here, too.
        assert_eq!(broken_by(|origin| origin.shutdown(Shutdown::Write).unwrap()), None);
    }
}
