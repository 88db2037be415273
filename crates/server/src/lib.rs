//! RTSP and HTTP on top of streams.

pub mod rtsp;
