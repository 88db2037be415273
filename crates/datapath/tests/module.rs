//! The paths by the kernel module: every packet and byte, and the same errors as other paths have. A runner of its own: where the
//! module is not loaded, that is neither a pass nor a failure.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop where they cannot go on")]

mod block;
mod example;
#[path = "../../sys/tests/needing/mod.rs"]
mod needing;

use block::{receive, storage_fails_and_leaves_nothing_behind, to_both_hosts, udp};
use example::delivered::Delivered;
use example::{Example, HOSTS};
use needing::trials;
use wirepath_datapath::{BlockPath, Headers, Path, Scratch};

fn main() -> std::process::ExitCode {
    let missing = Scratch::default().open_module().err().map(|error| error.to_string());
    let tests = trials![
        stored_headers,
        own_headers,
        generated_headers,
        a_start_in_the_middle_of_a_packet,
        a_run_of_any_length_is_one_call,
        after_a_seek_a_train_is_one_call,
        a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind,
        a_closed_port_is_told,
        datagrams_arrive_whole,
        blocks_of_a_truncated_file_are_an_error_of_storage,
        blocks_to_a_closed_port_are_told,
    ];
    needing::run(missing, tests)
}

fn by_module() -> Delivered {
    let paths = Path::ALL.into_iter().filter(|path| path.needs_module());
    Delivered { paths: paths.collect(), cases: 24 }
}

fn blocks_by_module() -> Vec<(BlockPath, &'static str)> {
    to_both_hosts(BlockPath::needs_module)
}

fn stored_headers() {
    by_module().stored_headers();
}

fn own_headers() {
    by_module().own_headers();
}

fn generated_headers() {
    by_module().generated_headers();
}

fn a_start_in_the_middle_of_a_packet() {
    by_module().a_start_in_the_middle_of_a_packet();
}

/// More packets than any train has.
fn a_run_of_any_length_is_one_call() {
    is_one_call(&Example::with_step(90 << 16, Headers::Generated, 1, 100, 200, 7));
}

/// The file has headers between its payloads, and the session has its own: what a seek leads to.
fn after_a_seek_a_train_is_one_call() {
    let headers = Headers::Own { sequence_offset: 40_000, timestamp_offset: 1 << 31, marker: true };
    for (payload, packets, last) in [(100, 200, 7), (1316, 64, 1316), (9000, 5, 1)] {
        is_one_call(&Example::with_step(90 << 16, headers, 4095, payload, packets, last));
    }
}

fn is_one_call(example: &Example) {
    for path in by_module().paths.into_iter().filter(|path| path.takes_runs()) {
        assert_eq!(path.calls(&example.train, example.headers), Some(1..=1), "{path}");
        for host in HOSTS {
            let (sink, receiver) = example.sink_to(host, path);
            let sent =
                path.send(&sink, &example.medium, &example.train, example.headers, &mut Scratch::default());
            assert_eq!(sent, Ok(example.train.packets()), "{path} to {host}");
            assert_eq!(example.has_arrived(&receiver), Ok(()), "{path} to {host}");
        }
    }
}

fn a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind() {
    by_module().a_truncated_file_is_an_error_of_storage_and_leaves_nothing_behind();
}

fn a_closed_port_is_told() {
    by_module().a_closed_port_is_told();
}

fn datagrams_arrive_whole() {
    block::datagrams_arrive_whole(&blocks_by_module(), 24);
}

fn blocks_of_a_truncated_file_are_an_error_of_storage() {
    for (path, host) in blocks_by_module() {
        let (sink, receiver) = udp(host, 9000, path);
        storage_fails_and_leaves_nothing_behind((path, host), &sink, 9000, || receive(&receiver, 9000));
    }
}

fn blocks_to_a_closed_port_are_told() {
    block::a_closed_port_is_told(&blocks_by_module());
}
