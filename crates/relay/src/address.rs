//! Addresses of inputs and outputs, written as for ffmpeg, VLC and socat.

mod claim;
mod parse;
mod query;

use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub(crate) use claim::Claim;
use parse::parse;
pub(crate) use parse::{authority, socket_path};

/// Where bytes come from or go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    pub(crate) kind: Kind,
}

/// What an address means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Standard input or output: `-`.
    Standard,
    /// `file:PATH`
    File { path: PathBuf, existing: Existing },
    /// `unix:PATH`
    Unix { path: PathBuf, listen: bool },
    /// `tcp://HOST:PORT`
    Tcp { host: String, port: u16, listen: bool },
    /// `udp://HOST:PORT`; to receive from, HOST may be empty or have an @ in front.
    Udp(Udp),
}

/// What to do about a file that is there when it is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// Leave it: an error.
    Refuse,
    /// Write behind what it has.
    Append,
    /// Write in its place.
    Overwrite,
}

/// A UDP address and what goes with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Udp {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Name of the network device for multicast.
    pub(crate) interface: Option<String>,
    /// Hops that multicast may take.
    pub(crate) ttl: Option<u32>,
    /// Bytes of datagrams that are made of shorter records.
    pub(crate) packet_bytes: Option<usize>,
}

/// What is wrong with an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}: {why}")]
pub struct AddressError {
    text: String,
    why: String,
}

impl AddressError {
    pub(crate) fn new(text: &str, why: String) -> AddressError {
        AddressError { text: text.to_owned(), why }
    }

    /// What is wrong, without the address: for who says by himself which one it is.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl Udp {
    /// Whether its host is the address of a group.
    fn is_group(&self) -> bool {
        self.host.parse().is_ok_and(|host: IpAddr| host.is_multicast())
    }

    /// Whether nothing that is asked for would be ignored with this as the host's address.
    ///
    /// # Errors
    /// What would be, and what to do about it.
    pub(crate) fn fits(&self, host: IpAddr) -> Result<(), String> {
        let option = match (&self.interface, self.ttl) {
            _ if host.is_multicast() => return Ok(()),
            (Some(_), _) => "iface",
            (None, Some(_)) => "ttl",
            (None, None) => return Ok(()),
        };
        let host = if self.host.is_empty() { "everything that comes to the port" } else { &self.host };
        Err(format!(
            "{option} is for groups (multicast), and {host} is none; leave {option} out, or name a group, as in \
             udp://239.1.1.1:{}",
            self.port
        ))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let parsed = parse(text);
        parsed.map(|kind| Address { text: text.to_owned(), kind }).map_err(|why| AddressError::new(text, why))
    }
}

impl Address {
    /// Where something comes from.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn to_read(text: &str) -> Result<Address, AddressError> {
        let address: Address = text.parse()?;
        let for_outputs = match &address.kind {
            Kind::Udp(Udp { ttl: Some(_), .. }) => "ttl is of datagrams that are sent",
            Kind::Udp(Udp { packet_bytes: Some(_), .. }) => "packet is of datagrams that are sent",
            Kind::File { existing: Existing::Append, .. } => "append is of a file that is written",
            Kind::File { existing: Existing::Overwrite, .. } => "overwrite is of a file that is written",
            _ => return Ok(address),
        };
        Err(AddressError::new(text, format!("{for_outputs}; leave it out of an input")))
    }

    /// Where something goes. With an @ in front or without a host, a UDP address is one to receive from.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn to_write(text: &str) -> Result<Address, AddressError> {
        let address: Address = text.parse()?;
        let why = match &address.kind {
            Kind::Udp(_) if text.starts_with("udp://@") => {
                "with @ datagrams are received; to send them, it is udp://HOST:PORT"
            }
            Kind::Udp(udp) if udp.host.is_empty() => "a host is missing, as in udp://HOST:PORT",
            _ => return Ok(address),
        };
        Err(AddressError::new(text, why.to_owned()))
    }

    /// Whether it waits for others to connect.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.kind, Kind::Tcp { listen: true, .. } | Kind::Unix { listen: true, .. })
    }

    /// Whether datagrams come from it, which keep their bounds.
    pub(crate) fn has_datagrams(&self) -> bool {
        matches!(self.kind, Kind::Udp(_))
    }

    /// The same with a relative path taken to be in `folder`.
    pub(crate) fn within(self, folder: &Path) -> Address {
        let Address { mut text, mut kind } = self;
        if let Kind::File { path, .. } | Kind::Unix { path, .. } = &mut kind {
            *path = folder.join(&*path);
            if let Some((scheme, rest)) = text.split_once(':') {
                text = format!("{scheme}:{}", folder.join(rest).display());
            }
        }
        Address { text, kind }
    }

    /// Whether it is standard input or output.
    pub(crate) fn is_standard(&self) -> bool {
        self.kind == Kind::Standard
    }

    /// Where it is among files, if it is there. A shell may have made a file of a standard stream.
    pub(crate) fn path(&self, is_output: bool) -> Option<&Path> {
        match &self.kind {
            Kind::Standard => Some(Path::new(if is_output { "/dev/stdout" } else { "/dev/stdin" })),
            Kind::File { path, .. } | Kind::Unix { path, .. } => Some(path),
            Kind::Tcp { .. } | Kind::Udp(_) => None,
        }
    }

    /// Whether it is `file:PATH`.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }

    /// Whether to open it is to wait for whoever has its other end (fifo(7)).
    pub(crate) fn is_fifo(&self) -> bool {
        let is_fifo = |path: &Path| std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo());
        matches!(&self.kind, Kind::File { path, .. } if is_fifo(path))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests;
