//! Reading addresses.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use super::query::Query;
use super::{Existing, Kind, Udp};
use crate::advice::{MOST_SOCKET_BYTES, too_long};

/// The kinds of addresses, for errors and help.
const KINDS: &str =
    "tcp://HOST:PORT, tcp://HOST:PORT?listen, udp://HOST:PORT, udp://@:PORT, unix:PATH, file:PATH or -";

/// What an address means.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<Kind, String> {
    if text == "-" {
        return Ok(Kind::Standard);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(format!("this is no address; a file is file:{text}; there are {KINDS}"));
    };
    let (place, mut query) = Query::split(rest);
    let kind = match scheme {
        "file" => {
            let existing = match (query.flag("append")?, query.flag("overwrite")?) {
                (true, true) => return Err("append and overwrite exclude each other".to_owned()),
                (true, false) => Existing::Append,
                (false, true) => Existing::Overwrite,
                (false, false) => Existing::Refuse,
            };
            Kind::File { path: path(place)?, existing }
        }
        "unix" => Kind::Unix { path: socket_path(place)?, listen: query.flag("listen")? },
        "tcp" => {
            let listen = query.flag("listen")?;
            query.finish()?; // a misspelled ?listen is not to be taken for none
            let (host, port) = host_and_port(place)?;
            if host.is_empty() && !listen {
                return Err("a host is missing; to wait for a connection, add ?listen".to_owned());
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
                packet_bytes: query.number("packet", 65_507)?.map(|bytes| bytes as usize),
            };
            // What a name stands for is known when it is looked up.
            match udp.host.parse::<IpAddr>() {
                Ok(address) => udp.fits(address)?,
                Err(_) if udp.host.is_empty() => udp.fits(Ipv4Addr::UNSPECIFIED.into())?,
                Err(_) => {}
            }
            Kind::Udp(udp)
        }
        other => return Err(unknown(text, other)),
    };
    query.finish()?;
    Ok(kind)
}

/// What is wrong with words that begin with `scheme`, and what whoever wrote them may have meant.
fn unknown(text: &str, scheme: &str) -> String {
    let meant = match authority(text) {
        Ok((host, 1..)) if host.is_empty() => {
            format!("; to wait for a connection at this port it is tcp://{text}?listen")
        }
        Ok((host, 1..)) if !host.contains('/') => format!("; over TCP it is tcp://{text}"),
        _ if scheme.contains('/') => format!("; a file is file:{text}"),
        _ => return format!("{scheme} is no kind of address; there are {KINDS}"),
    };
    format!("this is no address{meant}; there are {KINDS}")
}

/// A path that the system takes for a socket's.
pub(crate) fn socket_path(place: &str) -> Result<PathBuf, String> {
    let path = path(place)?;
    if path.as_os_str().len() > MOST_SOCKET_BYTES { Err(too_long(&path)) } else { Ok(path) }
}

fn path(place: &str) -> Result<PathBuf, String> {
    if place.is_empty() { Err("a path is missing".to_owned()) } else { Ok(place.into()) }
}

fn host_and_port(place: &str) -> Result<(String, u16), String> {
    let Some(place) = place.strip_prefix("//") else {
        return Err("after the colon come two slashes".to_owned());
    };
    match authority(place)? {
        (_, 0) => Err("0 is no port; ports are 1 to 65535".to_owned()),
        place => Ok(place),
    }
}

/// HOST:PORT, where the host may be missing and the port 0.
pub(crate) fn authority(place: &str) -> Result<(String, u16), String> {
    let Some((host, port)) = place.rsplit_once(':') else {
        return Err(match place.parse::<u16>() {
            Ok(port) => format!("a host or a colon is missing, as in HOST:{port} or :{port}"),
            Err(_) => "a port is missing, as in HOST:PORT".to_owned(),
        });
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !is_bracketed && !host.starts_with("@[") {
        return Err("an IPv6 address needs brackets, as in [::1]:PORT".to_owned());
    }
    match port.parse() {
        Ok(port) => Ok((host.replace(['[', ']'], ""), port)),
        Err(_) => Err(format!("{port} is no port; ports are 1 to 65535")),
    }
}
