//! Tests that the timed work really happens.

use super::*;
use crate::progress::NoProgress;

/// Promise: The measured copies really happen, aligned and unaligned, cached and uncached.
#[test]
fn the_same_block_is_really_copied() {
    for (from, to) in [(0, 0), (1, 3)] {
        let source = Arena::new(8192, 7);
        let mut target = Arena::new(8192, 0);
        copy_one(source.first(from, 1000), target.first_mut(to, 1000), 3);
        assert_eq!(target.first(0, to + 1001), [vec![0; to], vec![7; 1000], vec![0]].concat());
    }
}

/// Promise: The measured copies really happen, aligned and unaligned, cached and uncached.
#[test]
fn ever_other_blocks_are_really_copied() {
    let (mut source, mut target) = (Arena::new(8 * 4096, 7), Arena::new(8 * 4096, 0));
    copy_ever_others(&mut source, 1, &mut target, 3, 100, 8 * 4096 / 128);
    for block in target.first(0, 8 * 4096).chunks(128) {
        assert_eq!(block, [vec![0; 3], vec![7; 100], vec![0; 25]].concat());
    }
}

/// Promise: The measured copies really happen, aligned and unaligned, cached and uncached.
#[test]
fn every_point_has_its_runs_and_no_copy_is_optimised_away() {
    let mut left_out = Vec::new();
    let costs = measure_up_to(1 << 20, 3, &mut left_out, &mut NoProgress);
    assert_eq!(left_out, []);
    assert_eq!(costs.kernel_entry_ns.len(), 3);
    assert!(costs.kernel_entry_ns.iter().all(|ns| *ns > 5.0), "{:?}", costs.kernel_entry_ns);
    assert_eq!(costs.copies.len(), 4 * 18); // 8 bytes to 1 MiB
    assert!(costs.copies.iter().all(|copy| copy.ns.len() == 3 && copy.ns.iter().all(|ns| *ns > 0.0)));
    // No memory moves a TB/s; a copy that was optimised away does. There is no upper limit, because on a
    // machine in use by others a copy may take any time.
    let largest = costs.copies.iter().filter(|copy| copy.size == 1 << 20);
    let times_ns: Vec<f64> = largest.flat_map(|copy| copy.ns.iter().copied()).collect();
    assert_eq!(times_ns.len(), 4 * 3);
    assert!(times_ns.iter().all(|ns| *ns > (1 << 20) as f64 / 1000.0), "1 MiB in {times_ns:?} ns");
}

#[test]
fn stopping_keeps_what_was_measured() {
    /// Requests a stop at the tenth query.
    struct Impatient(std::cell::Cell<u32>);
    impl Progress for Impatient {
        fn at(&mut self, _: f64, _: &str) {}
        fn note(&mut self, _: &str) {}
        fn stopped(&self) -> bool {
            self.0.set(self.0.get() + 1);
            self.0.get() > 10
        }
    }
    let costs = measure_up_to(1 << 12, 1000, &mut Vec::new(), &mut Impatient(std::cell::Cell::new(0)));
    assert_eq!(costs.copies.len(), 10, "{costs:?}");
    assert_eq!(costs.kernel_entry_ns.len(), 1);
}

#[test]
fn what_there_is_no_memory_for_is_named() {
    assert_eq!(too_little_memory(1 << 20, 1 << 20), None);
    assert!(too_little_memory(1 << 20, 4096).is_some_and(|left| left.what.ends_with("more than 4096 bytes")));
}
