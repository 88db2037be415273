//! Calibration for `wirepath serve`: cost of the server's paths with the server's own trains, on the kind of
//! device that the sink stands for.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use wirepath_datapath::calibration::{Calibration, DeviceKind, Host, PACKET_SIZE, now_unix_s};
use wirepath_datapath::measure::{Measured, measure};
use wirepath_datapath::{DataPath, Trial, try_on_loopback};

use crate::device_kind;
use crate::error::Error;
use crate::options::{Options, Sink};
use crate::progress::Progress;
use crate::result::Transport;
use crate::test_bed::{self, Target, TestBed};

/// Time for measuring; the server's own measurement takes two seconds.
const BUDGET: Duration = Duration::from_secs(8);

/// Measures the paths of a server on the sink. Returns `None` for sinks that stand for no device: there the
/// cost of a receiver on this host is charged to the sender. For a sink on another host, paths that send from
/// a ring's memory are left out, since lent memory may still be copied there for a receiver on this machine.
/// A path whose ring cannot lock memory is left out too, with a note.
///
/// # Errors
/// Errors that end an assessment; [`Error::Faulty`] if a path that works on loopback does not work here.
pub fn calibrate(options: &Options, progress: &mut dyn Progress) -> Result<Option<Calibration>, Error> {
    let Some(device) = device_kind::represented_by(&options.sink, Transport::Udp, None)? else {
        return Ok(None);
    };
    progress.at(0.0, "what the server's paths cost in its own trains");
    if progress.stopped() {
        return Err(Error::Stopped);
    }
    let is_remote = matches!(options.sink, Sink::Host(_));
    let is_wanted = |path: &DataPath| !is_remote || !path.needs_ring();
    let works = |path: &DataPath| !matches!(try_on_loopback(*path), Err(Trial::Failed(_)));
    let paths: Vec<DataPath> = DataPath::SERVING.into_iter().filter(is_wanted).filter(works).collect();
    let own: Vec<DataPath> = DataPath::OWN_HEADERS.into_iter().filter(works).collect();
    let (mtu, measured) = test_bed::with_test_bed(&options.sink, options.mtu, options.cpu, |test_bed| {
        Ok((test_bed.mtu, on(test_bed, &paths, &own)?))
    })?;
    for (path, error) in &measured.left_out {
        progress.note(&format!(
            "{path} is not in the calibration: {error}; it sends from locked memory, which RLIMIT_MEMLOCK limits \
             (`ulimit -l`)"
        ));
    }
    Ok(Some(calibration(options, device, mtu, measured)))
}

fn on(test_bed: &TestBed, paths: &[DataPath], own: &[DataPath]) -> Result<Measured, Error> {
    // A receiver accepts datagrams as long as its account is open.
    let accounts = RefCell::new(Vec::new());
    let connect = || match &test_bed.udp {
        Target::Drops(_) => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(test_bed.udp_address())?;
            Ok(socket)
        }
        Target::Receives(remote) => {
            let (socket, account) = remote.udp(PACKET_SIZE).map_err(io::Error::other)?;
            accounts.borrow_mut().push(account);
            Ok(socket)
        }
    };
    measure(paths, own, &connect, BUDGET)
        .map_err(|error| Error::Faulty(format!("the server's paths: {error}")))
}

fn calibration(options: &Options, device: DeviceKind, mtu: u32, measured: Measured) -> Calibration {
    let origin = format!("measured by `wirepath assess --sink {}`", options.sink);
    Calibration { host: Host::this(), device, mtu, origin, unix_s: now_unix_s(), costs: measured.costs }
}
