//! Pool of threads that may block, so that engine threads never block.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;

use parking_lot::Mutex;

use crate::panic::catch_panic;

/// Job that may block.
pub type Job = Box<dyn FnOnce() + Send>;

/// Value to be dropped.
type Discarded = Box<dyn Send>;

/// Maximum number of waiting jobs. Further jobs are refused, and the caller tries again later.
const QUEUE: usize = 4096;

/// Pool of a few threads that run blocking jobs, and a thread that drops values whose destructors may block.
/// The threads end when the last handle is dropped.
#[derive(Clone)]
pub struct BlockingPool {
    jobs: SyncSender<Job>,
    discarded: Sender<Discarded>,
}

/// Value that is dropped on a thread of the pool ([`BlockingPool::discard`]), on whatever thread the wrapper
/// is dropped.
pub struct DropOnPool<T: Send + 'static> {
    value: Option<T>,
    pool: BlockingPool,
}

/// Priority of the pool's threads over other threads if the machine has fewer cores than runnable threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Same priority as engine threads, for jobs whose result a task waits for.
    Normal,
    /// A third of an engine thread's share of a busy processor (nice 5), for downloads.
    Low,
    /// After all other threads (nice 10), for background work such as packing.
    Background,
}

impl Priority {
    /// Sets the priority of the calling thread, which must have normal priority before. A failure is logged:
    /// the thread then works with normal priority.
    pub fn apply(self) {
        let increment = match self {
            Priority::Normal => return,
            Priority::Low => 5,
            Priority::Background => 10,
        };
        // On Linux, nice(2) changes only the calling thread.
        if let Err(errno) = rustix::process::nice(increment) {
            let current = thread::current();
            tracing::warn!(thread = current.name(), %errno, "nice({increment}) failed; using normal priority");
        }
    }
}

impl BlockingPool {
    /// Starts `threads` threads (at least one). Their names are `name` with a number.
    ///
    /// # Errors
    /// A thread could not be started.
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

    /// Runs a job on a thread of the pool. Returns whether there was room in the queue. Never blocks.
    #[must_use]
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.offer(Box::new(job)).is_ok()
    }

    /// Like [`BlockingPool::submit`], but returns the job if there is no room in the queue.
    ///
    /// # Errors
    /// The job, if there is no room in the queue.
    pub fn offer(&self, job: Job) -> Result<(), Job> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// Drops a value on a thread of the pool that only drops values. Closing the last descriptor of a deleted
    /// file takes as long as the file system needs to free the file: a quarter of a second for half a
    /// gigabyte on ext4. Never blocks.
    ///
    /// The queue has no limit: its values were open just before, and the number of open values is limited.
    /// Jobs are not delayed, since they run on other threads.
    pub fn discard(&self, value: impl Send + 'static) {
        // The thread outlives all handles. If it is gone nevertheless, the value is dropped here.
        drop(self.discarded.send(Box::new(value)));
    }

    /// Waits until all values discarded before are dropped, for callers that need the space of these values.
    pub fn wait_for_discarded(&self) {
        let (last, dropped) = channel::<()>();
        self.discard(last);
        // No value is ever sent: `recv` returns when `last` is dropped.
        let _ = dropped.recv();
    }
}

impl<T: Send> DropOnPool<T> {
    /// Wraps a value that is to be dropped on the pool.
    pub fn new(value: T, pool: &BlockingPool) -> DropOnPool<T> {
        DropOnPool { value: Some(value), pool: pool.clone() }
    }

    /// Takes the value out. It is then dropped like any other value.
    pub fn into_inner(mut self) -> T {
        self.value.take().expect("it is there until this is dropped")
    }

    /// Pool on which the value is dropped.
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
        // A panicking job is a bug, but must not end the thread, since other tasks wait for other jobs.
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

    /// Value whose destructor sends the name of its thread.
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
