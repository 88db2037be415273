//! Handlers that come with the service. For an example of an application's own handler see `docs/streams.md`.

mod checksum;
mod filter;
mod meter;
mod prefix;
mod prefix_filter;
mod seal;
mod touch;
mod transport_stream;

pub use checksum::Checksum;
pub use filter::Filter;
pub use meter::Meter;
pub use prefix::{Prefix, Unprefix};
pub use prefix_filter::PrefixFilter;
pub use seal::{Key, Open, Seal};
pub use touch::Touch;
pub use transport_stream::TransportStreamFilter;
