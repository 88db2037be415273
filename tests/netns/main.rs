//! The server in a network namespace of its own, clients in others: real links with real limits. Needs root.

mod assess;
mod assess_clients;
mod assess_relay;
mod by_the_module;
mod cold;
mod crowd;
mod every_byte;
mod hot_memory;
mod instructions;
mod kernel_equality;
mod kernel_handler;
mod kernel_select;
mod multicast;
mod outages;
mod pacing;
mod paths;
mod sending;
mod sockmap;
mod storage;

use std::process::ExitCode;

fn main() -> ExitCode {
    let together = [
        every_byte::trials(),
        hot_memory::trials(),
        kernel_equality::trials(),
        kernel_handler::trials(),
        kernel_select::trials(),
        multicast::trials(),
        outages::trials(),
        pacing::trials(),
        paths::trials(),
        sending::trials(),
        sockmap::trials(),
        storage::trials(),
    ];
    let alone = [
        assess::trials(),
        assess_clients::trials(),
        assess_relay::trials(),
        by_the_module::trials(),
        cold::trials(),
        crowd::trials(),
    ];
    wirepath_tests::trial::run(
        together.into_iter().flatten().collect(),
        alone.into_iter().flatten().collect(),
    )
}
