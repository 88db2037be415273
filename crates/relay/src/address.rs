//! Addresses of inputs and outputs, written as for ffmpeg, VLC and socat.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// The kinds of addresses, for errors and help.
const KINDS: &str =
    "tcp://HOST:PORT, tcp://HOST:PORT?listen, udp://HOST:PORT, udp://@:PORT, unix:PATH, file:PATH or -";

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

    /// What of it only one input or output can have.
    pub(crate) fn claim(&self, is_output: bool) -> Option<Claim> {
        let (what, wrong) = match &self.kind {
            Kind::Standard if is_output => (
                "standard output".to_owned(),
                "standard output (-) is written to twice; one stream can have it".to_owned(),
            ),
            Kind::Standard => (
                "standard input".to_owned(),
                "standard input (-) is read twice; one stream can have it".to_owned(),
            ),
            Kind::File { path, .. } if is_output => (
                file_to_write(path)?,
                format!("{} is written to twice; give each output a file of its own", path.display()),
            ),
            Kind::Tcp { host, port, listen: true } => waited_for(format!("tcp://{host}:{port}")),
            Kind::Unix { path, listen: true } => waited_for(format!("unix:{}", path.display())),
            _ => return None,
        };
        Some(Claim { what, wrong })
    }

    /// Whether it is `file:PATH`.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }

    /// Whether both are one ordinary file, by whatever names.
    pub(crate) fn is_same_file(&self, other: &Address) -> bool {
        let file = |address: &Address| match &address.kind {
            Kind::File { path, .. } => std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file),
            _ => None,
        };
        file(self).zip(file(other)).is_some_and(|(one, two)| (one.dev(), one.ino()) == (two.dev(), two.ino()))
    }
}

/// What only one can have.
pub(crate) struct Claim {
    /// By which two of the same are told.
    pub(crate) what: String,
    /// What is wrong if two have it.
    pub(crate) wrong: String,
}

