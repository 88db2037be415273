//! Relays: streams between addresses, a TCP proxy and an HTTP cache.
//!
//! - [`StreamGroup`] runs the streams of a [`Configuration`].
//! - [`Proxy`] relays TCP connections to backends.
//! - [`cache::Cache`] answers HTTP requests for an origin.

mod address;
mod advice;
pub mod cache;
mod connect;
mod endpoint;
mod file_identity;
mod keepalive;
mod limits;
mod loop_detection;
mod metrics;
mod proxy;
mod streams;

pub use address::{Address, AddressError};
pub use endpoint::Endpoint;
pub use limits::TooManyConnections;
pub use metrics::MetricsEndpoint;
pub use proxy::{
    BackendCounts, BackendStatus, Balance, HealthOptions, Outcome, Proxy, ProxyCounts, ProxyError,
    ProxyOptions, ProxyStatus, ProxyView,
};
pub use streams::*;
