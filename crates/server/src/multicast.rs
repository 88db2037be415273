//! Multicast over RTSP: one sender for each asset and channel, for all sessions that request a group (RFC 2326
//! section 10.4).
//!
//! A sender has its own group and its own numbers, like an output of `wirepath send` (decision 30).

mod groups;
mod media;
mod member;
mod range;
mod sender;

pub(crate) use groups::MulticastGroups;
pub(crate) use media::{AssetMedia, GroupMedia, GroupSource};
pub use range::MulticastRange;
