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

/// A few threads that run jobs which may block on storage. They end when the last handle is dropped.
#[derive(Clone)]
pub struct Readers {
    jobs: SyncSender<Job>,
}

impl Readers {
    /// Starts `threads` threads.
    ///
    /// # Errors
    /// What starting a thread says.
    pub fn start(threads: usize) -> io::Result<Readers> {
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(format!("reader-{number}")).spawn(move || run(&queue))?;
        }
        Ok(Readers { jobs })
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

fn run(queue: &Mutex<Receiver<Job>>) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A job that panics is a bug of ours, but not a reason to stop bringing in what others wait for.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
            tracing::error!("a reader's job panicked; what it was to bring in is not there");
        }
    }
}
