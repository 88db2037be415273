//! Destinations of packets that nobody asked for: `rtp://HOST:PORT` and `udp://HOST:PORT`.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs, UdpSocket};
use std::str::FromStr;

use rustix::net::connect_unspec;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Time to live, or hop limit, of multicast packets unless another is asked for: they stay in the local network
/// (RFC 1112 section 6.1).
const MULTICAST_TTL: u8 = 1;

/// Destination of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Address and port; of the first track's RTP where there are headers of RTP.
    pub address: SocketAddr,
    /// Form of the packets.
    pub form: Form,
    /// Time to live or hop limit, if one was asked for.
    pub ttl: Option<u8>,
    /// Interface that packets leave by; none for that of the route.
    pub interface: Option<Interface>,
}

/// Form of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// RTP, one port for each track, RTCP on the port behind each.
    Rtp,
    /// Packets of a transport stream in UDP, without RTP.
    PlainUdp,
}

/// Network interface.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// The interface that has this address, which is the source address, too.
    Address(IpAddr),
    /// The interface of this name.
    Name(String),
}

/// Longest name of an interface in bytes (`IFNAMSIZ` without the final zero).
const NAME_LIMIT: usize = 15;

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Interface, String> {
        if let Ok(address) = text.parse() {
            return Ok(Interface::Address(address));
        }
        let is_name = (1..=NAME_LIMIT).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        match is_name {
            true => Ok(Interface::Name(text.to_owned())),
            false => Err(format!("invalid interface {text:?}: expected a name, such as eth0, or an address")),
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Destination, String> {
        let (form, rest) = match text.split_once("://") {
            Some(("rtp", rest)) => (Form::Rtp, rest),
            Some(("udp", rest)) => (Form::PlainUdp, rest),
            _ => {
                return Err(
                    "expected rtp://HOST:PORT or udp://HOST:PORT, such as rtp://239.1.1.1:5004?ttl=4"
                        .to_owned(),
                );
            }
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let address = resolve(place.trim_end_matches('/'))?;
        if form == Form::Rtp && (address.port() % 2 != 0 || address.port() < 2) {
            return Err(format!(
                "port {} is odd: RTP has an even port, and RTCP the next one",
                address.port()
            ));
        }
        if address.port() == 0 {
            return Err("port 0 receives nothing: expected 1 to 65535".to_owned());
        }
        let mut destination = Destination { address, form, ttl: None, interface: None };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("ttl", ttl)) => {
                    let number = ttl.parse().ok().filter(|ttl| *ttl > 0);
                    destination.ttl =
                        Some(number.ok_or_else(|| format!("invalid ttl {ttl:?}: expected 1 to 255"))?);
                }
                Some(("interface", interface)) => destination.interface = Some(interface.parse()?),
                _ => return Err(format!("unknown option {option:?}: expected ttl=N or interface=NAME")),
            }
        }
        Ok(destination)
    }
}

fn interface_error(interface: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("interface {interface}: {error}"))
}

/// Address of `HOST:PORT`.
fn resolve(place: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = place.parse() {
        return Ok(address);
    }
    let is_name = |host: &str| !host.is_empty() && !host.contains(':');
    let port = place.rsplit_once(':').filter(|(host, _)| is_name(host)).map(|(_, port)| port);
    if port.is_none_or(|port| port.parse::<u16>().is_err()) {
        return Err(format!("expected HOST:PORT, not {place:?}; write an IPv6 address in brackets"));
    }
    let mut found = place.to_socket_addrs().map_err(|error| format!("cannot resolve {place}: {error}"))?;
    found.next().ok_or_else(|| format!("cannot resolve {place}: it has no address"))
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.form {
            Form::Rtp => "rtp",
            Form::PlainUdp => "udp",
        };
        write!(formatter, "{scheme}://{}", self.address)
    }
}

impl Destination {
    /// Returns whether it is a group.
    pub(super) fn is_multicast(&self) -> bool {
        self.address.ip().is_multicast()
    }

    /// Time to live of multicast in an IPv4 session description (RFC 8866 section 5.7).
    pub(crate) fn group_ttl(&self) -> Option<u8> {
        self.is_multicast().then(|| self.ttl.unwrap_or(MULTICAST_TTL))
    }

