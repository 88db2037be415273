//! The stream service as a command: addresses as people know them, and how they are wired together; a cache.

mod address;
mod advice;
pub mod cache;
mod configuration;
mod identity;
mod itself;
mod limits;
mod open;
mod opening;
mod peer;
mod proxy;
mod rate;
mod spec;
mod trying;
mod wiring;

pub use address::{Address, AddressError};
pub use configuration::{Configuration, ConfigurationError, StreamPlan};
pub use limits::TooManyConnections;
pub use open::OpenError;
pub use opening::Opening;
pub use proxy::{
    BackendStatus, Balance, ConnectionCounts, Endpoint, HealthOptions, Proxy, ProxyError, ProxyOptions,
    ProxyStatus, ProxyView,
};
pub use rate::RateSpec;
pub use spec::{DeadlineSpec, FramingSpec, HandlerSpec, OrderSpec, PatternSpec, SpecError, WhenFullSpec};
pub use wiring::{Wiring, WiringError};
