//! The sending side of an RTSP connection on its engine thread: frames, responses and reports, one after
//! another.
//!
//! A full connection accepts only part of a frame. The rest of that frame is read and kept, so that nothing
//! is sent in between, and so that its playback may pause, seek or end meanwhile. Responses and reports
//! follow it, before the next train. Nothing else is kept: the rest of a train stays in storage.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};
use wirepath_datapath::interleaved::{FrameTrain, TakenFrames, send_bytes};
use wirepath_datapath::{PacketMaker, SendContext, SendError};

/// Called when bytes were passed to the kernel; must not block. Dropped without a call if they never are.
pub(crate) type OnSent = Box<dyn FnOnce() + Send>;

/// Capacity in bytes that the buffer keeps: enough for most frames and responses.
const CAPACITY: usize = 2048;

/// Number of playbacks of most connections at most.
const PLAYBACKS: usize = 4;

/// Bytes waiting above which reports are dropped, since the next report replaces them.
const REPORT_LIMIT: usize = 16 * 1024;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It takes bytes, and none wait.
    Open,
    /// The connection is full; epoll reports when it has room.
    Full,
    /// It failed.
    Broken,
}

pub(crate) struct FrameWriter {
    /// Identity that commands carry.
    id: u64,
    /// Shared with queued trains.
    socket: Arc<OwnedFd>,
    state: State,
    /// Bytes to send before the next train: the rest of a frame, responses, reports.
    pending: Vec<u8>,
    /// Bytes of `pending` that were sent.
    sent: usize,
    /// Callbacks, each with the length that `pending` had when its bytes were added.
    callbacks: VecDeque<(usize, OnSent)>,
    /// Keys of playbacks that wait for room.
    waiting: Vec<usize>,
    /// Keys of all playbacks that send to the connection.
    playbacks: Vec<usize>,
}

impl FrameWriter {
    pub(crate) fn new(id: u64, socket: OwnedFd) -> FrameWriter {
        FrameWriter {
            id,
            socket: Arc::new(socket),
            state: State::Open,
            pending: Vec::with_capacity(CAPACITY),
            sent: 0,
            callbacks: VecDeque::new(),
            waiting: Vec::with_capacity(PLAYBACKS),
            playbacks: Vec::new(),
        }
    }

    /// Notes a playback that sends to the connection.
    pub(crate) fn attach(&mut self, key: usize) {
        self.playbacks.push(key);
    }

    /// Forgets a playback.
    pub(crate) fn detach(&mut self, key: usize) {
        self.playbacks.retain(|other| *other != key);
        self.waiting.retain(|other| *other != key);
    }

    /// Keys of the playbacks that send to the connection.
    pub(crate) fn playbacks(&self) -> &[usize] {
        &self.playbacks
    }

