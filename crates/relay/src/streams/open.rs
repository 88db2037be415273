//! Opens addresses as objects of a stream. Opening may block while names are resolved and connections are
//! made.

mod file;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream, ToSocketAddrs};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use wirepath_streams::Object;

use crate::address::{Address, Kind, Udp};
use crate::{advice, keepalive};
use file::Created;

/// Address that could not be opened, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {doing}: {source}")]
pub struct OpenError {
    address: Box<Address>,
    doing: &'static str,
    #[source]
    source: io::Error,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Requested size of receive buffers, so that bursts survive while other streams are served. The system caps
/// it at `net.core.rmem_max`.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Result; an error has the step that failed.
type Attempt<T> = Result<T, (&'static str, io::Error)>;

trait Doing<T> {
    fn doing(self, doing: &'static str) -> Attempt<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, doing: &'static str) -> Attempt<T> {
        self.map_err(|error| (doing, error.into()))
    }
}

impl Address {
    /// Opens a listener, if the address listens. Listeners are opened before all other addresses, so that
    /// peers can connect in any order.
    pub(crate) fn listen(&self) -> Result<Option<Object>, OpenError> {
        let listening = match &self.kind {
            Kind::Tcp { host, port, listen: true } => TcpListener::bind((host_or_any(host), *port))
                .map_err(|error| advice::on_port(*port, error))
                .doing("listening")
                // Accepted sockets inherit the options of the listener.
                .and_then(|socket| {
                    keepalive::set_up(&socket).doing("setting up a socket")?;
                    self.listening(socket.into(), None)
                }),
            Kind::Unix { path, listen: true } => UnixListener::bind(path)
                .map_err(|error| advice::on_socket(path, error))
                .doing("listening")
                .and_then(|socket| self.listening(socket.into(), Some(path.clone()))),
            _ => return Ok(None),
        };
        self.opened(listening).map(Some)
    }

    fn listening(&self, socket: OwnedFd, path: Option<PathBuf>) -> Attempt<Object> {
        Object::listening(&self.to_string(), socket, path).doing("listening")
    }

    /// Opens an address for reading that does not [listen](Address::listen).
    pub(crate) fn open_input(&self) -> Result<Object, OpenError> {
        self.opened(match &self.kind {
            Kind::Standard => stream(self, io::stdin().as_fd().try_clone_to_owned()),
            Kind::File { path, .. } => std::fs::File::open(path)
                .and_then(|file| {
                    if file.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(file) }
                })
                .doing("opening")
                .and_then(|file| self.file_object(file, 0)),
            Kind::Udp(udp) => receiver(udp).and_then(|socket| self.datagrams(socket, udp)),
            kind => connection(kind).and_then(|connection| stream(self, Ok(connection))),
        })
    }

    /// Opens an address for writing that does not [listen](Address::listen).
    pub(crate) fn open_output(&self) -> Result<Object, OpenError> {
        self.opened(match &self.kind {
            Kind::Standard => stream(self, io::stdout().as_fd().try_clone_to_owned()),
            Kind::File { path, existing } => {
                file::create(path, *existing).and_then(|Created { file, length, is_new }| {
                    let object = self.file_object(file, length)?;
                    Ok(if is_new { object.provisional(path.clone()) } else { object })
                })
            }
            Kind::Udp(udp) => sender(udp).and_then(|socket| self.datagrams(socket, udp)),
            kind => connection(kind).and_then(|connection| stream(self, Ok(connection))),
        })
    }

    /// Makes an opened input receive single datagrams, as eBPF programs need them.
    pub(crate) fn take_single_datagrams(&self, input: &Object) -> Result<(), OpenError> {
        self.opened(input.take_joined_datagrams(false).doing("setting up a socket"))
    }

    fn opened<T>(&self, attempt: Attempt<T>) -> Result<T, OpenError> {
        attempt.map_err(|(doing, source)| OpenError { address: Box::new(self.clone()), doing, source })
    }

    /// Object of a file, a FIFO or a device.
    fn file_object(&self, file: std::fs::File, offset: u64) -> Attempt<Object> {
        if file.metadata().doing("opening")?.is_file() {
            return Ok(Object::file(&self.to_string(), Arc::new(file), offset));
        }
        stream(self, Ok(file.into()))
    }

    fn datagrams(&self, socket: Socket, udp: &Udp) -> Attempt<Object> {
        Object::datagrams(&self.to_string(), socket.into(), None, udp.packet_bytes)
            .doing("setting up a socket")
    }
}

fn stream(address: &Address, descriptor: io::Result<OwnedFd>) -> Attempt<Object> {
    descriptor.and_then(|descriptor| Object::stream(&address.to_string(), descriptor)).doing("opening")
}

fn connection(kind: &Kind) -> Attempt<OwnedFd> {
    match kind {
        Kind::Tcp { host, port, listen: false } => {
            let connection = connect(host, *port)?;
            keepalive::set_up(&connection).doing("setting up a connection")?;
            Ok(connection.into())
        }
        Kind::Unix { path, listen: false } => {
            let connected = UnixStream::connect(path).map_err(|error| advice::on_length(path, error));
            Ok(connected.doing("connecting")?.into())
        }
        _ => Err(("connecting", io::ErrorKind::Unsupported.into())),
    }
}

/// Connects to the first address of a name that accepts the connection.
fn connect(host: &str, port: u16) -> Attempt<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs().doing("resolving the name")? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(connection) => return Ok(connection),
            Err(error) => failed = error,
        }
    }
    Err(("connecting", failed))
}

