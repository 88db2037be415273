//! Handlers as eBPF programs: one object file, whose handler runs in the kernel where a stream can be carried
//! there, and in user space elsewhere, with the same result (KStreams paper, section 4.4: handlers in the
//! kernel, safely).
//!
//! In the kernel a handler is part of a mirror of UDP datagrams ([`Mirror`]): a program at the ingress of
//! network devices takes datagrams of the input, asks the handler, and sends a clone to each
//! receiver. What it cannot do is left to user space, record by record and in order. Where the stream
//! goes on in user space, a program in front of the input's socket drops what the handler would drop there
//! ([`Select`]).
//!
//! Paced runs of the kernel module have handlers of their own ([`PacedHandler`]).
//!
//! A program that is no handler acknowledges TCP for measurements ([`TcpSink`]).

mod error;
mod handler;
mod instructions;
mod interpreter;
mod maps;
mod mirror;
mod paced;
mod place;
mod program;
mod select;
mod sockmap;
mod tcp_sink;
mod types;

pub use error::BpfError;
pub use handler::BpfHandler;
pub use maps::Counts;
pub use mirror::{Mirror, Receiver};
pub use paced::{PacedHandler, PacedObject};
pub use place::{InKernel, Place};
pub use program::HandlerObject;
pub use select::Select;
pub use sockmap::Sockmap;
pub use tcp_sink::{Acknowledged, TcpSink};
