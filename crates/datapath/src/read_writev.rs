//! `read_writev`: the papers' path of the same name. For each packet, its payload is read into a buffer and written to the
//! socket behind a header: two calls and two copies. Works everywhere.

use std::io::IoSlice;

use rustix::io::writev;

use crate::{Headers, MappedFile, SendContext, SendError, Train, UdpSink};

/// Room for the largest datagram there is, and for as much of a stream as programs like to read at a time: 64 KiB.
pub(crate) struct Buffer(Box<[u8]>);

impl Buffer {
    /// Its first `length` bytes, or all if it has fewer.
    pub(crate) fn first(&mut self, length: usize) -> &mut [u8] {
        let length = length.min(self.0.len());
        &mut self.0[..length]
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer(vec![0; 1 << 16].into())
    }
}

/// Sends the train's first packets, at least one; answers how many.
#[inline]
pub(crate) fn send(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    scratch: &mut SendContext,
) -> Result<u32, SendError> {
    train.one_by_one(|index| send_one(sink, medium, train, headers, index, &mut scratch.payload))
}

fn send_one(
    sink: &UdpSink,
    medium: &MappedFile,
    train: &Train,
    headers: Headers,
    index: u32,
    buffer: &mut Buffer,
) -> Result<(), SendError> {
    let extent = train.payload(index, headers);
    let payload = buffer.first(extent.length);
    medium.read(extent.offset, payload)?;
    let header = train.header(index, headers);
    match writev(&sink.socket, &[IoSlice::new(&header), IoSlice::new(payload)]) {
        Ok(_) => Ok(()),
        Err(errno) => Err(SendError::of_udp("writev", errno)),
    }
}