    /// Takes the keys of all playbacks, which move to another thread.
    pub(crate) fn take_playbacks(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.playbacks)
    }

    /// Returns whether the connection accepts bytes and nothing waits to be sent first.
    pub(crate) fn is_idle(&self) -> bool {
        self.state == State::Open && self.pending.is_empty() && self.waiting.is_empty()
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends bytes at the next boundary between frames.
    pub(crate) fn write(&mut self, bytes: &[u8], on_sent: OnSent) {
        if self.state == State::Broken {
            return;
        }
        self.pending.extend_from_slice(bytes);
        self.callbacks.push_back((self.pending.len(), on_sent));
        self.flush();
    }

    /// Sends a report at the next boundary between frames, unless too much is waiting already.
    pub(crate) fn write_report(&mut self, bytes: &[u8]) {
        if self.pending.len() - self.sent <= REPORT_LIMIT {
            self.pending.extend_from_slice(bytes);
            self.flush();
        }
    }

    /// Sends a train's first packets, at least one, as a maker makes them if there is one; returns how many.
    /// The last of them may have been sent only in part.
    ///
    /// # Errors
    /// [`SendError::Full`]: the playback of this `key` is named by [`FrameWriter::take_waiting`] once there
    /// is room. [`SendError::Storage`]. [`SendError::Other`]: the connection is gone.
    #[inline]
    pub(crate) fn send(
        &mut self,
        frames: &FrameTrain<'_>,
        maker: Option<&mut PacketMaker>,
        context: &mut SendContext,
        key: usize,
    ) -> Result<u32, SendError> {
        const CALL: &str = "sendmsg";
        let taken = match self.state {
            State::Open => match maker {
                None => frames.send(self.socket.as_fd(), context),
                Some(maker) => {
                    let (socket, rest) = (self.socket.as_fd(), &mut self.pending);
                    let sent = maker.send_frames(socket, frames, context, rest);
                    sent.map(|packets| TakenFrames { packets, bytes: 0 })
                }
            },
            State::Full => Err(SendError::Full { call: CALL }),
            State::Broken => Err(SendError::Other { call: CALL, errno: rustix::io::Errno::PIPE }),
        };
        match taken {
            Ok(taken) => {
                let rest = match taken.bytes {
                    0 => Ok(()),
                    _ => frames.read_rest(taken, &mut self.pending),
                };
                self.complete(taken, rest)
            }
            Err(error @ SendError::Full { .. }) => {
                self.state = State::Full;
                if !self.waiting.contains(&key) {
                    self.waiting.push(key);
                }
                Err(error)
            }
            Err(error) => {
                if !matches!(error, SendError::Storage { .. }) {
                    self.fail();
                }
                Err(error)
            }
        }
    }

    /// Queues a train in the thread's ring, if it can be sent from registered memory. Returns whether it is
    /// queued: then [`FrameWriter::finish`] gets the result, before anything else is sent to the connection.
    ///
    /// Another playback of the connection might send before that, so trains are queued only if the connection has
    /// one playback.
    #[inline]
    pub(crate) fn enqueue(&mut self, frames: &FrameTrain<'_>, context: &mut SendContext, token: u64) -> bool {
        let can_send = self.state == State::Open && self.pending.is_empty() && self.playbacks.len() == 1;
        can_send && frames.enqueue(&self.socket, context, token)
    }

    /// Handles the result of a queued send: `bytes` bytes were sent. Returns the number of packets, at least one;
    /// the last of them may have been sent only in part.
    ///
    /// # Errors
    /// [`SendError::Storage`].
    pub(crate) fn finish(
        &mut self,
        frames: &FrameTrain<'_>,
        bytes: u32,
        context: &mut SendContext,
    ) -> Result<u32, SendError> {
        let taken = frames.taken(bytes);
        let rest = match taken.bytes {
            0 => Ok(()),
            _ => frames.copy_rest(taken, context, &mut self.pending),
        };
        self.complete(taken, rest)
    }

    /// Sends the rest of a frame that was taken in part, after it was added to `pending`. Returns the number of
    /// packets.
    fn complete(&mut self, taken: TakenFrames, rest: Result<(), SendError>) -> Result<u32, SendError> {
        if let Err(error) = rest {
            self.fail(); // half a frame cannot be taken back
            return Err(error);
        }
        if !self.pending.is_empty() {
            self.flush();
        }
        Ok(taken.packets + u32::from(taken.bytes > 0))
    }

    /// Sends waiting bytes after the connection got room again. Returns whether there is room for trains.
    pub(crate) fn resume(&mut self) -> bool {
        if self.state == State::Full {
            self.state = State::Open;
            self.flush();
        }
        self.state == State::Open
    }

    /// Takes the keys of playbacks that waited for room, in order.
    pub(crate) fn take_waiting(&mut self) -> impl Iterator<Item = usize> {
        self.waiting.drain(..)
    }

    fn flush(&mut self) {
        while self.state == State::Open && self.sent < self.pending.len() {
            match send_bytes(self.socket.as_fd(), &self.pending[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(SendError::Full { .. }) => self.state = State::Full,
                Err(_) => return self.fail(),
            }
        }
        if self.state == State::Broken {
            return;
        }
        while let Some((_, on_sent)) = self.callbacks.pop_front_if(|(length, _)| *length <= self.sent) {
            on_sent();
        }
        if self.sent == self.pending.len() {
            self.pending.clear();
            self.pending.shrink_to(CAPACITY);
            self.sent = 0;
        }
    }

    /// Abandons the connection. Its reader sees the end, and ends the sessions.
    #[cold]
    pub(crate) fn fail(&mut self) {
        self.state = State::Broken;
        self.pending = Vec::new();
        self.sent = 0;
        self.callbacks.clear();
        if let Err(error) = shutdown(&*self.socket, Shutdown::Both) {
            tracing::debug!(%error, "a connection is gone already");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    use super::*;

    fn pair() -> (FrameWriter, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        (FrameWriter::new(1, near.into()), far)
    }

    /// Fills the connection; nothing waits to be sent.
    fn fill(writer: &mut FrameWriter) -> usize {
        let mut filled = 0;
        while let Ok(sent) = send_bytes(writer.socket(), &[0; 4096]) {
            filled += sent;
        }
        filled
    }

    /// Promise: Responses leave in order, and the sender of a response is notified when it has left.
    #[test]
    fn writes_wait_for_room_and_keep_their_order() {
        let (mut writer, mut far) = pair();
        let (tell, told) = channel();
        let filled = fill(&mut writer);
        for (number, bytes) in [b"first ".as_slice(), b"second"].into_iter().enumerate() {
            let tell = tell.clone();
            writer.write(bytes, Box::new(move || tell.send(number).unwrap()));
        }
        assert!(told.try_recv().is_err());
        let mut received = vec![0; filled];
        far.read_exact(&mut received).unwrap();
        assert!(writer.resume());
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [0, 1]);
        drop(writer);
        let mut rest = String::new();
        far.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "first second");
    }

    #[test]
    fn reports_do_not_pile_up() {
        let (mut writer, _far) = pair();
        fill(&mut writer);
        for _ in 0..1000 {
            writer.write_report(&[1; 100]);
        }
        assert!(writer.pending.len() <= REPORT_LIMIT + 100, "{} bytes wait", writer.pending.len());
    }

    /// Promise: A connection that fails is closed, and tasks that wait for it are notified.
    #[test]
    fn a_connection_that_fails_is_shut_down() {
        let (mut writer, far) = pair();
        drop(far);
        let (tell, told) = channel::<()>();
        writer.write(b"to nobody", Box::new(move || tell.send(()).unwrap()));
        assert!(told.recv().is_err(), "the callback is dropped");
        assert!(!writer.resume());
        let error = send_bytes(writer.socket(), b"x").unwrap_err();
        assert!(matches!(error, SendError::Other { .. }));
        writer.write(b"more", Box::new(|| panic!("it is gone")));
        assert_eq!(writer.pending.len(), 0);
    }
}
