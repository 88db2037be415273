//! Device that drops what TCP sends, and acknowledges it: to TCP what the device `sink` is to UDP.
//!
//! An eBPF program makes an acknowledgement of each segment and gives it to the ingress of the device
//! ([`wirepath_bpf::TcpSink`]). No process receives, and no page is kept: lent pages return as from a network card.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use wirepath_bpf::Acknowledged;
use wirepath_sys::socket::{TcpProgress, tcp_progress};

use super::device::Device;
use super::namespace::run;
use crate::error::{Doing, Error};
use crate::sockets;

/// Name of the device. The rule of nftables names it, too.
const DEVICE: &str = "tcpsink";

/// Address of this end, and address behind the device that connections go to.
const ADDRESS: &str = "10.82.0.1/16";
const ACKNOWLEDGED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 82, 1, 0)), 5000);

/// Timeout for the end of the handshake, which takes no packet to another machine.
const PATIENCE: Duration = Duration::from_secs(5);

/// Device with a program that acknowledges.
#[derive(Debug)]
pub(crate) struct TcpSink {
    program: wirepath_bpf::TcpSink,
}

/// Connection to the device, and the counts before its first byte.
#[derive(Debug)]
pub(crate) struct Acknowledgements<'a> {
    sink: &'a TcpSink,
    connection: TcpStream,
    counted: Acknowledged,
    progress: TcpProgress,
}

impl TcpSink {
    /// Creates the device in the namespace of the calling thread, and checks that a connection through it opens.
    ///
    /// # Errors
    /// [`Error::Unable`] if the kernel takes no program or no rule, or `nft` is missing; errors of the device, and
    /// [`Error::System`] if no connection opens.
    pub(super) fn create(mtu: u32) -> Result<TcpSink, Error> {
        Device::make(DEVICE, ADDRESS, mtu)?.set_checksum_offload(true)?;
        let attached = wirepath_bpf::TcpSink::attach(DEVICE);
        let program = attached.map_err(|error| Error::Unable(error.to_string()))?;
        let rule = wirepath_bpf::TcpSink::RULE;
        for command in [
            "add table netdev wirepath".to_owned(),
            format!(
                "add chain netdev wirepath in {{ type filter hook ingress device {DEVICE} priority 0 ; }}"
            ),
            format!("add rule netdev wirepath in {rule}"),
        ] {
            run("nft", &command).map_err(|error| Error::Unable(error.to_string()))?;
        }
        let sink = TcpSink { program };
        sink.connect()?;
        Ok(sink)
    }

    /// Opens a connection that the device acknowledges.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(crate) fn connect(&self) -> Result<(TcpStream, Acknowledgements<'_>), Error> {
        let doing = "connecting to the device that acknowledges";
        let socket = sockets::connect(ACKNOWLEDGED, Some(PATIENCE)).doing(doing)?;
        let connection = socket.try_clone().doing(doing)?;
        let progress = tcp_progress(connection.as_fd()).doing(doing)?;
        Ok((socket, Acknowledgements { sink: self, connection, counted: self.counted()?, progress }))
    }

    fn counted(&self) -> Result<Acknowledged, Error> {
        self.program.acknowledged().map_err(|error| Error::Unable(error.to_string()))
    }
}

impl Acknowledgements<'_> {
    /// Bytes of this connection that are acknowledged so far; and those that reached the device, without those that
    /// were sent again. Other connections must not send meanwhile.
    pub(crate) fn bytes(&self) -> Result<(u64, u64), Error> {
        let progress = tcp_progress(self.connection.as_fd()).doing("asking what is acknowledged")?;
        let repeated = progress.repeated - self.progress.repeated;
        let counted = self.sink.counted()?.since(self.counted).bytes;
        let reached = counted.checked_sub(repeated).ok_or_else(|| {
            Error::Faulty(format!(
                "{repeated} bytes were sent again, and the device counted {counted} in all"
            ))
        })?;
        Ok((progress.acknowledged - self.progress.acknowledged, reached))
    }
}

#[cfg(test)]
mod tests;
