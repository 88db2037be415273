//! Endpoints on which proxies and caches listen, or to which they connect.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use rustix::io::Errno;
use tokio::net::TcpListener;

use crate::address::{AddressError, authority, socket_path};
use crate::{advice, loop_detection};

/// TCP or Unix endpoint: `HOST:PORT`, `tcp://HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub(crate) EndpointKind);

/// Parsed endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// Host name or address; an empty host means every local address.
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

/// Resolved endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Target {
    /// Returns whether a connection to this target reaches one of the listeners.
    pub(crate) fn is_one_of(&self, listeners: &[SocketAddr]) -> bool {
        matches!(self, Target::Tcp(address) if loop_detection::is_reached(*address, listeners))
    }
}

impl Endpoint {
    /// Parses an endpoint to listen on. Without a host, the endpoint is every address of IPv4 and IPv6; port
    /// 0 is any free port.
    ///
    /// # Errors
    /// The endpoint is invalid.
    pub fn to_listen(text: &str) -> Result<Endpoint, AddressError> {
        parse(text).map(Endpoint).map_err(|why| AddressError::new(text, why))
    }

    /// Parses an endpoint to connect to.
    ///
    /// # Errors
    /// The endpoint is invalid, or has no host or port.
    pub fn to_connect(text: &str) -> Result<Endpoint, AddressError> {
        let kind = parse(text).and_then(|kind| match kind {
            EndpointKind::Tcp { host, .. } if host.is_empty() => {
                Err("missing host: expected HOST:PORT".to_owned())
            }
            EndpointKind::Tcp { port: 0, .. } => Err("invalid port 0: expected 1 to 65535".to_owned()),
            kind => Ok(kind),
        });
        kind.map(Endpoint).map_err(|why| AddressError::new(text, why))
    }

    /// Returns whether this is a TCP endpoint.
    pub fn is_tcp(&self) -> bool {
        matches!(self.0, EndpointKind::Tcp { .. })
    }

    /// Returns whether listening on both endpoints at once is impossible. Any number of listeners can ask for
    /// a free port.
    pub fn conflicts_with(&self, other: &Endpoint) -> bool {
        self == other && !matches!(self.0, EndpointKind::Tcp { port: 0, .. })
    }

    /// Listens on every TCP address of the endpoint; without a host, on one socket for all addresses of IPv4
    /// and IPv6. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// The resolver or the system failed, or the endpoint is a Unix socket.
    pub async fn listen_tcp(&self) -> io::Result<Vec<TcpListener>> {
        match &self.0 {
            EndpointKind::Tcp { host, port } if host.is_empty() => Ok(vec![listen_on_any_address(*port)?]),
            EndpointKind::Tcp { .. } => self.resolve().await?.into_iter().map(listen_on_target).collect(),
            EndpointKind::Unix(_) => Err(not_tcp()),
        }
    }

    /// Resolves the endpoint to at least one target. The resolver runs on a thread of its own.
    pub(crate) async fn resolve(&self) -> io::Result<Vec<Target>> {
        let EndpointKind::Tcp { host, port } = &self.0 else { return Ok(self.known().into_iter().collect()) };
        let found = tokio::net::lookup_host((host.as_str(), *port)).await?;
        let found: Vec<Target> = found.map(Target::Tcp).collect();
        if found.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(found) }
    }

    /// The target, if it is known without the resolver.
    pub(crate) fn known(&self) -> Option<Target> {
        match &self.0 {
            EndpointKind::Tcp { host, port } => {
                host.parse().ok().map(|address| Target::Tcp(SocketAddr::new(address, *port)))
            }
            EndpointKind::Unix(path) => Some(Target::Unix(path.clone())),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            EndpointKind::Tcp { host, port } if host.contains(':') => {
                write!(formatter, "tcp://[{host}]:{port}")
            }
            EndpointKind::Tcp { host, port } => write!(formatter, "tcp://{host}:{port}"),
            EndpointKind::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

fn parse(text: &str) -> Result<EndpointKind, String> {
    if let Some(name) = text.strip_prefix("unix:") {
        return socket_path(name).map(EndpointKind::Unix);
    }
    let place = text.strip_prefix("tcp://").unwrap_or(text);
    if place.contains('/') {
        return Err("invalid endpoint: expected HOST:PORT, tcp://HOST:PORT or unix:PATH".to_owned());
    }
    authority(place).map(|(host, port)| EndpointKind::Tcp { host, port })
}

fn listen_on_target(target: Target) -> io::Result<TcpListener> {
    match target {
        Target::Tcp(address) => listen_on_address(address),
        Target::Unix(_) => Err(not_tcp()),
    }
}

fn not_tcp() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "Unix sockets are not supported here: expected HOST:PORT or :PORT",
    )
}

fn listen_on_any_address(port: u16) -> io::Result<TcpListener> {
    match listen_on_address((Ipv6Addr::UNSPECIFIED, port).into()) {
        // The system has no IPv6.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AFNOSUPPORT) => {
            listen_on_address((Ipv4Addr::UNSPECIFIED, port).into())
        }
        listener => listener,
    }
}

fn listen_on_address(address: SocketAddr) -> io::Result<TcpListener> {
    wirepath_net::bind(address).map_err(|error| advice::on_explained_port(address.port(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_parsed() {
        for (text, shown) in [
            ("localhost:80", "tcp://localhost:80"),
            ("tcp://10.0.0.1:80", "tcp://10.0.0.1:80"),
            ("[::1]:80", "tcp://[::1]:80"),
            ("unix:/run/a", "unix:/run/a"),
        ] {
            assert_eq!(Endpoint::to_listen(text).unwrap().to_string(), shown);
            assert_eq!(Endpoint::to_connect(text).unwrap().to_string(), shown);
        }
        assert_eq!(Endpoint::to_listen(":0").unwrap().to_string(), "tcp://:0");
        let known = Endpoint::to_connect("[::1]:80").unwrap().known();
        assert_eq!(known, Some(Target::Tcp("[::1]:80".parse().unwrap())));
        assert_eq!(Endpoint::to_connect("localhost:80").unwrap().known(), None);
    }

    /// Promise: An error about a wrong argument names the argument and the remedy.
    #[test]
    fn an_invalid_endpoint_is_refused() {
        for (text, why) in [
            (":80", "missing host"),
            ("a:0", "invalid port 0"),
            ("a", "missing port"),
            ("a:http", "invalid port http"),
            ("http://a:1", "expected HOST:PORT, tcp://HOST:PORT or unix:PATH"),
            ("::1:80", "an IPv6 address needs brackets"),
            ("unix:", "missing path"),
            (&format!("unix:{}", "n".repeat(108)), "path of 108 bytes is too long for a Unix socket"),
        ] {
            let error = Endpoint::to_connect(text).unwrap_err().to_string();
            assert!(error.starts_with(text) && error.contains(why), "{error}");
        }
    }
}
