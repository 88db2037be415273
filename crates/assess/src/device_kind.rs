//! Kinds of devices in a calibration that a sink stands for.

use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::fd::AsFd;

use wirepath_datapath::calibration::DeviceKind;
use wirepath_sys::device::{self, DeviceName};

use crate::error::{Doing, Error};
use crate::options::Sink;
use crate::result::{TcpPeer, Transport};

/// Devices that measurements on a sink are valid for: for a sink that drops, devices of its kind; for another
/// host, the device on the route to it. `None` if the cost of a receiver on this machine is charged to the
/// sender.
pub(crate) fn represented_by(
    sink: &Sink,
    transport: Transport,
    tcp_peer: Option<TcpPeer>,
) -> Result<Option<DeviceKind>, Error> {
    Ok(match (sink, transport) {
        (Sink::Drop, Transport::Udp) => Some(DeviceKind::WithChecksums),
        (Sink::Drop, Transport::Tcp) if tcp_peer == Some(TcpPeer::Device) => Some(DeviceKind::WithChecksums),
        (Sink::DropNoOffload, Transport::Udp) => Some(DeviceKind::WithoutChecksums),
        (Sink::Host(host), _) => on_the_way(host)?.map(|device| DeviceKind::Named(device.to_string())),
        _ => None,
    })
}

/// Devices whose figures are valid for packets to a sink, most specific first.
pub(crate) fn of(sink: &Sink) -> Result<Vec<DeviceKind>, Error> {
    let Sink::Host(host) = sink else {
        let computes = *sink != Sink::DropNoOffload;
        return Ok(vec![kind(computes)]);
    };
    let Some(device) = on_the_way(host)? else { return Ok(vec![kind(true)]) };
    let socket = UdpSocket::bind("0.0.0.0:0").doing("opening a socket")?;
    let computes = device::offloads_checksums(socket.as_fd(), &device).unwrap_or(true);
    Ok(vec![DeviceKind::Named(device.to_string()), kind(computes)])
}

fn kind(computes_checksums: bool) -> DeviceKind {
    if computes_checksums { DeviceKind::WithChecksums } else { DeviceKind::WithoutChecksums }
}

/// Device with the source address of packets to a host.
fn on_the_way(host: &str) -> Result<Option<DeviceName>, Error> {
    let unknown = |why: String| Error::Input(format!("cannot resolve the sink {host}: {why}"));
    let mut found = host.to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let to = found.next().ok_or_else(|| unknown("the name has no address".to_owned()))?;
    let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let local =
        UdpSocket::bind(from).and_then(|socket| socket.connect(to).and_then(|()| socket.local_addr()));
    let local: SocketAddr = local.map_err(|error| unknown(error.to_string()))?;
    device::with_address(local.ip()).doing("asking for the device of an address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_hold_for_the_devices_that_a_sink_stands_for() {
        use Transport::{Tcp, Udp};
        let here = Sink::Host("127.0.0.1:9".to_owned());
        let lo = || Some(DeviceKind::Named("lo".to_owned()));
        for (sink, transport, expected) in [
            (Sink::Drop, Udp, Some(DeviceKind::WithChecksums)),
            (Sink::Drop, Tcp, None),
            (Sink::DropNoOffload, Udp, Some(DeviceKind::WithoutChecksums)),
            (Sink::Veth, Udp, None),
            (Sink::Loopback, Tcp, None),
            (here.clone(), Udp, lo()),
            (here.clone(), Tcp, lo()),
        ] {
            assert_eq!(
                represented_by(&sink, transport, Some(TcpPeer::Receiver)).unwrap(),
                expected,
                "{sink} {transport}"
            );
        }
        let of_device = represented_by(&Sink::Drop, Tcp, Some(TcpPeer::Device)).unwrap();
        assert_eq!(of_device, Some(DeviceKind::WithChecksums));
        assert_eq!(of(&here).unwrap(), [DeviceKind::Named("lo".to_owned()), DeviceKind::WithChecksums]);
        assert_eq!(of(&Sink::DropNoOffload).unwrap(), [DeviceKind::WithoutChecksums]);
        let nowhere = Sink::Host("no-such-host.invalid:9".to_owned());
        assert!(matches!(of(&nowhere), Err(Error::Input(_))));
    }
}
