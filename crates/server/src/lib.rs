//! RTSP and HTTP sessions on top of streams.

mod calibrated;
mod engine_metrics;
mod hot_metrics;
pub mod http;
pub mod images;
pub mod library;
mod player;
pub mod rtsp;
mod server;

pub use server::{Server, ServerOptions, StartError};
/// A way to take trains from storage to a socket.
pub use wirepath_datapath::DataPath;
