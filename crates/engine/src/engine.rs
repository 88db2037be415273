//! Engine: its threads, and the placement of tasks on threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::blocking_pool::{BlockingPool, Priority};
use crate::counters::{Counters, LoadUnit, TaskUnit, ThreadCounters};
use crate::mailbox::{Command, Handle, Mailbox};
use crate::panic::catch_panic;
use crate::scheduler::Rate;
use crate::sharing::Sharing;
use crate::task::Task;
use crate::worker::Worker;

/// Options of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Number of engine threads, at least one.
    pub threads: usize,
    /// Number of threads that wait for storage, at least one.
    pub pool_threads: usize,
    /// Sharing of each thread by its tasks.
    pub sharing: Sharing,
    /// Called with the message of a panic on an engine thread, on that thread, after it has dropped all its
    /// tasks. The other threads continue. Without a function the panic is logged.
    pub on_panic: Option<fn(&str)>,
}

impl Default for EngineOptions {
    /// One engine thread, two threads that wait for storage, and no classes.
    fn default() -> EngineOptions {
        EngineOptions { threads: 1, pool_threads: 2, sharing: Sharing::default(), on_panic: None }
    }
}

/// Placement of a task, and its limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Placement {
    /// Number of the thread, modulo the number of threads. By default, the least loaded thread, or the thread
    /// of the task's class if the class has a rate.
    pub thread: Option<usize>,
    /// Index of the task's class in [`Sharing::classes`]. An index beyond the end selects the last class.
    pub class: usize,
    /// Limit of the task's reading rate, in bytes.
    pub rate: Option<Rate>,
}

/// Threads that run tasks. Dropping the engine ends the threads and all their tasks.
pub struct Engine {
    threads: Vec<EngineThread>,
    /// True for each class with a rate.
    have_rates: Vec<bool>,
    next_id: AtomicU64,
    pool: BlockingPool,
}

struct EngineThread {
    mailbox: Arc<Mailbox>,
    counters: Arc<ThreadCounters>,
    join: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the engine threads.
    ///
    /// # Errors
    /// `epoll_create1` or `eventfd` failed, or a thread could not be started.
    pub fn start(options: EngineOptions) -> io::Result<Engine> {
        let pool = BlockingPool::start("reader", options.pool_threads, Priority::Normal)?;
        Engine::start_with_pool(options, pool)
    }

    /// Like [`Engine::start`], with a pool that others may use, too.
    ///
    /// # Errors
    /// The same as of [`Engine::start`].
    pub fn start_with_pool(options: EngineOptions, pool: BlockingPool) -> io::Result<Engine> {
        let have_rates = options.sharing.classes.iter().map(|class| class.rate.is_some()).collect();
        let mut threads = Vec::new();
        for number in 0..options.threads.max(1) {
            let (mailbox, counters) = (Arc::new(Mailbox::new()?), Arc::new(ThreadCounters::default()));
            let worker = Worker::new(
                options.sharing.clone(),
                Arc::clone(&mailbox),
                Arc::clone(&counters),
                pool.clone(),
            )?;
            let closing = Arc::clone(&mailbox);
            let run = move || run(number, worker, &closing, options.on_panic);
            let join = thread::Builder::new().name(format!("engine-{number}")).spawn(run)?;
            threads.push(EngineThread { mailbox, counters, join: Some(join) });
        }
        Ok(Engine { threads, have_rates, next_id: AtomicU64::new(1), pool })
    }

    /// Starts a task on a thread. After a panic on that thread the task is dropped.
    pub fn spawn<T: Task>(&self, task: Box<T>, placement: Placement) -> Handle<T> {
        let Placement { thread, class, rate } = placement;
        let thread = match thread {
            Some(number) => &self.threads[number % self.threads.len()],
            None => self.thread_of_class(class),
        };
        let unit = TaskUnit::new(&thread.counters);
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        thread.mailbox.send(Command::Add { id, task, unit, class, rate });
        Handle::new(id, Arc::clone(&thread.mailbox))
    }

    /// Sums the counters of all threads.
    pub fn counters(&self) -> Counters {
        self.threads.iter().map(|thread| thread.counters.snapshot()).sum()
    }

