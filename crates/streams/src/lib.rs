//! The engine that runs streams: bytes and deadlines, never a protocol.
//!
//! One thread per core, each with a timer wheel and an epoll instance. A [`Playback`] sends a source's trains to a UDP
//! sink when they are due; a [`Download`] sends parts of files to a TCP connection as fast as it takes them. Nothing on
//! these threads blocks: what must be read from storage first is read by a [`BlockingPool`].

mod blocking;
mod clock;
mod counters;
mod download;
mod engine;
mod framing;
mod handler;
mod lateness;
mod merge;
mod order;
mod playback;
mod playhead;
mod random;
mod record;
mod schedule;
mod slots;
mod source;
mod wheel;
mod worker;

pub use blocking::{BlockingPool, Deferred, Importance};
pub use clock::now_us;
pub use counters::Counters;
pub use download::{Download, DownloadEnd, Part};
pub use engine::{Engine, EngineOptions};
pub use framing::{Framing, FramingError, Measure};
pub use handler::{Common, Frame, Handler, HandlerError, Reach, Read, Rewrite, Select, Verdict};
pub use lateness::LatenessSnapshot;
pub use merge::{Late, MergeCounts};
pub use order::InputOrder;
pub use playback::{Event, PlayError, Playback, PlaybackOptions, Position, Progress, RtpClock};
pub use record::{Piece, Run};
pub use schedule::{Class, Next, Policy, Rate, Scheduler};
pub use source::{At, Cursor, Departure, Load, Segment, TrainSource};

/// The room below, for the types that pass through this one.
pub use wirepath_datapath as datapath;
