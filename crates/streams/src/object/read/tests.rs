use std::io::Write;

use rustix::fs::{Advice, fadvise, fstatfs};

use super::*;

/// Type of file systems in memory, whose pages are not evicted.
const TMPFS: i64 = 0x0102_1994;

/// A file on the disk of which nothing has been read.
fn stored(length: usize) -> StoredFile {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![7; length]).unwrap();
    file.sync_all().unwrap(); // dirty pages cannot be evicted
    StoredFile::new(Arc::new(file))
}

impl StoredFile {
    /// Range that has to be read before the next bytes, if any.
    fn cold(&mut self) -> Option<Cold> {
        match self.available(100) {
            Ok(room) => {
                assert_eq!(room, 100);
                None
            }
            Err(Unread::Blocked(Awaited::Pages(cold))) => Some(cold),
            Err(_) => panic!("neither readable nor cold"),
        }
    }

    /// Brings the next bytes into memory.
    fn read_ahead(&mut self) {
        let window = self.offset..(self.offset / WINDOW + 1) * WINDOW;
        let (until, result) = Cold::File(Arc::clone(&self.file), window).bring_in();
        result.unwrap();
        self.note_warm(until);
    }

    /// Lets the time elapse for which pages are assumed to be in memory.
    fn age(&mut self) {
        self.warm_at = self.warm_at.checked_sub(TRUST).unwrap();
    }
}

/// Promise: A slow stream does not block its engine thread if the kernel has evicted pages of its file.
#[test]
fn pages_that_were_evicted_are_read_ahead_again() {
    let mut file = stored(1 << 20);
    file.read_ahead();
    assert!(file.cold().is_none());
    file.offset += 4096;
    fadvise(&file.file, 0, None, Advice::DontNeed).unwrap();
    assert!(file.cold().is_none(), "no system call a moment later");
    file.age();
    let is_memory = fstatfs(&file.file).unwrap().f_type == TMPFS;
    let cold = file.cold();
    assert!(is_memory || cold.is_some(), "the pages have gone");
    let Some(Cold::File(_, range)) = &cold else { return };
    assert_eq!(*range, 4096..WINDOW);
    file.read_ahead();
    assert!(file.cold().is_none());
}

#[test]
fn pages_that_stay_in_memory_are_trusted_again() {
    let mut file = stored(2 * WINDOW as usize);
    file.read_ahead();
    if PageCache::of(&file.file, 0..WINDOW) == PageCache::Cold {
        return; // before Linux 6.5 the kernel does not report it
    }
    file.age();
    assert!(file.cold().is_none());
    assert!(file.warm_at.elapsed() < TRUST && file.warm_until == WINDOW);
}
