//! Parts of a response that are not sent yet.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use wirepath_engine::BlockingPool;
use wirepath_streams::{ObjectPart, SendOutcome};

/// Time for which a check of the page cache stays valid.
const TRUST: Duration = Duration::from_secs(1);

/// Parts of a response, and the progress of sending. Closes files if closing cannot take long.
pub(super) struct UnsentParts<'a> {
    parts: Vec<ObjectPart>,
    /// Number of parts sent.
    sent: usize,
    lent_bytes: u64,
    /// Time when the next part was found in memory.
    in_memory: Option<Instant>,
    pool: &'a BlockingPool,
}

impl<'a> UnsentParts<'a> {
    pub(super) fn new(parts: Vec<ObjectPart>, pool: &'a BlockingPool) -> Self {
        Self { parts, sent: 0, lent_bytes: 0, in_memory: None, pool }
    }

    /// Returns whether any part is of a file.
    pub(super) fn has_files(&self) -> bool {
        self.parts.iter().any(|part| part.file().is_some())
    }

    /// Bytes of files that were sent without a copy. Short extents, which are copied, count as in a stream.
    pub(super) fn lent_bytes(&self) -> u64 {
        self.lent_bytes
    }

    /// Total number of bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(ObjectPart::length).sum()
    }

    /// Sends as much of the next part as the connection takes, of a file at most `most` bytes. `None` if
    /// there is no part, or the engine has to send it.
    pub(super) fn send(&mut self, socket: impl AsFd, most: u64) -> io::Result<Option<SendOutcome>> {
        while self.parts.get(self.sent).is_some_and(|part| part.length() == 0) {
            (self.sent, self.in_memory) = (self.sent + 1, None);
        }
        let unsent = self.parts.get_mut(self.sent..).and_then(<[_]>::split_first_mut);
        let Some((part, later)) = unsent else { return Ok(None) };
        // Empty parts do not follow: bytes held back for them would wait for TCP's timer of 200 ms.
        let is_followed = later.iter().any(|part| part.length() > 0);
        if part.goes_in_windows() || self.in_memory.is_none_or(|found| found.elapsed() > TRUST) {
            if !part.is_in_memory() {
                return Ok(None);
            }
            self.in_memory = Some(Instant::now());
        }
        let outcome = part.send(socket, most, is_followed)?;
        if part.file().is_some() {
            self.lent_bytes += outcome.bytes as u64;
        }
        Ok(Some(outcome))
    }

    /// Takes the unsent parts.
    pub(super) fn take(&mut self) -> Vec<ObjectPart> {
        let rest = self.parts.split_off(self.sent);
        if !rest.is_empty() {
            // The unsent parts hold the files, too.
            self.parts.clear();
        }
        rest
    }
}

impl Drop for UnsentParts<'_> {
    /// The pool closes the last descriptor of a file that was deleted meanwhile, since freeing it may take
    /// long.
    fn drop(&mut self) {
        let may_take_long = |part: &ObjectPart| part.file().is_some_and(|file| super::is_deleted(file));
        if self.parts.iter().any(may_take_long) {
            self.pool.discard(std::mem::take(&mut self.parts));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, remove_file};
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Weak};

    use wirepath_engine::Priority;

    use super::*;

    /// Dropped when the sender is dropped.
    struct Gate(Receiver<()>);

    impl Drop for Gate {
        fn drop(&mut self) {
            assert!(self.0.recv().is_err(), "it is only ever dropped");
        }
    }

    /// Promise: The last bytes of a response leave at once, also if an empty part is behind them.
    #[test]
    fn empty_parts_hold_nothing_back() {
        let pool = BlockingPool::start("closing", 1, Priority::Normal).expect("a thread");
        // A datagram socket holds bytes back until the next send; TCP would send them after 200 ms.
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let (client, server) = (bind(), bind());
        server.connect(client.local_addr().expect("an address")).expect("connected");
        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        let parts = ["", "head", "", "body", "", ""].map(|part| ObjectPart::Bytes(part.into()));
        let mut parts = UnsentParts::new(parts.into(), &pool);
        let mut sent = || parts.send(&server, 100).expect("room").map(|outcome| outcome.bytes);
        assert_eq!([sent(), sent(), sent()], [Some(4), Some(4), None]);
        let mut received = [0; 100];
        let length = client.recv(&mut received).expect("the body is not held back");
        assert_eq!(&received[..length], b"headbody", "the head waits for the body");
    }

    /// Promise: If a file is deleted while a response is sent, another thread than the connection thread
    /// closes it.
    #[test]
    fn deleted_files_are_closed_elsewhere() {
        let pool = BlockingPool::start("closing", 1, Priority::Normal).expect("a thread");
        let (open, gate) = channel();
        pool.discard(Gate(gate));
        let after_response = |is_deleted| -> Weak<File> {
            let path = std::env::temp_dir().join(format!("wirepath-unsent-{}", std::process::id()));
            let file = Arc::new(File::create(&path).expect("a file"));
            let left = Arc::downgrade(&file);
            let remove = || remove_file(&path).expect("it was there");
            if is_deleted {
                remove();
            }
            drop(UnsentParts::new(vec![ObjectPart::Extent { file, range: 0..1 }], &pool));
            if !is_deleted {
                remove();
            }
            left
        };
        assert!(after_response(false).upgrade().is_none(), "closed at once");
        let deleted = after_response(true);
        assert!(deleted.upgrade().is_some(), "closed by this thread");
        drop(open);
        pool.wait_for_discarded();
        assert!(deleted.upgrade().is_none());
    }
}
