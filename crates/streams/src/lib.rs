//! Streams: data on its way from sources through handlers to sinks (KStreams).
//!
//! A [`Stream`] reads records from inputs in an [`InputOrder`], has a chain of [`Handler`]s see them, and spreads them over
//! outputs by an [`OutputPattern`]. Bytes that no handler sees move between descriptors without being copied to the program.
//! It runs on the caller's thread ([`Stream::run`]), or as a task of an engine ([`Stream::start`]).

mod chain;
mod framing;
mod handler;
pub mod handlers;
mod merge;
mod object;
mod order;
mod outbox;
mod pattern;
mod progress;
mod record;
mod secret;
mod stream;
mod task;
mod write_progress;

pub use framing::{Framing, FramingError, Measure};
pub use handler::{Common, Frame, Handler, HandlerError, Reach, Read, Rewrite, Select, Verdict};
pub use merge::{Late, MergeCounts};
pub use object::{Collected, Object, ObjectError, Part};
pub use order::InputOrder;
pub use outbox::{Dropped, WhenFull};
pub use pattern::OutputPattern;
pub use progress::StreamProgress;
pub use record::{Piece, Run};
pub use secret::{MOST_SHARES, SHARE_HEADER, ShareCounts, ShareError};
pub use stream::{
    EndedOutput, GoneOutputs, InputStatus, OnEvent, OutputOptions, OutputStatus, Port, Stream, StreamBuilder,
    StreamError, StreamEvent, StreamStatus, Tag, TooLate,
};
pub use task::{RunningStream, StreamEnd, StreamOptions};
pub use write_progress::WriteProgress;

/// The crate below, for its types that pass through this one.
pub use wirepath_engine as engine;

/// Compiles and runs the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
pub struct Documentation;
