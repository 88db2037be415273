//! Addresses of doors, as options name them.

use std::net::SocketAddr;

/// An address and a port.
pub(crate) fn door(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "wanted is an address and a port up to 65535, such as 0.0.0.0:8554 or [::]:8554")
}
