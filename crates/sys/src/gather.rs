//! Datagrams gathered from generated headers and ranges of a mapping, sent in one call.
//!
//! `sendmsg` with `UDP_SEGMENT` (Linux 4.18) sends them as one train; `sendmmsg` sends them one by one. All
//! memory is allocated when a [`Gather`] is created, none while sending.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::checked;
use crate::control::empty_message;
use crate::cpu::RecentBlocks;
use crate::header_blocks::{Header, HeaderBlocks};
use crate::mapping::Mapping;
use crate::send::{FLAGS, Mode};

pub use crate::header_blocks::HEADER_LENGTH;

/// Maximum number of datagrams per call: the segmentation limit before Linux 6.9 (`UDP_MAX_SEGMENTS`).
pub const MAXIMUM_DATAGRAMS: usize = 64;

/// Optional generated header, followed by a range of the mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Header.
    pub header: Option<[u8; HEADER_LENGTH]>,
    /// Range of the mapping that follows.
    pub payload: Range<usize>,
}

/// Buffers for the vectors of one call.
pub struct Gather {
    headers: Box<[Header]>,
    vectors: Vectors,
    prefetched: RecentBlocks,
}

/// Vectors and messages of one call.
struct Vectors {
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers inside are rewritten at the start of each call and mean nothing between calls, so the
// thread that makes the next call may be another one.
unsafe impl Send for Gather {}

impl Default for Gather {
    fn default() -> Gather {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: `mmsghdr` is plain C data for which all zeros is a valid value: null pointers and zero
        // lengths.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Gather {
            headers: vec![[0; HEADER_LENGTH]; MAXIMUM_DATAGRAMS].into(),
            vectors: Vectors {
                vectors: vec![empty; 2 * MAXIMUM_DATAGRAMS].into(),
                messages: vec![message; MAXIMUM_DATAGRAMS].into(),
            },
            prefetched: RecentBlocks::default(),
        }
    }
}

impl Gather {
    /// Prefetches a range of the mapping whose parts are about to be gathered, except pages of it that were prefetched a
    /// moment ago. The kernel copies part by part, and waits for memory at the beginning of each: unlike a long copy,
    /// which reads ahead. A hint: bytes beyond the end of the file or the mapping are left out.
    #[inline]
    pub fn prefetch(&mut self, mapping: &Mapping, range: Range<usize>) {
        self.prefetched.prefetch_range(mapping, range);
    }

