//! The RTSP listener (RFC 2326): connections, sessions, their UDP ports and RTCP.
//!
//! One task serves one connection and owns its sessions, which end with it. Playbacks are behind the traits
//! in [`player`]; [`session_state`] is the state machine of a session, without I/O. Media never passes
//! through here: if it goes over the RTSP connection, an engine thread writes that connection, responses
//! included ([`output`]).

mod authenticate;
mod connection;
mod counters;
mod handler;
mod key_offers;
mod listener;
mod methods;
mod output;
pub(crate) mod player;
mod port_socket;
mod ports;
mod receive;
mod registry;
mod replay;
mod reports;
mod rtcp;
mod rtcp_path;
mod session;
mod session_events;
mod session_info;
mod session_state;
mod set_up;
mod shared;
mod srtp;
mod ticks;
mod track;
mod transport;
mod tunnel_entrance;
mod tunnels;

pub(crate) use listener::{Listener, SessionControl};
pub use ports::port_pairs;
pub use shared::{RtspOptions, SrtpKeys};
pub(crate) use tunnel_entrance::TunnelEntrance;

#[cfg(test)]
mod tests;
