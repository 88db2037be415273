//! Listening sockets that are open before the server starts: of systemd, of the old server, or its own.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{socket_acceptconn, socket_type};
use rustix::net::{SocketType, getsockname};
use socket2::Socket;

use crate::listener::listening_socket;

/// Names of the listeners, in lower case as in `FileDescriptorName=`.
pub const NAMES: [&str; 4] = ["rtsp", "http", "rtsps", "https"];

/// Listening TCP sockets by name, at most one of each.
#[derive(Debug, Default)]
pub struct HandedSockets(BTreeMap<&'static str, Socket>);

impl HandedSockets {
    /// Sockets passed by systemd to this process; empty if systemd passed none. Must be called before the
    /// process opens descriptors that it keeps.
    ///
    /// # Errors
    /// Invalid variables or an invalid socket.
    pub fn of_systemd() -> io::Result<HandedSockets> {
        let mut handed = HandedSockets::default();
        for (name, descriptor) in wirepath_sys::inherited::take()? {
            handed.add(&name, descriptor)?;
        }
        Ok(handed)
    }

    /// Adds a socket.
    ///
    /// # Errors
    /// `InvalidInput` if the name is unknown or already present, or the descriptor is not a listening TCP
    /// socket.
    pub fn add(&mut self, name: &str, descriptor: OwnedFd) -> io::Result<()> {
        let wrong =
            |why: &str| Err(io::Error::new(ErrorKind::InvalidInput, format!("socket `{name}`: {why}")));
        let Some(known) = NAMES.into_iter().find(|known| *known == name) else {
            return wrong("unknown name; set FileDescriptorName= to rtsp, http, rtsps or https");
        };
        let is_inet = getsockname(&descriptor).is_ok_and(|address| SocketAddr::try_from(address).is_ok());
        if !is_inet || socket_type(&descriptor)? != SocketType::STREAM || !socket_acceptconn(&descriptor)? {
            return wrong("not a listening TCP socket; use ListenStream=ADDRESS:PORT and Accept=no");
        }
        if self.0.contains_key(known) {
            return wrong("handed in twice; one listen address of each protocol is served");
        }
        let socket = Socket::from(descriptor);
        socket.set_nonblocking(true)?;
        self.0.insert(known, socket);
        Ok(())
    }

    /// Listens on the address of a protocol, unless its socket is there already. The name may be in upper case.
    ///
    /// # Errors
    /// As of [`bind`](crate::bind); `InvalidInput` if the name is unknown.
    pub fn listen(&mut self, protocol: &str, address: SocketAddr) -> io::Result<()> {
        let name = protocol.to_lowercase();
        if self.0.contains_key(name.as_str()) {
            return Ok(());
        }
        self.add(&name, listening_socket(address)?.into())
    }

    /// Addresses that the sockets listen on.
    ///
    /// # Errors
    /// Errors of `getsockname`.
    pub fn addresses(&self) -> io::Result<Vec<(&'static str, SocketAddr)>> {
        let address = |(name, socket): (&&'static str, &Socket)| {
            let address = socket.local_addr()?.as_socket().ok_or(ErrorKind::InvalidInput)?;
            Ok((*name, address))
        };
        self.0.iter().map(address).collect()
    }

    /// Takes the socket of a protocol; the name may be in upper case.
    pub fn take(&mut self, protocol: &str) -> Option<Socket> {
        self.0.remove(protocol.to_lowercase().as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn only_named_listeners_are_taken() {
        let mut handed = HandedSockets::default();
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        let first = listener();
        let address = first.local_addr().unwrap();
        handed.add("rtsp", first.into()).unwrap();
        assert_eq!(handed.addresses().unwrap(), [("rtsp", address)]);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for (name, descriptor, why) in [
            ("rtsp", listener().into(), "twice"),
            ("wirepath.socket", listener().into(), "FileDescriptorName"),
            ("http", OwnedFd::from(udp), "not a listening TCP socket"),
        ] {
            let error = handed.add(name, descriptor).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        handed.listen("RTSP", SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        assert_eq!(handed.addresses().unwrap(), [("rtsp", address)], "it is not replaced");
        handed.listen("HTTPS", SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        assert_eq!(handed.addresses().unwrap().len(), 2);
        assert!(handed.take("RTSP").is_some() && handed.take("RTSP").is_none());
    }
}
