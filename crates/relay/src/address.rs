//! Addresses of inputs and outputs, in the syntax of ffmpeg, VLC and socat.

mod exclusive;
mod parse;
mod query;

use std::fmt;
use std::net::IpAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub(crate) use exclusive::ExclusiveUse;
use parse::parse;
pub(crate) use parse::{authority, socket_path};

/// Address of an input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    pub(crate) kind: Kind,
}

/// Parsed address.
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
    /// `udp://HOST:PORT`; for inputs the host may be empty or follow an @.
    Udp(Udp),
}

/// Treatment of an existing output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Refuse,
    Append,
    Overwrite,
}

/// UDP address and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Udp {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) interface: Option<String>,
    pub(crate) ttl: Option<u32>,
    /// Size of datagrams that collect shorter records.
    pub(crate) packet_bytes: Option<usize>,
}

/// Invalid address.
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

    /// The reason without the address, for messages that already name the address.
    pub fn why(&self) -> &str {
        &self.why
    }
}

impl Udp {
    /// Returns whether the host is a multicast address.
    fn is_group(&self) -> bool {
        self.host.parse().is_ok_and(|host: IpAddr| host.is_multicast())
    }

    /// Checks that each option applies to `host`, the resolved address.
    pub(crate) fn check_host(&self, host: IpAddr) -> Result<(), String> {
        let option = match (&self.interface, self.ttl) {
            _ if host.is_multicast() => return Ok(()),
            (Some(_), _) => "iface",
            (None, Some(_)) => "ttl",
            (None, None) => return Ok(()),
        };
        let host = if self.host.is_empty() { "every address" } else { &self.host };
        Err(format!(
            "{option} is for multicast groups: {host} is not one; remove {option} or name a group, such as \
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
    /// Parses the address of an input.
    ///
    /// # Errors
    /// The address is invalid, or is one of an output.
    pub fn to_read(text: &str) -> Result<Address, AddressError> {
        let address: Address = text.parse()?;
        let option = match &address.kind {
            Kind::Udp(Udp { ttl: Some(_), .. }) => "ttl",
            Kind::Udp(Udp { packet_bytes: Some(_), .. }) => "packet",
            Kind::File { existing: Existing::Append, .. } => "append",
            Kind::File { existing: Existing::Overwrite, .. } => "overwrite",
            _ => return Ok(address),
        };
        Err(AddressError::new(text, format!("{option} is for outputs; remove it from an input")))
    }

    /// Parses the address of an output.
    ///
    /// # Errors
    /// The address is invalid, or is one of an input: a UDP address with an @ or without a host.
    pub fn to_write(text: &str) -> Result<Address, AddressError> {
        let address: Address = text.parse()?;
        let why = match &address.kind {
            Kind::Udp(_) if text.starts_with("udp://@") => {
                "udp://@ receives datagrams; to send them, write udp://HOST:PORT"
            }
            Kind::Udp(udp) if udp.host.is_empty() => "missing host: expected udp://HOST:PORT",
            _ => return Ok(address),
        };
        Err(AddressError::new(text, why.to_owned()))
    }

    /// Returns whether the address waits for peers to connect.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.kind, Kind::Tcp { listen: true, .. } | Kind::Unix { listen: true, .. })
    }

    /// Returns whether the address transfers datagrams. Each datagram is a record.
    pub(crate) fn has_datagrams(&self) -> bool {
        matches!(self.kind, Kind::Udp(_))
    }

    /// Resolves a relative path of the address against `folder`.
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

    pub(crate) fn is_standard(&self) -> bool {
        self.kind == Kind::Standard
    }

    /// Path of the file; for a standard stream its device, since the shell may have redirected it to a file.
    pub(crate) fn path(&self, is_output: bool) -> Option<&Path> {
        match &self.kind {
            Kind::Standard => Some(Path::new(if is_output { "/dev/stdout" } else { "/dev/stdin" })),
            Kind::File { path, .. } | Kind::Unix { path, .. } => Some(path),
            Kind::Tcp { .. } | Kind::Udp(_) => None,
        }
    }

    /// Returns whether the address is `file:PATH`.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }

    /// Returns whether the address is a FIFO. Opening a FIFO waits for a peer (fifo(7)).
    pub(crate) fn is_fifo(&self) -> bool {
        let is_fifo = |path: &Path| std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
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
