//! Replacing protected pages by copies of them, under the lock of all changes of protection.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Release;

use rustix::io::Errno;

use super::WriteGuard;
use super::memory_map::{self, PAGES_AT_A_TIME};
use crate::errno_of;
use crate::memory::Memory;

/// Bytes that are copied at a time: so many pages of 4 KiB.
pub(super) const BOUNCE: usize = PAGES_AT_A_TIME * 4096;

impl WriteGuard {
    /// Replaces all protected pages of a range of whole pages by copies that nobody else has and everybody may
    /// write. Other pages, which may be written at this moment, are left alone. Returns how many were replaced.
    pub(super) fn replace(&self, range: Range<usize>, bounce: &Memory) -> usize {
        // Before the first page changes: a lender that protected it must see that.
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
        // Nobody can write to the pages now, so this is what they have when they go.
        memory_map::read(start, bytes)?;
        self.userfault.register_missing(start, length)?;
        // SAFETY: the pages are registered, so who touches them waits until they are filled below.
        let taken = unsafe { memory_map::take_away(start, length) };
        // Also after an error: if a page among them was unmapped meanwhile, the others are gone all the same. Pages
        // that are still there stay as they are.
        self.fill(start, bytes);
        // In any case, so that nobody waits for ever. New pages are not protected.
        whole_or_by_page(start, length, self.page, |start, length| {
            self.userfault.unregister(start, length)?;
            // Without it the next loan of these pages registers them.
            self.userfault.register(start, length)
        });
        taken
    }

    /// Fills pages that were taken away. Gives up only on pages that are unmapped: their bytes are in `bytes` and
    /// nowhere else.
    fn fill(&self, start: usize, bytes: &[u8]) {
        let (mut filled, mut most) = (0, bytes.len());
        while filled < bytes.len() {
            let end = bytes.len().min(filled + most);
            match self.userfault.fill(start + filled, &bytes[filled..end]) {
                Ok(more) => filled += more,
                // The pages are of two areas, which one call cannot fill, or unmapped.
                Err(error) if errno_of(&error) == Errno::NOENT && most > self.page => most = self.page,
                Err(error) if matches!(errno_of(&error), Errno::NOENT | Errno::SRCH | Errno::EXIST) => {
                    filled += self.page;
                }
                // Memory is being moved, or there is none at the moment.
                Err(_) => self.note_event(),
            }
        }
    }
}

/// Changes a range, or each of its pages if that fails: where something else was mapped meanwhile, the change is refused
/// for all, and the other pages still need it. A page that fails alone is that something else.
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
