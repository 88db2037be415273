//! Threads that wait for storage so that engine threads never do.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that may wait; more are refused, and whoever asked asks again later.
const QUEUE: usize = 4096;

/// A few threads that run jobs which may block. They end when the last handle is dropped.
#[derive(Clone)]
pub struct BlockingPool {
    jobs: SyncSender<Job>,
}

/// Who goes first when there is more to do than cores to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Importance {
    /// As an engine thread: somebody is about to need what this brings in.
    Equal,
    /// After everything else (nice 10): packing.
    Background,
}

impl BlockingPool {
    /// Starts `threads` threads (at least one) called `name` and a number.
    ///
    /// # Errors
    /// What starting a thread says.
    pub fn start(name: &str, threads: usize, importance: Importance) -> io::Result<BlockingPool> {
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(format!("{name}-{number}")).spawn(move || run(&queue, importance))?;
        }
        Ok(BlockingPool { jobs })
    }

    /// Has a job run; answers whether there was room for it. Never blocks.
    #[must_use]
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        match self.jobs.try_send(Box::new(job)) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }
}

/// Reads a range of a file, so that it is in memory afterwards; ends early where the file does.
///
/// # Errors
/// What reading says.
pub(crate) fn warm(file: &File, range: Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    let mut offset = range.start;
    while offset < range.end {
        let wanted = buffer.len().min((range.end - offset) as usize);
        match file.read_at(&mut buffer[..wanted], offset)? {
            0 => break,
            read => offset += read as u64,
        }
    }
    Ok(())
}

fn run(queue: &Mutex<Receiver<Job>>, importance: Importance) {
    if importance == Importance::Background
        && let Err(errno) = rustix::process::nice(10)
    {
        // On Linux this concerns the calling thread only. Going on as an equal is still right, if less kind.
        tracing::warn!(%errno, "a background thread could not be made nicer");
    }
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that panics is a bug of ours, but not a reason to stop doing what others wait for.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("a job panicked; what it was to do is not done");
        }
    }
}
