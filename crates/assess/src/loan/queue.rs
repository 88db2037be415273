//! Send errors against a queue that can be full (figure 6 of the paper), copied and lent.
//!
//! Sends go as fast as they can to a device with a rate and a queue of so many bytes as 512 full packets have: the
//! queue of the paper's network card. The socket's buffer is larger than the queue, and the socket reports refused
//! sends (IP_RECVERR; otherwise Linux drops the packet and the send succeeds). A refused send is not sent again, as
//! in the paper's netperf. What the socket counts as errors must be what the queue has dropped.

use std::fs::File;
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size_force;
use wirepath_sys::errno_of;
use wirepath_sys::gather::MAXIMUM_DATAGRAMS;
use wirepath_sys::mapping::Mapping;
use wirepath_sys::socket::{report_full_queues, set_segment};
use wirepath_sys::usage::Usage;
use wirepath_sys::zerocopy;

use super::sends::Sends;
use crate::error::{Doing, Error};
use crate::findings::Findings;
use crate::options::Options;
use crate::result::{Loan, QueuePoint, QueueRun, QueuedSend};
use crate::rounds::{Candidate, in_turn};
use crate::test_bed::{SlowQueue, Target, TestBed};

/// Rate of the device: Gigabit Ethernet, as in the paper.
const BITS_PER_SECOND: u64 = 1_000_000_000;

/// Full packets that the queue has room for: the send queue of the paper's network card.
const QUEUE_PACKETS: u64 = 512;

/// Ethernet header, which the queue counts with each packet.
const ETHERNET_HEADER: u64 = 14;

/// Bytes of a send.
const SIZES: [u32; 9] = [64, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 61_440];

/// Maximum payload to be accepted in a run, and in a quick one.
const VOLUME: u64 = 64 << 20;
const QUICK_VOLUME: u64 = 16 << 20;

/// Bytes of the memory that is sent: many times what processor caches of one core have.
const MEMORY: usize = 16 << 20;

/// Send buffer of the socket: pages in the queue and their bookkeeping fit many times.
const SEND_BUFFER: usize = 256 << 20;

/// Memory for notifications of loans: one for each packet in the queue.
const NOTIFICATION_BYTES: &str = "67108864";

/// Limit of a run, in multiples of the time that the device takes for the volume: a datagram of many fragments may
/// never find room for all of them at once.
const DURATIONS: u64 = 8;

/// Sends between two readings of the notifications, or of the clock.
const SENDS_FOR_A_READING: u64 = 32;

/// Timeout for the last loans.
const PATIENCE: Duration = Duration::from_secs(5);

const KINDS: [QueuedSend; 4] =
    [QueuedSend::Copied, QueuedSend::Lent, QueuedSend::Fragments, QueuedSend::Spliced];

/// Sends of one kind and size, and their runs.
struct Flood {
    kind: QueuedSend,
    size: u32,
    mtu: u32,
    runs: Vec<QueueRun>,
}

/// Memory that is sent.
struct Memory {
    file: File,
    mapping: Mapping,
}

/// Socket of a run, and the notifications that it has received.
struct Sender<'a> {
    socket: UdpSocket,
    kind: QueuedSend,
    memory: &'a Memory,
    lent: u64,
    returned: u64,
    copied_by_kernel: u64,
}

/// Measures all kinds and sizes, and adds them to the result. Findings before an error are kept.
pub(super) fn measure(options: &Options, test_bed: &TestBed, found: &mut Findings<'_>) -> Result<(), Error> {
    let what = format!("send errors against a full queue, MTU {}", test_bed.mtu);
    let Target::Drops(device) = &test_bed.udp else {
        found.leave_out(&what, &"the queue is that of a device of our own: use --sink drop");
        return Ok(());
    };
    let queue_bytes = QUEUE_PACKETS * (u64::from(test_bed.mtu) + ETHERNET_HEADER);
    let queue = match device.slow(BITS_PER_SECOND, queue_bytes) {
        Ok(queue) => queue,
        Err(error) => return found.of_label(&what, error),
    };
    let can_lend = std::fs::write("/proc/sys/net/core/optmem_max", NOTIFICATION_BYTES);
    if let Err(error) = &can_lend {
        let why =
            format!("net.core.optmem_max of the namespace cannot be raised ({error}): before Linux 6.8");
        found.leave_out(&format!("{what}, lent"), &why);
    }
    let kinds = KINDS.into_iter().filter(|kind| *kind != QueuedSend::Lent || can_lend.is_ok());
    let mtu = test_bed.mtu;
    let floods = kinds.flat_map(|kind| SIZES.map(|size| Flood { kind, size, mtu, runs: Vec::new() }));
    let mut floods: Vec<Flood> = floods.filter(Flood::is_possible).collect();
    floods.sort_by_key(|flood| flood.size);
    let (memory, most) = (Memory::new()?, if options.quick { QUICK_VOLUME } else { VOLUME });
    let volume = most.min(options.volume);
    let outcome = in_turn(found, (0.0, options.runs), &mut floods, |_, flood| {
        let run = flood.run(test_bed, &queue, &memory, volume)?;
        flood.runs.push(run);
        Ok(true)
    });
    let measured = floods.into_iter().filter(|flood| !flood.runs.is_empty());
    let points = measured.map(|flood| QueuePoint {
        kind: flood.kind,
        size: flood.size.into(),
        mtu,
        bits_per_second: BITS_PER_SECOND,
        queue_bytes,
        runs: flood.runs,
    });
    found.result.loan.get_or_insert_with(Loan::default).queue.extend(points);
    outcome
}

