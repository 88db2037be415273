//! The paths by the kernel module: every packet and byte, and the same errors as other paths have. A runner of its own: where the
//! module is not loaded, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod example;
#[path = "../../sys/tests/needing/mod.rs"]
mod needing;

use std::io::Write;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use example::{Example, HOSTS, cases};
use needing::trials;
use proptest::prelude::*;
use rustix::fs::{Advice, fadvise, fstatfs};
use wirepath_datapath::{BlockPath, BlockSink, Extent, Headers, Medium, Path, Scratch, SendError};

fn main() -> std::process::ExitCode {
    let missing = Scratch::default().open_module().err().map(|error| error.to_string());
    let tests = trials![
        stored_headers,
        own_headers,
        generated_headers,
        a_start_in_the_middle_of_a_packet,
        a_run_of_any_length_is_one_call,
        a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind,
        what_is_not_in_memory_is_read_and_not_waited_for,
        a_closed_port_is_told,
        datagrams_arrive_whole,
        blocks_of_a_truncated_file_are_an_error_of_storage,
        blocks_to_a_closed_port_are_told,
    ];
    needing::run(missing, tests)
}

/// What `statfs` says of a tmpfs (`TMPFS_MAGIC`).
const TMPFS: i64 = 0x0102_1994;

fn by_module() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| path.needs_module())
}

