//! The ring, over loopback sockets. It has its own test runner: a missing io_uring is neither a pass nor a
//! failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

use std::io::{self, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use wirepath_sys::region::Region;
use wirepath_sys::ring::{BufferIndex, Refused, Ring, Socket};
use wirepath_sys::socket::set_segment;
use wirepath_testkit::udp::close_port;
use wirepath_testkit::{trial, trials};

fn main() -> std::process::ExitCode {
    let missing = Ring::new(8, 8).err().map(|error| error.to_string());
    let tests = trials![
        trains_arrive_and_answer_twice,
        many_buffers_and_sockets_in_one_call,
        notifications_do_not_pile_up,
        what_lies_outside_is_refused,
        a_full_queue_says_so,
        a_full_socket_is_told_and_nothing_is_sent,
        errors_of_the_network_are_told,
        what_the_kernel_copied_is_counted,
        a_region_stays_while_its_bytes_are_in_flight,
        a_ring_dropped_with_bytes_in_flight_loses_none,
        waiting_submits_nothing_and_has_no_end,
        a_table_that_is_full_says_so_and_has_room_again,
        another_thread_is_refused,
        a_queued_send_keeps_its_socket_open,
        a_filter_that_forbids_it_is_told,
    ];
    trial::run_needing(missing, tests)
}

const PACKET: usize = 1328;

/// Bytes that differ from the bytes at nearby offsets.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn region(length: usize) -> Arc<Region> {
    let region = Region::new::<io::Error>(length, |bytes| {
        bytes.copy_from_slice(&pattern(length));
        Ok(())
    });
    Arc::new(region.unwrap())
}

/// Ring with a new region as a single buffer.
fn ring_with(length: usize) -> (Ring, Arc<Region>, BufferIndex) {
    let (mut ring, region) = (Ring::new(64, 8).unwrap(), region(length));
    let index = ring.register(&region, 0..length).unwrap();
    (ring, region, index)
}

fn udp() -> (Socket, UdpSocket) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    set_segment(sender.as_fd(), PACKET as u16).unwrap();
    (Arc::new(sender), receiver)
}

fn submit(ring: &mut Ring) -> Vec<(u64, Result<u32, Errno>)> {
    let mut answers = Vec::new();
    ring.submit(|token, result| answers.push((token, result)));
    answers
}

fn trains_arrive_and_answer_twice() {
    let (mut ring, _, index) = ring_with(300_000);
    let (socket, receiver) = udp();
    // Odd offsets, ranges across pages, a short last packet.
    let (length, expected) = (40 * PACKET + 100, pattern(300_000));
    for (token, start) in [(7, 0), (8, 4095), (9, 100_001)] {
        ring.send(Arc::clone(&socket), index, start..start + length, token).unwrap();
        assert_eq!(ring.queued(), 1);
        assert_eq!(submit(&mut ring), [(token, Ok(length as u32))]);
        assert_eq!(ring.queued(), 0);
        let mut buffer = vec![0; 65_536];
        for packet in expected[start..start + length].chunks(PACKET) {
            let received = receiver.recv(&mut buffer).unwrap();
            assert!(buffer[..received] == *packet);
        }
    }
    assert!(ring.drain(Duration::from_secs(5)));
    assert_eq!(ring.in_flight(), 0);
}

fn many_buffers_and_sockets_in_one_call() {
    let mut ring = Ring::new(64, 8).unwrap();
    let regions = [region(50_000), region(60_000)];
    let indices =
        [ring.register(&regions[0], 0..50_000).unwrap(), ring.register(&regions[1], 10_000..60_000).unwrap()];
    let pairs: Vec<_> = (0..20).map(|_| udp()).collect();
    for (number, (socket, _)) in pairs.iter().enumerate() {
        let start = 20_000 + number * 1000;
        ring.send(Arc::clone(socket), indices[number % 2], start..start + PACKET, number as u64).unwrap();
    }
    let expected: Vec<_> = (0..20).map(|token| (token, Ok(PACKET as u32))).collect();
    assert_eq!(submit(&mut ring), expected);
    let (stored, mut buffer) = (pattern(60_000), [0; 2000]);
    for (number, (_, receiver)) in pairs.iter().enumerate() {
        let start = 20_000 + number * 1000;
        assert_eq!(receiver.recv(&mut buffer).unwrap(), PACKET);
        assert!(buffer[..PACKET] == stored[start..start + PACKET]);
    }
}