impl Flood {
    /// Returns whether there are such sends: what fits into a packet is not fragmented, and many kernels take at
    /// most 64 segments.
    fn is_possible(&self) -> bool {
        let segment = u32::from(Sends::segment(self.mtu));
        match self.kind {
            QueuedSend::Copied | QueuedSend::Lent => self.size <= segment * MAXIMUM_DATAGRAMS as u32,
            QueuedSend::Fragments | QueuedSend::Spliced => self.size > segment,
        }
    }

    /// Sends until the queue was full once, or has accepted `volume` bytes; then measures until another `volume`
    /// bytes are accepted, or [`DURATIONS`] have passed.
    fn run(
        &self,
        test_bed: &TestBed,
        queue: &SlowQueue<'_>,
        memory: &Memory,
        volume: u64,
    ) -> Result<QueueRun, Error> {
        let mut sender = Sender::open(self, test_bed, memory)?;
        let size = u64::from(self.size);
        // Read before the queue is filled: it would drain while `tc` runs.
        let dropped = queue.dropped()?;
        let (mut early, mut early_errors) = (0, 0);
        while early < volume && early_errors == 0 {
            if sender.send(self.size)? { early += size } else { early_errors = 1 }
        }
        let usage = || Usage::of_process().doing("asking for the processor time");
        let (before, start) = (usage()?, Instant::now());
        let (mut sent, mut errors) = (0, 0);
        let longest = Duration::from_secs(DURATIONS * volume * 8) / BITS_PER_SECOND as u32;
        while sent * size < volume {
            if sender.send(self.size)? {
                sent += 1
            } else {
                errors += 1
            }
            if (sent + errors).is_multiple_of(SENDS_FOR_A_READING) && start.elapsed() > longest {
                break;
            }
        }
        let (used, wall) = (usage()?.since(before), start.elapsed());
        let dropped = queue.dropped()? - dropped;
        sender.finish()?;
        let refused = errors + early_errors;
        if self.kind == QueuedSend::Lent && refused > dropped {
            return Err(Error::Unable(format!(
                "{refused} sends failed, and the queue dropped {dropped} packets: too little memory for notifications of \
                 loans; raise net.core.optmem_max"
            )));
        }
        if refused != dropped {
            return Err(Error::Faulty(format!(
                "{refused} sends failed, and the queue dropped {dropped} packets"
            )));
        }
        if sent == 0 {
            return Err(Error::Unable(format!(
                "the queue accepted none of {errors} sends in {:.1} s: it never had room for a whole one",
                wall.as_secs_f64()
            )));
        }
        Ok(QueueRun {
            sent,
            errors,
            dropped: dropped - early_errors,
            copied_by_kernel: sender.copied_by_kernel,
            cpu_s: (used.user + used.system).as_secs_f64(),
            wall_s: wall.as_secs_f64(),
        })
    }
}

impl Candidate for Flood {
    fn label(&self) -> String {
        format!("loan: {} bytes {} to a queue, MTU {}", self.size, self.kind, self.mtu)
    }

    fn estimate(&self) -> Duration {
        Duration::from_millis(500)
    }
}

impl Memory {
    fn new() -> Result<Memory, Error> {
        let mut file =
            memfd_create("wirepath-queue", MemfdFlags::CLOEXEC).map(File::from).doing("making a file")?;
        let block: Vec<u8> = (0..1 << 16).map(|at: u32| (at % 251) as u8).collect();
        for _ in 0..MEMORY / block.len() {
            file.write_all(&block).doing("filling the file to send")?;
        }
        let mapping = Mapping::populated(&file, MEMORY).doing("mapping the file to send")?;
        Ok(Memory { file, mapping })
    }
}

