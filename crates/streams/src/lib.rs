//! Streams: data on its way from sources through handlers to sinks (KStreams).
//!
//! A [`Stream`] reads records from inputs in an [`InputOrder`], has a chain of [`Handler`]s see them, and
//! spreads them over outputs by an [`OutputPattern`]. Large or undivided records may move between
//! descriptors without being copied to the program, if no handler sees them or one that only peeks at them.
//! It runs on the caller's thread ([`Stream::run`]), or as a task of an engine ([`Stream::start`]).

// In the order of their dependencies; the four parts of a stream are intake, chain, spread and outputs.
mod chain;
mod error;
mod event;
mod events;
mod framing;
mod handler;
pub mod handlers;
mod hot_blocks;
mod intake;
mod object;
mod outbox;
mod outputs;
mod port;
mod progress;
mod record;
mod secret;
mod shared;
mod spread;
mod storage;
mod stream;
mod task;
mod throughput;
mod trust;
mod turns;
mod write_progress;
mod zero_copy;

pub use error::StreamError;
pub use event::{OnEvent, StreamEvent};
pub use events::StreamEvents;
pub use framing::{Framing, FramingError, Measure};
pub use handler::{
    Common, DEFAULT_STATE_LIMIT, Frame, Handler, HandlerError, HandlerId, HandlerStatus, MAX_PEEK_BYTES,
    Modify, Peek, Reach, Read, Rewrite, Select, Verdict,
};
pub use intake::{
    InputOrder, InputState, InputStatus, JoinCounts, Late, MergeCounts, PollingOrder, ReadyInputs, Tag,
};
pub use object::{Collected, Extents, Object, ObjectError, ObjectPart, SendOutcome};
pub use outbox::{Dropped, WhenFull};
pub use outputs::{GoneOutputs, OutputOptions, OutputStatus};
pub use port::Port;
pub use progress::StreamProgress;
pub use record::{Piece, PieceMut, Run};
pub use secret::{MOST_SHARES, SHARE_HEADER, ShareCounts, ShareError};
pub use spread::{OutputChoice, OutputPattern, OutputState, Push, PushingOrder};
pub use stream::{
    HandlerChangeError, OptionError, Stream, StreamBuilder, StreamOption, StreamStatus, TooLate,
};
pub use task::{RunningStream, StreamEnd, StreamOptions};
pub use trust::Trust;
pub use write_progress::WriteProgress;

/// The engine, for its types in this crate's interface.
pub use wirepath_engine as engine;

/// Compiles and runs the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
pub struct Documentation;
