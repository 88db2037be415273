//! The RTSP door (RFC 2326): connections, sessions, their UDP ports and RTCP.
//!
//! One task serves one connection and owns its sessions: when it ends they end. What plays is behind the
//! traits in [`player`]; what a session does when is in [`timeline`], without I/O. Media never passes through
//! here.

mod connection;
mod control;
mod counters;
mod handler;
mod listener;
mod methods;
pub mod player;
mod ports;
mod record;
mod session;
pub mod timeline;

pub use counters::{Counters, RefusalReason};
pub use listener::{Listener, RtspOptions};
pub use ports::port_pairs;
pub use record::{SessionStatus, Stage};

#[cfg(test)]
mod tests;
