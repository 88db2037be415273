//! RTSP sessions on playbacks, HTTP on streams.

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
pub use wirepath_datapath::DataPath;
