//! A file that was created for a stream and is removed with the stream if nothing was written.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::{Kind, Object};

/// Removes a file on drop, if the file is still empty and was not kept. Dropping may block. Jobs that may
/// still write to the file hold a reference.
#[derive(Debug)]
pub(crate) struct Provisional {
    path: PathBuf,
    /// Keeps the file open, so that no other file can have its inode.
    file: Arc<File>,
    stays: AtomicBool,
}

impl Object {
    /// Removes the file together with the object if the file is then empty: for a file that was created for
    /// the stream. Otherwise a stream that fails before any byte comes would leave a file that is in the way
    /// of the next stream. An empty file stays if its stream
    /// [ends well](crate::StreamBuilder::finish_outputs), because there was nothing to write; another file of
    /// this name stays, too. No effect on other objects.
    #[must_use]
    pub fn provisional(mut self, path: PathBuf) -> Object {
        if let Kind::File(stored) = &mut self.kind {
            let (file, stays) = (Arc::clone(&stored.file), AtomicBool::new(false));
            stored.provisional = Some(Arc::new(Provisional { path, file, stays }));
        }
        self
    }
}

impl Provisional {
    /// Keeps the file, even if it is empty.
    pub(super) fn keep(&self) {
        self.stays.store(true, Relaxed);
    }

    fn is_there_and_empty(&self) -> io::Result<bool> {
        let (ours, there) = (self.file.metadata()?, fs::symlink_metadata(&self.path)?);
        Ok(ours.len() == 0 && (ours.dev(), ours.ino()) == (there.dev(), there.ino()))
    }
}

impl Drop for Provisional {
    fn drop(&mut self) {
        if !self.stays.load(Relaxed) && self.is_there_and_empty().unwrap_or(false) {
            // If removing fails, the next stream that creates the file reports it.
            drop(fs::remove_file(&self.path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use bytes::Bytes;

    use super::*;
    use crate::{Framing, StreamBuilder};

    fn made(path: &Path) -> Object {
        let file = Arc::new(File::create_new(path).unwrap());
        Object::file("made", file, 0).provisional(path.to_owned())
    }

    /// Promise: An empty output file that a relay created is removed if the relay is stopped or fails.
    #[test]
    fn only_an_empty_file_that_is_still_ours_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        drop(made(&path));
        assert!(!path.exists(), "it was empty");

        let object = made(&path);
        File::options().append(true).open(&path).unwrap().write_all(b"of another").unwrap();
        drop(object);
        assert_eq!(fs::read(&path).unwrap(), b"of another");

        fs::remove_file(&path).unwrap();
        let object = made(&path);
        fs::remove_file(&path).unwrap();
        File::create_new(&path).unwrap();
        drop(object);
        assert!(path.exists(), "it is another file");
    }

    /// Promise: An empty output file that a relay created is removed if the relay is stopped or fails.
    #[test]
    fn the_file_waits_for_pending_writers() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let object = made(&path);
        let target = object.target();
        drop(object);
        assert!(path.exists(), "something is being written");
        drop(target);
        assert!(!path.exists(), "nothing was written");
    }

    /// Promise: An empty output file that a relay created is removed if the relay is stopped or fails.
    #[test]
    fn an_empty_file_stays_if_that_is_what_there_was_to_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let nothing = || Object::memory("nothing", Bytes::new());
        let stream = |path| StreamBuilder::default().input(nothing(), Framing::Whole).output(made(path));
        drop(stream(&path).finish_outputs().build());
        assert!(!path.exists(), "it never began");
        let mut ended = stream(&path).finish_outputs().build();
        ended.run().unwrap();
        drop(ended);
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
