//! The generation of an image that a job packs.

use std::sync::{Arc, Weak};
use std::thread;

use crate::images::error::StoreError;
use crate::images::image::Image;
use crate::images::key::Key;
use crate::images::store::Store;

/// A generation of an image to be packed. If this is dropped before it is complete, after a panic or with the
/// store, the generation fails: sessions that wait for it end with an error.
pub(in crate::images::store) struct Goal {
    pub(in crate::images::store) store: Weak<Store>,
    pub(in crate::images::store) key: Key,
    pub(in crate::images::store) image: Arc<Image>,
    pub(in crate::images::store) generation: u32,
    is_over: bool,
}

impl Goal {
    pub(in crate::images::store) fn new(
        store: Weak<Store>,
        key: Key,
        image: Arc<Image>,
        generation: u32,
    ) -> Goal {
        Goal { store, key, image, generation, is_over: false }
    }

    /// Ends the packing of the generation; returns the next one, if another one was requested meanwhile.
    pub(in crate::images::store) fn over(mut self) -> Option<Goal> {
        let next = self.image.packing_over(self.generation);
        self.is_over = next.is_none();
        self.generation = next?;
        Some(self)
    }

    /// Makes the image fail, whichever generation is requested by now.
    pub(in crate::images::store) fn fail(mut self, error: &StoreError) {
        self.fail_all(error);
    }

    fn fail_all(&mut self, error: &StoreError) {
        self.is_over = true;
        let mut next = Some(self.generation);
        while let Some(generation) = next {
            match self.store.upgrade() {
                Some(store) => store.fail(self.key, &self.image, generation, error.clone()),
                None => _ = self.image.end(generation, Err(error.failure())),
            }
            next = self.image.packing_over(generation);
        }
    }
}

impl Drop for Goal {
    fn drop(&mut self) {
        if !self.is_over {
            let error = if thread::panicking() { StoreError::Panicked } else { StoreError::Stopped };
            self.fail_all(&error);
        }
    }
}
