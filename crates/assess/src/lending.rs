//! Loan policies of the path `loan` in an experiment: calibrated on the sink's kind of device, unless forced.

use std::path::Path;

use wirepath_datapath::LoanPolicy;
use wirepath_datapath::calibration::{Calibrations, Host};

use crate::case::Case;
use crate::device_kind;
use crate::error::Error;
use crate::options::Options;
use crate::progress::Progress;
use crate::result::Transport;

/// Loan policies of one sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lending {
    udp: Rule,
    tcp: Rule,
}

/// Loan policy, and whether its thresholds were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    policy: LoanPolicy,
    measured: bool,
}

impl Lending {
    /// Policies from the calibration file for the sink's device with this MTU; default thresholds if the file
    /// has none. A forced policy lends always or never.
    pub(crate) fn of(options: &Options, mtu: u32) -> Result<Lending, Error> {
        let calibrations = read(&options.calibration)?;
        let (host, devices) = (Host::this(), device_kind::of(&options.sink)?);
        let rule = |transport| {
            let measured = calibrations.loan_policy(&host, &devices, mtu, transport);
            let policy = LoanPolicy { forced: options.loans, ..measured.unwrap_or_default() };
            Rule { policy, measured: measured.is_some() }
        };
        Ok(Lending { udp: rule(Transport::Udp), tcp: rule(Transport::Tcp) })
    }

    /// Returns the cases with these policies.
    pub(crate) fn applied(&self, cases: Vec<Case>) -> Vec<Case> {
        let applied = |case: Case| Case { loans: self.rule(case.transport).policy, ..case };
        cases.into_iter().map(applied).collect()
    }

    /// Notes the policies for the user.
    pub(crate) fn explain(&self, progress: &mut dyn Progress) {
        for transport in [Transport::Udp, Transport::Tcp] {
            progress.note(&format!("`loan` over {transport} {}", self.rule(transport).describe()));
        }
    }

    /// Policy of one transport.
    pub(crate) fn policy(&self, transport: Transport) -> LoanPolicy {
        self.rule(transport).policy
    }

    fn rule(&self, transport: Transport) -> Rule {
        if transport == Transport::Udp { self.udp } else { self.tcp }
    }
}

impl Rule {
    fn describe(self) -> String {
        let from =
            |bytes: Option<usize>| bytes.map_or("never".to_owned(), |bytes| format!("from {bytes} bytes on"));
        match self.policy.forced {
            Some(true) => "lends every send: --loan on".to_owned(),
            Some(false) => "lends nothing: --loan off".to_owned(),
            None => format!(
                "lends page-aligned sends {}, other sends {}: {}",
                from(self.policy.aligned_bytes),
                from(self.policy.unaligned_bytes),
                if self.measured { "measured" } else { "default thresholds, not measured" }
            ),
        }
    }
}

/// Calibrations of a file; none if the file does not exist.
///
/// # Errors
/// [`Error::Input`] if the file cannot be read or is not a calibration file; the file is left unchanged.
pub fn read(file: &Path) -> Result<Calibrations, Error> {
    let calibrations = Calibrations::load(file).map_err(|error| {
        Error::Input(format!(
            "{} holds no calibration and is left as it is ({error}); remove it or use --calibration FILE",
            file.display()
        ))
    })?;
    Ok(calibrations.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::PathKind;
    use wirepath_datapath::BlockPath;
    use wirepath_datapath::calibration::{DeviceKind, LoanThreshold};

    fn options(scratch: &Path, loans: Option<bool>) -> Options {
        Options { volume: 1 << 20, loans, ..crate::test_files::tests::options(scratch) }
    }

    fn cases(options: &Options) -> Result<Vec<Case>, Error> {
        let case = |transport| Case::new(PathKind::Block(BlockPath::Loan), transport, Some(1000));
        let lending = Lending::of(options, options.mtu)?;
        Ok(lending.applied(vec![case(Transport::Udp), case(Transport::Tcp)]))
    }

    /// Promise: `loan` decides by measured thresholds, for aligned and other sends; lent and copied sends are
    /// compared in pairs.
    #[test]
    fn what_was_measured_decides_unless_it_is_forced() {
        let folder = tempfile::tempdir().unwrap();
        let of = |loans| {
            let cases = cases(&options(folder.path(), loans)).unwrap();
            cases.iter().map(|case| case.loans).collect::<Vec<_>>()
        };
        assert_eq!(of(None), [LoanPolicy::default(); 2]);
        let threshold = LoanThreshold {
            host: Host::this(),
            device: DeviceKind::WithChecksums,
            mtu: 1500,
            transport: Transport::Udp,
            origin: "a test".to_owned(),
            unix_s: 1,
            aligned_bytes: Some(1000),
            unaligned_bytes: None,
            quick: false,
        };
        let file = folder.path().join("calibration.json");
        Calibrations::update(&file, |all| all.add_loan(threshold)).unwrap();
        let measured = LoanPolicy { aligned_bytes: Some(1000), unaligned_bytes: None, forced: None };
        assert_eq!(of(None), [measured, LoanPolicy::default()]);
        assert_eq!(of(Some(true))[0], LoanPolicy { forced: Some(true), ..measured });
        assert_eq!(of(Some(false))[1], LoanPolicy { forced: Some(false), ..LoanPolicy::default() });
        std::fs::write(&file, "something else").unwrap();
        assert!(matches!(cases(&options(folder.path(), None)), Err(Error::Input(_))));
    }
}
