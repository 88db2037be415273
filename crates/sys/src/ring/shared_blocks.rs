//! Blocks of registered memory, each filled once and sent to many sockets, and refilled when the network is
//! done with all of those sends.

use std::io;

use io_uring::IoUring;

use crate::pages::PageBuffer;

/// Index of the blocks' memory in a ring's buffer table, where it is the only entry.
pub(super) const BUFFER: u16 = 0;

/// Blocks of a ring, which must be closed before the blocks are dropped.
pub(super) struct SharedBlocks {
    memory: PageBuffer,
    block_bytes: usize,
    /// For each block, the sends that wait for their notification.
    in_flight: Box<[u32]>,
}

impl SharedBlocks {
    /// Registers this many blocks, of at least one byte each.
    pub(super) fn register(ring: &IoUring, blocks: u16, block_bytes: usize) -> io::Result<SharedBlocks> {
        let memory = PageBuffer::new(usize::from(blocks) * block_bytes)?;
        let vector = libc::iovec { iov_base: memory.as_ptr().cast_mut().cast(), iov_len: memory.len() };
        // SAFETY: the vector is that of the memory, which is held until the ring is closed.
        unsafe { ring.submitter().register_buffers_update(BUFFER.into(), &[vector], None)? };
        Ok(SharedBlocks { memory, block_bytes, in_flight: (0..blocks).map(|_| 0).collect() })
    }

    /// Block without sends in flight, filled with `bytes`; `None` if there is none, or `bytes` is too long.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> Option<u16> {
        let place = self.in_flight.iter().position(|in_flight| *in_flight == 0)?;
        let start = place * self.block_bytes;
        self.memory[start..start + self.block_bytes].get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(place as u16)
    }

    /// First bytes of a block, to send.
    pub(super) fn bytes(&self, block: u16, length: usize) -> *const [u8] {
        let start = usize::from(block) * self.block_bytes;
        &raw const self.memory[start..start + length]
    }

    /// Counts a send from the block as in flight.
    pub(super) fn sent_from(&mut self, block: u16) {
        self.in_flight[usize::from(block)] += 1;
    }

    /// Bytes of blocks with sends in flight.
    pub(super) fn bytes_in_flight(&self) -> usize {
        self.in_flight.iter().filter(|in_flight| **in_flight > 0).count() * self.block_bytes
    }

    /// Counts a send from the block as done.
    pub(super) fn over(&mut self, block: u16) {
        if let Some(in_flight) = self.in_flight.get_mut(usize::from(block)) {
            *in_flight -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Ring;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn connection() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (sender, receiver)
    }

    #[test]
    fn each_socket_gets_what_the_block_had_when_it_was_sent() {
        let Ok(mut ring) = Ring::with_blocks(4, 3, 5000) else {
            eprintln!("skipped: this host has no io_uring that sends from registered memory");
            return;
        };
        let connections: Vec<_> = (0..10).map(|_| connection()).collect(); // more than the ring has entries
        for round in 0..20u8 {
            let bytes = vec![round; 1000 + usize::from(round)];
            let mut answers = Vec::new();
            let senders = connections.iter().map(|(sender, _)| sender.as_fd()).zip(0..);
            while !ring.send_to_each(&bytes, senders.clone(), |token, taken| answers.push((token, taken))) {
                ring.reap_completions(); // a receiver's copy is made immediately, so the loop ends
            }
            answers.sort_by_key(|(token, _)| *token);
            let expected: Vec<_> = (0..10).map(|token| (token, Ok(bytes.len() as u32))).collect();
            assert_eq!(answers, expected);
            for (_, receiver) in &connections {
                let mut came = [0; 2000];
                let length = receiver.recv(&mut came).unwrap();
                assert_eq!(came[..length], bytes);
            }
        }
    }

    #[test]
    fn what_is_too_long_and_what_is_empty_is_not_sent() {
        let Ok(mut ring) = Ring::with_blocks(4, 1, 100) else {
            eprintln!("skipped: this host has no io_uring that sends from registered memory");
            return;
        };
        let (sender, _receiver) = connection();
        for bytes in [&[0; 101][..], &[]] {
            let sockets = [(sender.as_fd(), 0)].into_iter();
            assert!(!ring.send_to_each(bytes, sockets, |_, _| panic!("nothing is sent")));
        }
        assert!(Ring::with_blocks(4, 0, 100).is_err() && Ring::with_blocks(4, 1025, 1).is_err());
    }
}
