//! Addresses to listen on, as options name them.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

/// Reads `ADDRESS:PORT`, `localhost:PORT` or another name that the system resolves, or `:PORT` for all IPv4 addresses.
///
/// # Errors
/// What is expected instead, or why a name has no address.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    const EXPECTED: &str =
        "expected ADDRESS:PORT, localhost:PORT or :PORT, such as 0.0.0.0:8554 or [::]:8554";
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or(EXPECTED)?;
    let port: u16 = port.parse().map_err(|_| EXPECTED)?;
    if host.is_empty() {
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) {
        return Err(EXPECTED.to_owned());
    }
    let found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| format!("cannot resolve {host}: {error}"))?.collect();
    // A name with addresses of both families means the older one to most clients.
    let preferred = found.iter().find(|address| address.is_ipv4()).or(found.first());
    preferred.copied().ok_or_else(|| format!("cannot resolve {host}: it has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `serve` listens at `localhost:PORT` and `:PORT` as at an address.
    #[test]
    fn an_address_a_name_or_a_port_alone_can_be_listened_on() {
        for (text, expected) in [
            ("127.0.0.1:8554", "127.0.0.1:8554"),
            ("[::]:8554", "[::]:8554"),
            (":8080", "0.0.0.0:8080"),
            ("localhost:0", "127.0.0.1:0"),
        ] {
            assert_eq!(listen_address(text).map(|address| address.to_string()), Ok(expected.to_owned()));
        }
        for text in ["", "8080", "localhost", "127.0.0.1", ":99999", "a b:1", "[::1:80", "::1:x"] {
            assert!(listen_address(text).unwrap_err().starts_with("expected ADDRESS:PORT"), "{text}");
        }
    }
}
