//! Payload that waits to be timed, already laid out as RTP packets.

use crate::image::Recipe;
use crate::rtp::HEADER_LENGTH;
use crate::ts::Packets;

/// Packets back to back, each with room for its header; the last one may not be full yet.
#[derive(Debug)]
pub(super) struct PacketBuffer {
    packet_size: usize,
    bytes: Vec<u8>,
    /// Bytes at the front that are done with. They stay until [`PacketBuffer::compact`].
    done: usize,
}

impl PacketBuffer {
    pub(super) fn new(recipe: Recipe) -> Self {
        Self { packet_size: usize::from(recipe.packet_size()), bytes: Vec::new(), done: 0 }
    }

    pub(super) fn append(&mut self, run: &Packets<'_>) {
        match run.contiguous() {
            Some(payload) => self.append_payload(payload),
            None => run.iter().for_each(|packet| self.append_payload(packet)),
        }
    }

    /// Everything not done with.
    pub(super) fn packets(&mut self) -> &mut [u8] {
        &mut self.bytes[self.done..]
    }

    /// Number of full packets not done with.
    pub(super) fn full_packets(&self) -> usize {
        (self.bytes.len() - self.done) / self.packet_size
    }

    /// The first `length` bytes, whole packets, are done with.
    pub(super) fn release(&mut self, length: usize) {
        self.done += length;
    }

    /// Gives the room of released packets back. Moves what is left, so call it once for many releases.
    pub(super) fn compact(&mut self) {
        self.bytes.drain(..self.done);
        self.done = 0;
    }

    fn append_payload(&mut self, mut payload: &[u8]) {
        while !payload.is_empty() {
            let mut filled = self.bytes.len() % self.packet_size;
            if filled == 0 {
                self.bytes.extend_from_slice(&[0; HEADER_LENGTH]);
                filled = HEADER_LENGTH;
            }
            let (fitting, rest) = payload.split_at((self.packet_size - filled).min(payload.len()));
            self.bytes.extend_from_slice(fitting);
            payload = rest;
        }
    }
}
