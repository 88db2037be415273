//! Replacement of protected pages by copies, under the lock of all protection changes.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Release;

use rustix::io::Errno;

use super::WriteGuard;
use super::memory_map::{self, PAGES_AT_A_TIME};
use crate::errno_of;
use crate::memory::Memory;

/// Bytes copied at a time, for pages of 4 KiB.
pub(super) const BOUNCE: usize = PAGES_AT_A_TIME * 4096;

impl WriteGuard {
    /// Replaces all protected pages of a range of whole pages by private writable copies. Other pages, which
    /// may be written concurrently, are not changed. Returns the number of replaced pages.
    pub(super) fn replace(&self, range: Range<usize>, bounce: &Memory) -> usize {
        // Incremented before the first page changes, so that a lender that protected it sees the replacement.
        self.replacements.fetch_add(1, Release);
        let (mut at, mut replaced) = (range.start, 0);
        while at < range.end {
            let pages = ((range.end - at) / self.page).min(bounce.length() / self.page);
            let (before, run) = self.memory.protected_run(at, pages, self.page);
            at += before * self.page;
            if run > 0 && self.replace_run(at, run * self.page, bounce).is_ok() {
                replaced += run;
            }
            at += run * self.page;
        }
        replaced
    }

    /// Replaces pages that are all protected. An error means that they were unmapped meanwhile.
    fn replace_run(&self, start: usize, length: usize, bounce: &Memory) -> io::Result<()> {
        // SAFETY: the bounce buffer is readable and writable, belongs to who has the lock, or to the serving
        // thread, and is at least as long.
        let bytes = unsafe { std::slice::from_raw_parts_mut(bounce.start(), length) };
        // No thread can write to the pages now, so these are their final bytes.
        memory_map::read(start, bytes)?;
        self.userfault.register_missing(start, length)?;
        // SAFETY: the pages are registered, so who touches them waits until they are filled below.
        let taken = unsafe { memory_map::take_away(start, length) };
        // Also after an error: if one of the pages was unmapped meanwhile, the others have been removed all
        // the same. Pages that are still mapped stay unchanged.
        self.fill(start, bytes);
        // In any case, so that no thread waits forever. New pages are not protected.
        whole_or_by_page(start, length, self.page, |start, length| {
            self.userfault.unregister(start, length)?;
            // Otherwise the next loan of these pages would register them.
            self.userfault.register(start, length)
        });
        taken
    }

    /// Fills removed pages. Gives up only on unmapped pages: the page contents are in `bytes` only.
    fn fill(&self, start: usize, bytes: &[u8]) {
        let (mut filled, mut most) = (0, bytes.len());
        while filled < bytes.len() {
            let end = bytes.len().min(filled + most);
            match self.userfault.fill(start + filled, &bytes[filled..end]) {
                Ok(more) => filled += more,
                // The pages belong to two areas, which one call cannot fill, or are unmapped.
                Err(error) if errno_of(&error) == Errno::NOENT && most > self.page => most = self.page,
                Err(error) if matches!(errno_of(&error), Errno::NOENT | Errno::SRCH | Errno::EXIST) => {
                    filled += self.page;
                }
                // Memory is being moved, or is temporarily exhausted.
                Err(_) => self.note_event(),
            }
        }
    }
}

/// Changes a range, or each of its pages if that fails: if other memory was mapped meanwhile, the change of
/// the whole range is refused, and the other pages still need it. A page that fails alone is such other
/// memory.
fn whole_or_by_page(
    start: usize,
    length: usize,
    page: usize,
    mut change: impl FnMut(usize, usize) -> io::Result<()>,
) {
    if change(start, length).is_err() {
        for at in (start..start + length).step_by(page) {
            let _foreign = change(at, page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_page_keeps_others_from_nothing() {
        let mut changed = Vec::new();
        whole_or_by_page(0x1000, 0x4000, 0x1000, |start, length| {
            if (start..start + length).contains(&0x3000) {
                return Err(Errno::INVAL.into());
            }
            changed.push((start, length));
            Ok(())
        });
        assert_eq!(changed, [(0x1000, 0x1000), (0x2000, 0x1000), (0x4000, 0x1000)]);
        changed.clear();
        whole_or_by_page(0x1000, 0x2000, 0x1000, |start, length| {
            changed.push((start, length));
            Ok(())
        });
        assert_eq!(changed, [(0x1000, 0x2000)]);
    }
}
