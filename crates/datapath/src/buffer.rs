//! A buffer to read payload into.

/// Room of 64 KiB: for the largest datagram, or a usual read of a stream.
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
