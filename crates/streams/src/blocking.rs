//! Threads that wait for storage so that engine threads never do.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::panics::caught;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// What is only to be dropped.
type Discarded = Box<dyn Send>;

/// Jobs that may wait; more are refused, and whoever asked asks again later.
const QUEUE: usize = 4096;

/// A few threads that run jobs which may block, and one that drops what takes its time. They end when the last handle is
/// dropped.
#[derive(Clone)]
pub struct BlockingPool {
    jobs: SyncSender<Job>,
    discarded: Sender<Discarded>,
}

/// A value that is [discarded](BlockingPool::discard) wherever this is dropped.
pub struct Deferred<T: Send + 'static> {
    /// None only while this is dropped.
    value: Option<T>,
    pool: BlockingPool,
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
        let (discarded, leaving) = channel();
        thread::Builder::new().name(format!("{name}-closer")).spawn(move || close(&leaving))?;
        Ok(BlockingPool { jobs, discarded })
    }

    /// Has a job run; answers whether there was room for it. Never blocks.
    #[must_use]
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.offer(Box::new(job)).is_ok()
    }

    /// Has a job run, or gives it back if there is no room. Never blocks.
    pub(crate) fn offer(&self, job: Job) -> Result<(), Job> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// Has a value dropped on a thread of the pool that does nothing else: closing the last descriptor of a file that was
    /// deleted takes as long as the file system needs to free it, which is a quarter of a second for half a gigabyte of ext4.
    /// Never blocks.
    ///
    /// There is no limit to what waits, because it is what was open a moment ago, and that has limits. Jobs go on meanwhile:
    /// somebody may wait for what they bring in.
    pub fn discard(&self, value: impl Send + 'static) {
        // The thread outlives all handles; should it be gone all the same, the value is dropped here.
        drop(self.discarded.send(Box::new(value)));
    }

    /// Waits until all that was discarded before is dropped: for whoever needs the room that it takes.
    pub fn wait_for_discarded(&self) {
        let (last, dropped) = channel::<()>();
        self.discard(last);
        // Nothing is ever sent: this ends when `last` is dropped.
        let _ = dropped.recv();
    }
}

impl<T: Send> Deferred<T> {
    /// Has `value` discarded by `pool` when this is dropped.
    pub fn new(value: T, pool: &BlockingPool) -> Deferred<T> {
        Deferred { value: Some(value), pool: pool.clone() }
    }

    /// The value, dropped like any other from here on.
    pub fn into_inner(mut self) -> T {
        self.value.take().expect("it is there until this is dropped")
    }

    /// The pool.
    pub fn pool(&self) -> &BlockingPool {
        &self.pool
    }
}

impl<T: Send> Deref for Deferred<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until this is dropped")
    }
}

impl<T: Send> DerefMut for Deferred<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until this is dropped")
    }
}

impl<T: Send> Drop for Deferred<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.pool.discard(value);
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
        if let Err(words) = caught(job) {
            tracing::error!(words, "a job panicked; what it was to do is not done");
        }
    }
}

fn close(leaving: &Receiver<Discarded>) {
    for value in leaving {
        if let Err(words) = caught(|| drop(value)) {
            tracing::error!(words, "dropping something panicked");
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::Duration;

    /// Something that tells the name of the thread it is dropped on.
    pub(crate) struct Tell(pub(crate) Sender<String>);

    impl Drop for Tell {
        fn drop(&mut self) {
            let name = thread::current().name().unwrap_or_default().to_owned();
            self.0.send(name).unwrap();
        }
    }

    /// A pool whose closer does nothing until the answer is dropped.
    pub(crate) fn pool_with_held_closer() -> (BlockingPool, Sender<()>) {
        struct Gate(Receiver<()>);
        impl Drop for Gate {
            fn drop(&mut self) {
                assert!(self.0.recv().is_err(), "it is only ever dropped");
            }
        }
        let pool = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
        let (open, gate) = channel();
        pool.discard(Gate(gate));
        (pool, open)
    }

    #[test]
    fn what_is_deferred_is_dropped_by_the_closer_though_jobs_hang() {
        let pool = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
        let (answer, asked) = channel::<()>();
        assert!(pool.submit(move || assert!(asked.recv().is_err(), "it is only ever dropped")));
        let (tell, told) = channel();
        drop(Deferred::new(Tell(tell), &pool));
        assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), "reader-closer");
        drop(answer);
    }

    #[test]
    fn a_drop_that_panics_ends_nothing() {
        struct Bug;
        impl Drop for Bug {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let pool = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
        let (tell, told) = channel();
        pool.discard(Bug);
        pool.wait_for_discarded();
        pool.discard(Tell(tell));
        assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), "reader-closer");
    }
}
