//! Load generator for RTSP and HTTP servers: many sessions that behave like players or downloaders, and a
//! judgement of the received media.
//!
//! [`run`] starts sessions according to [`Options`], on a few threads with an event loop each. A sample of
//! the sessions is received in full and judged by a pure function of headers and of the kernel's arrival
//! times. The kernel drops the media of the other sessions at once. An [`Outcome`] has the results of both,
//! and the cost and lateness of the client itself. All data from a server are treated as hostile.

mod clock;
mod distribution;
mod document;
mod failure;
mod judge;
mod mix;
mod options;
mod outcome;
mod player;
mod record;
mod run;
mod session;
mod shared_pairs;
mod sockets;
mod storm;
mod storm_thread;
mod target;
mod totals;
mod worker;

pub use document::document;
pub use judge::LEAST_PACE;
pub use mix::Mix;
pub use options::{Options, Transport};
pub use outcome::{Asked, Asset, ClientCost, Outcome, Sessions, Unjudged};
pub use record::{Ending, HttpRecord, MediaRecord, SessionRecord, Times};
pub use run::{Observer, RunError, run};
pub use storm::{Storm, StormOutcome, StormPhaseRecord};
pub use target::{Scheme, Target, TargetError};
pub use totals::{ProtocolSnapshot, Snapshot};
