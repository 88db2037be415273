//! RTSP and HTTP sessions on top of streams.

pub mod http;
pub mod images;
pub mod library;
pub mod metrics;
pub mod rtsp;
pub mod status;
