//! Threads that serve connections, each with its own runtime.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use wirepath_engine::Priority;

/// Total limit of threads of all runtimes for blocking work, such as file lookups: tokio's default for one
/// runtime.
const BLOCKING_THREADS: usize = 512;

/// Minimum number of blocking threads per runtime.
const LEAST_BLOCKING_THREADS: usize = 4;

/// Threads that connections are distributed to in turn, so that other tasks of the accepting thread do not
/// wait while a body is sent. They have a lower priority than engine threads, which send media. They end,
/// with everything that they serve, some time after this value is dropped.
#[derive(Debug)]
pub struct RuntimeThreads {
    runtimes: Vec<Handle>,
    turn: AtomicUsize,
    /// Closing its receivers on drop ends the threads.
    _running: watch::Sender<()>,
}

impl RuntimeThreads {
    /// Starts at least one thread; each is named by `name` and a number.
    ///
    /// # Errors
    /// Errors of starting threads and runtimes.
    pub fn start(name: &str, threads: usize) -> io::Result<RuntimeThreads> {
        let (running, is_running) = watch::channel(());
        let threads = threads.max(1);
        let blocking = (BLOCKING_THREADS / threads).max(LEAST_BLOCKING_THREADS);
        let start = |number| {
            let mut builder = Builder::new_current_thread();
            let runtime = builder.enable_all().max_blocking_threads(blocking).build()?;
            let (handle, mut is_running) = (runtime.handle().clone(), is_running.clone());
            let serve = move || {
                Priority::Low.apply();
                runtime.block_on(async { while is_running.changed().await.is_ok() {} });
            };
            thread::Builder::new().name(format!("{name}-{number}")).spawn(serve)?;
            Ok(handle)
        };
        let runtimes = (0..threads).map(start).collect::<io::Result<_>>()?;
        Ok(RuntimeThreads { runtimes, turn: AtomicUsize::new(0), _running: running })
    }

    /// Next runtime in turn.
    pub(crate) fn next(&self) -> &Handle {
        &self.runtimes[self.turn.fetch_add(1, Relaxed) % self.runtimes.len()]
    }
}

/// Moves a connection to the runtime that runs this future.
pub(crate) async fn move_here(stream: TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(stream.into_std()?)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn threads_take_turns_and_end() {
        let threads = RuntimeThreads::start("http", 2).expect("two threads");
        let nice = || getpriority_process(None).expect("its own priority");
        let names = (0..4).map(|_| {
            let (sender, seen) = std::sync::mpsc::channel();
            threads
                .next()
                .spawn(async move { sender.send((thread::current().name().map(str::to_owned), nice())) });
            let (name, of_thread) = seen.recv().expect("the thread runs it");
            assert_eq!(of_thread, (nice() + 5).min(19));
            name.expect("it has a name")
        });
        let names = names.collect::<HashSet<_>>();
        assert_eq!(names, HashSet::from(["http-0".to_owned(), "http-1".to_owned()]));
        let (sender, ended) = std::sync::mpsc::channel::<()>();
        threads.next().spawn(async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        drop(threads);
        assert!(ended.recv().is_err(), "what it served is dropped");
    }
}
