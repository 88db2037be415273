//! Load on RTSP and HTTP servers: many sessions that behave as players or downloaders do, and a judgement of
//! what came.
//!
//! [`run`] starts sessions as [`Options`] say, on a few threads with an event loop each. A sample of the
//! sessions is received in full and judged by a pure function of headers and times of arrival, which are the
//! kernel's; of the others the kernel drops the media at once. An [`Outcome`] says both, and what the client
//! itself cost and how late it was. Everything that comes from a server is taken for hostile.

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
