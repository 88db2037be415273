//! Lent memory that is written, moved and freed while its packets wait in a slow queue. It has its own test
//! runner: if userfaultfd, io_uring or a network namespace is not available, tests are skipped and counted.
//!
//!   127.0.0.1 ----- lo, a token bucket of 400 Mbit/s ----- 127.0.0.1

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use wirepath_sys::lender::{self, Lender};
use wirepath_sys::write_guard::WriteGuard;
use wirepath_testkit::{trial, trials};

/// True if a question for a guard, before there was one, started one or its thread.
static QUESTION_STARTED: AtomicBool = AtomicBool::new(false);

fn main() -> std::process::ExitCode {
    let (guard, threads) = (WriteGuard::started(), std::fs::read_dir("/proc/self/task").unwrap().count());
    QUESTION_STARTED.store(guard.is_some() || threads != 1, Relaxed);
    let missing = thread::spawn(|| slow_loopback().and_then(|()| Ok(Lender::new().map(drop)?)))
        .join()
        .unwrap()
        .err()
        .map(|error| format!("{error:#}"));
    let tests = trials![
        a_million_writes_during_sends_do_not_reach_the_packets,
        writes_to_memory_that_is_lent_without_a_guard_reach_the_packets,
        datagrams_keep_their_bytes,
        a_million_writes_during_sends_do_not_reach_datagrams,
        threads_that_write_at_the_same_time_lose_no_write,
        the_kernel_writes_to_lent_memory,
        freed_memory_is_sent_as_it_was,
        moved_memory_stays_guarded,
        memory_of_two_areas_keeps_its_bytes,
        a_dropped_lender_leaves_writable_memory,
        memory_that_cannot_be_guarded_is_not_lent,
        memory_of_a_memfd_is_copied,
        untouched_memory_is_guarded,
        loans_that_are_over_protect_nothing,
        a_send_that_failed_is_not_made_later,
        only_a_lender_starts_the_guard,
    ];
    trial::run_needing(missing, tests)
}

/// Moves this thread to a network namespace in which packets wait.
fn slow_loopback() -> Result<()> {
    wirepath_sys::namespace::leave_network()?;
    for command in ["ip link set lo up", "tc qdisc add dev lo root tbf rate 400mbit burst 128k latency 10s"] {
        let status = Command::new("sh").args(["-c", command]).status()?;
        ensure!(status.success(), "{command}: {status}");
    }
    Ok(())
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state as usize
}

/// Connection through the slow queue, with a thread that reads all data.
struct Connection {
    sender: TcpStream,
    received: JoinHandle<Vec<u8>>,
    expected: Vec<u8>,
}

