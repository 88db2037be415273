//! Where a proxy listens and where it connects to.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::address::{AddressError, authority, socket_path};
use crate::itself;

/// A TCP or Unix address: `HOST:PORT`, `tcp://HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(pub(super) Place);

/// What an endpoint means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A host by name or address, empty for any of ours.
    Tcp { host: String, port: u16 },
    /// A Unix socket by its name in the file system.
    Unix(PathBuf),
}

/// An address that can be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Target {
    /// Whether whoever connects there comes out at one of these doors.
    pub(super) fn is_one_of(&self, doors: &[SocketAddr]) -> bool {
        matches!(self, Target::Tcp(address) if itself::is_reached(*address, doors))
    }
}

impl Endpoint {
    /// Where to listen. Without a host that is on every address, of IPv4 and IPv6; port 0 is one that is free.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn to_listen(text: &str) -> Result<Endpoint, AddressError> {
        parse(text).map(Endpoint).map_err(|why| AddressError::new(text, why))
    }

    /// Where to connect to.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn to_connect(text: &str) -> Result<Endpoint, AddressError> {
        let place = parse(text).and_then(|place| match place {
            Place::Tcp { host, .. } if host.is_empty() => {
                Err("a host is missing, as in HOST:PORT".to_owned())
            }
            Place::Tcp { port: 0, .. } => Err("0 is no port; ports are 1 to 65535".to_owned()),
            place => Ok(place),
        });
        place.map(Endpoint).map_err(|why| AddressError::new(text, why))
    }

    /// Whether it is one of TCP.
    pub fn is_tcp(&self) -> bool {
        matches!(self.0, Place::Tcp { .. })
    }

    /// Whether only one of the two can be listened at. Of free ports there are many.
    pub fn excludes(&self, other: &Endpoint) -> bool {
        self == other && !matches!(self.0, Place::Tcp { port: 0, .. })
    }

    /// Asks for the addresses of the host, on a thread of its own because that may take long. At least one.
    ///
    /// # Errors
    /// What the resolver says.
    pub(super) async fn resolve(&self) -> io::Result<Vec<Target>> {
        let Place::Tcp { host, port } = &self.0 else { return Ok(self.known().into_iter().collect()) };
        let found = tokio::net::lookup_host((host.as_str(), *port)).await?;
        let found: Vec<Target> = found.map(Target::Tcp).collect();
        if found.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(found) }
    }

    /// Its address, if nobody has to be asked for it.
    pub(super) fn known(&self) -> Option<Target> {
        match &self.0 {
            Place::Tcp { host, port } => {
                host.parse().ok().map(|address| Target::Tcp(SocketAddr::new(address, *port)))
            }
            Place::Unix(path) => Some(Target::Unix(path.clone())),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Tcp { host, port } if host.contains(':') => write!(formatter, "tcp://[{host}]:{port}"),
            Place::Tcp { host, port } => write!(formatter, "tcp://{host}:{port}"),
            Place::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

fn parse(text: &str) -> Result<Place, String> {
    if let Some(name) = text.strip_prefix("unix:") {
        return socket_path(name).map(Place::Unix);
    }
    let place = text.strip_prefix("tcp://").unwrap_or(text);
    if place.contains('/') {
        return Err("this is no address; there are HOST:PORT, tcp://HOST:PORT and unix:PATH".to_owned());
    }
    authority(place).map(|(host, port)| Place::Tcp { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_as_people_write_them() {
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

    /// Promise: Wrong arguments are named, with what to do.
    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            (":80", "a host is missing"),
            ("a:0", "0 is no port"),
            ("a", "a port is missing"),
            ("a:http", "http is no port"),
            ("http://a:1", "there are HOST:PORT, tcp://HOST:PORT and unix:PATH"),
            ("::1:80", "an IPv6 address needs brackets"),
            ("unix:", "a path is missing"),
            (&format!("unix:{}", "n".repeat(108)), "at most 107 bytes, and this one has 108"),
        ] {
            let error = Endpoint::to_connect(text).unwrap_err().to_string();
            assert!(error.starts_with(text) && error.contains(why), "{error}");
        }
    }
}
