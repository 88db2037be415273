//! `wire_sendfile`: a train of ready packets by one `sendfile` to a socket with UDP_SEGMENT.
//!
//! One call per train; no copies from Linux 6.5 on, where pages go into the socket buffer by reference
//! (MSG_SPLICE_PAGES). Headers are those of the image. A single packet that the kernel may give a wrong checksum
//! is sent from the mapping, with a copy; images, in which all lengths are even, have none.

use std::os::fd::AsFd;

use rustix::fs::sendfile;

use crate::{Extent, Headers, Medium, Scratch, SendError, Train, UdpSink, gso_writev};

/// Sends all of the train or nothing.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &Medium,
    train: &Train,
    scratch: &mut Scratch,
) -> Result<u32, SendError> {
    let whole = Extent { offset: train.offset, length: train.length as usize };
    if train.packets() == 1 && whole.confuses_checksums() {
        let sent = medium.mapping.copy(sink.socket.as_fd(), whole.in_memory());
        return sent.map(|_| 1).map_err(|error| SendError::of_udp_io("send", &error));
    }
    let mut offset = train.offset;
    match sendfile(&sink.socket, &medium.file, Some(&mut offset), train.length as usize) {
        Ok(sent) if sent == train.length as usize => Ok(train.packets()),
        Ok(sent) => in_part(sink, medium, train, sent as u32, scratch),
        Err(errno) => Err(SendError::of_udp("sendfile", errno)),
    }
}

/// Finds out why only `taken` bytes of a train were taken, and sends it after all if nothing speaks against it.
///
/// Either the file ends inside the train, or cannot be read there; what was taken may have left, which for a client is loss.
/// Or the network refused the train. The kernel hands it over in parts (pages before Linux 6.5, since then the 16 pages that
/// a pipe holds), decides on the last one, and drops them all. `sendfile` then tells what was taken before, and not why the
/// rest was not. One call with the same packets does.
#[cold]
fn in_part(
    sink: &UdpSink,
    medium: &Medium,
    train: &Train,
    taken: u32,
    scratch: &mut Scratch,
) -> Result<u32, SendError> {
    let rest = scratch.payload.first((train.length - taken) as usize);
    medium.read(train.offset + u64::from(taken), rest)?;
    gso_writev::send(sink, medium, train, Headers::Stored, scratch)
}