    /// A socket connected to its address, `ports` ports higher.
    ///
    /// # Errors
    /// Those of socket calls; `InvalidInput` where an interface and the address are of different families.
    pub(crate) fn connect(&self, ports: u16) -> io::Result<UdpSocket> {
        let to = self.at(ports)?;
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, Some(Protocol::UDP))?;
        self.set_interface(&socket)?;
        self.set_ttl(&socket)?;
        socket.connect(&to.into())?;
        Ok(socket.into())
    }

    /// Connects a socket anew, `ports` ports higher: after a change of this host's addresses or interfaces a connected
    /// socket keeps those of before. Its own port may change.
    ///
    /// # Errors
    /// Those of socket calls. The socket may not be connected then.
    pub(crate) fn reconnect(&self, socket: &UdpSocket, ports: u16) -> io::Result<()> {
        let to = self.at(ports)?;
        connect_unspec(socket)?;
        let socket = SockRef::from(socket);
        match &self.interface {
            Some(Interface::Name(name)) => socket.bind_device(Some(name.as_bytes()))?,
            Some(Interface::Address(IpAddr::V4(local))) => socket.set_multicast_if_v4(local)?,
            Some(Interface::Address(IpAddr::V6(_))) | None => {}
        }
        socket.connect(&to.into())
    }

    /// Checks that there is the interface that packets are to leave by.
    ///
    /// # Errors
    /// Those of socket calls with the interface's name; `InvalidInput` as for [`connect`](Self::connect).
    pub(crate) fn check_interface(&self) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(self.address), Type::DGRAM, Some(Protocol::UDP))?;
        self.set_interface(&socket)
    }

    fn at(&self, ports: u16) -> io::Result<SocketAddr> {
        let why = || io::Error::new(io::ErrorKind::InvalidInput, "its tracks need ports above 65535");
        let port = self.address.port().checked_add(ports).ok_or_else(why)?;
        Ok(match self.address {
            SocketAddr::V4(address) => SocketAddrV4::new(*address.ip(), port).into(),
            SocketAddr::V6(address) => {
                SocketAddrV6::new(*address.ip(), port, address.flowinfo(), address.scope_id()).into()
            }
        })
    }

    fn set_interface(&self, socket: &Socket) -> io::Result<()> {
        match (&self.interface, self.address) {
            (None, _) => Ok(()),
            (Some(Interface::Name(name)), _) => {
                socket.bind_device(Some(name.as_bytes())).map_err(|error| interface_error(name, &error))
            }
            (Some(Interface::Address(IpAddr::V4(local))), SocketAddr::V4(_)) => socket
                .set_multicast_if_v4(local)
                .and_then(|()| socket.bind(&SocketAddr::from((*local, 0)).into()))
                .map_err(|error| interface_error(local, &error)),
            (Some(Interface::Address(IpAddr::V6(local))), SocketAddr::V6(_)) if !self.is_multicast() => {
                socket
                    .bind(&SocketAddr::from((*local, 0)).into())
                    .map_err(|error| interface_error(local, &error))
            }
            (Some(Interface::Address(_)), _) => {
                let why = "give the interface by its name: an address selects it for IPv4, and for unicast";
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
        }
    }

    fn set_ttl(&self, socket: &Socket) -> io::Result<()> {
        match (self.group_ttl(), self.ttl, self.address.is_ipv4()) {
            (Some(ttl), _, true) => socket.set_multicast_ttl_v4(ttl.into()),
            (Some(hops), _, false) => socket.set_multicast_hops_v6(hops.into()),
            (None, Some(ttl), true) => socket.set_ttl_v4(ttl.into()),
            (None, Some(hops), false) => socket.set_unicast_hops_v6(hops.into()),
            (None, None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Destination>().unwrap_err()
    }

    #[test]
    fn destinations_have_a_form_an_address_and_options() {
        let group: Destination = "rtp://239.1.1.1:5004?ttl=4&interface=eth0".parse().unwrap();
        assert_eq!(group.address, "239.1.1.1:5004".parse().unwrap());
        assert_eq!((group.form, group.ttl, group.group_ttl()), (Form::Rtp, Some(4), Some(4)));
        assert_eq!(group.interface, Some(Interface::Name("eth0".to_owned())));
        assert_eq!(group.to_string(), "rtp://239.1.1.1:5004");
        let plain: Destination = "udp://[::1]:1234/?interface=127.0.0.1".parse().unwrap();
        assert_eq!((plain.form, plain.group_ttl()), (Form::PlainUdp, None));
        assert_eq!(plain.interface, Some(Interface::Address([127, 0, 0, 1].into())));
        let group: Destination = "udp://[ff02::1]:1235".parse().unwrap();
        assert_eq!(group.group_ttl(), Some(1), "the local network");
    }

    #[test]
    fn errors_say_what_is_expected() {
        for (text, words) in [
            ("239.1.1.1:5004", "expected rtp://HOST:PORT"),
            ("http://239.1.1.1:5004", "expected rtp://HOST:PORT"),
            ("rtp://239.1.1.1:5005", "port 5005 is odd"),
            ("rtp://239.1.1.1:0", "port 0"),
            ("udp://239.1.1.1:0", "port 0 receives nothing"),
            ("rtp://239.1.1.1", "expected HOST:PORT"),
            ("rtp://::1:5004", "expected HOST:PORT"),
            ("rtp://239.1.1.1:5004?ttl=0", "invalid ttl"),
            ("rtp://239.1.1.1:5004?ttl=256", "expected 1 to 255"),
            ("rtp://239.1.1.1:5004?tos=3", "unknown option"),
            ("rtp://239.1.1.1:5004?interface=a/b", "invalid interface"),
        ] {
            assert!(error(text).contains(words), "{text}: {}", error(text));
        }
    }

    #[test]
    fn ports_of_tracks_end_at_the_last_port() {
        let destination: Destination = "rtp://127.0.0.1:65534".parse().unwrap();
        assert!(destination.connect(1).is_ok());
        assert_eq!(destination.connect(2).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
