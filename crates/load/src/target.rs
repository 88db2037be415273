//! RTSP URLs of assets, and the addresses of their server.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// Port of RTSP (RFC 2326 section 3.2).
const DEFAULT_PORT: u16 = 554;

/// Asset to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its URL, without user and password.
    pub url: String,
    /// Address of its server.
    pub address: SocketAddr,
}

/// Fault of a URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// Not `rtsp://`.
    #[error("expected rtsp://HOST[:PORT]/ASSET")]
    Scheme,
    /// Invalid or no host or port.
    #[error("invalid host or port `{0}`: expected rtsp://HOST[:PORT]/ASSET")]
    Authority(String),
    /// A space or control character, which would end the request line.
    #[error("spaces and control characters must be written as %XX")]
    Character,
    /// User and password.
    #[error("users and passwords are not supported")]
    User,
    /// The host has no address.
    #[error("cannot resolve {host}: {why}")]
    Resolve {
        /// Name of the host.
        host: String,
        /// Reason.
        why: String,
    },
}

impl Target {
    /// Parses a URL and resolves its host; of several addresses, IPv4 comes first.
    pub fn parse(url: &str) -> Result<Target, TargetError> {
        let rest = url.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("rtsp"));
        let (_, rest) = rest.ok_or(TargetError::Scheme)?;
        if url.chars().any(|character| character.is_control() || character.is_whitespace()) {
            return Err(TargetError::Character);
        }
        let authority = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
        if authority.contains('@') {
            return Err(TargetError::User);
        }
        let (host, port) =
            split_port(authority).ok_or_else(|| TargetError::Authority(authority.to_owned()))?;
        Ok(Target { url: url.to_owned(), address: resolve(host, port)? })
    }
}

/// Host, without brackets, and port.
fn split_port(authority: &str) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return Some((
            host,
            if port.is_empty() { DEFAULT_PORT } else { port.strip_prefix(':')?.parse().ok()? },
        ));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (authority, DEFAULT_PORT),
    };
    (!host.is_empty()).then_some((host, port))
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, TargetError> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok((address, port).into());
    }
    let failed = |why: String| TargetError::Resolve { host: host.to_owned(), why };
    let mut addresses: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| failed(error.to_string()))?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| failed("no address".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_read() {
        for (url, address) in [
            ("rtsp://127.0.0.1/clip.ts", "127.0.0.1:554"),
            ("RTSP://127.0.0.1:8554", "127.0.0.1:8554"),
            ("rtsp://[::1]:8554/a?b", "[::1]:8554"),
            ("rtsp://[::1]/a", "[::1]:554"),
            ("rtsp://localhost:8554/clip.ts", "127.0.0.1:8554"),
        ] {
            let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((target.url.as_str(), target.address.to_string().as_str()), (url, address));
        }
    }

    #[test]
    fn faults_are_named() {
        let authority = |text: &str| TargetError::Authority(text.to_owned());
        for (url, error) in [
            ("http://127.0.0.1/a", TargetError::Scheme),
            ("clip.ts", TargetError::Scheme),
            ("rtsp:///a", authority("")),
            ("rtsp://127.0.0.1:0/a", authority("127.0.0.1:0")),
            ("rtsp://[::1/a", authority("[::1")),
            ("rtsp://me@127.0.0.1/a", TargetError::User),
            ("rtsp://127.0.0.1/a b", TargetError::Character),
        ] {
            assert_eq!(Target::parse(url), Err(error), "{url}");
        }
    }
}
