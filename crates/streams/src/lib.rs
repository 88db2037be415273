//! The engine that runs streams: bytes and deadlines, never a protocol.
//!
//! One thread per core, each with a timer wheel and an epoll instance. A [`Playback`] sends a source's trains to a UDP
//! sink when they are due; a [`Download`] sends parts of files to a TCP connection as fast as it takes them. Nothing on
//! these threads blocks: what must be read from storage first is read by a [`BlockingPool`].

mod blocking;
mod chain;
mod clock;
mod counters;
mod download;
mod engine;
mod framing;
mod growth;
mod handler;
pub mod handlers;
mod lateness;
mod merge;
mod object;
mod order;
mod outbox;
mod panics;
mod pattern;
mod playback;
mod playhead;
mod progress;
mod record;
mod running;
mod schedule;
mod secret;
mod slots;
mod source;
mod standstill;
mod stream;
mod wheel;
mod worker;

pub use blocking::{BlockingPool, Deferred, Importance};
pub use clock::now_us;
pub use counters::Counters;
pub use download::{Download, DownloadEnd, Part};
pub use engine::{Engine, EngineOptions, Sharing};
pub use framing::{Framing, FramingError, Measure};
pub use growth::Growth;
pub use handler::{Common, Frame, Handler, HandlerError, Reach, Read, Rewrite, Select, Verdict};
pub use lateness::LatenessSnapshot;
pub use merge::{Late, MergeCounts};
pub use object::{Collected, Object, ObjectError};
pub use order::InputOrder;
pub use outbox::{Dropped, WhenFull};
pub use pattern::OutputPattern;
pub use playback::{Event, PlayError, Playback, PlaybackOptions, Position, Progress, RtpClock};
pub use progress::StreamProgress;
pub use record::{Piece, Run};
pub use running::{RunningStream, StreamEnd, StreamOptions};
pub use schedule::{Class, Cost, Next, Policy, Rate, Round, Scheduler};
pub use secret::{MOST_SHARES, SHARE_HEADER, ShareCounts, ShareError};
pub use source::{At, Cursor, Departure, Load, Segment, TrainSource};
pub use standstill::{STANDSTILL_LOOKS, Standstill};
pub use stream::{
    EndedOutput, GoneOutputs, InputStatus, OnEvent, OutputOptions, OutputStatus, Port, Stream, StreamBuilder,
    StreamError, StreamEvent, StreamStatus, Tag, TooLate,
};

/// The room below, for the types that pass through this one.
pub use wirepath_datapath as datapath;

/// Compiles and runs the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/streams.md")]
pub struct Documentation;
