//! A buffer for payload that is read, and a buffer for packets that are made from it.

use wirepath_media::image::MAX_TRAIN_BYTES;

/// 64 KiB: enough for the largest datagram, or a usual read of a stream.
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

/// Memory for packets that are made, as long as the longest train; none before the first.
#[derive(Default)]
pub(crate) struct PacketBuffer(Vec<u8>);

impl PacketBuffer {
    /// The whole buffer, allocated at the first use.
    pub(crate) fn all(&mut self) -> &mut [u8] {
        self.0.resize(MAX_TRAIN_BYTES as usize, 0);
        &mut self.0
    }
}
