//! Upload: the body of a request on its way to the origin.

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

use super::transfer::{StallLimits, Transfer, TransferError, TransferResult};

/// Name of the sink in error messages.
const ORIGIN: &str = "the origin";

/// Running upload. Dropping an `Upload` stops it.
pub(super) struct Upload {
    transfer: Transfer,
    origin: OwnedFd,
    bytes: u64,
}

impl Upload {
    /// Starts an upload of so many bytes from a client to the origin. The first bytes have already been read.
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
        Ok(Upload { transfer: Transfer::start(engine, stream), origin: kept, bytes })
    }

    pub(super) fn progress(&self) -> &Arc<StreamProgress> {
        self.transfer.progress()
    }

    /// Waits for the end of the upload. Stops the upload when a pause exceeds its limit.
    pub(super) async fn end(&self, limits: StallLimits) -> TransferResult {
        self.transfer.end(limits, None).await
    }

    /// Waits for the end of the upload without time limits.
    pub(super) async fn ended(&self) {
        _ = self.end(StallLimits::NONE).await;
    }

    /// Returns whether the upload has ended or has moved all bytes; in the second case, waits for its end.
    /// The origin may have responded before the engine reports the end.
    pub(super) async fn is_settled(&self) -> bool {
        let is_settled = self.transfer.state().await.is_none_or(|state| state.bytes_out == self.bytes);
        if is_settled {
            self.ended().await;
        }
        is_settled
    }

    /// Returns whether the upload has ended and all bytes were sent.
    pub(super) fn is_whole(&self) -> bool {
        self.transfer.ended().is_some_and(|end| end.status.bytes_out == self.bytes)
    }

    /// Error of the client, if the upload ended because the body ended too early or the client stalled.
    pub(super) fn client_error(&self, end: &TransferResult) -> Option<String> {
        let after = |sent| format!("after {sent} of {} bytes of the request's body", self.bytes);
        match end {
            (sent, Ok(())) if *sent < self.bytes => Some(format!("{}: it ended", after(sent))),
            (sent, Err(error @ TransferError::SourceStalled(_))) => Some(format!("{}: {error}", after(sent))),
            _ => None,
        }
    }

    /// Error of the connection to the origin, as met by the upload. The kernel reports the error once, and a
    /// later read then finds an orderly end. `EPIPE` after the origin's own end is not such an error.
    pub(super) async fn origin_error(&self) -> Option<Errno> {
        if self.transfer.state().await.is_none() {
            self.ended().await;
        }
        match self.transfer.ended() {
            Some(StreamEnd { result: Err(StreamError::Object(ObjectError { name, errno, .. })), .. }) => {
                (name == ORIGIN && errno != Errno::PIPE).then_some(errno)
            }
            _ => None,
        }
    }

    /// Waits until the origin ends its sending side. The origin then reads nothing more, either (RFC 9112
    /// section 9.6).
    pub(super) async fn origin_ended(&self) -> io::Result<()> {
        let origin = TcpStream::from_std(self.origin.try_clone()?.into())?;
        let look = || if has_ended(&origin) { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) };
        origin.async_io(Interest::READABLE, look).await
    }

    /// Shuts down the sending side to the origin if the body is not complete.
    pub(super) fn end_early(&self) {
        if !self.is_whole() {
            // The shutdown fails if the origin is gone.
            _ = shutdown(&self.origin, Shutdown::Write);
        }
    }

    pub(super) fn stop(&self) {
        self.transfer.stop();
    }
}

/// Returns whether the peer has ended or reset the connection, even if bytes before the end are unread.
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

    /// More bytes than a connection buffers.
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

    /// Error of the connection to an origin that reads nothing and ends the connection by `end`.
    fn broken_by(end: impl FnOnce(BlockingStream)) -> Option<Errno> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (engine, (client, _sender), (near, far)) = (engine(), connection(), connection());
        runtime.block_on(async {
            let origin = TcpStream::from_std(near).unwrap();
            let sent = vec![7; LONG];
            let upload = Upload::start(&engine, (client.into(), &sent), &origin, LONG as u64 + 1).unwrap();
            assert_eq!(far.peek(&mut [0]).unwrap(), 1);
            assert_eq!(upload.origin_error().await, None);
            end(far);
            upload.ended().await;
            upload.origin_error().await
        })
    }

    /// Promise: If the origin truncates a response, the client sees it truncated.
    #[test]
    fn only_a_reset_before_the_origins_end_breaks_its_answer() {
        let reset = |origin: BlockingStream| set_socket_linger(&origin, Some(Duration::ZERO)).unwrap();
        assert_eq!(broken_by(reset), Some(Errno::CONNRESET));
        // Unread bytes reset the connection here, too.
        assert_eq!(broken_by(|origin| origin.shutdown(Shutdown::Write).unwrap()), None);
    }
}
