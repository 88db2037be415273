//! Multicast over RTSP: one sender for each asset, for all sessions that ask for a group (RFC 2326 section 10.4).
//!
//! A sender goes to a group of its own with numbers of its own, as an output of `wirepath send` does (decision 30).

mod groups;
mod member;
mod range;
mod sender;

pub(crate) use groups::MulticastGroups;
pub use range::MulticastRange;
