//! URLs of assets, and the addresses of their servers.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use wirepath_media::hls::encoded;

/// Protocol of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `rtsp://`
    Rtsp,
    /// `http://`
    Http,
}

/// Asset to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// URL without user and password.
    pub url: String,
    /// Address of the server.
    pub address: SocketAddr,
    /// Protocol of the URL.
    pub scheme: Scheme,
}

/// Error in a URL.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The scheme is neither `rtsp://` nor `http://`.
    #[error("expected rtsp://HOST[:PORT]/ASSET or http://HOST[:PORT]/PATH")]
    Scheme,
    /// The scheme is `https://` or `rtsps://`.
    #[error("TLS is not supported: expected rtsp:// or http://")]
    Tls,
    /// The host or port is missing or invalid.
    #[error("invalid host or port `{0}`: expected rtsp://HOST[:PORT]/ASSET or http://HOST[:PORT]/PATH")]
    Authority(String),
    /// The URL has a space or control character, which would end the request line.
    #[error("spaces and control characters must be written as %XX")]
    Character,
    /// The URL has a user or password.
    #[error("users and passwords are not supported")]
    User,
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {why}")]
    Resolve {
        /// Name of the host.
        host: String,
        /// Reason of the failure.
        why: String,
    },
}

impl Target {
    /// Parses a URL and resolves its host. IPv4 addresses are preferred.
    pub fn parse(url: &str) -> Result<Target, TargetError> {
        let (scheme, rest) = url.split_once("://").ok_or(TargetError::Scheme)?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "rtsp" => Scheme::Rtsp,
            "http" => Scheme::Http,
            "https" | "rtsps" => return Err(TargetError::Tls),
            _ => return Err(TargetError::Scheme),
        };
        if url.chars().any(|character| character.is_control() || character.is_whitespace()) {
            return Err(TargetError::Character);
        }
        let authority = authority(rest);
        if authority.contains('@') {
            return Err(TargetError::User);
        }
        let (host, port) = split_port(authority, scheme.default_port())
            .ok_or_else(|| TargetError::Authority(authority.to_owned()))?;
        Ok(Target { url: url.to_owned(), address: resolve(host, port)?, scheme })
    }

    /// Returns whether the asset is downloaded as a whole: it is an HTTP URL, and not a playlist.
    pub fn is_download(&self) -> bool {
        self.scheme == Scheme::Http && !self.is_playlist()
    }

    /// Returns whether the asset is an HLS playlist, by the end of its path.
    pub(crate) fn is_playlist(&self) -> bool {
        let path = self.path();
        let path = path.split('?').next().unwrap_or_default().to_ascii_lowercase();
        self.scheme == Scheme::Http && path.ends_with(".m3u8")
    }

    /// Host and port as in the URL.
    pub(crate) fn authority(&self) -> &str {
        authority(self.after_scheme())
    }

    /// Path and query, as sent in a request line.
    pub(crate) fn path(&self) -> String {
        let path = &self.after_scheme()[self.authority().len()..];
        let path = encoded(path.split('#').next().unwrap_or_default());
        if path.starts_with('/') { path } else { format!("/{path}") }
    }

    fn after_scheme(&self) -> &str {
        self.url.split_once("://").map_or("", |(_, rest)| rest)
    }
}

impl Scheme {
    /// Default port of the scheme: RFC 2326 section 3.2, RFC 9110 section 4.2.1.
    fn default_port(self) -> u16 {
        match self {
            Scheme::Rtsp => 554,
            Scheme::Http => 80,
        }
    }
}

fn authority(rest: &str) -> &str {
    &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())]
}

/// Splits a host, without brackets, and a port.
fn split_port(authority: &str, default: u16) -> Option<(&str, u16)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        return Some((host, if port.is_empty() { default } else { port.strip_prefix(':')?.parse().ok()? }));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (authority, default),
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
            ("HTTP://127.0.0.1/clip.mp4", "127.0.0.1:80"),
        ] {
            let target = Target::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!((target.url.as_str(), target.address.to_string().as_str()), (url, address));
        }
    }

    #[test]
    fn paths_are_those_of_requests() {
        for (url, authority, path, is_playlist) in [
            ("http://127.0.0.1", "127.0.0.1", "/", false),
            ("http://127.0.0.1?a", "127.0.0.1", "/?a", false),
            ("http://[::1]:80/a%20b/ü.M3U8?x#y", "[::1]:80", "/a%20b/%C3%BC.M3U8?x", true),
            ("http://127.0.0.1/a.mp4?list=b.m3u8", "127.0.0.1", "/a.mp4?list=b.m3u8", false),
            ("rtsp://127.0.0.1/a.m3u8", "127.0.0.1", "/a.m3u8", false),
        ] {
            let target = Target::parse(url).unwrap();
            let found = (target.authority(), target.path(), target.is_playlist());
            assert_eq!(found, (authority, path.to_owned(), is_playlist), "{url}");
        }
    }

    #[test]
    fn faults_are_named() {
        let authority = |text: &str| TargetError::Authority(text.to_owned());
        for (url, error) in [
            ("ftp://127.0.0.1/a", TargetError::Scheme),
            ("https://127.0.0.1/a", TargetError::Tls),
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
