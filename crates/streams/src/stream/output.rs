//! What waits for an output, and leaves by it.

use super::{Job, Output, Storage};
use crate::object::{ObjectError, Take};
use crate::outbox::Dropped;

impl Output {
    /// Whether nothing waits for it.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_empty() && !self.busy && self.held() == 0
    }

    /// Bytes that wait for it.
    pub(super) fn waiting(&self) -> usize {
        self.outbox.bytes() + self.beyond()
    }

    /// Bytes of these that are not in its outbox: in its pipe, being written, or gathered for a handler.
    pub(super) fn beyond(&self) -> usize {
        self.held() + self.storing + self.chain.gathered()
    }

    /// Drops all that waits for it; answers what it did not get, now and before.
    pub(super) fn give_up(&mut self) -> Dropped {
        self.outbox.drop_all();
        self.outbox.note_lost(self.chain.give_up());
        let beyond = self.beyond() as u64;
        let Dropped { records, bytes } = self.outbox.dropped();
        Dropped { records, bytes: bytes + beyond }
    }

    /// Takes of what waits; answers how many bytes, or None if nothing could be done.
    pub(super) fn send(
        &mut self,
        storage: &mut Vec<Storage>,
        now_us: u64,
    ) -> Result<Option<usize>, ObjectError> {
        if self.outbox.is_empty() || !self.writable || self.busy {
            return Ok(None);
        }
        match self.object.take(&mut self.outbox)? {
            Take::Taken(bytes) => {
                self.note_taken(bytes, now_us);
                Ok(Some(bytes))
            }
            Take::Lost(bytes) => {
                self.lost_bytes += bytes as u64;
                Ok(Some(bytes))
            }
            Take::Full => {
                self.writable = false;
                Ok(None)
            }
            Take::Incomplete => Ok(None),
            Take::Write(batch) => {
                self.busy = true;
                self.storing = batch.bytes();
                storage.push(Storage { port: self.port, job: Job::Write(batch) });
                Ok(Some(0))
            }
        }
    }
}
