//! Places of the recordings that are followed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Most recordings that are followed. Each holds some memory and a file.
const MOST_RECORDINGS: usize = 32;

/// Places of recordings.
#[derive(Default)]
pub(super) struct Places(Arc<AtomicUsize>);

/// Place of a recording, which is free again when this is dropped.
pub(super) struct Place(Arc<AtomicUsize>);

impl Places {
    /// Takes a place, if one is free.
    pub(super) fn take(&self) -> Option<Place> {
        let next = |count| (count < MOST_RECORDINGS).then_some(count + 1);
        self.0.fetch_update(Relaxed, Relaxed, next).ok()?;
        Some(Place(Arc::clone(&self.0)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: At most 32 recordings are followed at a time.
    #[test]
    fn places_are_limited() {
        let places = Places::default();
        let mut taken: Vec<Place> = std::iter::from_fn(|| places.take()).collect();
        assert_eq!(taken.len(), MOST_RECORDINGS);
        taken.pop();
        assert!(places.take().is_some(), "a place is free");
    }
}
