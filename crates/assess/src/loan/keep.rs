//! Hands the thresholds to programs that lend: into the calibration file.

use std::io;
use std::path::Path;

use wirepath_datapath::calibration::{Calibrations, DeviceKind, Host, LoanThreshold, LoanTransport};

use crate::options::Sink;
use crate::result::{Loan, Transport};

/// Adds the thresholds of `loan` to the calibration file; answers how many. What goes to a device that drops stands for devices that
/// compute checksums; of other sinks nobody knows which devices they stand for, so nothing is kept.
///
/// # Errors
/// If the file cannot be read or written, or is something else: then it is left as it is.
pub fn keep(loan: &Loan, sink: &Sink, origin: &str, file: &Path) -> io::Result<usize> {
    if *sink != Sink::Drop || loan.thresholds.is_empty() {
        return Ok(0);
    }
    let mut calibrations = Calibrations::load(file)?.unwrap_or_default();
    for threshold in &loan.thresholds {
        calibrations.add_loan(LoanThreshold {
            host: Host::this(),
            device: DeviceKind::WithChecksums,
            mtu: threshold.mtu,
            transport: match threshold.transport {
                Transport::Udp => LoanTransport::Udp,
                Transport::Tcp => LoanTransport::Tcp,
            },
            origin: origin.to_owned(),
            bytes: threshold.bytes.and_then(|bytes| usize::try_from(bytes).ok()),
        });
    }
    calibrations.store(file)?;
    Ok(loan.thresholds.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Threshold;
    use wirepath_datapath::LoanPolicy;

    fn measured(bytes: Option<u64>) -> Loan {
        let threshold = Threshold { transport: Transport::Udp, mtu: 1500, bytes };
        Loan { points: Vec::new(), thresholds: vec![threshold] }
    }

    #[test]
    fn a_program_that_lends_finds_what_was_measured() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        let policy = || {
            let kept = Calibrations::load(&file).unwrap().unwrap();
            kept.loan_policy(&Host::this(), &[DeviceKind::WithChecksums], 1500, LoanTransport::Udp)
        };
        for (bytes, expected) in [(Some(8192), Some(8192)), (None, None)] {
            assert_eq!(keep(&measured(bytes), &Sink::Drop, "a test", &file).unwrap(), 1);
            assert_eq!(policy(), Some(LoanPolicy { threshold_bytes: expected, forced: None }));
        }
        assert_eq!(keep(&measured(Some(1)), &Sink::Veth, "a test", &file).unwrap(), 0);
        assert_eq!(policy(), Some(LoanPolicy { threshold_bytes: None, forced: None }));
    }

    #[test]
    fn a_file_that_is_something_else_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("calibration.json");
        std::fs::write(&file, "something else").unwrap();
        assert!(keep(&measured(Some(8192)), &Sink::Drop, "a test", &file).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "something else");
    }
}
