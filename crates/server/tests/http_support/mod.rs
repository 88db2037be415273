//! An HTTP listener on loopback, and files to serve.

#![allow(dead_code, reason = "each of the two test programs uses its part of this")]

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use wirepath_engine::{BlockingPool, Engine, EngineOptions, Priority};
use wirepath_net::RuntimeThreads;
use wirepath_net::http::{Endpoint, HttpOptions, Listener, Timeouts};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_server::{Library, LibrarySite};

/// A listener that serves until this is dropped.
pub(crate) struct RunningListener {
    pub(crate) address: SocketAddr,
    pub(crate) folder: TempDir,
    pub(crate) readers: BlockingPool,
    drain: Option<watch::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

/// Bytes that do not repeat within any range that a test asks for.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length as u32).flat_map(|at| at.wrapping_mul(0x9e37_79b1).to_be_bytes()).take(length).collect()
}

impl RunningListener {
    /// A listener whose clients may take two seconds for a write.
    pub(crate) fn new(options: HttpOptions) -> Self {
        let timeouts = Timeouts { write: Duration::from_secs(2), ..options.timeouts };
        Self::with_timeouts(HttpOptions { timeouts, ..options })
    }

    /// A listener with all times as given.
    pub(crate) fn with_timeouts(options: HttpOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = Arc::new(Library::open(&[folder.path().to_owned()]).unwrap());
        let (drain, drained) = watch::channel(false);
        let (tell, told) = oneshot::channel();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let of_engine = readers.clone();
        let thread = std::thread::spawn(move || run(options, library, of_engine, drained, tell));
        let address = told.blocking_recv().unwrap();
        Self { address, folder, readers, drain: Some(drain), thread: Some(thread) }
    }

    /// A file modified long ago, so that its tag is a strong one.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Has the listener drain, without waiting for it.
    pub(crate) fn drain(&self) {
        self.drain.as_ref().unwrap().send(true).unwrap();
    }

    /// Waits until the last connection is closed.
    pub(crate) fn wait(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for RunningListener {
    fn drop(&mut self) {
        self.drain.take();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the listener's thread panicked");
        }
    }
}

fn run(
    options: HttpOptions,
    library: Arc<Library>,
    readers: BlockingPool,
    drain: watch::Receiver<bool>,
    tell: oneshot::Sender<SocketAddr>,
) {
    let engine = Arc::new(Engine::start_with_pool(EngineOptions::default(), readers).unwrap());
    let (mut metrics, mut status) = (Metrics::default(), Status::new(Instant::now()));
    let http = Listener::new(options).on(RuntimeThreads::start("http", 2).unwrap());
    http.register(&mut metrics, &mut status);
    let endpoint = Endpoint::new(metrics, status);
    let site = LibrarySite::new(library, endpoint, 8554, 1024);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        tell.send(listener.local_addr().unwrap()).unwrap();
        http.serve(listener, site, engine, drain).await;
    });
}
