//! A buffer to read payload into.

/// Room for the largest datagram there is, and for as much of a stream as programs like to read at a time: 64
/// KiB.
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
