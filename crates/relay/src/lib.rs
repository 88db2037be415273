//! The stream service as a command: addresses as people know them, and how they are wired together.

mod address;
mod open;
mod proxy;
mod spec;
mod wiring;

pub use address::{Address, AddressError};
pub use open::OpenError;
pub use proxy::{
    BackendStatus, Balance, ConnectionCounts, Endpoint, HealthOptions, Proxy, ProxyError, ProxyOptions,
    ProxyStatus, ProxyView, TooManyConnections,
};
pub use spec::{FramingSpec, HandlerSpec, OrderSpec, PatternSpec, SpecError, WhenFullSpec};
pub use wiring::{Wiring, WiringError};
