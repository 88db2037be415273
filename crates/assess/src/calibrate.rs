//! What `wirepath serve` is told: the cost of its paths, as it sends, on the kind of device that the sink is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use wirepath_datapath::calibration::{Calibration, DeviceKind, Host, PACKET_SIZE};
use wirepath_datapath::measure::measure;
use wirepath_datapath::{Path, Trial, try_on_loopback};
use wirepath_sys::device;

use crate::error::{Doing, Error};
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::stage::{self, Lane, Stage};

/// How long it takes; the server's own measurement takes two seconds.
const BUDGET: Duration = Duration::from_secs(8);

/// Measures the paths of a server on the sink. Nothing for the sinks whose receiver is on this host: what that costs is charged to
/// the sender, and no server pays it.
///
/// # Errors
/// What ends an assessment; [`Error::Faulty`] if a path that works on loopback does not work here.
pub fn calibrate(options: &Options, progress: &mut dyn Progress) -> Result<Option<Calibration>, Error> {
    if matches!(options.sink, Sink::Loopback | Sink::Veth) {
        return Ok(None);
    }
    progress.at(0.0, "what the server's paths cost in its own trains");
    if progress.stopped() {
        return Err(Error::Stopped);
    }
    let works = |path: &Path| !matches!(try_on_loopback(*path), Err(Trial::Failed(_)));
    let paths: Vec<Path> = Path::SERVING.into_iter().filter(works).collect();
    stage::within(&options.sink, options.mtu, options.cpu, |stage| {
        let costs = measure(&paths, &|| connect(stage), BUDGET);
        let costs = costs.map_err(|error| Error::Faulty(format!("the server's paths: {error}")))?;
        let origin = format!("measured by `wirepath assess` on the sink {}", options.sink);
        Ok(Some(Calibration {
            host: Host::this(),
            device: kind(options, stage)?,
            mtu: stage.mtu,
            origin,
            costs,
        }))
    })
}

/// A new socket into the stage.
fn connect(stage: &Stage) -> io::Result<UdpSocket> {
    match &stage.udp {
        Lane::Drops(_) => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(stage.udp_address())?;
            Ok(socket)
        }
        Lane::Receives(remote) => {
            let (socket, _) = remote.udp(PACKET_SIZE).map_err(|error| io::Error::other(error.to_string()))?;
            Ok(socket)
        }
    }
}

/// What the sink stands for: a real way its device, those that drop all devices with their offloads.
fn kind(options: &Options, stage: &Stage) -> Result<DeviceKind, Error> {
    match options.sink {
        Sink::Drop => Ok(DeviceKind::WithChecksums),
        Sink::DropNoOffload => Ok(DeviceKind::WithoutChecksums),
        _ => {
            let local: IpAddr = connect(stage)
                .and_then(|socket| socket.local_addr())
                .doing("asking which address packets leave from")?
                .ip();
            let device = device::with_address(local).doing("looking for the device of an address")?;
            let device = device.ok_or_else(|| Error::Unable(format!("no device has the address {local}")))?;
            Ok(DeviceKind::Named(device.to_string()))
        }
    }
}
