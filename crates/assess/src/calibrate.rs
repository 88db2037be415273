//! What `wirepath serve` is told: the cost of its paths, as it sends, on the kind of device that the sink stands for.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use wirepath_datapath::calibration::{Calibration, DeviceKind, Host};
use wirepath_datapath::measure::measure;
use wirepath_datapath::{Path, Trial, try_on_loopback};

use crate::error::Error;
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::stage;

/// How long it takes; the server's own measurement takes two seconds.
const BUDGET: Duration = Duration::from_secs(8);

/// Measures the paths of a server on the sink. Nothing for sinks that do not drop: they stand for no device, and what a receiver on
/// this host costs is charged to the sender.
///
/// # Errors
/// What ends an assessment; [`Error::Faulty`] if a path that works on loopback does not work here.
pub fn calibrate(options: &Options, progress: &mut dyn Progress) -> Result<Option<Calibration>, Error> {
    let device = match options.sink {
        Sink::Drop => DeviceKind::WithChecksums,
        Sink::DropNoOffload => DeviceKind::WithoutChecksums,
        _ => return Ok(None),
    };
    progress.at(0.0, "what the server's paths cost in its own trains");
    if progress.stopped() {
        return Err(Error::Stopped);
    }
    let works = |path: &Path| !matches!(try_on_loopback(*path), Err(Trial::Failed(_)));
    let paths: Vec<Path> = Path::SERVING.into_iter().filter(works).collect();
    stage::within(&options.sink, options.mtu, options.cpu, |stage| {
        let connect = || {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(stage.udp_address())?;
            Ok(socket)
        };
        let costs = measure(&paths, &connect, BUDGET)
            .map_err(|error| Error::Faulty(format!("the server's paths: {error}")))?;
        let origin = format!("measured by `wirepath assess` on the sink {}", options.sink);
        Ok(Some(Calibration { host: Host::this(), device, mtu: stage.mtu, origin, costs }))
    })
}
