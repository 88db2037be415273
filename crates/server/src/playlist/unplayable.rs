//! Entries of a channel that cannot be played. Each fault of an entry is logged once, not whenever its turn comes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::list::{Entry, Playlist};

/// Most faults of an entry that are logged until it is played or the list is read again.
const MOST_LOGGED: usize = 4;

/// Entries of a channel's list with their faults.
#[derive(Debug)]
pub(crate) struct UnplayableEntries {
    channel: String,
    /// Files of the list, by path.
    files: Mutex<HashMap<PathBuf, ListedFile>>,
}

/// File of a list.
#[derive(Debug, Default)]
struct ListedFile {
    /// Number of entries of the list that name it.
    entries: usize,
    /// Fault when it was due last.
    last: Option<Fault>,
    /// Faults that were logged, with their reasons.
    logged: Vec<(Fault, String)>,
}

/// Fault of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing of it can be played.
    LeftOut,
    /// It can be played up to some place.
    EndsEarly,
}

impl UnplayableEntries {
    /// Entries of a channel's list, without faults.
    pub(crate) fn new(channel: &str, list: &Playlist) -> UnplayableEntries {
        let entries = UnplayableEntries { channel: channel.to_owned(), files: Mutex::default() };
        entries.replace_list(list);
        entries
    }

    /// Takes the list that was read again. Entries that it has, too, keep their last fault, which is logged again.
    pub(crate) fn replace_list(&self, list: &Playlist) {
        let mut files = self.files.lock();
        let before = std::mem::take(&mut *files);
        for entry in &list.entries {
            let last = before.get(&entry.path).and_then(|file| file.last);
            let new = || ListedFile { last, ..ListedFile::default() };
            files.entry(entry.path.clone()).or_insert_with(new).entries += 1;
        }
    }

    /// Notes a fault of an entry that is logged elsewhere.
    pub(crate) fn note(&self, entry: &Entry, fault: Fault) {
        if let Some(file) = self.files.lock().get_mut(&entry.path) {
            file.last = Some(fault);
        }
    }

    /// Notes a fault of an entry. Returns whether it is to be logged: true once for each fault and reason, for a few
    /// of them. Entries that the list does not have any more are not noted.
    pub(crate) fn note_once(&self, entry: &Entry, fault: Fault, reason: &str) -> bool {
        let mut files = self.files.lock();
        let Some(file) = files.get_mut(&entry.path) else { return false };
        file.last = Some(fault);
        let is_known = file.logged.iter().any(|(other, text)| (*other, text.as_str()) == (fault, reason));
        if is_known || file.logged.len() == MOST_LOGGED {
            return false;
        }
        file.logged.push((fault, reason.to_owned()));
        true
    }

    /// Notes a fault of an entry, and logs it unless that was logged before.
    pub(crate) fn log(&self, entry: &Entry, fault: Fault, reason: &str) {
        if !self.note_once(entry, fault, reason) {
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
        if let Some(file) = self.files.lock().get_mut(path) {
            (file.last, file.logged) = (None, Vec::new());
        }
    }

    /// Number of entries of which nothing could be played when they were due last.
    pub(crate) fn left_out(&self) -> usize {
        let files = self.files.lock();
        files.values().filter(|file| file.last == Some(Fault::LeftOut)).map(|file| file.entries).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { path: name.into(), source: None, not_before_s: None }
    }

    fn list(names: &[&str]) -> Playlist {
        Playlist { entries: names.iter().map(|name| entry(name)).collect(), ..Playlist::default() }
    }

    #[test]
    fn each_fault_of_an_entry_is_logged_once() {
        use Fault::{EndsEarly, LeftOut};
        let entries = UnplayableEntries::new("news", &list(&["one.ts", "two.ts"]));
        let (one, two) = (entry("one.ts"), entry("two.ts"));
        assert!(entries.note_once(&one, LeftOut, "not found"));
        assert!(entries.note_once(&two, LeftOut, "not found"), "another entry");
        assert!(entries.note_once(&one, LeftOut, "no clock"), "another reason");
        assert!(entries.note_once(&one, EndsEarly, "no clock"), "another fault");
        for (fault, reason) in [(LeftOut, "not found"), (LeftOut, "no clock"), (EndsEarly, "no clock")] {
            assert!(!entries.note_once(&one, fault, reason), "{fault:?}: {reason}");
        }
        assert!(entries.note_once(&one, LeftOut, "4"));
        assert!(!entries.note_once(&one, LeftOut, "5"), "reasons that always change");
        entries.note_played(&one.path);
        assert!(
            entries.note_once(&one, EndsEarly, "no clock") && !entries.note_once(&two, LeftOut, "not found")
        );
        entries.replace_list(&list(&["two.ts"]));
        assert!(entries.note_once(&two, LeftOut, "not found"), "the list was read again");
    }

    #[test]
    fn entries_of_the_list_are_counted() {
        let entries = UnplayableEntries::new("news", &list(&["one.ts", "two.ts", "one.ts"]));
        entries.note(&entry("one.ts"), Fault::LeftOut);
        assert_eq!(entries.left_out(), 2, "named twice");
        entries.note(&entry("two.ts"), Fault::LeftOut);
        entries.note(&entry("one.ts"), Fault::EndsEarly);
        assert_eq!(entries.left_out(), 1);
        entries.replace_list(&list(&["two.ts", "three.ts"]));
        assert_eq!(entries.left_out(), 1);
        entries.replace_list(&list(&["three.ts"]));
        assert!(
            !entries.note_once(&entry("two.ts"), Fault::LeftOut, "not found"),
            "not in the list any more"
        );
        assert_eq!(entries.left_out(), 0);
    }
}