    /// Pool of threads that wait for storage.
    pub fn pool(&self) -> &BlockingPool {
        &self.pool
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Units of load on a thread: its tasks, and the units [added](Engine::add_load).
    pub fn load(&self, thread: usize) -> u64 {
        self.threads[thread].counters.load.value()
    }

    /// Time that a thread has been awake since the engine was started.
    pub fn awake(&self, thread: usize) -> Duration {
        self.threads[thread].counters.snapshot().awake_seconds
    }

    /// Adds a unit of load to a thread, for a task that does the work of many. Load is used to place tasks.
    pub fn add_load(&self, thread: usize) -> LoadUnit {
        LoadUnit::new(&self.threads[thread].counters)
    }

    fn thread_of_class(&self, class: usize) -> &EngineThread {
        let class = class.min(self.have_rates.len().saturating_sub(1));
        match self.have_rates.get(class) {
            Some(true) => &self.threads[class % self.threads.len()],
            _ => {
                let rank =
                    |thread: &&EngineThread| (thread.mailbox.is_closed(), thread.counters.load.value());
                let least = self.threads.iter().min_by_key(rank);
                least.expect("an engine has at least one thread")
            }
        }
    }
}

/// Runs an engine thread to its end, or to a panic of a task or of the engine itself.
fn run(number: usize, worker: Worker, mailbox: &Mailbox, on_panic: Option<fn(&str)>) {
    let Err(message) = catch_panic(|| worker.run()) else { return };
    // Before the report, which may end the process. Commands that wait are dropped, as those that follow: their
    // senders would otherwise wait for ever.
    drop(mailbox.close());
    match on_panic {
        Some(report) => report(&message),
        None => tracing::error!(message, thread = number, "an engine thread panicked: its tasks are lost"),
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for thread in &self.threads {
            thread.mailbox.send(Command::Quit);
        }
        for thread in &mut self.threads {
            if thread.join.take().is_some_and(|join| join.join().is_err()) {
                tracing::error!("an engine thread panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

    use parking_lot::Mutex;

    use super::*;
    use crate::task::Context;

    /// Longer than anything here takes; a longer wait fails.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Panics at its start.
    struct Panicking;

    impl Task for Panicking {
        fn start(&mut self, _context: &mut Context<'_>) {
            panic!("on purpose");
        }

        fn end(self: Box<Self>, _pool: &BlockingPool) {}
    }

    /// Rests until it is dropped.
    struct Resting {
        begun: Sender<()>,
    }

    impl Task for Resting {
        fn start(&mut self, _context: &mut Context<'_>) {
            self.begun.send(()).unwrap();
        }

        fn end(self: Box<Self>, _pool: &BlockingPool) {}
    }

    static REPORTED: Mutex<Vec<String>> = Mutex::new(Vec::new());

    /// Promise: After a panic on an engine thread, its tasks and commands are dropped, and the panic is reported.
    #[test]
    fn a_panic_closes_its_thread_and_is_reported() {
        let on_panic = |message: &str| REPORTED.lock().push(message.to_owned());
        let options = EngineOptions { threads: 2, on_panic: Some(on_panic), ..EngineOptions::default() };
        let engine = Engine::start(options).unwrap();
        let on = |thread| Placement { thread: Some(thread), ..Placement::default() };
        let (begun, resting) = channel();
        let handle = engine.spawn(Box::new(Resting { begun }), on(0));
        resting.recv_timeout(PATIENCE).unwrap();

        let panicking = engine.spawn(Box::new(Panicking), on(0));
        assert_eq!(resting.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "it is dropped");
        for round in 0..2 {
            let (sender, receiver) = channel::<()>();
            panicking.with(move |_, _| drop(sender));
            assert_eq!(receiver.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "{round}");
        }
        let (sender, receiver) = channel();
        handle.with(move |_, _| sender.send(()).unwrap());
        assert_eq!(receiver.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "it is not called");
        assert_eq!((engine.counters().tasks, engine.load(0)), (0, 0));

        let (begun, resting) = channel();
        engine.spawn(Box::new(Resting { begun }), on(0));
        assert_eq!(resting.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "nothing runs it");
        let (begun, resting) = channel();
        engine.spawn(Box::new(Resting { begun }), Placement::default());
        resting.recv_timeout(PATIENCE).expect("the other thread runs it");
        drop(engine); // ends the threads, and so their reports
        assert_eq!(*REPORTED.lock(), ["on purpose"]);
    }
}
