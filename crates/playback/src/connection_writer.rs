//! The sending side of an RTSP connection whose sessions are interleaved (RFC 2326 section 10.12).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use wirepath_datapath::interleaved::{channel_of, framing};
use wirepath_datapath::socket::set_unsent_limit;
use wirepath_engine::Handle;

use crate::pacer::Pacer;

/// Unsent bytes at which a connection counts as full: a few trains. Late packets then wait in the asset,
/// where they can be skipped, and not in the kernel.
const UNSENT_LIMIT: u32 = 128 * 1024;

/// Writer of a connection, on the engine thread of its playbacks. It is the only one that may write to the
/// connection.
///
/// Trains, responses and reports leave in the order of the calls, none inside another. The writer ends when
/// this is dropped; the connection is then closed when its other descriptors are closed.
pub struct ConnectionWriter {
    pub(crate) id: u64,
    pub(crate) pacer: Handle<Pacer>,
    /// Number of the engine thread on which the writer was opened. Commands go to that thread, wherever the
    /// writer is.
    pub(crate) thread: usize,
    pub(crate) lends: bool,
}

impl ConnectionWriter {
    /// Makes a writer from a duplicate descriptor of a connected socket.
    pub(crate) fn new(
        id: u64,
        pacer: Handle<Pacer>,
        thread: usize,
        socket: OwnedFd,
        lends: bool,
    ) -> io::Result<ConnectionWriter> {
        set_unsent_limit(socket.as_fd(), UNSENT_LIMIT)?;
        pacer.with(move |pacer, context| pacer.add_writer(id, socket, context));
        Ok(ConnectionWriter { id, pacer, thread, lends })
    }

    /// The writer that sends nothing from registered memory: for a connection to this host, where the kernel copies
    /// it.
    pub fn without_lending(mut self) -> ConnectionWriter {
        self.lends = false;
        self
    }

    /// Returns whether a stream may be sent from registered memory in this channel, if its headers are stored.
    pub fn can_lend(&self, stream: u8, channel: u8) -> bool {
        self.lends && channel == channel_of(stream)
    }

    /// Sends the bytes of a response before the next packet. `on_sent` is called on an engine thread when the
    /// kernel has the bytes, and must not block; it is dropped without a call if the connection fails.
    pub fn write(&self, bytes: Vec<u8>, on_sent: impl FnOnce() + Send + 'static) {
        let (id, on_sent) = (self.id, Box::new(on_sent));
        self.pacer.with(move |pacer, _| pacer.write(id, bytes, on_sent));
    }

    /// Sends an RTCP packet as a frame of a channel before the next packet. The packet is dropped if the
    /// connection is full and much is waiting.
    pub fn write_report(&self, channel: u8, packet: &[u8]) {
        let Ok(length) = u16::try_from(packet.len()) else { return };
        let (id, frame) = (self.id, [&framing(channel, length)[..], packet].concat());
        self.pacer.with(move |pacer, _| pacer.write_report(id, frame));
    }
}

impl Drop for ConnectionWriter {
    fn drop(&mut self) {
        let id = self.id;
        self.pacer.with(move |pacer, context| pacer.remove_writer(id, context));
    }
}
