//! HTTP for clients: connections with timeouts, which the engine borrows to send bodies, and a listener whose
//! responses come from a [`Site`].

mod access_log;
mod answer;
mod connection;
mod counters;
mod endpoint;
mod events;
mod exchange;
mod lazy_timer;
mod listener;
mod options;
mod parts;
mod prepared;
mod unsent_parts;

pub use access_log::{AccessLog, JSON_TARGET};
pub use answer::Answer;
pub use connection::{Connection, End, Timeouts, boundary, now_s, reject, wait_for_reset};
pub use endpoint::Endpoint;
pub use events::{MOST_LISTENERS, Subscription};
pub use exchange::{Site, TakenOver};
pub use listener::Listener;
pub use options::HttpOptions;
pub use parts::Parts;
pub use prepared::Prepared;

/// Returns whether a file has no name any more, or that is unknown: closing it may then free its blocks.
fn is_deleted(file: &std::fs::File) -> bool {
    rustix::fs::fstat(file).map_or(true, |stat| stat.st_nlink == 0)
}
