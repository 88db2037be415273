//! Handlers that come with the service. For an application's own see the example in `docs/streams.md`.

mod begins;
mod checksum;
mod filter;
mod meter;
mod prefix;
mod seal;
mod touch;
mod transport_stream;

pub use begins::Begins;
pub use checksum::Checksum;
pub use filter::Filter;
pub use meter::Meter;
pub use prefix::{Prefix, Unprefix};
pub use seal::{Key, Open, Seal};
pub use touch::Touch;
pub use transport_stream::TransportStreamFilter;
