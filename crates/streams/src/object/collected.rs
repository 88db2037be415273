use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::outbox::Outbox;
use crate::record::Run;

/// Handle to the bytes and records that an [object in memory](crate::Object::collect) has taken.
#[derive(Clone, Debug)]
pub struct Collected {
    kept: Arc<Mutex<Kept>>,
    limit: usize,
}

/// Collected runs, and the sum of their bytes.
#[derive(Debug, Default)]
struct Kept {
    runs: Vec<Run>,
    bytes: usize,
}

impl Collected {
    pub(super) fn new(limit: usize) -> Collected {
        Collected { kept: Arc::default(), limit }
    }

    /// Takes all waiting runs of the outbox; returns the number of bytes.
    pub(super) fn take(&self, outbox: &mut Outbox) -> Result<usize, Errno> {
        let mut kept = self.lock();
        if kept.bytes + outbox.bytes > self.limit {
            return Err(Errno::NOSPC);
        }
        let bytes = outbox.bytes;
        kept.runs.extend(outbox.take(usize::MAX));
        kept.bytes += bytes;
        Ok(bytes)
    }

    /// Copies the records so far; the last record may be incomplete.
    pub fn records(&self) -> Vec<Vec<u8>> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        for run in &self.lock().runs {
            for piece in run.pieces() {
                match records.last_mut() {
                    Some(last) if !piece.begins => last.extend_from_slice(piece.bytes),
                    _ => records.push(piece.bytes.to_vec()),
                }
            }
        }
        records
    }

    /// Takes the bytes so far, in the slices in which they arrived, without a copy.
    pub fn take_slices(&self) -> Vec<Bytes> {
        let kept = std::mem::take(&mut *self.lock());
        kept.runs.into_iter().map(|run| run.bytes).collect()
    }

    /// Copies the bytes so far.
    pub fn bytes(&self) -> Vec<u8> {
        self.lock().runs.iter().flat_map(|run| run.bytes.iter().copied()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }
}
