//! Sends one train of datagrams to many sockets without a copy for each: the train is copied once into a
//! block of registered memory, and an io_uring of the calling thread sends it from there to all sockets.
//!
//! The kernel reports for each send whether it copied nevertheless, as it does for receivers on this machine
//! and for devices without gathering or checksum offload. Then [`may_lend`] is false for that socket for a
//! while. A block is reused when the network no longer uses it; while all are in use, callers copy.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;
use wirepath_sys::datagrams::MAXIMUM_TRAIN;
use wirepath_sys::ring::Ring;

/// Least bytes of a train for which sending by reference is cheaper than a copy (docs/decisions/0023).
pub const LEAST_LENT: usize = 32 * 1024;

/// Fewest sockets for which that is true.
pub const FEWEST_LENT: usize = 4;

/// Sends in one call.
const ENTRIES: u32 = 256;

/// Blocks of a thread: 1 MiB, within the memory that users may lock (8 MiB by default).
const BLOCKS: u16 = 16;
const BLOCK_BYTES: usize = MAXIMUM_TRAIN.next_multiple_of(4096);

/// Trains that are copied for a socket before another is lent, since routes change and packet captures end.
const COPIES: u32 = 1024;

/// Most sockets that are remembered; above that, all are forgotten and tried again.
const REMEMBERED: usize = 4096;

/// Identity of a socket, for its remembered state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId(u32);

impl SocketId {
    /// Unique number of a socket. Numbers repeat after 2^32, which costs the other socket one attempt.
    pub fn unique() -> SocketId {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        SocketId(NEXT.fetch_add(1, Relaxed))
    }
}

/// Counts of lent trains of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LentTrains {
    /// Trains sent to a socket from shared memory: a train to eight sockets counts eight.
    pub lent: u64,
    /// Lent trains that the kernel copied nevertheless.
    pub copied_although_lent: u64,
    /// Bytes of shared memory that the network may still use, as of the last lent train of each thread.
    pub bytes_out: u64,
}

static LENT: AtomicU64 = AtomicU64::new(0);
static COPIED: AtomicU64 = AtomicU64::new(0);
static BYTES_OUT: AtomicU64 = AtomicU64::new(0);

/// Counts of lent trains of all threads of this process.
pub fn counts() -> LentTrains {
    LentTrains {
        lent: LENT.load(Relaxed),
        copied_although_lent: COPIED.load(Relaxed),
        bytes_out: BYTES_OUT.load(Relaxed),
    }
}

struct Sender {
    ring: Ring,
    /// Number of trains to copy for each socket for which the kernel copied one.
    copies: HashMap<u32, u32>,
    /// Part of the counts of the process that is due to this thread.
    counted: LentTrains,
}

impl Sender {
    /// Adds what has changed to the counts of the process.
    fn count(&mut self, lent: u64) {
        let copied = self.ring.copied().unwrap_or_default();
        let bytes_out = self.ring.block_bytes_in_flight() as u64;
        LENT.fetch_add(lent, Relaxed);
        COPIED.fetch_add(copied - self.counted.copied_although_lent, Relaxed);
        // Wraps around where less is out than before, as the sum does.
        BYTES_OUT.fetch_add(bytes_out.wrapping_sub(self.counted.bytes_out), Relaxed);
        self.counted = LentTrains { lent: 0, copied_although_lent: copied, bytes_out };
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        BYTES_OUT.fetch_sub(self.counted.bytes_out, Relaxed);
    }
}

thread_local! {
    /// Opened at the first train, if this host supports it.
    static SENDER: RefCell<Option<Option<Sender>>> = const { RefCell::new(None) };
}

/// Returns whether the next train for a socket may be sent by [`send_to_each`].
pub fn may_lend(socket: SocketId) -> bool {
    SENDER.with_borrow(|sender| match sender {
        None => true,
        Some(None) => false,
        Some(Some(Sender { ring, copies, .. })) => {
            ring.failure().is_none() && !copies.contains_key(&socket.0)
        }
    })
}

/// Notes that a train for a socket was sent by a copy.
pub fn note_copied(socket: SocketId) {
    SENDER.with_borrow_mut(|sender| {
        let Some(Some(Sender { copies, .. })) = sender else { return };
        let Some(left) = copies.get_mut(&socket.0) else { return };
        *left -= 1;
        if *left == 0 {
            copies.remove(&socket.0);
        }
    });
}

/// Sends a train, of at most [`MAXIMUM_TRAIN`] bytes, to connected UDP sockets that cut it themselves
/// ([`set_segment`](wirepath_sys::socket::set_segment)). Returns the index of each in `sockets` and the bytes
/// that it accepted. If it returns nothing, nothing was sent. Never waits.
pub fn send_to_each<'a>(
    train: &[u8],
    sockets: impl Iterator<Item = (BorrowedFd<'a>, SocketId)>,
    mut answer: impl FnMut(usize, Result<usize, Errno>),
) {
    SENDER.with_borrow_mut(|sender| {
        let Some(sender) = sender.get_or_insert_with(open) else { return };
        let Sender { ring, copies, .. } = sender;
        let mut lent = 0;
        let mut sockets = (0u64..).zip(sockets).map(|(place, (socket, id))| {
            (socket, place << 32 | u64::from(id.0)) // the ring tells what it copied by the lower half
        });
        let mut told = |token: u64, taken: Result<u32, Errno>| {
            lent += u64::from(taken.is_ok());
            answer((token >> 32) as usize, taken.map(|bytes| bytes as usize));
        };
        if !ring.send_to_each(train, &mut sockets, &mut told) {
            ring.reap_completions();
            ring.send_to_each(train, &mut sockets, &mut told);
        }
        for socket in ring.take_copied() {
            if copies.len() == REMEMBERED {
                copies.clear();
            }
            copies.insert(socket, COPIES);
        }
        sender.count(lent);
    });
}

fn open() -> Option<Sender> {
    let opened = Ring::with_blocks(ENTRIES, BLOCKS, BLOCK_BYTES);
    // If the kernel did not report copies, lending might always cost more than copying.
    let ring = opened.ok().filter(|ring| ring.copied().is_some())?;
    Some(Sender { ring, copies: HashMap::with_capacity(REMEMBERED), counted: LentTrains::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// On loopback the kernel copies for each receiver, and reports it.
    #[test]
    fn sockets_for_which_the_kernel_copies_are_no_longer_lent_to() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let (id, other) = (SocketId::unique(), SocketId::unique());
        let send = || {
            let mut answers = Vec::new();
            send_to_each(&[7; 500], [(sender.as_fd(), id)].into_iter(), |place, taken| {
                answers.push((place, taken));
            });
            answers
        };
        let before = counts();
        let first = send();
        if first.is_empty() {
            eprintln!("skipped: this host has no io_uring that sends from registered memory");
            return;
        }
        assert_eq!(first, [(0, Ok(500))]);
        for _ in 0..100 {
            if !may_lend(id) {
                break;
            }
            assert_eq!(send(), [(0, Ok(500))]); // the word of a copy comes with a later call
        }
        assert!(!may_lend(id) && may_lend(other));
        // Other tests of this process may lend, too.
        let after = counts();
        assert!(
            after.lent > before.lent && after.copied_although_lent > before.copied_although_lent,
            "{after:?}"
        );
        for _ in 0..COPIES {
            assert!(!may_lend(id));
            note_copied(id);
        }
        assert!(may_lend(id), "another trial is made");
    }
}
