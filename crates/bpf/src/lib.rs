//! Handlers as eBPF programs: one object file, whose handler runs in the kernel where a stream can be carried
//! there, and in user space elsewhere, with the same result (KStreams paper, section 4.4: handlers in the
//! kernel, safely).
//!
//! In the kernel a handler is part of a mirror of UDP datagrams ([`Mirror`]): a program at the ingress of
//! network devices takes datagrams of the input, asks the handler, and sends a clone to each
//! receiver. What it cannot do is left to user space, record by record and in order.

mod error;
mod handler;
mod instructions;
mod interpreter;
mod mirror;
mod place;
mod program;

pub use error::BpfError;
pub use handler::BpfHandler;
pub use mirror::{Mirror, MirrorCounts, Receiver};
pub use place::Place;
pub use program::HandlerObject;
