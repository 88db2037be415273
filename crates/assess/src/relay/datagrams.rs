//! Source of datagrams for the measured process, and the receivers.
//!
//! Datagrams have no acknowledgement, so the source reads the queue of the measured socket
//! (`/proc/PID/net/udp`) and the counts of receivers, and sends no more than there is room for: no datagram
//! may be lost, since lost datagrams cost less.

use std::fs;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use wirepath_sys::datagrams;

use super::pattern::Pattern;
use super::source::PATIENCE;
use super::task::DATAGRAM;
use crate::error::{Doing, Error};
use crate::sockets;
use crate::test_bed::TestBed;

/// Limit of bytes in the measured socket's queue for sending more, as charged by the kernel: well below the
/// socket's buffer size.
const WAITING: u64 = 48 << 10;

/// Payload bytes that may be in flight to a receiver.
const WINDOW: u64 = 64 << 10;

/// Requested receive buffer of each receiver.
const ROOM: usize = 1 << 20;

/// Timeout after the last datagram.
const SILENCE: Duration = Duration::from_secs(2);

/// Receivers of datagrams.
pub(crate) struct Receivers {
    pub(crate) addresses: Vec<SocketAddr>,
    /// Bytes at the receiver that has received least.
    least: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<Received>>,
}

/// Received datagrams.
#[derive(Debug)]
pub(crate) struct Received {
    /// Bytes at each receiver.
    pub(crate) counts: Vec<u64>,
    /// Received bytes, if they were kept.
    pub(crate) contents: Vec<Vec<u8>>,
    /// Time of the last datagram.
    pub(crate) ended: Instant,
}

impl Receivers {
    /// Opens receivers on processors other than the measured one; each receiver expects `bytes_each` bytes.
    pub(crate) fn open(
        test_bed: &TestBed,
        number: usize,
        bytes_each: u64,
        keep: bool,
    ) -> Result<Receivers, Error> {
        let sockets: Vec<UdpSocket> = test_bed.in_peer_namespace(|address| {
            let sockets =
                (0..number).map(|_| receiver(SocketAddr::new(address, 0))).collect::<io::Result<_>>();
            sockets.doing("opening receivers")
        })?;
        let addresses: io::Result<_> = sockets.iter().map(UdpSocket::local_addr).collect();
        let addresses = addresses.doing("asking for the address of a receiver")?;
        let least = Arc::<AtomicU64>::default();
        let told = Arc::clone(&least);
        let thread =
            test_bed.spawn_beside("receivers", move || receive(&sockets, bytes_each, keep, &told))?;
        Ok(Receivers { addresses, least, thread })
    }

    /// Bytes at the receiver that has received least; updated continuously.
    pub(crate) fn least(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.least)
    }

    /// Waits until all receivers have the expected bytes, or until the timeout.
    pub(crate) fn finish(self) -> Result<Received, Error> {
        sockets::join(self.thread, "a receiver")
    }
}

fn receiver(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    sockets::prepare_to_receive(&socket, ROOM)?;
    Ok(socket)
}

fn receive(sockets: &[UdpSocket], bytes_each: u64, keep: bool, least: &AtomicU64) -> io::Result<Received> {
    let mut received = Received {
        counts: vec![0; sockets.len()],
        contents: vec![Vec::new(); sockets.len()],
        ended: Instant::now(),
    };
    let mut room = vec![0; 1 << 16];
    let silence = Timespec::try_from(SILENCE).map_err(io::Error::other)?;
    let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
    let mut polled: Vec<PollFd<'_>> = sockets.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
    while received.counts.iter().any(|count| *count < bytes_each) {
        // No datagram arrives before the measured process has begun.
        let limit = if received.counts[0] == 0 { &patience } else { &silence };
        if poll(&mut polled, Some(limit))? == 0 {
            break;
        }
        for (index, socket) in sockets.iter().enumerate() {
            while let Some(length) = received.some(index, socket, &mut room, keep)? {
                received.counts[index] += length;
            }
        }
        least.store(received.counts.iter().copied().min().unwrap_or(0), Ordering::Relaxed);
        received.ended = Instant::now();
    }
    Ok(received)
}

