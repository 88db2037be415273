//! Threads for streams.

use std::ffi::c_uint;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::thread;

use wirepath_streams::engine::{Engine, EngineOptions};

use crate::call::{Failure, call};

/// `wp_engine`: threads that are shared by streams, and end when nobody has them any more.
#[derive(Clone)]
pub struct SharedEngine(Arc<Threads>);

struct Threads(Option<Engine>);

impl SharedEngine {
    pub(crate) fn start(threads: usize) -> Result<SharedEngine, Failure> {
        let options = EngineOptions { threads, pool_threads: 1, ..EngineOptions::default() };
        let engine = without_sigpipe(|| Engine::start(options))
            .map_err(|error| Failure::failed(format!("engine threads cannot be started: {error}")))?;
        Ok(SharedEngine(Arc::new(Threads(Some(engine)))))
    }

    pub(crate) fn engine(&self) -> Result<&Engine, Failure> {
        self.0.0.as_ref().ok_or_else(|| Failure::failed("the engine has ended"))
    }
}

/// The end of an engine waits for its threads, and one that is in a handler may never end: so nobody waits
/// for it.
impl Drop for Threads {
    fn drop(&mut self) {
        drop_elsewhere("engine-end", self.0.take());
    }
}

/// Drops what may block on a thread of its own.
pub(crate) fn drop_elsewhere<T: Send + 'static>(name: &str, value: T) {
    // If there is no thread to be had, the closure is dropped here, and this waits.
    drop(thread::Builder::new().name(name.to_owned()).spawn(move || drop(value)));
}

/// Runs `start`, whose threads are not ended by SIGPIPE: a program in C, unlike one in Rust, is, when a
/// stream writes to a pipe or connection whose reader is gone. They get EPIPE. Threads inherit the mask of
/// signals.
fn without_sigpipe<T>(start: impl FnOnce() -> T) -> T {
    let mut pipe = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both have room for a set; the first is made before it is read, and the calls keep no pointer.
    let blocked = unsafe {
        libc::sigemptyset(pipe.as_mut_ptr());
        libc::sigaddset(pipe.as_mut_ptr(), libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, pipe.as_ptr(), before.as_mut_ptr()) == 0
    };
    let started = start();
    if blocked {
        // SAFETY: the mask from before was filled in, since that call succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    started
}

/// Starts threads for many streams.
#[unsafe(no_mangle)]
pub extern "C" fn wp_engine_new(threads: c_uint) -> *mut SharedEngine {
    /// More than the largest machines have processors.
    const MOST: c_uint = 4096;
    call(|| match threads {
        1..=MOST => Ok(Box::into_raw(Box::new(SharedEngine::start(threads as usize)?))),
        other => Err(Failure::invalid(format!("invalid number of threads {other}: expected 1 to {MOST}"))),
    })
}

/// Gives the engine back; it ends when its last stream is freed.
///
/// # Safety
/// `engine` is NULL or of [`wp_engine_new`], and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_engine_free(engine: *mut SharedEngine) {
    if !engine.is_null() {
        // SAFETY: it is a box of `wp_engine_new`, and the caller has no other use of it.
        drop(unsafe { Box::from_raw(engine) });
    }
}