impl Connection {
    fn new() -> Result<Connection> {
        slow_loopback()?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let sender = TcpStream::connect(listener.local_addr()?)?;
        let (mut receiver, _) = listener.accept()?;
        let received = thread::spawn(move || {
            let mut bytes = Vec::new();
            receiver.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Ok(Connection { sender, received, expected: Vec::new() })
    }

    /// Lends all bytes.
    fn lend(&mut self, lender: &mut Lender, mut bytes: &[u8]) -> Result<()> {
        self.expected.extend_from_slice(bytes);
        while !bytes.is_empty() {
            match lender.send(self.sender.as_fd(), bytes, 0) {
                Ok(Some(taken)) => bytes = &bytes[taken..],
                Ok(None) => lender.collect()?,
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&self.sender, PollFlags::OUT)], None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Ends the connection, and compares the received bytes.
    fn ensure_equal(self) -> Result<()> {
        drop(self.sender);
        let received = self.received.join().unwrap();
        let first = received.iter().zip(&self.expected).position(|(got, expected)| got != expected);
        ensure!(first.is_none(), "byte {first:?} of {} is another", received.len());
        ensure!(received.len() == self.expected.len(), "{} of {}", received.len(), self.expected.len());
        Ok(())
    }
}

/// Promise: A write to lent memory does not wait, and the packet keeps the bytes as of the send.
fn a_million_writes_during_sends_do_not_reach_the_packets() -> Result<()> {
    const LENGTH: usize = 64 * 1024;
    const ROUNDS: usize = 1000;
    let mut connection = Connection::new()?;
    let (mut lender, mut state) = (Lender::new()?, 88_172_645_463_325_252);
    let guard = WriteGuard::of_process()?;
    let (faults, mut out) = (guard.write_faults(), 0);
    let mut buffer = vec![0_u8; LENGTH + 3];
    let mut model = buffer.clone();
    for round in 0..ROUNDS {
        // Ranges from any offset in a page, and overlapping: only some pages of the buffer at a time.
        let start = random(&mut state) % (LENGTH / 2);
        let end = start + 1 + random(&mut state) % (LENGTH / 2);
        connection.lend(&mut lender, &buffer[start..end])?;
        out += usize::from(lender.out() > 0);
        for _ in 0..1_000_000 / ROUNDS {
            let (at, value) = (random(&mut state) % buffer.len(), random(&mut state) as u8);
            (buffer[at], model[at]) = (value, value);
        }
        ensure!(buffer == model, "round {round}: writes were lost");
    }
    ensure!(out > ROUNDS / 2, "only {out} times something was lent when it was written");
    let faults = guard.write_faults() - faults;
    ensure!(faults > 100, "only {faults} writes had to wait for a copy");
    connection.ensure_equal()
}

/// Control test, without which the others would prove nothing: the queue really sends from the pages, and
/// late.
fn writes_to_memory_that_is_lent_without_a_guard_reach_the_packets() -> Result<()> {
    // On a busy machine a packet may have left before it could be changed.
    let mut tries = 0..20;
    while tries.next().is_some() {
        if write_unguarded()? {
            return Ok(());
        }
    }
    anyhow::bail!("the packets were always sent before they could be changed")
}

/// Returns whether a write after the send was received.
fn write_unguarded() -> Result<bool> {
    let connection = Connection::new()?;
    wirepath_sys::zerocopy::enable(connection.sender.as_fd())?;
    let mut buffer = vec![1_u8; 256 * 1024];
    let mut taken = 0;
    for _ in 0..4 {
        let flags = libc::MSG_ZEROCOPY | libc::MSG_DONTWAIT;
        // SAFETY: the kernel reads this memory, also when it is written below: that is the test.
        let sent =
            unsafe { libc::send(connection.sender.as_raw_fd(), buffer.as_ptr().cast(), buffer.len(), flags) };
        taken += usize::try_from(sent).unwrap_or(0);
    }
    buffer.fill(2);
    std::hint::black_box(&mut buffer);
    drop(connection.sender);
    let received = connection.received.join().unwrap();
    ensure!(received.len() == taken, "{} of {taken}", received.len());
    Ok(received.contains(&2))
}

fn datagrams_keep_their_bytes() -> Result<()> {
    const LENGTH: usize = 40_000;
    slow_loopback()?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_secs(60)))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    let mut lender = Lender::new()?;
    let mut buffer = vec![0; LENGTH + 5];
    let mut received = vec![0; LENGTH];
    let mut lent = 0;
    for round in 0..50_u8 {
        // As many sends as the receiver has room for.
        for part in 0..3 {
            buffer.fill(3 * round + part);
            match lender.send(sender.as_fd(), &buffer[5..], 0)? {
                Some(taken) => lent += usize::from(taken == LENGTH),
                None => drop(sender.send(&buffer[5..])?),
            }
        }
        buffer.fill(255);
        for part in 0..3 {
            ensure!(receiver.recv(&mut received)? == LENGTH, "a part of a datagram");
            let expected = 3 * round + part;
            ensure!(received.iter().all(|&byte| byte == expected), "round {round}, part {part}");
        }
    }
    ensure!(lent > 0, "none was lent");
    Ok(())
}

/// Promise: A write to lent memory does not wait, and the packet keeps the bytes as of the send.
///
/// Ranges of up to 49,000 bytes, from any offset in a page; writes anywhere in the buffer.
fn a_million_writes_during_sends_do_not_reach_datagrams() -> Result<()> {
    const LENGTH: usize = 96 * 1024;
    const ROUNDS: usize = 500;
    slow_loopback()?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(Duration::from_secs(60)))?;
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, 1 << 26)?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    sender.set_nonblocking(true)?;
    rustix::net::sockopt::set_socket_send_buffer_size_force(&sender, 1 << 26)?;
    let (mut lender, mut state) = (Lender::new()?, 88_172_645_463_325_252);
    let (mut expected, mut were_out) = (Vec::new(), 0);
    let mut buffer = vec![0_u8; LENGTH];
    let mut model = buffer.clone();
    for round in 0..ROUNDS {
        let start = random(&mut state) % (LENGTH / 2);
        let end = start + 1 + random(&mut state) % 49_000;
        expected.push(buffer[start..end].to_vec());
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        let taken = loop {
            // While other loans are out, or another test protects pages, nothing can be lent.
            match lender.send(sender.as_fd(), &buffer[start..end], 0)? {
                Some(taken) => break taken,
                None => lender.collect()?,
            }
            ensure!(std::time::Instant::now() < deadline, "round {round}: it cannot be lent");
            thread::yield_now();
        };
        ensure!(taken == end - start, "round {round}: {taken} bytes of a datagram were sent");
        for _ in 0..1_000_000 / ROUNDS {
            let (at, value) = (random(&mut state) % buffer.len(), random(&mut state) as u8);
            (buffer[at], model[at]) = (value, value);
        }
        ensure!(buffer == model, "round {round}: writes were lost");
        lender.collect()?;
        were_out += usize::from(lender.out() > 0);
    }
    ensure!(were_out > ROUNDS / 10, "only after {were_out} rounds of writes a loan was still out");
    let mut received = vec![0; 1 << 16];
    for (number, expected) in expected.iter().enumerate() {
        let length = receiver.recv(&mut received)?;
        ensure!(received[..length] == expected[..], "datagram {number} differs");
    }
    Ok(())
}

