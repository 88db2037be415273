//! Memory held by the allocator.

/// Returns unused pages of the allocator, of all threads' arenas, to the system (`malloc_trim(3)`). Returns
/// whether there were any. Takes some milliseconds per ten megabytes, while threads that allocate from an
/// arena wait. Does nothing with a C library other than glibc.
pub fn trim() -> bool {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call takes no pointer, and locks each arena while it changes it.
        unsafe { libc::malloc_trim(0) != 0 }
    }
    #[cfg(not(target_env = "gnu"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    #[cfg(target_env = "gnu")]
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
}
