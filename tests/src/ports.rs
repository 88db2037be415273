//! Ports for programs that listen on them later.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};

/// First port that is given away.
const FIRST: u16 = 10_000;

/// Ports that have been given away by this process.
static GIVEN: AtomicU16 = AtomicU16::new(0);

/// An address of the loopback device whose port nobody has, of TCP or UDP, at any address.
///
/// The port is below those that the kernel chooses (`ip_local_port_range`), so no other socket gets it by chance before
/// the program listens, and no call returns it again.
///
/// # Errors
/// All those ports are in use.
pub fn free_port() -> Result<SocketAddr> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let chosen_by_kernel: u16 =
        range.split_whitespace().next().context("an empty range of ports")?.parse()?;
    let Some(ports @ 1..) = chosen_by_kernel.checked_sub(FIRST) else {
        bail!("the kernel chooses ports from {chosen_by_kernel} on: none from {FIRST} on is left");
    };
    // Test programs that run at once begin at different ports.
    let begin = (std::process::id() % u32::from(ports)) as u16;
    for _ in 0..ports {
        let offset = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % ports;
        let port = FIRST + offset;
        let everywhere = (Ipv4Addr::UNSPECIFIED, port);
        if TcpListener::bind(everywhere).is_ok() && UdpSocket::bind(everywhere).is_ok() {
            return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        }
    }
    bail!("all ports from {FIRST} to {chosen_by_kernel} are in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_given_once() {
        let first = free_port().unwrap();
        let _taken = TcpListener::bind(first).unwrap();
        assert_ne!(first, free_port().unwrap());
    }
}
