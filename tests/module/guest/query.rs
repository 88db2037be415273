//! QUERY: what the module says of itself.

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use rustix::io::Errno;
use wirepath_sys::module::layout::{self, Query};
use wirepath_tests::{kernel, trials};

use crate::bench::Bench;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        features_are_those_of_this_kernel,
        limits_are_those_of_the_header,
        a_structure_may_be_longer_or_shorter
    ]
}

/// Abilities of this module wherever it runs.
const EVERYWHERE: u64 =
    layout::FEATURE_FILES | layout::FEATURE_MAPPINGS | layout::FEATURE_RTP | layout::FEATURE_TRAINS;

/// Promise: QUERY reports what the kernel supports; structures may be longer or shorter.
fn features_are_those_of_this_kernel() -> Result<()> {
    let features = Bench::new()?.query.features;
    ensure!(features & EVERYWHERE == EVERYWHERE, "features are {features:#x}");
    let by_reference = kernel::release()? >= (6, 5);
    ensure!((features & layout::FEATURE_REFERENCES != 0) == by_reference, "features are {features:#x}");
    // Of later kernels it is not known how they cut lists.
    let by_lists = features & layout::FEATURE_MEMBERS != 0;
    ensure!(by_lists == by_reference || kernel::release()? > (6, 12), "features are {features:#x}");
    Ok(())
}

/// Promise: QUERY reports what the kernel supports; structures may be longer or shorter.
fn limits_are_those_of_the_header() -> Result<()> {
    let query = Bench::new()?.query;
    ensure!(query.version == layout::VERSION && query.size as usize == size_of::<Query>(), "{query:?}");
    ensure!(query.header_bytes_max as usize == layout::HEADER_BYTES_MAX, "{query:?}");
    ensure!(query.train_packets_max == layout::TRAIN_PACKETS_MAX, "{query:?}");
    ensure!(query.part_count_max as usize == layout::PART_COUNT_MAX, "{query:?}");
    ensure!((17..=45).contains(&query.fragments_max) && query.run_packets_max > 0, "{query:?}");
    ensure!([query.reserved.into(), query.reserved2, query.pinned_bytes] == [0; 3], "{query:?}");
    Ok(())
}

/// Promise: QUERY reports what the kernel supports; structures may be longer or shorter.
fn a_structure_may_be_longer_or_shorter() -> Result<()> {
    let mut bench = Bench::new()?;
    let size = size_of::<Query>();
    let mut ask = |size: u32, at: usize, tail: u8| {
        bench.arena.bytes_mut().fill(0);
        if at < bench.arena.length() {
            bench.arena.write(at, &size.to_ne_bytes());
        }
        if tail != 0 {
            bench.arena.write(at + size as usize - 1, &[tail]);
        }
        let argument = bench.arena.address(at);
        let answer = bench.module.ask(layout::QUERY, &mut bench.arena, argument);
        answer.map(drop).map_err(|error| Errno::from_io_error(&error))
    };
    for (name, size, at, tail, expected) in [
        ("as published", size, 0, 0, Ok(())),
        ("not aligned", size, 3, 0, Ok(())),
        ("at the end of memory", size, (2 << 20) - size, 0, Ok(())),
        ("longer, with zeros", size + 8, 0, 0, Ok(())),
        ("longer, with something new", size + 8, 0, 1, Err(Some(Errno::TOOBIG))),
        ("endless", usize::MAX >> 32, 0, 0, Err(Some(Errno::TOOBIG))),
        ("shorter", size - 1, 0, 0, Err(Some(Errno::INVAL))),
        ("no size", 0, 0, 0, Err(Some(Errno::INVAL))),
        ("not there", 0, 2 << 20, 0, Err(Some(Errno::FAULT))),
        ("half there", size, (2 << 20) - 32, 0, Err(Some(Errno::FAULT))),
    ] {
        let answer = ask(size as u32, at, tail);
        ensure!(answer == expected, "{name}: it answered {answer:?} and not {expected:?}");
    }
    Ok(())
}
