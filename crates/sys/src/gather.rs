//! Datagrams gathered from generated headers and ranges of a mapping, sent in one call.
//!
//! `sendmsg` with `UDP_SEGMENT` (Linux 4.18) sends them as one train; `sendmmsg` sends them one by one. All memory
//! is allocated when a [`Gather`] is made, none while sending.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::checked;
use crate::mapping::Mapping;

/// Most datagrams that one [`Gather`] takes: what the kernel segments in one call before Linux 6.9
/// (`UDP_MAX_SEGMENTS`).
pub const MAXIMUM_DATAGRAMS: usize = 64;

/// Length in bytes of a generated header.
pub const HEADER_LENGTH: usize = 12;

/// A generated header, if there is one, followed by a range of the mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes that go first.
    pub header: Option<[u8; HEADER_LENGTH]>,
    /// Bytes of the mapping that follow.
    pub payload: Range<usize>,
}

/// Room for the vectors of one call.
pub struct Gather {
    headers: Box<[[u8; HEADER_LENGTH]]>,
    vectors: Box<[libc::iovec]>,
    messages: Box<[libc::mmsghdr]>,
}

// SAFETY: the pointers inside are rewritten at the start of each call and mean nothing between calls, so the thread
// that makes the next call may be another one.
unsafe impl Send for Gather {}

impl Default for Gather {
    fn default() -> Gather {
        let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // SAFETY: `mmsghdr` is plain C data for which all zeros is a valid value: null pointers and zero lengths.
        let message: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Gather {
            headers: vec![[0; HEADER_LENGTH]; MAXIMUM_DATAGRAMS].into(),
            vectors: vec![empty; 2 * MAXIMUM_DATAGRAMS].into(),
            messages: vec![message; MAXIMUM_DATAGRAMS].into(),
        }
    }
}

impl Gather {
    /// Sends all datagrams as one buffer, which the kernel cuts into datagrams of the size set by
    /// [`crate::socket::set_segment`]. Answers the number of bytes taken: all of them or an error.
    ///
    /// # Errors
    /// `EINVAL` for more than [`MAXIMUM_DATAGRAMS`] or a range outside the mapping; `EIO`, `EINVAL` and `EMSGSIZE` where
    /// the route cannot segment; `EFAULT` where the mapped file has become shorter; else what `sendmsg` says.
    pub fn send_segmented(
        &mut self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<usize> {
        let (_, vectors) = self.fill(mapping, datagrams)?;
        // SAFETY: all zeros is a valid `msghdr`: no name, no vectors, no control message.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.vectors.as_mut_ptr();
        message.msg_iovlen = vectors;
        // SAFETY: the vectors point into `self.headers` and into `mapping`, both borrowed until this call is over, and
        // the kernel only reads them.
        checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, FLAGS) })
    }

    /// Sends the datagrams one after the other in one call, `sendmmsg`. Answers how many were sent, at least one.
    ///
    /// # Errors
    /// As `send_segmented`, but for those of segmentation; an error means that none was sent.
    pub fn send_each(
        &mut self,
        socket: BorrowedFd<'_>,
        mapping: &Mapping,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<usize> {
        let (count, _) = self.fill(mapping, datagrams)?;
        // SAFETY: the first `count` messages were just written by `fill`; their vectors point into `self.headers` and
        // `mapping`, both borrowed until this call is over. The kernel writes only `msg_len` of the messages.
        let sent =
            unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), count as u32, FLAGS) };
        checked(sent as isize)
    }

    /// Writes headers, vectors and messages for one call; answers how many messages and vectors there are.
    fn fill(
        &mut self,
        mapping: &Mapping,
        datagrams: impl Iterator<Item = Datagram>,
    ) -> io::Result<(usize, usize)> {
        let (mut count, mut used) = (0, 0);
        for datagram in datagrams {
            let payload = mapping.vector(datagram.payload).ok_or(io::ErrorKind::InvalidInput)?;
            let header = self.headers.get_mut(count).ok_or(io::ErrorKind::InvalidInput)?;
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
}

/// Never wait for room, never raise SIGPIPE.
const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

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

    #[test]
    fn too_many_are_refused() {
        let (sender, _receiver) = pair();
        let datagrams = std::iter::repeat_n(Datagram { header: None, payload: 0..1 }, MAXIMUM_DATAGRAMS + 1);
        let error = Gather::default().send_each(sender.as_fd(), &mapped(b"a"), datagrams).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