/// A file by whatever name, if it is an ordinary one or is to be made: of a device or a FIFO each may have a part.
fn file_to_write(path: &Path) -> Option<String> {
    if let Ok(there) = std::fs::metadata(path) {
        return there.is_file().then(|| format!("file {}:{}", there.dev(), there.ino()));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    Some(format!("file {}", folder.join(path.file_name().unwrap_or_default()).display()))
}

fn waited_for(place: String) -> (String, String) {
    let wrong = format!("connections are waited for at {place} twice; give each an address of its own");
    (place, wrong)
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

fn parse(text: &str) -> Result<Kind, String> {
    if text == "-" {
        return Ok(Kind::Standard);
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(format!("this is no address; there are {KINDS}"));
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
        "unix" => Kind::Unix { path: path(place)?, listen: query.flag("listen")? },
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
        other => return Err(format!("{other} is no kind of address; there are {KINDS}")),
    };
    query.finish()?;
    Ok(kind)
}

pub(crate) fn path(place: &str) -> Result<PathBuf, String> {
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

/// What follows a question mark.
struct Query<'a> {
    options: Vec<(&'a str, Option<&'a str>)>,
    known: Vec<&'static str>,
}

impl<'a> Query<'a> {
    fn split(rest: &'a str) -> (&'a str, Query<'a>) {
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = query.split('&').filter(|option| !option.is_empty());
        let options = options
            .map(|option| option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value))));
        (place, Query { options: options.collect(), known: Vec::new() })
    }

    fn take(&mut self, name: &'static str) -> Option<Option<&'a str>> {
        self.known.push(name);
        let place = self.options.iter().position(|(option, _)| *option == name)?;
        Some(self.options.remove(place).1)
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(None) => Ok(true),
            Some(Some(value)) => Err(format!("{name} takes no value, and has {value}")),
        }
    }

    fn value(&mut self, name: &'static str) -> Result<Option<String>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(None | Some("")) => Err(format!("{name} needs a value, as in {name}=VALUE")),
            Some(Some(value)) => Ok(Some(value.to_owned())),
        }
    }

    fn number(&mut self, name: &'static str, most: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.value(name)? else { return Ok(None) };
        match value.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
            _ => Err(format!("{name} is {value}, and must be a number from 1 to {most}")),
        }
    }

    /// Whatever is left is unknown.
    fn finish(self) -> Result<(), String> {
        let Some((name, _)) = self.options.first() else { return Ok(()) };
        Err(match &self.known[..] {
            [] => format!("{name} is no option here; there are none"),
            known => format!("{name} is no option here; there are {}", known.join(", ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        text.parse::<Address>().unwrap().kind
    }

    #[test]
    fn addresses_as_people_write_them() {
        let tcp = |host: &str, port, listen| Kind::Tcp { host: host.to_owned(), port, listen };
        assert_eq!(kind("-"), Kind::Standard);
        assert_eq!(kind("tcp://example.org:80"), tcp("example.org", 80, false));
        assert_eq!(kind("tcp://[::1]:80"), tcp("::1", 80, false));
        assert_eq!(kind("tcp://:5000?listen"), tcp("", 5000, true));
        assert_eq!(kind("unix:/run/a?listen"), Kind::Unix { path: "/run/a".into(), listen: true });
        assert_eq!(kind("file:a:b"), Kind::File { path: "a:b".into(), existing: Existing::Refuse });
        assert_eq!(kind("file:a?append"), Kind::File { path: "a".into(), existing: Existing::Append });
        let udp = Udp { host: "239.1.1.1".to_owned(), port: 1234, ..Udp::default() };
        assert_eq!(kind("udp://@239.1.1.1:1234"), Kind::Udp(udp.clone()));
        let with = Udp { interface: Some("eth0".to_owned()), ttl: Some(4), packet_bytes: Some(1316), ..udp };
        assert_eq!(kind("udp://239.1.1.1:1234?iface=eth0&ttl=4&packet=1316"), Kind::Udp(with));
        assert_eq!(kind("udp://@:9000"), Kind::Udp(Udp { port: 9000, ..Udp::default() }));
        assert_eq!(
            kind("udp://@[ff02::1]:9"),
            Kind::Udp(Udp { host: "ff02::1".to_owned(), port: 9, ..Udp::default() })
        );
        assert_eq!("tcp://a:1".parse::<Address>().unwrap().to_string(), "tcp://a:1");
    }

    #[test]
    fn relative_paths_are_in_a_folder_and_nothing_else_is() {
        let within =
            |text: &str| text.parse::<Address>().unwrap().within(Path::new("/etc/wirepath")).to_string();
        assert_eq!(within("file:a.ts?append"), "file:/etc/wirepath/a.ts?append");
        assert_eq!(within("unix:/run/a?listen"), "unix:/run/a?listen");
        assert_eq!(within("udp://@:9000"), "udp://@:9000");
        assert_eq!(within("-"), "-");
        let moved = "unix:a".parse::<Address>().unwrap().within(Path::new("/run"));
        assert_eq!(moved.kind, Kind::Unix { path: "/run/a".into(), listen: false });
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (text, why) in [
            ("video.ts", "this is no address"),
            ("http://a:1", "http is no kind of address; there are tcp://"),
            ("tcp://a", "a port is missing"),
            ("tcp:a:1", "after the colon come two slashes"),
            ("tcp://:80", "add ?listen"),
            ("tcp://a:0", "0 is no port"),
            ("tcp://a:99999", "99999 is no port"),
            ("tcp://::1:80", "an IPv6 address needs brackets"),
            ("tcp://a:1?listen=yes", "listen takes no value"),
            ("tcp://a:1?lisen", "lisen is no option here; there are listen"),
            ("tcp://:1?lissten", "lissten is no option here; there are listen"),
            ("tcp://80", "a host or a colon is missing, as in HOST:80 or :80"),
            ("udp://a:1?ttl=300", "ttl is 300, and must be a number from 1 to 255"),
            ("udp://a:1?iface", "iface needs a value"),
            (
                "udp://10.0.0.1:1?iface=eth0",
                "iface is for groups (multicast), and 10.0.0.1 is none; leave iface out",
            ),
            ("udp://@[fe80::1]:1?ttl=4", "ttl is for groups (multicast), and fe80::1 is none; leave ttl out"),
            (
                "udp://@:9?iface=eth0",
                "iface is for groups (multicast), and everything that comes to the port is none",
            ),
            ("unix:", "a path is missing"),
            ("file:x?append&overwrite", "exclude each other"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.starts_with(text) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_only_outputs_have_is_refused_of_an_input() {
        for (text, what) in [
            ("udp://@239.1.1.1:1?ttl=4", "ttl"),
            ("udp://@:1?packet=1316", "packet"),
            ("file:a?append", "append"),
            ("file:a?overwrite", "overwrite"),
        ] {
            let why = Address::to_read(text).unwrap_err().why().to_owned();
            assert!(why.starts_with(what) && why.ends_with("leave it out of an input"), "{why}");
        }
        for text in ["udp://@239.1.1.1:1?iface=eth0", "file:a", "-", "tcp://:1?listen"] {
            assert_eq!(Address::to_read(text), text.parse());
        }
    }

    #[test]
    fn nobody_sends_to_an_address_to_receive_from() {
        for (text, why) in [
            ("udp://@10.0.0.1:1", "it is udp://HOST:PORT"),
            ("udp://@[::1]:1", "it is udp://HOST:PORT"),
            ("udp://:1", "a host is missing"),
        ] {
            assert!(text.parse::<Address>().is_ok(), "{text}");
            let error = Address::to_write(text).unwrap_err();
            assert!(error.why().contains(why) && !error.why().contains(text), "{error}");
        }
        for text in ["udp://10.0.0.1:1", "tcp://:1?listen", "-", "file:@", "unix:@"] {
            assert_eq!(Address::to_write(text), text.parse());
        }
    }
}
