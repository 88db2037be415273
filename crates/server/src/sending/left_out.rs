//! Entries of a channel that cannot be played. Each is logged once, not whenever its turn comes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::playlist::Entry;

/// Entries of one channel that could not be played when they were due last, until the list is read again.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    channel: String,
    /// By path: the list, and so this map, is bounded.
    faults: Mutex<HashMap<PathBuf, Fault>>,
}

/// Fault of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing of it can be played.
    LeftOut,
    /// It can be played up to some place.
    EndsEarly,
}

impl LeftOut {
    pub(crate) fn new(channel: &str) -> LeftOut {
        LeftOut { channel: channel.to_owned(), faults: Mutex::default() }
    }

    /// Notes a fault of an entry. Returns false if it was noted before.
    pub(crate) fn note(&self, entry: &Entry, fault: Fault) -> bool {
        self.faults.lock().insert(entry.path.clone(), fault) != Some(fault)
    }

    /// Notes a fault of an entry, and logs it unless that was noted before.
    pub(crate) fn log(&self, entry: &Entry, fault: Fault, reason: &str) {
        if !self.note(entry, fault) {
            return;
        }
        let (channel, error) = (&self.channel, entry.error(reason));
        match fault {
            Fault::LeftOut => tracing::warn!(channel, %error, "an item of a channel is left out"),
            Fault::EndsEarly => tracing::warn!(channel, %error, "an item of a channel ends early"),
        }
    }

    /// Notes that a file was played to its end.
    pub(crate) fn note_played(&self, path: &Path) {
        self.faults.lock().remove(path);
    }

    /// Forgets all entries: the list was read again.
    pub(crate) fn clear(&self) {
        self.faults.lock().clear();
    }

    /// Number of entries of which nothing can be played.
    pub(crate) fn count(&self) -> usize {
        self.faults.lock().values().filter(|fault| **fault == Fault::LeftOut).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_news_once() {
        let entry = |name: &str| Entry { path: name.into(), source: None, not_before_s: None };
        let (one, two, left_out) = (entry("one.ts"), entry("two.ts"), LeftOut::new("news"));
        assert!(left_out.note(&one, Fault::LeftOut) && !left_out.note(&one, Fault::LeftOut));
        assert!(left_out.note(&two, Fault::EndsEarly), "another entry");
        assert_eq!(left_out.count(), 1);
        assert!(left_out.note(&one, Fault::EndsEarly), "another fault");
        assert_eq!(left_out.count(), 0);
        left_out.note_played(&one.path);
        assert!(left_out.note(&one, Fault::EndsEarly) && !left_out.note(&two, Fault::EndsEarly));
        left_out.clear();
        assert!(left_out.note(&two, Fault::EndsEarly));
    }
}
