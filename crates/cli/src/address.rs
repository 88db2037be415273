//! Addresses of doors, as options name them.

use std::net::SocketAddr;

/// Address and port to listen on.
pub(crate) fn door(text: &str) -> Result<SocketAddr, String> {
    wirepath_net::listen_address(text)
}