fn threads_that_write_at_the_same_time_lose_no_write() -> Result<()> {
    const CELLS: usize = 16 * 1024;
    const WRITERS: usize = 3;
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    let cells: Vec<AtomicU32> = (0..CELLS).map(|_| AtomicU32::new(0)).collect();
    let is_over = AtomicBool::new(false);
    // Each cell has a single writer, which knows its last written value.
    let write = |writer: usize| {
        let (mut written, mut state) = (vec![0_u32; CELLS], 77 + writer as u64);
        let mut lost = 0;
        while !is_over.load(Relaxed) {
            let cell = random(&mut state) % (CELLS / WRITERS) * WRITERS + writer;
            lost += usize::from(cells[cell].load(Relaxed) != written[cell]);
            written[cell] = random(&mut state) as u32;
            cells[cell].store(written[cell], Relaxed);
        }
        let differ = |cell: &usize| cells[*cell].load(Relaxed) != written[*cell];
        lost + (writer..CELLS / WRITERS * WRITERS).step_by(WRITERS).filter(differ).count()
    };
    // SAFETY: the cells live as long; only the kernel reads these bytes, whatever they are at the moment.
    let bytes = unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<u8>(), 4 * CELLS) };
    let mut sent = 0;
    let lost: usize = thread::scope(|scope| -> Result<usize> {
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        for _ in 0..300 {
            match lender.send(connection.sender.as_fd(), bytes, 0) {
                Ok(taken) => sent += taken.unwrap_or(0),
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&connection.sender, PollFlags::OUT)], None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        is_over.store(true, Relaxed);
        Ok(writers.into_iter().map(|writer| writer.join().unwrap()).sum())
    })?;
    connection.expected.clear();
    drop(connection.sender);
    ensure!(connection.received.join().unwrap().len() == sent, "the connection lost bytes");
    ensure!(lost == 0, "{lost} writes were lost");
    Ok(())
}

fn the_kernel_writes_to_lent_memory() -> Result<()> {
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    let mut file = tempfile::tempfile()?;
    file.write_all(&[7; 100_000])?;
    let mut buffer = vec![3_u8; 100_000];
    for round in 0..20 {
        buffer.fill(round);
        connection.lend(&mut lender, &buffer)?;
        file.seek(SeekFrom::Start(0))?;
        file.read_exact(&mut buffer)?;
        ensure!(buffer.iter().all(|&byte| byte == 7), "round {round}");
    }
    connection.ensure_equal()
}

fn freed_memory_is_sent_as_it_was() -> Result<()> {
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    for round in 0..100_u8 {
        // Small buffers come from the heap; large buffers are mapped and unmapped by the allocator.
        let length = if round % 2 == 0 { 40_000 } else { 400_000 };
        connection.lend(&mut lender, &vec![round; length])?;
        let other = vec![255; length];
        ensure!(other.iter().all(|&byte| byte == 255), "round {round}");
    }
    connection.ensure_equal()
}

