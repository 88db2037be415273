//! Frames of a byte stream: ranges of a mapping, each after a generated head, many per call.
//!
//! One `sendmsg` without segmentation; the socket takes as many bytes as it has room for. All memory is
//! allocated when a [`FrameGather`] is created, none while sending.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::checked;
use crate::control::empty_message;
use crate::cpu::RecentBlocks;
use crate::mapping::Mapping;
use crate::send::FLAGS;

/// Maximum number of frames per call.
pub const MAXIMUM_FRAMES: usize = 64;

/// Longest head in bytes: four bytes before each interleaved frame, and an RTP header.
pub const HEAD_LIMIT: usize = 16;

/// Generated head, and the range of a mapping that follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Buffer with the head at its beginning.
    pub head: [u8; HEAD_LIMIT],
    /// Length of the head in bytes.
    pub head_length: usize,
    /// Range of the mapping that follows.
    pub payload: Range<usize>,
}

/// Buffers for the heads and vectors of one call.
pub struct FrameGather {
    heads: Box<[[u8; HEAD_LIMIT]]>,
    vectors: Box<[libc::iovec]>,
    prefetched: RecentBlocks,
}

// SAFETY: the pointers inside are rewritten at the start of each call and mean nothing between calls, so the
// thread that makes the next call may be another one.
unsafe impl Send for FrameGather {}

impl Default for FrameGather {
    fn default() -> FrameGather {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        FrameGather {
            heads: vec![[0; HEAD_LIMIT]; MAXIMUM_FRAMES].into(),
            vectors: vec![empty; 2 * MAXIMUM_FRAMES].into(),
            prefetched: RecentBlocks::default(),
        }
    }
}

impl FrameGather {
    /// Prefetches a range of the mapping whose parts are about to be sent, as
    /// [`Gather::prefetch`](crate::gather::Gather::prefetch) does.
    #[inline]
    pub fn prefetch(&mut self, mapping: &Mapping, range: Range<usize>) {
        self.prefetched.prefetch_range(mapping, range);
    }

    /// Sends the frames one after the other, as many of their bytes as a stream socket takes; returns the
    /// number of bytes. Never blocks.
    ///
    /// # Errors
    /// `EAGAIN` if the socket takes none; `EINVAL` for more than [`MAXIMUM_FRAMES`], a head longer than
    /// [`HEAD_LIMIT`] or a range outside the mapping; `EFAULT` if the mapped file has become shorter; else
    /// errors of `sendmsg`.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        frames: impl Iterator<Item = Frame>,
    ) -> io::Result<usize> {
        let count = self.fill(mapping, frames)?;
        let mut message = empty_message();
        message.msg_iov = self.vectors.as_mut_ptr();
        message.msg_iovlen = count;
        // SAFETY: the first `count` vectors were just written by `fill`; they point into `self.heads` and
        // `mapping`, both borrowed until this call is over, and the kernel only reads them.
        checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, FLAGS) })
    }

    /// Writes heads and vectors for one call; returns the number of vectors.
    fn fill(&mut self, mapping: &Mapping, frames: impl Iterator<Item = Frame>) -> io::Result<usize> {
        let mut count = 0;
        for Frame { head, head_length, payload } in frames {
            let payload = mapping.vector(payload)?;
            let stored = self.heads.get_mut(count / 2).ok_or(Errno::INVAL)?;
            *stored = head;
            let head = stored.get_mut(..head_length).ok_or(Errno::INVAL)?;
            self.vectors[count] = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: head.len() };
            self.vectors[count + 1] = payload;
            count += 2;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn mapped(bytes: &[u8]) -> Mapping {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Mapping::new(&file, bytes.len()).unwrap()
    }

    fn frame(number: u8, head_length: usize, payload: Range<usize>) -> Frame {
        Frame { head: [number; HEAD_LIMIT], head_length, payload }
    }

    #[test]
    fn frames_follow_one_another() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let frames = [frame(1, 4, 0..2), frame(2, 16, 6..8), frame(3, 0, 0..0)];
        let sent = FrameGather::default().send(near.as_fd(), &mapped(b"abcdefgh"), frames.into_iter());
        assert_eq!(sent.unwrap(), 24);
        let mut received = [0; 24];
        far.read_exact(&mut received).unwrap();
        assert_eq!(received[..6], [1, 1, 1, 1, b'a', b'b']);
        assert_eq!(received[6..22], [2; 16]);
        assert_eq!(received[22..], *b"gh");
    }

    #[test]
    fn a_full_socket_takes_a_part_and_then_nothing() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mapping = mapped(&[7; 1 << 16]);
        let mut gather = FrameGather::default();
        let mut send =
            || gather.send(near.as_fd(), &mapping, std::iter::repeat_n(frame(1, 4, 0..1 << 16), 64));
        let mut sent = 0;
        let error = loop {
            match send() {
                Ok(length) => sent += length,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(sent > 0);
        drop(near);
        assert_eq!(far.read_to_end(&mut Vec::new()).unwrap(), sent);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (near, _far) = UnixStream::pair().unwrap();
        let mapping = mapped(b"abcd");
        for frames in [
            vec![frame(1, 4, 0..1); MAXIMUM_FRAMES + 1],
            vec![frame(1, HEAD_LIMIT + 1, 0..1)],
            vec![frame(1, 4, 3..5)],
        ] {
            let error = FrameGather::default().send(near.as_fd(), &mapping, frames.into_iter()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error_and_not_a_signal() {
        let (near, _far) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mapping = Mapping::new(&file, 8192).unwrap();
        file.set_len(0).unwrap();
        let frames = [frame(1, 0, 0..100)].into_iter();
        let error = FrameGather::default().send(near.as_fd(), &mapping, frames).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }
}