/// Socket that receives datagrams sent to a port or to a multicast group.
fn receiver(udp: &Udp) -> Attempt<Socket> {
    let address = resolve(host_or_any(&udp.host), udp)?;
    let socket = udp_socket(address)?;
    let index = interface(&socket, udp, address)?;
    // Several programs may receive the same group.
    socket.set_reuse_address(address.ip().is_multicast()).doing("setting up a socket")?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER).doing("setting up a socket")?;
    if address.ip().is_multicast() {
        keep_to_device(&socket, address, index).doing("setting up a socket")?;
    }
    let bound = socket.bind(&with_scope(address, index).into());
    bound.map_err(|error| advice::on_port(udp.port, error)).doing("listening")?;
    if address.ip().is_multicast() {
        match address.ip() {
            IpAddr::V4(group) => {
                sockopt::set_ip_add_membership_with_ifindex(&socket, &group, &Ipv4Addr::UNSPECIFIED, index)
            }
            IpAddr::V6(group) => sockopt::set_ipv6_add_membership(&socket, &group, index),
        }
        .doing("joining the group")?;
    }
    Ok(socket)
}

/// Limits a group to the device on which this socket joins the group, since other programs may have joined it
/// on other devices. For IPv4, `IP_MULTICAST_ALL` does that (ip(7)). `IPV6_MULTICAST_ALL` does not: an IPv6
/// socket receives a joined group from every device, unless the socket is bound to a device.
fn keep_to_device(socket: &Socket, group: SocketAddr, index: u32) -> io::Result<()> {
    match group {
        SocketAddr::V4(_) => socket.set_multicast_all_v4(false),
        SocketAddr::V6(_) => socket.bind_device_by_index_v6(NonZeroU32::new(index)),
    }
}

/// Socket that sends datagrams to a host or a multicast group.
fn sender(udp: &Udp) -> Attempt<Socket> {
    let address = resolve(&udp.host, udp)?;
    let socket = udp_socket(address)?;
    if address.ip().is_multicast() {
        let index = interface(&socket, udp, address)?;
        match address.ip() {
            IpAddr::V4(group) => {
                let by_index = |index| {
                    sockopt::set_ip_multicast_if_with_ifindex(&socket, &group, &Ipv4Addr::UNSPECIFIED, index)
                };
                if index > 0 { by_index(index) } else { Ok(()) }
            }
            IpAddr::V6(_) => sockopt::set_ipv6_multicast_if(&socket, index),
        }
        .doing("choosing the interface")?;
        if let Some(ttl) = udp.ttl {
            match address {
                SocketAddr::V4(_) => sockopt::set_ip_multicast_ttl(&socket, ttl),
                SocketAddr::V6(_) => sockopt::set_ipv6_multicast_hops(&socket, ttl),
            }
            .doing("setting the hops")?;
        }
    }
    socket.connect(&address.into()).doing("connecting")?;
    Ok(socket)
}

fn udp_socket(address: SocketAddr) -> Attempt<Socket> {
    Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))
        .doing("opening a socket")
}

/// Index of the configured interface; 0 lets the system choose.
fn interface(socket: &Socket, udp: &Udp, address: SocketAddr) -> Attempt<u32> {
    match (&udp.interface, address) {
        (Some(name), _) => name_to_index(socket, name).doing("finding the interface"),
        (None, SocketAddr::V6(group)) if is_link_local(&group) && group.scope_id() == 0 => {
            let words = "a link-local group needs an interface; add ?iface=NAME";
            Err(("choosing the interface", io::Error::new(io::ErrorKind::InvalidInput, words)))
        }
        (None, _) => Ok(0),
    }
}

/// Returns whether a group has interface-local or link-local scope: ff01:: or ff02:: (RFC 4291, section 2.7).
fn is_link_local(address: &SocketAddrV6) -> bool {
    matches!(address.ip().segments()[0] & 0xff0f, 0xff01 | 0xff02)
}

/// The address with its scope. A link-local group cannot be bound without a scope.
fn with_scope(mut address: SocketAddr, index: u32) -> SocketAddr {
    if let SocketAddr::V6(group) = &mut address
        && index > 0
    {
        group.set_scope_id(index);
    }
    address
}

/// Resolves the host and checks the options of the address against it.
fn resolve(host: &str, udp: &Udp) -> Attempt<SocketAddr> {
    let mut found = (host, udp.port).to_socket_addrs().doing("resolving the name")?;
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let address = found.next().ok_or_else(missing).doing("resolving the name")?;
    let unfit = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    udp.check_host(address.ip()).map_err(unfit).doing("setting up a socket")?;
    Ok(address)
}

/// Host to listen on; without a host, every address of IPv4 and, where the system has it, of IPv6.
fn host_or_any(host: &str) -> &str {
    let has_ipv6 = || std::net::UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok();
    match host {
        "" if has_ipv6() => "::",
        "" => "0.0.0.0",
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `?iface` and `?ttl` of an address that is not a group are refused, with the remedy.
    #[test]
    fn multicast_options_are_refused_for_a_name_of_a_host() {
        for (text, option) in [("udp://localhost:9?iface=lo", "iface"), ("udp://localhost:9?ttl=2", "ttl")] {
            let address: Address = text.parse().unwrap();
            for opened in [address.open_input(), address.open_output()] {
                let error = opened.expect_err("it is refused").to_string();
                let why = format!("{option} is for multicast groups: localhost is not one");
                assert!(error.starts_with(text) && error.contains(&why), "{error}");
            }
        }
    }

    /// Promise: `?iface` and `?ttl` of an address that is not a group are refused, with the remedy.
    ///
    /// 0xef010101 does not parse as an address, but resolves to 239.1.1.1 (inet_aton(3)).
    #[test]
    fn multicast_options_are_accepted_for_a_name_of_a_group() {
        let address: Address = "udp://0xef010101:9?iface=lo&ttl=2".parse().unwrap();
        address.open_output().unwrap();
    }
}
