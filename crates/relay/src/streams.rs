//! Streams: configuration, opening of addresses, execution and counters.

mod configuration;
mod control;
mod group;
mod json;
mod kernel;
mod metrics;
mod open;
mod open_handle;
mod rate;
mod snapshot;
mod spec;
mod stream_config;

pub use configuration::{Configuration, ConfigurationError, StreamPlan};
pub use group::{GroupEvent, Observer, StreamGroup};
pub use json::{group_report, stream_report};
pub use kernel::{HandlerPlace, KernelHandler};
pub use open::OpenError;
pub use open_handle::OpenHandle;
pub use rate::RateSpec;
pub use snapshot::{Rates, StreamSnapshot, StreamState};
pub use spec::{
    DeadlineSpec, FramingSpec, HandlerSpec, OrderSpec, OutputHandlerSpec, PatternSpec, SpecError,
    WhenFullSpec,
};
pub use stream_config::{OpenedStream, StreamConfig, StreamConfigError};
