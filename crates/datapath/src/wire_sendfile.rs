//! `wire_sendfile`: a train of ready packets by one `sendfile` to a socket with UDP_SEGMENT.
//!
//! One call per train; no copies from Linux 6.5 on, where pages go into the socket buffer by reference
//! (MSG_SPLICE_PAGES). Headers are those of the image. A single packet that the kernel may give a wrong checksum
//! is sent from the mapping, with a copy; images, in which all lengths are even, have none.

use std::os::fd::AsFd;

use rustix::fs::sendfile;
use rustix::io::Errno;

use crate::{Extent, Medium, SendError, Train, UdpSink};

const CALL: &str = "sendfile";

/// Sends all of the train or nothing.
#[inline]
pub(crate) fn send(sink: &UdpSink, medium: &Medium, train: &Train) -> Result<u32, SendError> {
    let whole = Extent { offset: train.offset, length: train.length as usize };
    if train.packets() == 1 && whole.confuses_checksums() {
        let sent = medium.mapping.copy(sink.socket.as_fd(), whole.in_memory());
        return sent.map(|_| 1).map_err(|error| SendError::of_udp_io("send", &error));
    }
    let mut offset = train.offset;
    match sendfile(&sink.socket, &medium.file, Some(&mut offset), train.length as usize) {
        Ok(sent) if sent == train.length as usize => Ok(train.packets()),
        // The file ends inside the train. What there is of it has left, which for a client is loss.
        Ok(_) => Err(SendError::Storage { call: CALL, errno: Errno::NODATA }),
        Err(errno) => Err(SendError::of_udp(CALL, errno)),
    }
}
