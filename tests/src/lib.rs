//! Shared by the tests of the whole server: the server as a process, namespaces, clients, clips.
//!
//! Nothing here uses the crates of Wirepath, but to ask whether this machine has io_uring, and to make up a
//! result of `wirepath assess`: what is sent is read back with readers that others wrote, or with a few lines
//! of our own that know only the RFC.

pub mod assessment;
pub mod bpf;
pub mod browser;
pub mod caching;
pub mod clients;
pub mod clips;
pub mod deadline;
pub mod frames;
pub mod hot;
pub mod http;
pub mod http_tunnel;
pub mod interleaved;
pub mod kernel;
pub mod kernel_memory;
pub mod loss;
pub mod memory_group;
pub mod movie;
pub mod mutation;
pub mod namespace;
pub mod origin;
pub mod paths;
pub mod playback;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod python;
pub mod rtp;
pub mod rtsp;
pub mod seek;
pub mod server;
pub mod slow;
pub mod tls;

pub use deadline::Deadline;
pub use wirepath_testkit::{kvm, require, trial, trials};

/// Calls again what a signal interrupted: a socket with a timeout is, also by being stopped and going on.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Compiles and runs the examples of the document.
#[cfg(doctest)]
#[doc = include_str!("../../docs/streams.md")]
pub struct Documents;
