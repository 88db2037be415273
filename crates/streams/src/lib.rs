//! Streams: records on their way from sources through handlers to sinks (KStreams).
//!
//! A [`Stream`] reads [records](Framing) from its inputs, which are [objects](Object), in an
//! [order](InputOrder); passes them through [handlers](Handler); and distributes them over its outputs by a
//! [pattern](OutputPattern). A stream runs on the caller's thread, or on a thread of an [engine], whose time
//! a [scheduler](engine::Policy) divides among streams. Bytes that no handler reads stay in the kernel where
//! possible. The sections below introduce these seven parts, each with an example.
//!
//! # Objects
//!
//! An [`Object`] is a source or a sink: a [connection, pipe or terminal](Object::stream), a
//! [file](Object::file), a [UDP socket](Object::datagrams), a [listening socket](Object::listening), memory
//! to [read](Object::memory) or memory to [fill](Object::collect). Each kind can be an input or an output:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use wirepath_streams::{Framing, Object, StreamBuilder};
//!
//! let (mut sender, input) = UnixStream::pair()?;
//! let (output, mut receiver) = UnixStream::pair()?;
//! let mut stream = StreamBuilder::default()
//!     .input(Object::stream("input", input.into())?, Framing::Whole)
//!     .output(Object::stream("output", output.into())?)
//!     .build();
//! sender.write_all(b"moved by splice")?;
//! drop(sender); // the end of the input
//! stream.run()?;
//! assert_eq!(stream.status().zero_copy_bytes, 15);
//! drop(stream); // closes the output
//! let mut text = String::new();
//! receiver.read_to_string(&mut text)?;
//! assert_eq!(text, "moved by splice");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Framing
//!
//! [`Framing`] divides the bytes of an input into records: lines, packets with a length prefix, records of a
//! fixed size, or records measured by a function of the caller. Order, handlers and pattern act on records.
//! Without framing, a byte stream is one record, and each datagram is one record. Records of at least 32 KiB
//! whose length is fixed, or computed from their first bytes, move without a copy if no handler sees more of
//! them.
//!
//! ```
//! use wirepath_streams::{Framing, Object, StreamBuilder};
//!
//! let (output, records) = Object::collect("records", 100);
//! let mut stream = StreamBuilder::default()
//!     .input(Object::memory("text", "one\ntwo\n".into()), Framing::lines(100))
//!     .output(output)
//!     .build();
//! stream.run()?;
//! assert_eq!(records.records(), [b"one\n", b"two\n"]);
//! # Ok::<(), wirepath_streams::StreamError>(())
//! ```
//!
//! # Order
//!
//! [`InputOrder`] chooses the input of the next record: each input in turn, a random input, or any input that
//! has a record. With methods of the builder, records are [ordered by a tag](StreamBuilder::order_by_tag),
//! [joined](StreamBuilder::join) from portions of several inputs, or taken in a [custom order](PollingOrder).
//!
//! ```
//! use wirepath_streams::{Framing, Late, Object, StreamBuilder};
//!
//! let (output, copy) = Object::collect("copy", 100);
//! let mut stream = StreamBuilder::default()
//!     .order_by_tag(16, 1000, Late::Drop, |line| Some(line[0].into()))
//!     .input(Object::memory("odd", "1\n3\n".into()), Framing::lines(100))
//!     .input(Object::memory("even", "2\n4\n".into()), Framing::lines(100))
//!     .output(output)
//!     .build();
//! stream.run()?;
//! assert_eq!(copy.bytes(), b"1\n2\n3\n4\n");
//! # Ok::<(), wirepath_streams::StreamError>(())
//! ```
//!
//! # Handlers
//!
//! A [`Handler`] is application code that records pass through. The kind of a handler declares its access, so
//! the stream knows which bytes can stay in the kernel: [`Read`] sees all bytes, [`Peek`] sees the beginning,
//! [`Select`] returns parts of a record and bytes of its own, [`Modify`] changes bytes in place, [`Rewrite`]
//! fills a buffer. [`Handler::passing`] makes a handler of one closure; [`handlers`] has checksums, filters
//! and encryption. Handlers are chained, per stream or [per output](OutputOptions::handlers), and are added,
//! removed and controlled [while the stream runs](Stream::add_handler).
//!
//! ```
//! use wirepath_streams::{
//!     Common, Framing, Handler, HandlerError, Modify, Object, PieceMut, StreamBuilder, Verdict,
//! };
//!
//! struct Upper;
//!
//! impl Common for Upper {
//!     fn name(&self) -> &'static str {
//!         "upper"
//!     }
//! }
//!
//! impl Modify for Upper {
//!     fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
//!         piece.bytes.make_ascii_uppercase();
//!         Ok(Verdict::Pass)
//!     }
//! }
//!
//! let (output, copy) = Object::collect("copy", 100);
//! let mut stream = StreamBuilder::default()
//!     .handler(Handler::Modify(Box::new(Upper)))
//!     .input(Object::memory("text", "quiet".into()), Framing::Whole)
//!     .output(output)
//!     .build();
//! stream.run()?;
//! assert_eq!(copy.bytes(), b"QUIET");
//! # Ok::<(), wirepath_streams::StreamError>(())
//! ```
//!
//! # Pattern
//!
//! [`OutputPattern`] chooses the outputs of a record: all outputs, each in turn, or the output with the
//! shortest wait; a [custom pattern](PushingOrder) is possible. [`OutputOptions`] sets the handling of
//! records for an output that does not keep up.
//!
//! ```
//! use wirepath_streams::{Framing, Object, OutputPattern, StreamBuilder};
//!
//! let ((first, odd), (second, even)) = (Object::collect("odd", 100), Object::collect("even", 100));
//! let mut stream = StreamBuilder::default()
//!     .pattern(OutputPattern::Stripe)
//!     .input(Object::memory("lines", "1\n2\n3\n4\n".into()), Framing::lines(100))
//!     .output(first)
//!     .output(second)
//!     .build();
//! stream.run()?;
//! assert_eq!((odd.bytes(), even.bytes()), (b"1\n3\n".to_vec(), b"2\n4\n".to_vec()));
//! # Ok::<(), wirepath_streams::StreamError>(())
//! ```
//!
//! # Engine
//!
//! [`Stream::run`] runs a stream on the caller's thread. [`Stream::start`] gives the stream to an
//! [`Engine`](engine::Engine), whose threads each run thousands of streams; the returned [`RunningStream`]
//! changes, queries, stops and waits for the stream. [`Stream::events`] returns a descriptor for the caller's
//! event loop.
//!
//! ```
//! use wirepath_streams::engine::{Engine, EngineOptions};
//! use wirepath_streams::{Framing, Object, StreamBuilder, StreamOptions};
//!
//! let engine = Engine::start(EngineOptions::default())?;
//! let (output, copy) = Object::collect("copy", 100);
//! let running = StreamBuilder::default()
//!     .input(Object::memory("text", "hello".into()), Framing::Whole)
//!     .output(output)
//!     .build()
//!     .start(&engine, StreamOptions::default());
//! running.wait().result?;
//! assert_eq!(copy.bytes(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Scheduler
//!
//! A [`Policy`](engine::Policy) divides the time of an engine thread among classes of streams: by priority,
//! by shares of bytes or of processor time, by deadline, or by a [custom policy](engine::TurnPolicy). A
//! [rate](engine::Rate) limits a stream or a class.
//!
//! ```
//! use wirepath_streams::engine::{Class, Engine, EngineOptions, Placement, Policy, Round, Sharing};
//! use wirepath_streams::{Framing, Object, StreamBuilder, StreamOptions};
//!
//! let class = |name: &str, share| Class { name: name.to_owned(), priority: 0, share, rate: None };
//! let policy = Policy::FairShare { round: Round::Volume(1_000_000), carry_percent: 50 };
//! let sharing = Sharing { policy, classes: vec![class("live", 3), class("archive", 1)] };
//! let engine = Engine::start(EngineOptions { sharing, ..EngineOptions::default() })?;
//! let (output, copy) = Object::collect("copy", 100);
//! let stream = StreamBuilder::default()
//!     .input(Object::memory("text", "hello".into()), Framing::Whole)
//!     .output(output)
//!     .build();
//! let placement = Placement { class: 1, ..Placement::default() };
//! stream.start(&engine, StreamOptions { placement, ..StreamOptions::default() }).wait().result?;
//! assert_eq!(copy.bytes(), b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// In the order of dependencies. The four parts of a stream are intake, chain, spread and outputs.
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
    Common, DEFAULT_STATE_LIMIT, Frame, Handler, HandlerError, HandlerId, HandlerNameError, HandlerStatus,
    MAX_PEEK_BYTES, Modify, Peek, Reach, Read, Rewrite, Select, Verdict, WaitingChange, handler_name,
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

/// Rule of lending pages to the kernel, which other senders of a process share.
pub use wirepath_datapath::{Lending, LendingError, LendingSwitch};

/// The engine, re-exported because its types appear in this crate's interface.
pub use wirepath_engine as engine;

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
