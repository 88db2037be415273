//! Sizes from which lending pages is cheaper, as measured by `wirepath assess loan`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Calibrations, DeviceKind, Host, MOST_ENTRIES, VERSION};
use crate::LoanPolicy;

/// Threshold of lending on one machine and kernel, one kind of device, one MTU and one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoanThreshold {
    /// The machine and its kernel.
    pub host: Host,
    /// The device on which it was measured, or the kind of device.
    pub device: DeviceKind,
    /// MTU in bytes.
    pub mtu: u32,
    /// Transport of the sends.
    pub transport: Transport,
    /// Method of measurement, in words.
    pub origin: String,
    /// Time of the measurement, in seconds since 1970 (UTC).
    pub unix_s: u64,
    /// Least bytes of a send that begins at a page boundary and is cheaper lent; null if no measured size is.
    pub aligned_bytes: Option<usize>,
    /// The same for a send that begins elsewhere.
    pub unaligned_bytes: Option<usize>,
    /// True for a quick measurement, which never replaces a full one.
    pub quick: bool,
}

/// Transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        })
    }
}

impl Calibrations {
    /// Adds a threshold, replacing an earlier one of the same host, device, MTU and transport, unless only
    /// this one is of a quick measurement; returns whether it did.
    pub fn add_loan(&mut self, threshold: LoanThreshold) -> bool {
        let is_same = |other: &LoanThreshold| {
            (&other.host, &other.device, other.mtu, other.transport)
                == (&threshold.host, &threshold.device, threshold.mtu, threshold.transport)
        };
        if threshold.quick && self.loan_thresholds.iter().any(|other| is_same(other) && !other.quick) {
            return false;
        }
        self.version = VERSION;
        self.loan_thresholds.retain(|other| !is_same(other));
        self.loan_thresholds.push(threshold);
        let surplus = self.loan_thresholds.len().saturating_sub(MOST_ENTRIES);
        self.loan_thresholds.drain(..surplus);
        true
    }

    /// The cheapest policy for this host and the first of these devices that was measured; of several, the one
    /// with the nearest MTU. For sinks of [`crate::BlockPath::Loan`].
    ///
    pub fn loan_policy(
        &self,
        host: &Host,
        devices: &[DeviceKind],
        mtu: u32,
        transport: Transport,
    ) -> Option<LoanPolicy> {
        let found = devices.iter().find_map(|device| {
            self.loan_thresholds
                .iter()
                .filter(|loan| loan.host == *host && loan.device == *device && loan.transport == transport)
                .min_by_key(|loan| loan.mtu.abs_diff(mtu))
        })?;
        let LoanThreshold { aligned_bytes, unaligned_bytes, .. } = *found;
        Some(LoanPolicy { aligned_bytes, unaligned_bytes, forced: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(mtu: u32, transport: Transport, bytes: Option<usize>) -> LoanThreshold {
        LoanThreshold {
            host: Host { kernel: "6.18".to_owned(), processor: "a test's".to_owned(), processors: 2 },
            device: DeviceKind::WithChecksums,
            mtu,
            transport,
            origin: "a test".to_owned(),
            unix_s: 0,
            aligned_bytes: bytes,
            unaligned_bytes: bytes.map(|bytes| bytes + 4096),
            quick: false,
        }
    }

    #[test]
    fn the_nearest_threshold_becomes_a_policy() {
        let mut all = Calibrations::default();
        for (mtu, bytes) in [(1500, Some(1)), (1500, Some(8192)), (9000, None)] {
            all.add_loan(threshold(mtu, Transport::Udp, bytes));
        }
        let host = threshold(0, Transport::Udp, None).host;
        let policy = |mtu, transport| {
            let devices = [DeviceKind::Named("eth0".to_owned()), DeviceKind::WithChecksums];
            let policy = all.loan_policy(&host, &devices, mtu, transport);
            policy.map(|policy| (policy.aligned_bytes, policy.unaligned_bytes))
        };
        assert_eq!(policy(1400, Transport::Udp), Some((Some(8192), Some(12_288))));
        assert_eq!(policy(8000, Transport::Udp), Some((None, None)));
        assert_eq!(policy(1500, Transport::Tcp), None);
        assert_eq!(all.loan_policy(&Host::this(), &[DeviceKind::WithChecksums], 1500, Transport::Udp), None);
    }

    /// Promise: `loan` decides by measured thresholds, for aligned and other sends.
    #[test]
    fn a_quick_measurement_replaces_no_full_one() {
        let mut all = Calibrations::default();
        let of = |bytes, quick| LoanThreshold { quick, ..threshold(1500, Transport::Udp, Some(bytes)) };
        for (bytes, quick, expected) in
            [(1, true, 1), (2, true, 2), (3, false, 3), (4, true, 3), (5, false, 5)]
        {
            assert_eq!(all.add_loan(of(bytes, quick)), expected == bytes);
            let [kept] = &all.loan_thresholds[..] else { panic!("{all:?}") };
            assert_eq!(kept.aligned_bytes, Some(expected));
        }
    }

    /// As written by programs without loans.
    #[test]
    fn a_file_without_thresholds_is_read_and_stays_without() {
        let text = r#"{"version":1,"entries":[]}"#;
        let mut read: Calibrations = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        read.add_loan(threshold(1500, Transport::Tcp, Some(1 << 15)));
        let written = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Calibrations>(&written).unwrap(), read);
    }
}
