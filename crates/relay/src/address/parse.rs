//! Parser of addresses.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use wirepath_datapath::datagrams::MAXIMUM_PAYLOAD;

use super::query::Query;
use super::{Existing, Kind, Udp};
use crate::advice::{MAX_SOCKET_PATH, too_long};

/// Kinds of addresses, for error messages.
const KINDS: &str =
    "tcp://HOST:PORT, tcp://HOST:PORT?listen, udp://HOST:PORT, udp://@:PORT, unix:PATH, file:PATH or -";

pub(super) fn parse(text: &str) -> Result<Kind, String> {
    if text == "-" {
        return Ok(Kind::Standard);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(format!("invalid address; for a file write file:{text}; expected {KINDS}"));
    };
    let (place, mut query) = Query::split(rest);
    let kind = match scheme {
        "file" => {
            let existing = match (query.flag("append")?, query.flag("overwrite")?) {
                (true, true) => return Err("append and overwrite exclude each other; remove one".to_owned()),
                (true, false) => Existing::Append,
                (false, true) => Existing::Overwrite,
                (false, false) => Existing::Refuse,
            };
            Kind::File { path: path(place)?, existing }
        }
        "unix" => Kind::Unix { path: socket_path(place)?, listen: query.flag("listen")? },
        "tcp" => {
            let listen = query.flag("listen")?;
            query.finish()?; // before the host is checked: ?listen may be misspelled
            let (host, port) = host_and_port(place)?;
            if host.is_empty() && !listen {
                return Err("missing host; to wait for a connection, add ?listen".to_owned());
            }
            return Ok(Kind::Tcp { host, port, listen });
        }
        "udp" => {
            let (host, port) = host_and_port(place)?;
            let host = host.strip_prefix('@').unwrap_or(&host).to_owned();
            let udp = Udp {
                host,
                port,
                interface: query.value("iface")?,
                ttl: query.number("ttl", 255)?.map(|ttl| ttl as u32),
                packet_bytes: query.number("packet", MAXIMUM_PAYLOAD as u64)?.map(|bytes| bytes as usize),
            };
            // A host name is checked when it is resolved.
            match udp.host.parse::<IpAddr>() {
                Ok(address) => udp.check_host(address)?,
                Err(_) if udp.host.is_empty() => udp.check_host(Ipv4Addr::UNSPECIFIED.into())?,
                Err(_) => {}
            }
            Kind::Udp(udp)
        }
        other => return Err(unknown(text, other)),
    };
    query.finish()?;
    Ok(kind)
}

/// Error for an unknown scheme, with the address that was probably meant.
fn unknown(text: &str, scheme: &str) -> String {
    let meant = match authority(text) {
        Ok((host, 1..)) if host.is_empty() => {
            format!("; to listen on this port write tcp://{text}?listen")
        }
        Ok((host, 1..)) if !host.contains('/') => format!("; for TCP write tcp://{text}"),
        _ if scheme.contains('/') => format!("; for a file write file:{text}"),
        _ => return format!("unknown scheme {scheme}; expected {KINDS}"),
    };
    format!("invalid address{meant}; expected {KINDS}")
}

/// Path of a Unix socket, checked against the length limit of the system.
pub(crate) fn socket_path(place: &str) -> Result<PathBuf, String> {
    let path = path(place)?;
    if path.as_os_str().len() > MAX_SOCKET_PATH { Err(too_long(&path)) } else { Ok(path) }
}

fn path(place: &str) -> Result<PathBuf, String> {
    if place.is_empty() { Err("missing path".to_owned()) } else { Ok(place.into()) }
}

fn host_and_port(place: &str) -> Result<(String, u16), String> {
    let Some(place) = place.strip_prefix("//") else {
        return Err("missing // after the colon".to_owned());
    };
    match authority(place)? {
        (_, 0) => Err("invalid port 0: expected 1 to 65535".to_owned()),
        place => Ok(place),
    }
}

/// Parses HOST:PORT. The host may be empty, and the port may be 0.
pub(crate) fn authority(place: &str) -> Result<(String, u16), String> {
    let Some((host, port)) = place.rsplit_once(':') else {
        return Err(match place.parse::<u16>() {
            Ok(port) => format!("missing colon: expected HOST:{port} or :{port}"),
            Err(_) => "missing port: expected HOST:PORT".to_owned(),
        });
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !is_bracketed && !host.starts_with("@[") {
        return Err("an IPv6 address needs brackets: expected [::1]:PORT".to_owned());
    }
    match port.parse() {
        Ok(port) => Ok((host.replace(['[', ']'], ""), port)),
        Err(_) => Err(format!("invalid port {port}: expected 1 to 65535")),
    }
}