fn blocks_by_module() -> impl Iterator<Item = (BlockPath, &'static str)> {
    let paths = BlockPath::ALL.into_iter().filter(|path| path.needs_module());
    paths.flat_map(|path| HOSTS.map(|host| (path, host)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    fn stored_headers(
        offset in 0usize..9000, payload in 1usize..1400, packets in 1u32..40, last in 1usize..1400,
    ) {
        let example = Example::new(Headers::Stored, offset, payload, packets, last.min(payload));
        for path in by_module() {
            prop_assert_eq!(example.is_delivered(path), Ok(()));
        }
    }

    fn own_headers(
        offset in 0usize..9000, packets in 1u32..40, sequence_offset: u16, timestamp_offset: u32, marker: bool,
    ) {
        let headers = Headers::Own { sequence_offset, timestamp_offset, marker };
        let example = Example::new(headers, offset, 1316, packets, 188);
        for path in by_module() {
            prop_assert_eq!(example.is_delivered(path), Ok(()));
        }
    }

    fn generated_headers(
        offset in 0usize..9000, payload in 1usize..9000, packets in 1u32..6, last in 1usize..9000, step: u32,
    ) {
        for step in [step, step & !0xffff] {
            let example = Example::with_step(step, Headers::Generated, offset, payload, packets, last.min(payload));
            for path in by_module() {
                prop_assert_eq!(example.is_delivered(path), Ok(()));
            }
        }
    }

    fn datagrams_arrive_whole(
        offset in 0usize..9000, packet in 1usize..9000, packets in 1usize..6, last in 1usize..9000,
    ) {
        let length = packet * (packets - 1) + last.min(packet);
        let (medium, bytes) = medium(offset + length);
        for (path, host) in blocks_by_module() {
            let (sink, receiver) = udp(host, packet as u16, path);
            let mut scratch = Scratch::default();
            let a_call = if path.takes_runs() { length } else { packet };
            let mut start = offset;
            while start < bytes.len() {
                let extent = Extent { offset: start as u64, length: a_call.min(bytes.len() - start) };
                start += path.send(&sink, &medium, extent, &mut scratch).unwrap();
            }
            for (index, expected) in bytes[offset..].chunks(packet).enumerate() {
                let mut buffer = vec![0; 65_536];
                let length = receiver.recv(&mut buffer).unwrap();
                prop_assert!(&buffer[..length] == expected, "{} to {}: datagram {}", path, host, index);
            }
        }
    }
}

fn a_start_in_the_middle_of_a_packet() {
    by_module().for_each(cases::begins_in_the_middle_of_a_packet);
}

/// More packets than any train has.
fn a_run_of_any_length_is_one_call() {
    let example = Example::with_step(90 << 16, Headers::Generated, 1, 100, 200, 7);
    for path in by_module().filter(|path| path.takes_runs()) {
        for host in HOSTS {
            let (sink, receiver) = example.sink_to(host, path);
            let sent =
                path.send(&sink, &example.medium, &example.train, example.headers, &mut Scratch::default());
            assert_eq!(sent, Ok(200), "{path} to {host}");
            assert_eq!(example.has_arrived(&receiver), Ok(()), "{path} to {host}");
        }
    }
}

fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind() {
    by_module().for_each(cases::says_that_a_file_was_truncated);
}

/// As an engine needs it: it comes back when the socket is full, and finds the pages.
fn what_is_not_in_memory_is_read_and_not_waited_for() {
    for path in [Path::Krtpsendfile, Path::Rtpsendfile, Path::Sendfilew] {
        let example = Example::new(Headers::Generated, 0, 1316, 40, 1316);
        let file = example.medium.file();
        if fstatfs(file).unwrap().f_type == TMPFS {
            println!("{path}: files of a tmpfs are never anywhere else than in memory");
            continue;
        }
        file.sync_all().unwrap();
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        let (sink, receiver) = example.sink_to(HOSTS[0], path);
        let (mut scratch, mut rest, mut waits) = (Scratch::default(), Some(example.train), 0);
        let patience = Instant::now() + Duration::from_secs(60);
        while let Some(train) = rest {
            match path.send(&sink, &example.medium, &train, example.headers, &mut scratch) {
                Ok(sent) => rest = train.after(sent),
                Err(SendError::Full { .. }) if Instant::now() < patience => {
                    waits += 1;
                    std::thread::yield_now();
                }
                Err(error) => panic!("{path}: {error}"),
            }
        }
        assert!(waits > 0, "{path} has waited for storage");
        assert_eq!(example.has_arrived(&receiver), Ok(()), "{path}");
    }
}

fn a_closed_port_is_told() {
    by_module().for_each(cases::says_that_a_port_is_closed);
}

fn blocks_of_a_truncated_file_are_an_error_of_storage() {
    for (path, host) in blocks_by_module() {
        let (medium, bytes) = medium(9000);
        let extent = Extent { offset: 0, length: bytes.len() };
        let (sink, receiver) = udp(host, 9000, path);
        let mut scratch = Scratch::default();
        medium.file().set_len(0).unwrap();
        let error = path.send(&sink, &medium, extent, &mut scratch).unwrap_err();
        assert!(matches!(error, SendError::Storage { .. }), "{path} to {host}: {error:?}");
        medium.file().write_all_at(&bytes, 0).unwrap();
        assert_eq!(path.send(&sink, &medium, extent, &mut scratch), Ok(bytes.len()), "{path}");
        let mut buffer = vec![0; 65_536];
        let length = receiver.recv(&mut buffer).unwrap();
        assert!(buffer[..length] == bytes, "{path} to {host}: other bytes arrived");
    }
}

fn blocks_to_a_closed_port_are_told() {
    let (medium, _) = medium(1000);
    for (path, host) in blocks_by_module() {
        let (sink, receiver) = udp(host, 1000, path);
        drop(receiver);
        let mut scratch = Scratch::default();
        let mut send = || path.send(&sink, &medium, Extent { offset: 0, length: 1000 }, &mut scratch);
        let refused = send().and_then(|_| send());
        assert!(matches!(refused, Err(SendError::Refused { .. })), "{path} to {host}: {refused:?}");
    }
}

fn medium(length: usize) -> (Medium, Vec<u8>) {
    let bytes: Vec<u8> = (0..length as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    (Medium::new(file, length as u64).unwrap(), bytes)
}

fn udp(host: &str, packet_size: u16, path: BlockPath) -> (BlockSink, UdpSocket) {
    let receiver = UdpSocket::bind(host).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = UdpSocket::bind(host).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (BlockSink::udp(sender, packet_size, path).unwrap(), receiver)
}