/// Promise: The ring takes notifications of completed zero-copy sends as fast as it sends: none pile up.
///
/// Each call brings the notifications of earlier sends, whatever their number.
fn notifications_do_not_pile_up() {
    const SENDS: usize = 256;
    const ROUNDS: usize = 20;
    let mut ring = Ring::new(SENDS as u32, 8).unwrap();
    let region = region(50_000);
    let index = ring.register(&region, 0..50_000).unwrap();
    let pairs: Vec<_> = (0..16).map(|_| udp()).collect();
    let mut buffer = [0; 2000];
    for _ in 0..ROUNDS {
        for send in 0..SENDS {
            let (socket, _) = &pairs[send % pairs.len()];
            ring.send(Arc::clone(socket), index, 0..PACKET, send as u64).unwrap();
        }
        assert_eq!(submit(&mut ring).len(), SENDS);
        for send in 0..SENDS {
            assert_eq!(pairs[send % pairs.len()].1.recv(&mut buffer).unwrap(), PACKET);
        }
        // A receiver on this machine has its own copy: all sends are done.
        assert!(ring.in_flight() <= SENDS, "{} of {SENDS} sends have no notification", ring.in_flight());
    }
    ring.reap_completions();
    assert_eq!(ring.in_flight(), 0, "one call of reap_completions reaps all");
}

