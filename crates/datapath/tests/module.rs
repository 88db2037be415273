//! The paths by the kernel module: every packet and byte, and the same errors as other paths have. A runner
//! of its own: where the module is not loaded, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod block;
mod example;

use std::time::{Duration, Instant};

use block::{receive, storage_fails_and_leaves_nothing_behind, to_both_hosts, udp};
use example::delivered::Delivered;
use example::{Example, HOSTS};
use rustix::fs::{Advice, fadvise, fstatfs};
use wirepath_datapath::{BlockPath, DataPath, Headers, SendContext, SendError};
use wirepath_testkit::{trial, trials};

fn main() -> std::process::ExitCode {
    let missing = SendContext::default().open_module().err().map(|error| error.to_string());
    let tests = trials![
        stored_headers,
        own_headers,
        generated_headers,
        a_start_in_the_middle_of_a_packet,
        a_run_of_any_length_is_one_call,
        after_a_seek_a_train_is_one_call,
        a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind,
        what_is_not_in_memory_is_read_and_not_waited_for,
        a_closed_port_is_told,
        datagrams_arrive_whole,
        blocks_of_a_truncated_file_are_an_error_of_storage,
        blocks_to_a_closed_port_are_told,
    ];
    trial::run_needing(missing, tests)
}

/// Type of a tmpfs in `statfs` (`TMPFS_MAGIC`).
const TMPFS: i64 = 0x0102_1994;

fn by_module() -> Delivered {
    let paths = DataPath::ALL.into_iter().filter(|path| path.needs_module());
    Delivered { paths: paths.collect(), cases: 24 }
}

fn blocks_by_module() -> Vec<(BlockPath, &'static str)> {
    to_both_hosts(BlockPath::needs_module)
}

/// Promise: Data paths of the kernel module send the same bytes and report the same errors as other data
/// paths.
fn stored_headers() {
    by_module().stored_headers();
}

/// Promise: Data paths of the kernel module send the same bytes and report the same errors as other data
/// paths.
fn own_headers() {
    by_module().own_headers();
}

/// Promise: Data paths of the kernel module send the same bytes and report the same errors as other data
/// paths.
fn generated_headers() {
    by_module().generated_headers();
}

fn a_start_in_the_middle_of_a_packet() {
    by_module().a_start_in_the_middle_of_a_packet();
}

/// Promise: A run of `krtpsendfile` or `krtpmsend` is one call, also after a seek.
///
/// More packets than any train has.
fn a_run_of_any_length_is_one_call() {
    is_one_call(&Example::with_step(90 << 16, Headers::Generated, 1, 100, 200, 7));
}

/// Promise: A run of `krtpsendfile` or `krtpmsend` is one call, also after a seek.
///
/// The file has headers between its payloads, and the session has its own: what a seek leads to.
fn after_a_seek_a_train_is_one_call() {
    let headers =
        Headers::Own { sequence_offset: 40_000, timestamp_offset: 1 << 31, marker: true, stored: true };
    for (payload, packets, last) in [(100, 200, 7), (1316, 64, 1316), (9000, 5, 1)] {
        is_one_call(&Example::with_step(90 << 16, headers, 4095, payload, packets, last));
    }
}

fn is_one_call(example: &Example) {
    for path in by_module().paths.into_iter().filter(|path| path.takes_runs()) {
        assert_eq!(path.calls(&example.train, example.headers), Some(1..=1), "{path}");
        for host in HOSTS {
            let (sink, receiver) = example.sink_to(host, path);
            let sent = path.send(
                &sink,
                &example.medium,
                &example.train,
                example.headers,
                &mut SendContext::default(),
            );
            assert_eq!(sent, Ok(example.train.packets()), "{path} to {host}");
            assert_eq!(example.has_arrived(&receiver), Ok(()), "{path} to {host}");
        }
    }
}

/// Promise: Data paths of the kernel module send the same bytes and report the same errors as other data
/// paths.
fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind() {
    by_module().a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind();
}

/// Promise: On an engine thread, no path of the kernel module waits for a page of a file.
///
/// As an engine needs it: it comes back when the socket is full, and finds the pages.
fn what_is_not_in_memory_is_read_and_not_waited_for() {
    for path in [DataPath::Krtpsendfile, DataPath::Rtpsendfile, DataPath::Sendfilew] {
        let example = Example::new(Headers::Generated, 0, 1316, 40, 1316);
        let file = example.medium.file();
        let kind = fstatfs(file).unwrap().f_type;
        assert_ne!(
            kind, TMPFS,
            "files of a tmpfs are nowhere else than in memory: name another folder by TMPDIR"
        );
        file.sync_all().unwrap();
        fadvise(file, 0, None, Advice::DontNeed).unwrap();
        let (sink, receiver) = example.sink_to(HOSTS[0], path);
        let (mut scratch, mut rest, mut waits) = (SendContext::default(), Some(example.train), 0);
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

/// Promise: Data paths of the kernel module send the same bytes and report the same errors as other data
/// paths.
fn a_closed_port_is_told() {
    by_module().a_closed_port_is_told();
}

/// Promise: `ksendfile`, `kmsend` and `mmap_msend` send a file as datagrams.
fn datagrams_arrive_whole() {
    block::datagrams_arrive_whole(&blocks_by_module(), 24);
}

/// Promise: `ksendfile`, `kmsend` and `mmap_msend` send a file as datagrams.
fn blocks_of_a_truncated_file_are_an_error_of_storage() {
    for (path, host) in blocks_by_module() {
        let (sink, receiver) = udp(host, 9000, path);
        storage_fails_and_leaves_nothing_behind((path, host), &sink, 9000, || receive(&receiver, 9000));
    }
}

fn blocks_to_a_closed_port_are_told() {
    block::a_closed_port_is_told(&blocks_by_module());
}
