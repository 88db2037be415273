//! RTSP and HTTP sessions on top of streams.

pub mod images;
