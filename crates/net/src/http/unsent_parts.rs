//! The parts of a response that are still to be sent.

use std::io;
use std::os::fd::AsFd;

use wirepath_engine::Engine;
use wirepath_streams::ObjectPart;

/// Parts of a response, and how much of them is sent. Closes files where that cannot take long.
pub(super) struct UnsentParts<'a> {
    parts: Vec<ObjectPart>,
    /// Parts that are sent.
    sent: usize,
    engine: &'a Engine,
}

impl<'a> UnsentParts<'a> {
    pub(super) fn new(parts: Vec<ObjectPart>, engine: &'a Engine) -> Self {
        Self { parts, sent: 0, engine }
    }

    /// Bytes to be sent.
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(ObjectPart::length).sum()
    }

    /// Sends what the connection takes of the next part, of a file at most `most` bytes; none if there is none,
    /// or the engine has to send it.
    pub(super) fn send(&mut self, socket: impl AsFd, most: u64) -> io::Result<Option<usize>> {
        while self.parts.get(self.sent).is_some_and(|part| part.length() == 0) {
            self.sent += 1;
        }
        let is_followed = self.sent + 1 < self.parts.len();
        self.parts.get_mut(self.sent).map_or(Ok(None), |part| part.send(socket, most, is_followed))
    }

    /// The parts that are not sent.
    pub(super) fn take(&mut self) -> Vec<ObjectPart> {
        let rest = self.parts.split_off(self.sent);
        if !rest.is_empty() {
            // They hold the files, too.
            self.parts.clear();
        }
        rest
    }
}

impl Drop for UnsentParts<'_> {
    /// Freeing a file that was deleted meanwhile may take long: the pool closes its last descriptor.
    fn drop(&mut self) {
        let may_take_long = |part: &ObjectPart| match part {
            ObjectPart::Bytes(_) => false,
            ObjectPart::Extent { file, .. } | ObjectPart::Following { file, .. } => super::is_deleted(file),
        };
        if self.parts.iter().any(may_take_long) {
            self.engine.pool().discard(std::mem::take(&mut self.parts));
        }
    }
}
