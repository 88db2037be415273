//! Returning unused memory, measured in a process of its own: unit tests of one process allocate at the same time.

#![cfg(target_env = "gnu")]
#![expect(clippy::unwrap_used, reason = "a helper of a test stops where it cannot go on")]

use wirepath_sys::heap::trim;

fn anonymous_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn what_nobody_uses_goes_back_to_the_system() {
    const BLOCK: usize = 1000;
    let before = anonymous_kib();
    let mut blocks: Vec<Box<[u8; BLOCK]>> = (0..64_000).map(|_| Box::new([1; BLOCK])).collect();
    let full = anonymous_kib();
    assert!(full > before + 50_000, "{before} KiB, then {full} KiB");
    // The last block stays, so that the allocator cannot shorten its heap by itself.
    blocks.drain(..blocks.len() - 1);
    trim();
    let after = anonymous_kib();
    assert!(after < before + 20_000, "{before} KiB, {full} KiB, then {after} KiB");
}