    /// Sends all datagrams as one buffer, which the kernel cuts into datagrams of the size set by
    /// [`crate::socket::set_segment`]; without a set size they leave as a single datagram. Returns the number
    /// of bytes sent: all of them, or an error.
    ///
    /// # Errors
    /// `EINVAL` for more than [`MAXIMUM_DATAGRAMS`] or a range outside the mapping; `EIO`, `EINVAL` and
    /// `EMSGSIZE` if the route does not support segmentation; `EFAULT` if the mapped file has become shorter;
    /// else errors of `sendmsg`.
    pub fn send_segmented(
        &mut self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<usize> {
        let (_, vectors) = self.vectors.fill(&mut self.headers, mapping, datagrams)?;
        self.vectors.send(socket, vectors, Mode::Copy)
    }

    /// Like [`Gather::send_segmented`], but lends to the kernel the pages of the mapping, and those of block
    /// `number` of `blocks`, where the headers are written. That block must not be used again before
    /// [`crate::zerocopy::returned`] has reported the end of this loan: otherwise packets would leave with
    /// wrong headers.
    ///
    /// # Errors
    /// Those of `send_segmented`; `EINVAL` for more datagrams than a block has headers; `EMSGSIZE` for more
    /// fragments than a packet may have (17 on most kernels: one for each header and for each page of
    /// payload); `ENOBUFS` if too much is lent already.
    pub fn lend_segmented(
        &mut self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        blocks: &mut HeaderBlocks,
        number: usize,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<usize> {
        let (_, vectors) = self.vectors.fill(blocks.block(number), mapping, datagrams)?;
        self.vectors.send(socket, vectors, Mode::Lend)
    }

    /// Sends the datagrams one by one in one `sendmmsg`; returns the number sent, at least one.
    ///
    /// # Errors
    /// Those of `send_segmented`, except those of segmentation; an error means that none was sent.
    pub fn send_each(
        &mut self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<usize> {
        let (count, _) = self.vectors.fill(&mut self.headers, mapping, datagrams)?;
        let messages = self.vectors.messages.as_mut_ptr();
        // SAFETY: the first `count` messages were just written by `fill`; their vectors point into
        // `self.headers` and `mapping`, both borrowed until this call is over. The kernel writes only
        // `msg_len` of the messages.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count as u32, FLAGS) };
        checked(sent as isize)
    }
}

impl Vectors {
    /// Writes headers, vectors and messages for one call; returns the number of messages and of vectors.
    fn fill(
        &mut self,
        headers: &mut [Header],
        mapping: &Mapping,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<(usize, usize)> {
        let (mut count, mut used) = (0, 0);
        for datagram in datagrams {
            let payload = mapping.vector(datagram.payload)?;
            let header = headers.get_mut(count).ok_or(Errno::INVAL)?;
            let first = used;
            if let Some(bytes) = datagram.header {
                *header = bytes;
                self.vectors[used] =
                    libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: HEADER_LENGTH };
                used += 1;
            }
            self.vectors[used] = payload;
            used += 1;
            self.messages[count].msg_hdr.msg_iov = &mut self.vectors[first];
            self.messages[count].msg_hdr.msg_iovlen = used - first;
            count += 1;
        }
        Ok((count, used))
    }

    /// Sends the data of the first `count` vectors, which `fill` has just written, as one buffer.
    fn send(&mut self, socket: BorrowedFd<'_>, count: usize, mode: Mode) -> io::Result<usize> {
        let mut message = empty_message();
        message.msg_iov = self.vectors.as_mut_ptr();
        message.msg_iovlen = count;
        // SAFETY: the caller still borrows the headers and the mapping that the vectors point into, and the
        // kernel only reads them. What a loan goes on reading after the call are pages that it holds itself.
        checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, mode.flags()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::set_segment;
    use std::io::Write;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        (sender, receiver)
    }

    fn mapped(bytes: &[u8]) -> Mapping {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Mapping::new(&file, bytes.len()).unwrap()
    }

    fn two(mapping_length: usize) -> impl Iterator<Item = Datagram> {
        [0..mapping_length / 2, mapping_length / 2..mapping_length]
            .into_iter()
            .enumerate()
            .map(|(index, payload)| Datagram { header: Some([index as u8 + 1; 12]), payload })
    }

    fn assert_two_arrive(receiver: &UdpSocket) {
        let mut buffer = [0; 100];
        for (marker, payload) in [(1, b"abcd"), (2, b"efgh")] {
            let length = receiver.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..12], &[marker; 12]);
            assert_eq!(&buffer[12..length], payload);
        }
    }

    #[test]
    fn a_train_is_cut_into_its_datagrams() {
        let (sender, receiver) = pair();
        set_segment(sender.as_fd(), 16).unwrap();
        let sent = Gather::default().send_segmented(sender.as_fd(), &mapped(b"abcdefgh"), two(8));
        assert_eq!(sent.unwrap(), 32);
        assert_two_arrive(&receiver);
    }

    #[test]
    fn a_train_that_is_lent_arrives_and_comes_back() {
        let (sender, receiver) = pair();
        set_segment(sender.as_fd(), 16).unwrap();
        crate::zerocopy::enable(sender.as_fd()).unwrap();
        let (mapping, mut blocks) = (mapped(b"abcdefgh"), HeaderBlocks::new(2).unwrap());
        let sent =
            Gather::default().lend_segmented(sender.as_fd(), &mapping, &mut blocks, 1, two(8)).unwrap();
        assert_eq!(sent, 32);
        assert_two_arrive(&receiver);
        assert_eq!(crate::zerocopy::returned(sender.as_fd()).unwrap().map(|range| range.last), Some(0));
        let outside = Gather::default().lend_segmented(sender.as_fd(), &mapping, &mut blocks, 2, two(8));
        assert_eq!(outside.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn each_is_sent_for_itself() {
        let (sender, receiver) = pair();
        let sent = Gather::default().send_each(sender.as_fd(), &mapped(b"abcdefgh"), two(8));
        assert_eq!(sent.unwrap(), 2);
        assert_two_arrive(&receiver);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error_and_not_a_signal() {
        let (sender, _receiver) = pair();
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mapping = Mapping::new(&file, 8192).unwrap();
        file.set_len(0).unwrap();
        let datagram = Datagram { header: None, payload: 0..100 };
        let error =
            Gather::default().send_segmented(sender.as_fd(), &mapping, [datagram].into_iter()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    /// A read would be a fatal signal.
    #[test]
    fn a_prefetch_is_a_hint_wherever_the_file_ends() {
        let (file, mut gather) = (tempfile::tempfile().unwrap(), Gather::default());
        file.set_len(1 << 20).unwrap();
        let mapping = Mapping::populated(&file, 1 << 20).unwrap();
        file.set_len(4096).unwrap();
        gather.prefetch(&mapping, 0..1 << 20);
        gather.prefetch(&mapping, 1..(1 << 20) + 1);
        gather.prefetch(&mapping, 5..5);
    }

    #[test]
    fn too_many_are_refused() {
        let (sender, _receiver) = pair();
        let datagrams = std::iter::repeat_n(Datagram { header: None, payload: 0..1 }, MAXIMUM_DATAGRAMS + 1);
        let error = Gather::default().send_each(sender.as_fd(), &mapped(b"a"), datagrams).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
