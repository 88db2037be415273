//! Items of an endless stream: each an asset's image, and the item behind it once that is known.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::Notify;
use wirepath_engine::Waker;

use crate::images::Image;
use crate::playlist::{Entry, Fault, UnplayableEntries};

/// Item of a channel.
pub(crate) struct Item {
    /// The image that is sent.
    pub(crate) image: Arc<Image>,
    /// The item behind it, once that is known; none at the end of the list.
    next: OnceLock<Option<Arc<Item>>>,
    /// Wakers of playbacks that wait for the next item.
    waiters: Mutex<Vec<Waker>>,
    /// Notified when the first destination begins the item, so that the next one is opened.
    begun: Notify,
    has_begun: AtomicBool,
    has_failed: AtomicBool,
    /// True if not all of the item could be sent.
    has_ended_early: AtomicBool,
    /// Entry of a channel's list that the item is, and where its faults are noted.
    entry: Option<(Arc<UnplayableEntries>, Entry)>,
}

/// Answer to the question for the next item.
pub(crate) enum Following {
    /// The item.
    Item(Arc<Item>),
    /// The list is over.
    End,
    /// It is not known yet; the waker is kept.
    NotYet,
}

impl Item {
    /// An item of no list.
    pub(crate) fn new(image: Arc<Image>) -> Arc<Item> {
        Item::with(image, None)
    }

    /// An item that is this entry of a list.
    pub(crate) fn of(image: Arc<Image>, unplayable: &Arc<UnplayableEntries>, entry: Entry) -> Arc<Item> {
        Item::with(image, Some((Arc::clone(unplayable), entry)))
    }

    fn with(image: Arc<Image>, entry: Option<(Arc<UnplayableEntries>, Entry)>) -> Arc<Item> {
        Arc::new(Item {
            image,
            entry,
            next: OnceLock::new(),
            waiters: Mutex::default(),
            begun: Notify::new(),
            has_begun: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            has_ended_early: AtomicBool::new(false),
        })
    }

    /// Notes that a destination begins the item.
    pub(crate) fn begin(&self) {
        if !self.has_begun.swap(true, Relaxed) {
            self.begun.notify_one();
        }
    }

    /// Waits until a destination begins the item.
    pub(crate) async fn wait_for_begin(&self) {
        self.begun.notified().await;
    }

    /// Notes that the item, or the rest of it, cannot be sent, and logs it.
    pub(crate) fn fail(&self, fault: Fault, reason: &str) {
        self.has_failed.fetch_or(fault == Fault::LeftOut, Relaxed);
        self.has_ended_early.store(true, Relaxed);
        match &self.entry {
            Some((unplayable, entry)) => unplayable.log(entry, fault, reason),
            None => tracing::warn!(asset = self.image.name(), reason, "an asset ends early"),
        }
    }

    /// Notes that the item was played to its end, unless it ended early.
    pub(crate) fn note_end(&self) {
        if let Some((unplayable, entry)) = &self.entry
            && !self.has_ended_early.load(Relaxed)
        {
            unplayable.note_played(&entry.path);
        }
    }

    /// Returns whether nothing of the item could be sent.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Sets the item behind this one, and wakes who waits for it.
    pub(crate) fn follow(&self, next: Option<Arc<Item>>) {
        let mut waiters = self.waiters.lock();
        let is_first = self.next.set(next).is_ok();
        debug_assert!(is_first, "an item has one successor");
        for waiter in waiters.drain(..) {
            waiter.wake();
        }
    }

    /// The item behind this one. Keeps the waker while that is not known.
    pub(crate) fn following(&self, waker: Option<&Waker>) -> Following {
        let mut waiters = self.waiters.lock();
        match self.next.get() {
            Some(Some(next)) => Following::Item(Arc::clone(next)),
            Some(None) => Following::End,
            None => {
                let new = waker.filter(|waker| !waiters.contains(waker));
                waiters.extend(new.cloned());
                Following::NotYet
            }
        }
    }

    /// Drops a waker that was kept.
    pub(crate) fn forget(&self, waker: &Waker) {
        self.waiters.lock().retain(|waiter| waiter != waker);
    }
}
