//! From which size of a send on lending its pages is cheaper, as `wirepath assess loan` measured it.

use serde::{Deserialize, Serialize};

use super::{Calibrations, DeviceKind, Host, MOST_ENTRIES, VERSION};
use crate::LoanPolicy;

/// Where lending begins to be cheaper on one machine and kernel, one kind of device, one MTU and one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanThreshold {
    /// The machine and its kernel.
    pub host: Host,
    /// The device that it was measured on, or stands for.
    pub device: DeviceKind,
    /// MTU in bytes.
    pub mtu: u32,
    /// What was sent over.
    pub transport: LoanTransport,
    /// When and how it was measured, in words.
    pub origin: String,
    /// Bytes of a send; none if no size that was measured is cheaper lent.
    pub bytes: Option<usize>,
}

/// What a loan is sent over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoanTransport {
    /// Trains of datagrams.
    Udp,
    /// A connection.
    Tcp,
}

impl Calibrations {
    /// Adds a threshold, in place of an earlier one of the same host, device, MTU and transport.
    pub fn add_loan(&mut self, threshold: LoanThreshold) {
        self.version = VERSION;
        self.loans.retain(|other| {
            (&other.host, &other.device, other.mtu, other.transport)
                != (&threshold.host, &threshold.device, threshold.mtu, threshold.transport)
        });
        self.loans.push(threshold);
        let surplus = self.loans.len().saturating_sub(MOST_ENTRIES);
        self.loans.drain(..surplus);
    }

    /// The policy that was measured to be cheapest for this host, the first of these devices that was measured, and of several
    /// measurements the one whose MTU is nearest; nothing if there is none, and then [`LoanPolicy::default`] is a guess.
    ///
    /// For sinks of [`crate::BlockPath::Loan`]: `sink.with_switch(LoanSwitch::new(policy))`. The server lends nothing and does not
    /// ask.
    pub fn loan_policy(
        &self,
        host: &Host,
        devices: &[DeviceKind],
        mtu: u32,
        transport: LoanTransport,
    ) -> Option<LoanPolicy> {
        let found = devices.iter().find_map(|device| {
            self.loans
                .iter()
                .filter(|loan| loan.host == *host && loan.device == *device && loan.transport == transport)
                .min_by_key(|loan| loan.mtu.abs_diff(mtu))
        })?;
        Some(LoanPolicy { threshold_bytes: found.bytes, forced: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(mtu: u32, transport: LoanTransport, bytes: Option<usize>) -> LoanThreshold {
        let host = Host { kernel: "6.18".to_owned(), processor: "a test's".to_owned(), processors: 2 };
        let origin = "a test".to_owned();
        LoanThreshold { host, device: DeviceKind::WithChecksums, mtu, transport, origin, bytes }
    }

    #[test]
    fn the_nearest_threshold_becomes_a_policy() {
        let mut all = Calibrations::default();
        for (mtu, bytes) in [(1500, Some(1)), (1500, Some(8192)), (9000, None)] {
            all.add_loan(threshold(mtu, LoanTransport::Udp, bytes));
        }
        let host = threshold(0, LoanTransport::Udp, None).host;
        let policy = |mtu, transport| {
            let devices = [DeviceKind::Named("eth0".to_owned()), DeviceKind::WithChecksums];
            all.loan_policy(&host, &devices, mtu, transport).map(|policy| policy.threshold_bytes)
        };
        assert_eq!(policy(1400, LoanTransport::Udp), Some(Some(8192)));
        assert_eq!(policy(8000, LoanTransport::Udp), Some(None));
        assert_eq!(policy(1500, LoanTransport::Tcp), None);
        assert_eq!(
            all.loan_policy(&Host::this(), &[DeviceKind::WithChecksums], 1500, LoanTransport::Udp),
            None
        );
    }

    /// As programs wrote it that knew of no loans.
    #[test]
    fn a_file_without_thresholds_is_read_and_stays_without() {
        let text = r#"{"version":1,"entries":[]}"#;
        let mut read: Calibrations = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        read.add_loan(threshold(1500, LoanTransport::Tcp, Some(1 << 15)));
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Calibrations>(&written).unwrap(), read);
    }
}
