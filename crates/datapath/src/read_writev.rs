//! `read_writev`: the papers' path of the same name. For each packet, its payload is read into a buffer and written to the
//! socket behind a header: two calls and two copies. Works everywhere.

use std::io::IoSlice;

use rustix::io::{Errno, pread, writev};

use crate::{Headers, Medium, Scratch, SendError, Train, UdpSink};

/// Room for the largest payload a datagram has.
pub(crate) struct Buffer(Box<[u8]>);

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer(vec![0; usize::from(u16::MAX)].into())
    }
}

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &Medium,
    train: &Train,
    headers: Headers,
    scratch: &mut Scratch,
) -> Result<u32, SendError> {
    for index in 0..train.packets() {
        match send_one(sink, medium, train, headers, index, &mut scratch.payload.0) {
            Ok(()) => {}
            Err(error) if index == 0 => return Err(error),
            // The caller comes back for the rest, and hears the error then if it lasts.
            Err(_) => return Ok(index),
        }
    }
    Ok(train.packets())
}

fn send_one(
    sink: &UdpSink,
    medium: &Medium,
    train: &Train,
    headers: Headers,
    index: u32,
    buffer: &mut [u8],
) -> Result<(), SendError> {
    let (offset, length) = train.payload(index);
    let payload = &mut buffer[..length];
    match pread(&medium.file, &mut *payload, offset) {
        Ok(read) if read == length => {}
        Ok(_) => return Err(SendError::Storage { call: "pread", errno: Errno::NODATA }),
        Err(errno) => return Err(SendError::Storage { call: "pread", errno }),
    }
    let header = train.header(index, headers);
    match writev(&sink.socket, &[IoSlice::new(&header), IoSlice::new(payload)]) {
        Ok(_) => Ok(()),
        Err(errno) => Err(SendError::of_udp("writev", errno)),
    }
}