fn what_lies_outside_is_refused() {
    let (mut ring, region, _) = ring_with(50_000);
    let middle = ring.register(&region, 10_000..20_000).unwrap();
    let (socket, _receiver) = udp();
    let send = |ring: &mut Ring, range| ring.send(Arc::clone(&socket), middle, range, 0);
    for range in [9_999..11_000, 19_000..20_001, 12_000..12_000, usize::MAX - 1..usize::MAX] {
        assert_eq!(send(&mut ring, range), Err(Refused::Outside));
    }
    assert_eq!(send(&mut ring, 10_000..10_010), Ok(()));
    submit(&mut ring);
    ring.unregister(middle);
    assert_eq!(send(&mut ring, 10_000..10_010), Err(Refused::Outside));
    for range in [0..0, 0..50_001, 60_000..60_001] {
        assert_eq!(ring.register(&region, range).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}

fn a_full_queue_says_so() {
    let (mut ring, _, index) = ring_with(50_000);
    let (socket, _receiver) = udp();
    let room = ring.room();
    for token in 0..room as u64 {
        ring.send(Arc::clone(&socket), index, 0..100, token).unwrap();
    }
    assert_eq!(ring.send(Arc::clone(&socket), index, 0..100, 0), Err(Refused::Full));
    assert_eq!(submit(&mut ring).len(), room);
    assert_eq!(ring.send(socket, index, 0..100, 0), Ok(()));
}

fn a_full_socket_is_told_and_nothing_is_sent() {
    let (mut ring, _, index) = ring_with(50_000);
    let (server, mut client) = tcp();
    let mut sent = 0;
    loop {
        ring.send(Arc::clone(&server), index, 0..50_000, 1).unwrap();
        match submit(&mut ring)[..] {
            [(1, Ok(taken))] => sent += taken as usize,
            [(1, Err(Errno::AGAIN))] => break,
            ref other => panic!("{other:?}"),
        }
    }
    drop((server, ring));
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert_eq!(received.len(), sent);
}

fn errors_of_the_network_are_told() {
    let (mut ring, _, index) = ring_with(100_000);
    let (socket, receiver) = udp();
    ring.send(Arc::clone(&socket), index, 0..70_000, 1).unwrap();
    assert_eq!(submit(&mut ring), [(1, Err(Errno::MSGSIZE))]);
    close_port(&receiver);
    ring.send(Arc::clone(&socket), index, 0..100, 2).unwrap();
    assert_eq!(submit(&mut ring), [(2, Ok(100))]);
    ring.send(Arc::clone(&socket), index, 0..100, 3).unwrap();
    assert_eq!(submit(&mut ring), [(3, Err(Errno::CONNREFUSED))]);
    assert!(ring.drain(Duration::from_secs(5)), "also what failed is over at some time");
}

/// Promise: Zero-copy sends that the kernel copied anyway are counted and shown.
///
/// On loopback the kernel copies all sends, and reports that. Failed sends do not count as copies.
fn what_the_kernel_copied_is_counted() {
    let (mut ring, _, index) = ring_with(100_000);
    let Some(0) = ring.copied() else { panic!("a kernel before 6.2 does not say: {:?}", ring.copied()) };
    let (datagrams, receiver) = udp();
    let (stream, mut client) = tcp();
    for (token, socket, length) in
        [(1, &datagrams, 20 * PACKET), (2, &datagrams, 70_000), (3, &stream, 50_000)]
    {
        ring.send(Arc::clone(socket), index, 0..length, token).unwrap();
    }
    let sent = (20 * PACKET) as u32;
    assert_eq!(submit(&mut ring), [(1, Ok(sent)), (2, Err(Errno::MSGSIZE)), (3, Ok(50_000))]);
    client.read_exact(&mut [0; 50_000]).unwrap();
    assert!(ring.drain(Duration::from_secs(5)));
    assert_eq!(ring.copied(), Some(2));
    close_port(&receiver);
    ring.send(Arc::clone(&datagrams), index, 0..100, 4).unwrap();
    ring.send(datagrams, index, 0..100, 5).unwrap();
    assert_eq!(submit(&mut ring), [(4, Ok(100)), (5, Err(Errno::CONNREFUSED))]);
    assert!(ring.drain(Duration::from_secs(5)));
    // The first send reached this host, though no receiver; the second did not leave a socket.
    assert_eq!(ring.copied(), Some(3));
}

/// Connection whose client reads nothing yet, so that sent data stays in flight.
fn tcp() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (Arc::new(server), client)
}

/// Sends the region repeatedly until the connection is full; returns the number of bytes sent.
fn fill(ring: &mut Ring, socket: &Socket, index: BufferIndex, length: usize) -> usize {
    let mut sent = 0;
    while let Ok(taken) = {
        let start = sent % length;
        ring.send(Arc::clone(socket), index, start..length, 0).unwrap();
        submit(ring)[0].1
    } {
        sent += taken as usize;
    }
    sent
}

fn ensure_all_comes(client: &mut TcpStream, sent: usize, length: usize) {
    let mut received = vec![0; sent];
    client.read_exact(&mut received).unwrap();
    let stored = pattern(length);
    assert!(received.chunks(length).all(|chunk| *chunk == stored[..chunk.len()]), "other bytes came");
}

/// Promise: Memory that is being sent stays unchanged until the network has released it.
fn a_region_stays_while_its_bytes_are_in_flight() {
    const LENGTH: usize = 1 << 20;
    let (mut ring, region, index) = ring_with(LENGTH);
    let (server, mut client) = tcp();
    let sent = fill(&mut ring, &server, index, LENGTH);
    assert!(!ring.drain(Duration::ZERO), "nothing is in flight, so this shows nothing");
    ring.unregister(index);
    assert_eq!(ring.send(Arc::clone(&server), index, 0..1, 0), Err(Refused::Outside));
    assert_eq!(Arc::strong_count(&region), 2, "the ring let go too early");
    ensure_all_comes(&mut client, sent, LENGTH);
    assert!(ring.drain(Duration::from_secs(5)));
    assert_eq!(Arc::strong_count(&region), 1, "the ring did not let go");
}

/// Promise: Memory that is being sent stays unchanged until the network has released it.
fn a_ring_dropped_with_bytes_in_flight_loses_none() {
    const LENGTH: usize = 1 << 20;
    let (mut ring, region, index) = ring_with(LENGTH);
    let (server, mut client) = tcp();
    let sent = fill(&mut ring, &server, index, LENGTH);
    assert!(ring.in_flight() > 0, "nothing is in flight, so this shows nothing");
    drop((ring, region));
    // Newly allocated memory must not be memory that is still being sent.
    let _other = Region::new::<io::Error>(LENGTH, |bytes| {
        bytes.fill(0xee);
        Ok(())
    });
    ensure_all_comes(&mut client, sent, LENGTH);
}

/// Promise: A train that a full socket refuses is sent later; no train is lost or sent twice.
///
/// With queued sends, or a failed ring, there is nothing to wait for; otherwise any time limit is possible.
fn waiting_submits_nothing_and_has_no_end() {
    const LENGTH: usize = 1 << 20;
    let (mut ring, _, index) = ring_with(LENGTH);
    let (server, mut client) = tcp();
    let sent = fill(&mut ring, &server, index, LENGTH);
    let (socket, receiver) = udp();
    ring.send(socket, index, 0..100, 1).unwrap();
    assert!(!ring.drain(Duration::MAX), "bytes are in flight");
    assert_eq!(ring.queued(), 1);
    receiver.set_nonblocking(true).unwrap();
    assert!(receiver.recv(&mut [0; 200]).is_err(), "it was submitted");
    assert_eq!(submit(&mut ring), [(1, Ok(100))]);
    let reader = std::thread::spawn(move || ensure_all_comes(&mut client, sent, LENGTH));
    assert!(ring.drain(Duration::MAX));
    reader.join().unwrap();
    let broken = std::thread::spawn(move || {
        ring.send(server, index, 0..100, 2).unwrap();
        assert_eq!(submit(&mut ring), [(2, Err(Errno::AGAIN))]);
        assert!(!ring.drain(Duration::MAX), "what was never taken does not come back");
    });
    broken.join().unwrap();
}

fn a_table_that_is_full_says_so_and_has_room_again() {
    let (mut ring, region) = (Ring::new(8, 2).unwrap(), region(4096));
    let first = ring.register(&region, 0..4096).unwrap();
    ring.register(&region, 0..100).unwrap();
    assert_eq!(ring.register(&region, 0..100).unwrap_err().raw_os_error(), Some(libc::ENOBUFS));
    ring.unregister(first);
    let again = ring.register(&region, 100..200).unwrap();
    let (socket, receiver) = udp();
    ring.send(socket, again, 100..200, 0).unwrap();
    submit(&mut ring);
    let mut buffer = [0; 200];
    assert_eq!(receiver.recv(&mut buffer).unwrap(), 100);
    assert!(buffer[..100] == pattern(200)[100..]);
}

/// Errors of a ring on another thread, and of a failed ring.
fn another_thread_is_refused() {
    let (mut ring, region, index) = ring_with(4096);
    let (socket, _receiver) = udp();
    let answers = std::thread::spawn(move || {
        assert!(ring.register(&region, 0..1).is_err());
        ring.send(Arc::clone(&socket), index, 0..100, 5).unwrap();
        let answers = submit(&mut ring);
        assert_eq!(ring.send(socket, index, 0..100, 6), Err(Refused::Broken(Errno::EXIST)));
        answers
    });
    assert_eq!(answers.join().unwrap(), [(5, Err(Errno::AGAIN))]);
}

fn a_queued_send_keeps_its_socket_open() {
    let (mut ring, _, index) = ring_with(4096);
    let (socket, receiver) = udp();
    ring.send(socket, index, 0..100, 1).unwrap(); // and there is no other owner
    assert_eq!(submit(&mut ring), [(1, Ok(100))]);
    assert_eq!(receiver.recv(&mut [0; 200]).unwrap(), 100);
}

/// Promise: Without io_uring or enough locked memory, the server logs this once and uses another path.
///
/// As in a container: the call itself fails with `EPERM`, here by a filter for one thread only.
fn a_filter_that_forbids_it_is_told() {
    let made = std::thread::spawn(|| {
        forbid(libc::SYS_io_uring_setup).unwrap();
        Ring::new(8, 8).map(drop)
    });
    let error = made.join().unwrap().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    assert!(Ring::new(8, 8).is_ok(), "other threads may");
}

/// Makes calls of this number by the calling thread fail with `EPERM` from now on.
fn forbid(call: libc::c_long) -> io::Result<()> {
    let statement = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0), // seccomp_data.nr
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the call takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the filter points to the program above, which outlives the call; the kernel copies it.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