fn moved_memory_stays_guarded() -> Result<()> {
    const LENGTH: usize = 256 * 1024;
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    for round in 0..50_u8 {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping, of which one slice at a time exists. Its front is moved to a fresh place, since the
        // rest leaves no room to grow; the rest is not accessed.
        let moved = unsafe {
            let old = libc::mmap(std::ptr::null_mut(), 2 * LENGTH, libc::PROT_NONE, flags, -1, 0);
            ensure!(old != libc::MAP_FAILED && libc::mprotect(old, LENGTH, protection) == 0, "no memory");
            std::slice::from_raw_parts_mut(old.cast::<u8>(), LENGTH).fill(round);
            connection.lend(&mut lender, std::slice::from_raw_parts(old.cast::<u8>(), LENGTH))?;
            let moved = libc::mremap(old, LENGTH, 4 * LENGTH, libc::MREMAP_MAYMOVE);
            ensure!(moved != libc::MAP_FAILED && moved != old, "it was not moved");
            libc::munmap(old.byte_add(LENGTH), LENGTH);
            std::slice::from_raw_parts_mut(moved.cast::<u8>(), 4 * LENGTH)
        };
        ensure!(moved[..LENGTH].iter().all(|&byte| byte == round), "round {round}");
        moved.fill(255);
        // SAFETY: the slice is not used any more.
        unsafe { libc::munmap(moved.as_mut_ptr().cast(), 4 * LENGTH) };
    }
    connection.ensure_equal()
}

/// The heap grows by areas that are separate from earlier areas.
fn memory_of_two_areas_keeps_its_bytes() -> Result<()> {
    const LENGTH: usize = 128 * 1024;
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, of which one slice at a time exists; advice makes its end another area.
    let bytes = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), LENGTH, protection, flags, -1, 0);
        ensure!(start != libc::MAP_FAILED, "mmap failed");
        let end = start.byte_add(LENGTH / 2);
        ensure!(libc::madvise(end, LENGTH / 2, libc::MADV_DONTDUMP) == 0, "madvise failed");
        std::slice::from_raw_parts_mut(start.cast::<u8>(), LENGTH)
    };
    for round in 0..20 {
        bytes.fill(round);
        connection.lend(&mut lender, bytes)?;
        bytes[LENGTH / 2 - 5000] = 100;
        let written = bytes.iter().filter(|&&byte| byte != round).count();
        ensure!(written == 1, "round {round}: {written} bytes are others");
    }
    connection.ensure_equal()
}

fn a_dropped_lender_leaves_writable_memory() -> Result<()> {
    let mut connection = Connection::new()?;
    let guard = WriteGuard::of_process()?;
    let mut buffer = vec![1_u8; 1 << 20];
    let mut lender = Lender::new()?;
    connection.lend(&mut lender, &buffer)?;
    ensure!(lender.out() > 0, "nothing is out");
    let faults = guard.write_faults();
    drop(lender);
    buffer.fill(2);
    ensure!(buffer.iter().all(|&byte| byte == 2), "writes were lost");
    let _others_write_meanwhile = guard.write_faults() - faults;
    connection.ensure_equal()
}

fn memory_that_cannot_be_guarded_is_not_lent() -> Result<()> {
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    let on_the_stack = [1_u8; 20_000];
    ensure!(lender.send(connection.sender.as_fd(), &on_the_stack, 0) == Ok(None), "the stack was lent");
    let program = File::open("/proc/self/exe")?;
    for flags in [libc::MAP_PRIVATE, libc::MAP_SHARED] {
        // SAFETY: a fresh mapping of a file that nobody writes to.
        let mapped = unsafe {
            let start =
                libc::mmap(std::ptr::null_mut(), 20_000, libc::PROT_READ, flags, program.as_raw_fd(), 0);
            ensure!(start != libc::MAP_FAILED, "mmap failed");
            std::slice::from_raw_parts(start.cast::<u8>(), 20_000)
        };
        ensure!(lender.send(connection.sender.as_fd(), mapped, 0) == Ok(None), "a file was lent");
    }
    // Refused bytes can be lent again from another location.
    let on_the_heap = on_the_stack.to_vec();
    connection.lend(&mut lender, &on_the_heap)?;
    connection.ensure_equal()
}

