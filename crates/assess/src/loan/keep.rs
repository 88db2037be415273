//! Storing of thresholds in the calibration file, for programs that lend.

use wirepath_datapath::calibration::{Calibrations, Host, LoanThreshold, now_unix_s};

use crate::device_kind;
use crate::error::Error;
use crate::options::Options;
use crate::result::{Loan, TcpPeer, Threshold};

/// Number of thresholds written and not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredThresholds {
    /// Thresholds written to the file.
    pub kept: usize,
    /// Thresholds of the quick form that were not written, because the file has those of a full measurement.
    pub quick: usize,
}

/// Adds the thresholds of `loan` to the calibration file, for the devices that the sink stands for. Other
/// sinks, and TCP connections to a receiver on this machine, stand for no device: their thresholds are not stored.
///
/// # Errors
/// [`Error::System`] if the file cannot be read or written, or is not a calibration file; the file is left
/// unchanged.
pub fn keep(loan: &Loan, tcp_peer: Option<TcpPeer>, options: &Options) -> Result<StoredThresholds, Error> {
    let found: Vec<LoanThreshold> = loan
        .thresholds
        .iter()
        .filter_map(|threshold| stored(threshold, tcp_peer, options).transpose())
        .collect::<Result<_, Error>>()?;
    if found.is_empty() {
        return Ok(StoredThresholds::default());
    }
    let file = &options.calibration;
    let number = found.len();
    let add = |all: &mut Calibrations| found.into_iter().filter(|one| all.add_loan(one.clone())).count();
    let kept = Calibrations::update(file, add)
        .map_err(|error| Error::of_file("store the measured costs in", file, error))?;
    Ok(StoredThresholds { kept, quick: number - kept })
}

fn stored(
    threshold: &Threshold,
    tcp_peer: Option<TcpPeer>,
    options: &Options,
) -> Result<Option<LoanThreshold>, Error> {
    let bytes = |bytes: Option<u64>| bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let device = device_kind::represented_by(&options.sink, threshold.transport, tcp_peer)?;
    Ok(device.map(|device| LoanThreshold {
        host: Host::this(),
        device,
        mtu: threshold.mtu,
        transport: threshold.transport,
        origin: format!(
            "measured by `wirepath assess loan --sink {}`{}",
            options.sink,
            if threshold.kernel_copies { ", where the kernel copies whatever is lent" } else { "" }
        ),
        unix_s: now_unix_s(),
        aligned_bytes: bytes(threshold.aligned_bytes),
        unaligned_bytes: bytes(threshold.unaligned_bytes),
        quick: options.quick,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Sink;
    use crate::result::{Cache, Transport};
    use std::path::Path;
    use wirepath_datapath::LoanPolicy;
    use wirepath_datapath::calibration::DeviceKind;

    fn measured(transport: Transport, bytes: Option<u64>) -> Loan {
        let threshold = Threshold {
            transport,
            mtu: 1500,
            aligned_bytes: bytes,
            unaligned_bytes: bytes.map(|bytes| bytes + 1),
            aligned_undecided: Vec::new(),
            unaligned_undecided: Vec::new(),
            kernel_copies: bytes.is_none(),
        };
        Loan { points: Vec::new(), thresholds: vec![threshold], queue: Vec::new() }
    }

    fn options(folder: &Path, sink: Sink, quick: bool) -> Options {
        Options {
            volume: 1,
            runs: 3,
            quick,
            cache: Cache::Warm,
            sink,
            mtu: 1500,
            cpu: None,
            file: None,
            bare: None,
            scratch: folder.to_owned(),
            calibration: folder.join("calibration.json"),
            loans: None,
            parts: Vec::new(),
            handlers: false,
            kernel_handler: None,
        }
    }

    fn policy(folder: &Path, device: DeviceKind, transport: Transport) -> Option<LoanPolicy> {
        let kept = Calibrations::load(&folder.join("calibration.json")).unwrap().unwrap_or_default();
        kept.loan_policy(&Host::this(), &[device], 1500, transport)
    }

    fn from(aligned_bytes: Option<usize>) -> Option<LoanPolicy> {
        let unaligned_bytes = aligned_bytes.map(|bytes| bytes + 1);
        Some(LoanPolicy { aligned_bytes, unaligned_bytes, forced: None })
    }

    #[test]
    fn a_program_that_lends_finds_what_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        let found = || policy(folder.path(), DeviceKind::WithChecksums, Transport::Udp);
        let kept = |bytes, sink, quick| {
            let kept =
                keep(&measured(Transport::Udp, bytes), None, &options(folder.path(), sink, quick)).unwrap();
            (kept.kept, kept.quick)
        };
        for (bytes, quick) in [(Some(4096), true), (Some(8192), false), (None, false)] {
            assert_eq!(kept(bytes, Sink::Drop, quick), (1, 0));
            assert_eq!(found(), from(bytes.map(|bytes| bytes as usize)));
        }
        assert_eq!(kept(Some(1), Sink::Veth, false), (0, 0));
        assert_eq!(kept(Some(1), Sink::Drop, true), (0, 1), "a quick one took the place of a full one");
        assert_eq!(found(), from(None));
    }

    /// Promise: Costs measured to another host are stored for the device on the route to that host.
    #[test]
    fn connections_are_those_of_the_device_on_the_way_to_a_host() {
        let folder = tempfile::tempdir().unwrap();
        let tcp = measured(Transport::Tcp, None);
        let to_receiver =
            |sink| keep(&tcp, Some(TcpPeer::Receiver), &options(folder.path(), sink, false)).unwrap().kept;
        assert_eq!(to_receiver(Sink::Drop), 0);
        let host = Sink::Host("127.0.0.1:9".to_owned());
        assert_eq!(to_receiver(host), 1);
        let lo = DeviceKind::Named("lo".to_owned());
        assert_eq!(policy(folder.path(), lo.clone(), Transport::Tcp), from(None));
        assert_eq!(policy(folder.path(), lo, Transport::Udp), None);
    }

    /// Promise: TCP thresholds are stored for devices with checksum offload if measured without a receiver.
    #[test]
    fn connections_to_a_device_are_those_of_devices_of_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let tcp = measured(Transport::Tcp, Some(8192));
        let kept = |peer| keep(&tcp, peer, &options(folder.path(), Sink::Drop, false)).unwrap().kept;
        let found = || policy(folder.path(), DeviceKind::WithChecksums, Transport::Tcp);
        for peer in [None, Some(TcpPeer::Receiver), Some(TcpPeer::Both)] {
            assert_eq!((kept(peer), found()), (0, None));
        }
        assert_eq!((kept(Some(TcpPeer::Device)), found()), (1, from(Some(8192))));
    }

    #[test]
    fn a_file_that_is_something_else_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        std::fs::write(&file, "something else").unwrap();
        let options = options(folder.path(), Sink::Drop, false);
        let kept = keep(&measured(Transport::Udp, Some(1)), None, &options);
        assert!(kept.unwrap_err().to_string().contains("calibration.json"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "something else");
    }
}
