//! The records that are served, and how many answers are made at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use wirepath_net::folder::Folder;

use crate::limits::{Budget, Limits};

/// Longest time that a request waits for others that are computed.
const PATIENCE: Duration = Duration::from_secs(10);

/// The records of a folder.
#[derive(Clone)]
pub struct Records {
    pub(crate) folder: Arc<Folder>,
    /// Answers that may be made at a time: each may take memory for a record batch.
    computing: Arc<Semaphore>,
    budget: Arc<Budget>,
    /// Time for making an answer.
    time: Duration,
}

/// An answer that was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unmade {
    #[error("too many answers are computed: try again later")]
    Busy,
    #[error("making the answer failed")]
    Failed,
}

impl Records {
    /// The records of a folder; `most` answers are computed at a time, each within `time`, and all take bytes of one
    /// budget.
    pub fn new(folder: Folder, most: usize, budget: Arc<Budget>, time: Duration) -> Records {
        Records { folder: Arc::new(folder), computing: Arc::new(Semaphore::new(most)), budget, time }
    }

    /// Limits of an answer that begins now.
    pub(crate) fn limits(&self) -> Limits {
        Limits::new(Arc::clone(&self.budget), self.time)
    }

    /// Makes an answer on a thread that may block.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        make: impl FnOnce(&Records) -> T + Send + 'static,
    ) -> Result<T, Unmade> {
        let permit = tokio::time::timeout(PATIENCE, Arc::clone(&self.computing).acquire_owned());
        let Ok(Ok(permit)) = permit.await else { return Err(Unmade::Busy) };
        let records = self.clone();
        let made = tokio::task::spawn_blocking(move || {
            let made = make(&records);
            drop(permit);
            made
        });
        made.await.map_err(|error| {
            tracing::error!(%error, "making an answer failed");
            Unmade::Failed
        })
    }
}