impl<'a> Sender<'a> {
    fn open(flood: &Flood, test_bed: &TestBed, memory: &'a Memory) -> Result<Sender<'a>, Error> {
        let prepare = || {
            let socket = UdpSocket::bind(("0.0.0.0", 0))?;
            socket.connect(test_bed.udp_address())?;
            socket.set_nonblocking(true)?;
            set_socket_send_buffer_size_force(&socket, SEND_BUFFER)?;
            report_full_queues(socket.as_fd())?;
            if matches!(flood.kind, QueuedSend::Copied | QueuedSend::Lent) {
                set_segment(socket.as_fd(), Sends::segment(flood.mtu))?;
            }
            if flood.kind == QueuedSend::Lent {
                zerocopy::enable(socket.as_fd())?;
            }
            Ok::<_, io::Error>(socket)
        };
        let socket =
            prepare().map_err(|error| Error::Unable(format!("cannot set up its socket: {error}")))?;
        Ok(Sender { socket, kind: flood.kind, memory, lent: 0, returned: 0, copied_by_kernel: 0 })
    }

    /// Sends the next bytes of the memory; returns false if the queue was full.
    fn send(&mut self, size: u32) -> Result<bool, Error> {
        let page = rustix::param::page_size();
        let (bytes, apart) = (size as usize, (size as usize).next_multiple_of(page));
        let places = (MEMORY / apart) as u64;
        let start = (self.lent % places) as usize * apart;
        self.lent += 1;
        let socket = self.socket.as_fd();
        let sent = match self.kind {
            QueuedSend::Copied | QueuedSend::Fragments => {
                self.memory.mapping.copy(socket, start..start + bytes)
            }
            QueuedSend::Lent => self.memory.mapping.lend(socket, start..start + bytes),
            QueuedSend::Spliced => {
                let mut offset = start as u64;
                sendfile(socket, &self.memory.file, Some(&mut offset), bytes).map_err(io::Error::from)
            }
        };
        if self.kind == QueuedSend::Lent && self.lent.is_multiple_of(SENDS_FOR_A_READING) {
            self.read()?;
        }
        match sent {
            Ok(taken) if taken == bytes => Ok(true),
            Ok(taken) => Err(Error::Faulty(format!("a send of {bytes} bytes sent {taken}"))),
            Err(error) if errno_of(&error) == Errno::NOBUFS => Ok(false),
            Err(error) => Err(Error::Faulty(format!("a send of {bytes} bytes failed: {error}"))),
        }
    }

    /// Reads the notifications that are there.
    fn read(&mut self) -> Result<(), Error> {
        while let Some(back) =
            zerocopy::returned(self.socket.as_fd()).doing("reading notifications of loans")?
        {
            let loans = u64::from(back.last.wrapping_sub(back.first)) + 1;
            self.returned += loans;
            self.copied_by_kernel += if back.copied { loans } else { 0 };
        }
        Ok(())
    }

    /// Waits until the queue has let the last loan go. A loan that the queue refused was numbered, too.
    fn finish(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while self.kind == QueuedSend::Lent {
            self.read()?;
            if self.returned >= self.lent {
                break;
            }
            if Instant::now() > deadline {
                let missing = self.lent - self.returned;
                return Err(Error::Faulty(format!("the notifications of {missing} loans are missing")));
            }
            let pause = Timespec::try_from(Duration::from_millis(10)).map_err(io::Error::other);
            let pause = pause.doing("waiting for loans")?;
            poll(&mut [PollFd::new(&self.socket, PollFlags::empty())], Some(&pause))
                .doing("waiting for loans")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_does_not_fit_into_a_packet_is_fragmented() {
        let is_possible = |kind, size, mtu| Flood { kind, size, mtu, runs: Vec::new() }.is_possible();
        for kind in [QueuedSend::Fragments, QueuedSend::Spliced] {
            assert!(!is_possible(kind, 1024, 1500) && is_possible(kind, 2048, 1500), "{kind:?}");
            assert!(!is_possible(kind, 8192, 9000) && is_possible(kind, 16_384, 9000), "{kind:?}");
        }
        assert!(SIZES.iter().all(|size| is_possible(QueuedSend::Lent, *size, 1500)));
        assert!(is_possible(QueuedSend::Lent, 32_768, 576) && !is_possible(QueuedSend::Lent, 61_440, 576));
    }
}
