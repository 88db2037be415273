//! A sender and a receiver, and everything that arrives between two of the test's own packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use wirepath_sys::device::{DeviceName, set_up};

/// Two UDP sockets.
pub(crate) struct Wire {
    pub(crate) sender: UdpSocket,
    pub(crate) receiver: UdpSocket,
    is_connected: bool,
    ends: u64,
    buffer: Vec<u8>,
}

/// Receive buffer; more than any case sends.
pub(crate) const ROOM: usize = 256 << 20;

/// Beginning of the packet that ends what a case has sent.
pub(crate) const END: &str = "the end of what was sent";

/// Ends a hang; what was sent is there by then.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const IPV4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(crate) const IPV6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

impl Wire {
    /// Between sockets of one address.
    pub(crate) fn new(address: IpAddr, is_connected: bool) -> Result<Wire> {
        Wire::between(UdpSocket::bind((address, 0))?, UdpSocket::bind((address, 0))?, is_connected)
    }

    /// Between two sockets.
    pub(crate) fn between(sender: UdpSocket, receiver: UdpSocket, is_connected: bool) -> Result<Wire> {
        set_socket_recv_buffer_size_force(&receiver, ROOM).context("making room to receive")?;
        receiver.set_read_timeout(Some(LIMIT))?;
        if is_connected {
            sender.connect(receiver.local_addr()?)?;
        }
        Ok(Wire { sender, receiver, is_connected, ends: 0, buffer: vec![0; 1 << 16] })
    }

    /// Destination of a call, unless the socket is connected.
    pub(crate) fn to(&self) -> Result<Option<SocketAddr>> {
        if self.is_connected { Ok(None) } else { Ok(Some(self.receiver.local_addr()?)) }
    }

    /// Compares all that arrives before a packet that is sent now with what is `expected`.
    pub(crate) fn compare(&mut self, expected: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        self.ends += 1;
        let end = format!("{END}, number {}", self.ends).into_bytes();
        self.sender.send_to(&end, self.receiver.local_addr()?).context("sending the end")?;
        let result = self.compare_until(&end, expected);
        // Packets after a difference do not belong to the next call.
        while result.is_err() && self.receive()? != end {}
        result
    }

    /// All that arrives before a packet that is sent now.
    pub(crate) fn arrived(&mut self) -> Result<Vec<Vec<u8>>> {
        let end = b"the end of all that was sent";
        self.sender.send_to(end, self.receiver.local_addr()?).context("sending the end")?;
        let mut packets = Vec::new();
        loop {
            match self.receive()? {
                got if got == end => return Ok(packets),
                got => packets.push(got.to_vec()),
            }
        }
    }

    fn compare_until(&mut self, end: &[u8], expected: impl Iterator<Item = Vec<u8>>) -> Result<()> {
        for (number, packet) in expected.enumerate() {
            let got = self.receive()?;
            if got == end {
                // To be found again.
                self.sender.send_to(end, self.receiver.local_addr()?).context("sending the end")?;
                bail!("packet {number} of {} bytes did not arrive", packet.len());
            }
            compare(got, &packet).with_context(|| format!("packet {number}"))?;
        }
        let got = self.receive()?;
        ensure!(got == end, "a packet of {} bytes too many", got.len());
        Ok(())
    }

    /// The next packet.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        loop {
            match self.receiver.recv(&mut self.buffer) {
                Ok(length) => return Ok(&self.buffer[..length]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("receiving"),
            }
        }
    }
}

/// A guest begins with its loopback device down.
pub(crate) fn set_loopback_up() -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    Ok(set_up(socket.as_fd(), &DeviceName::new(c"lo"))?)
}

/// An error that says where they differ.
pub(crate) fn compare(got: &[u8], expected: &[u8]) -> Result<()> {
    ensure!(got.len() == expected.len(), "{} bytes and not {}", got.len(), expected.len());
    if got == expected {
        return Ok(());
    }
    let first = got.iter().zip(expected).position(|(got, expected)| got != expected).unwrap_or_default();
    let different = got.iter().zip(expected).filter(|(got, expected)| got != expected).count();
    let end = (first + 16).min(got.len());
    bail!(
        "{different} of {} bytes differ, first byte {first}: {:02x?} and not {:02x?}",
        got.len(),
        &got[first..end],
        &expected[first..end]
    )
}

/// `struct sockaddr` of an address.
pub(crate) fn sockaddr(address: SocketAddr) -> Vec<u8> {
    let family =
        if address.is_ipv4() { rustix::net::AddressFamily::INET } else { rustix::net::AddressFamily::INET6 };
    let mut bytes = family.as_raw().to_ne_bytes().to_vec();
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(address) => {
            bytes.extend(address.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(address) => {
            bytes.extend(address.flowinfo().to_be_bytes());
            bytes.extend(address.ip().octets());
            bytes.extend(address.scope_id().to_ne_bytes());
        }
    }
    bytes
}
