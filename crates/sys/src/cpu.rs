//! Processor hints.

/// Prefetches the cache lines of `value`, without waiting for them.
#[inline]
pub fn prefetch<T>(value: &T) {
    const LINE: usize = 64;
    let start = std::ptr::from_ref(value).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing that the program could see, and never faults; the address lies in
        // `value`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(start.add(offset));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = start.wrapping_add(offset); // no prefetch on other processors
    }
}
