//! Thread of a storm of set-ups.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::session::{self, Shared};
use crate::storm::Storm;

/// Number of connections that share the set-ups.
const CONNECTIONS: u32 = 8;

/// Thread of a storm.
pub(crate) struct StormThread {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl StormThread {
    pub(crate) fn start(shared: &Arc<Shared>, storm: Storm) -> io::Result<StormThread> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::clone(shared);
        let work = move || runtime.block_on(blow(shared, storm, stopped));
        let thread = std::thread::Builder::new().name("storm".to_owned()).spawn(work)?;
        Ok(StormThread { stop, thread })
    }

    /// Ends the storm. Set-ups that are not answered by then do not count.
    pub(crate) fn end(self) {
        // Fails only if the thread has already ended.
        _ = self.stop.send(true);
        _ = self.thread.join();
    }
}

async fn blow(shared: Arc<Shared>, storm: Storm, stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    for number in 0..CONNECTIONS {
        let (shared, mut stop) = (Arc::clone(&shared), stop.clone());
        connections.spawn(async move {
            let rate = storm.rate / f64::from(CONNECTIONS);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => {}
                failure = session::storm(&shared, u64::from(number), rate) => {
                    let mut counts = shared.totals.storm.counts.lock();
                    counts.failed_connections += 1;
                    counts.reason = Some(failure.to_string());
                }
            }
        });
    }
    while connections.join_next().await.is_some() {}
}
