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
