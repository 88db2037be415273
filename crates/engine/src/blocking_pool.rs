//! Threads that may block, so that engine threads never do.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::panic::catch_panic;

/// Job that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Value that is only to be dropped.
type Discarded = Box<dyn Send>;

/// Jobs that may wait; more are refused, and the caller tries again later.
const QUEUE: usize = 4096;

/// A few threads that run jobs which may block, and one that drops values whose destructors may block. They
/// end when the last handle is dropped.
#[derive(Clone)]
pub struct BlockingPool {
    jobs: SyncSender<Job>,
    discarded: Sender<Discarded>,
}

/// A value that is dropped on a thread of the pool ([`BlockingPool::discard`]), wherever this is dropped.
pub struct DropOnPool<T: Send + 'static> {
    value: Option<T>,
    pool: BlockingPool,
}

/// Priority of the threads over others when there is more to do than cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// As an engine thread: a task waits for the result.
    Normal,
    /// A third of an engine thread's share of a busy processor (nice 5): downloads.
    Low,
    /// After everything else (nice 10): packing, for instance.
    Background,
}

impl Priority {
    /// Gives the calling thread, of normal priority before, this priority. Logs a failure: threads work without
    /// it, only less politely.
    pub fn apply(self) {
        let increment = match self {
            Priority::Normal => return,
            Priority::Low => 5,
            Priority::Background => 10,
        };
        // On Linux this concerns the calling thread only.
        if let Err(errno) = rustix::process::nice(increment) {
            let current = thread::current();
            tracing::warn!(thread = current.name(), %errno, "nice({increment}) failed; using normal priority");
        }
    }
}

impl BlockingPool {
    /// Starts `threads` threads (at least one) called `name` and a number.
    ///
    /// # Errors
    /// Failure to start a thread.
    pub fn start(name: &str, threads: usize, priority: Priority) -> io::Result<BlockingPool> {
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(format!("{name}-{number}")).spawn(move || run(&queue, priority))?;
        }
        let (discarded, leaving) = channel();
        thread::Builder::new().name(format!("{name}-closer")).spawn(move || close(&leaving))?;
        Ok(BlockingPool { jobs, discarded })
    }

    /// Runs a job on a thread of the pool. Returns whether there was room for it. Never blocks.
    #[must_use]
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.offer(Box::new(job)).is_ok()
    }

    /// As [`BlockingPool::submit`], and returns the job if there is no room.
    ///
    /// # Errors
    /// The job, if there is no room for it.
    pub fn offer(&self, job: Job) -> Result<(), Job> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// Drops a value on a thread of the pool that does nothing else. Closing the last descriptor of a deleted
    /// file takes as long as the file system needs to free the file: a quarter of a second for half a
    /// gigabyte of ext4. Never blocks.
    ///
    /// The queue has no limit, because its values were open a moment ago, and open values have limits. Jobs
    /// are not delayed: they run on other threads.
    pub fn discard(&self, value: impl Send + 'static) {
        // The thread outlives all handles. Should it be gone all the same, the value is dropped here.
        drop(self.discarded.send(Box::new(value)));
    }

    /// Waits until all values that were discarded before are dropped, for callers that need the room that
    /// these took.
    pub fn wait_for_discarded(&self) {
        let (last, dropped) = channel::<()>();
        self.discard(last);
        // Nothing is ever sent: this ends when `last` is dropped.
        let _ = dropped.recv();
    }
}

impl<T: Send> DropOnPool<T> {
    /// Wraps a value.
    pub fn new(value: T, pool: &BlockingPool) -> DropOnPool<T> {
        DropOnPool { value: Some(value), pool: pool.clone() }
    }

    /// The value, which is dropped like any other from here on.
    pub fn into_inner(mut self) -> T {
        self.value.take().expect("it is there until this is dropped")
    }

    /// The pool.
    pub fn pool(&self) -> &BlockingPool {
        &self.pool
    }
}

impl<T: Send> Deref for DropOnPool<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until this is dropped")
    }
}

impl<T: Send> DerefMut for DropOnPool<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is there until this is dropped")
    }
}

impl<T: Send> Drop for DropOnPool<T> {
    fn drop(&mut self) {
        if let Some(value) = self.value.take() {
            self.pool.discard(value);
        }
    }
}

fn run(queue: &Mutex<Receiver<Job>>, priority: Priority) {
    priority.apply();
    loop {
        let job = queue.lock().recv();
        let Ok(job) = job else { return };
        // A job that panics is a bug, but no reason to end the thread: other tasks wait for other jobs.
        if let Err(message) = catch_panic(job) {
            tracing::error!(message, "a job panicked; its work is not done");
        }
    }
}

fn close(leaving: &Receiver<Discarded>) {
    for value in leaving {
        if let Err(message) = catch_panic(|| drop(value)) {
            tracing::error!(message, "a destructor panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Something that tells the name of the thread it is dropped on.
    struct Tell(Sender<String>);

    impl Drop for Tell {
        fn drop(&mut self) {
            let name = thread::current().name().unwrap_or_default().to_owned();
            self.0.send(name).unwrap();
        }
    }

    #[test]
    fn what_is_deferred_is_dropped_by_the_closer_though_jobs_hang() {
        let pool = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let (answer, asked) = channel::<()>();
        assert!(pool.submit(move || assert!(asked.recv().is_err(), "it is only ever dropped")));
        let (tell, told) = channel();
        drop(DropOnPool::new(Tell(tell), &pool));
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
        let pool = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let (tell, told) = channel();
        pool.discard(Bug);
        pool.wait_for_discarded();
        pool.discard(Tell(tell));
        assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), "reader-closer");
    }
}