impl Received {
    /// Takes the datagrams of one call; `None` if there are none now.
    fn some(
        &mut self,
        index: usize,
        socket: &UdpSocket,
        room: &mut [u8],
        keep: bool,
    ) -> io::Result<Option<u64>> {
        // MSG_TRUNC returns the length of the whole datagram, or of all datagrams that the kernel coalesced,
        // regardless of the buffer size.
        let room = if keep { room } else { &mut room[..1] };
        match recv(socket, &mut *room, RecvFlags::TRUNC | RecvFlags::DONTWAIT) {
            Ok((_, length)) => {
                if keep {
                    self.contents[index].extend_from_slice(&room[..length]);
                }
                Ok(Some(length as u64))
            }
            Err(Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Datagrams that a source sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bursts {
    pub(crate) datagrams: u64,
    /// Datagrams that are sent together.
    pub(crate) burst: u64,
}

/// Sends datagrams to the UDP port of the process, on a thread beside the measured processor, as fast as the
/// process takes them.
pub(crate) fn send(
    test_bed: &TestBed,
    pattern: &Arc<Pattern>,
    bursts: Bursts,
    (process, to): (u32, SocketAddr),
    least: Option<Arc<AtomicU64>>,
) -> Result<JoinHandle<io::Result<()>>, Error> {
    let socket = test_bed.in_peer_namespace(|address| {
        let socket = UdpSocket::bind((address, 0)).doing("opening a source of datagrams")?;
        socket.connect(to).doing("connecting a source of datagrams")?;
        Ok(socket)
    })?;
    let pattern = Arc::clone(pattern);
    test_bed.spawn_beside("source", move || {
        let mut sent = 0;
        while sent < bursts.datagrams {
            let bytes = sent * DATAGRAM as u64;
            wait_for_room(process, to, |waiting| {
                let behind =
                    least.as_ref().map_or(0, |least| bytes - least.load(Ordering::Relaxed).min(bytes));
                waiting <= WAITING && behind <= WINDOW
            })?;
            let burst = bursts.burst.min(bursts.datagrams - sent);
            let payload = pattern.bytes(bytes, burst as usize * DATAGRAM);
            let cut = (burst > 1).then_some(DATAGRAM as u16);
            datagrams::send(socket.as_fd(), &[IoSlice::new(&payload)], cut, None)?;
            sent += burst;
        }
        wait_for_room(process, to, |waiting| waiting == 0)
    })
}

/// Polls the queue of the process' socket until it is short enough: there is no event for this, and this
/// processor has no other work.
fn wait_for_room(process: u32, socket: SocketAddr, is_enough: impl Fn(u64) -> bool) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let table = fs::read_to_string(format!("/proc/{process}/net/udp"))?;
        // While other sockets come and go, reads of the table have gaps; a missing entry is searched for
        // again.
        if let Some(Queue { waiting, dropped }) = queue(&table, socket) {
            if dropped > 0 {
                return Err(io::Error::other(format!("the measured socket dropped {dropped} datagrams")));
            }
            if is_enough(waiting) {
                return Ok(());
            }
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the measured process takes no more datagrams",
            ));
        }
        std::thread::yield_now();
    }
}

/// Receive queue of a UDP socket.
#[derive(Debug, PartialEq, Eq)]
struct Queue {
    /// Bytes in the queue, as charged by the kernel.
    waiting: u64,
    dropped: u64,
}

/// Parses `sl local_address rem_address st tx_queue:rx_queue …`, with the number of dropped datagrams last.
fn queue(table: &str, socket: SocketAddr) -> Option<Queue> {
    let SocketAddr::V4(socket) = socket else { return None };
    // The address is its four bytes read as a native number; the port is a number.
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(socket.ip().octets()), socket.port());
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = fields.get(1).is_some_and(|address| **address == local);
        let (_, waiting) = fields.get(4).filter(|_| is_it)?.split_once(':')?;
        let waiting = u64::from_str_radix(waiting, 16).ok()?;
        Some(Queue { waiting, dropped: fields.last()?.parse().ok()? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_socket_is_seen() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let look = || {
            let table = fs::read_to_string("/proc/self/net/udp").unwrap();
            queue(&table, address).unwrap()
        };
        assert_eq!(look(), Queue { waiting: 0, dropped: 0 });
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[7; 1000], address).unwrap();
        assert!(look().waiting >= 1000);
    }
}