/// Promise: Shared memory, as of a memfd, is never lent by a guarded send: the caller copies it.
///
/// The page of a shared mapping cannot be replaced for its writers, and that of a private one not while it is the
/// file's. A private page that was written to is the process's own.
fn memory_of_a_memfd_is_copied() -> Result<()> {
    const LENGTH: usize = 64 * 1024;
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    let file = File::from(rustix::fs::memfd_create("lent", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.set_len(LENGTH as u64)?;
    for flags in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping, which is never unmapped and has this one slice.
        let bytes = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), LENGTH, protection, flags, file.as_raw_fd(), 0);
            ensure!(start != libc::MAP_FAILED, "mmap failed");
            std::slice::from_raw_parts_mut(start.cast::<u8>(), LENGTH)
        };
        for value in 1..=20 {
            if flags == libc::MAP_SHARED {
                bytes.fill(value);
            }
            let refused = lender::counts().refused;
            ensure!(lender.send(connection.sender.as_fd(), bytes, 0) == Ok(None), "a memfd was lent");
            ensure!(lender::counts().refused > refused, "it was not counted");
            connection.expected.extend_from_slice(bytes);
            connection.sender.write_all(bytes)?;
        }
        bytes.fill(255);
    }
    ensure!(lender.out() == 0, "{} loans are out", lender.out());
    connection.ensure_equal()
}

/// Promise: Memory that was never touched is guarded, too, from before it is lent.
fn untouched_memory_is_guarded() -> Result<()> {
    const PAGES: usize = 16;
    let length = PAGES * rustix::param::page_size();
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, which is never unmapped and has this one slice.
    let bytes = unsafe {
        let start = libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0);
        ensure!(start != libc::MAP_FAILED, "mmap failed");
        std::slice::from_raw_parts_mut(start.cast::<u8>(), length)
    };
    let guard = WriteGuard::of_process()?;
    let guarded = loop {
        match guard.enter(bytes) {
            Err(Errno::AGAIN) => thread::yield_now(), // another test protects
            guarded => break guarded?,
        }
    };
    let (mut pages, mut entries) = (File::open("/proc/self/pagemap")?, [0_u8; 8 * PAGES]);
    pages.seek(SeekFrom::Start((bytes.as_ptr().addr() / rustix::param::page_size() * 8) as u64))?;
    pages.read_exact(&mut entries)?;
    // Bit 57: protected by userfaultfd.
    let protected = entries.chunks(8).filter(|entry| entry[7] & 2 != 0).count();
    ensure!(protected == PAGES, "{protected} of {PAGES} pages are protected");
    bytes.fill(1);
    ensure!(bytes.iter().all(|&byte| byte == 1), "writes were lost");
    guard.over(guarded);
    Ok(())
}

fn loans_that_are_over_protect_nothing() -> Result<()> {
    let mut connection = Connection::new()?;
    let before = lender::counts();
    let mut lender = Lender::new()?;
    let buffer = vec![1_u8; 200_000];
    connection.lend(&mut lender, &buffer)?;
    // The queue drains at its own rate.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while lender.out() > 0 && std::time::Instant::now() < deadline {
        lender.collect()?;
        thread::yield_now();
    }
    ensure!(lender.out() == 0, "{} loans did not come back", lender.out());
    let after = lender::counts();
    ensure!(after.lent > before.lent && after.back > before.back, "{before:?}, {after:?}");
    ensure!(after.lent_bytes - before.lent_bytes >= 200_000, "{before:?}, {after:?}");
    connection.ensure_equal()
}

/// Promise: A send that failed in a lender's ring is never executed later.
fn a_send_that_failed_is_not_made_later() -> Result<()> {
    let mut connection = Connection::new()?;
    let mut lender = Lender::new()?;
    let ring = lender.as_fd().as_raw_fd();
    let kept = lender.as_fd().try_clone_to_owned()?;
    let other = File::open("/dev/null")?;
    let [first, second] = [1_u8, 2].map(|value| vec![value; 100_000]);
    let put_at_ring = |file: i32| {
        // SAFETY: the lender does not use its descriptor now.
        ensure!(unsafe { libc::dup2(file, ring) } == ring, "dup2: {}", std::io::Error::last_os_error());
        Ok(())
    };
    put_at_ring(other.as_raw_fd())?;
    let failed = lender.send(connection.sender.as_fd(), &first, 0);
    put_at_ring(kept.as_raw_fd())?;
    ensure!(failed == Ok(None), "lent by no ring: {failed:?}");
    let taken = lender.send(connection.sender.as_fd(), &second, 0)?.unwrap_or(0);
    connection.sender.write_all(&second[taken..])?;
    connection.expected = second;
    connection.ensure_equal()
}

/// Promise: A process that lends nothing has no guard and no thread of it, also if its counts are read.
fn only_a_lender_starts_the_guard() -> Result<()> {
    ensure!(!QUESTION_STARTED.load(Relaxed), "a question started a guard");
    let _lender = Lender::new()?;
    ensure!(WriteGuard::started().is_some(), "the guard of a lender is not seen");
    Ok(())
}
