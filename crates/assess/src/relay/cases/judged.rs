//! Cases of an eBPF handler in the kernel and in user space.

use crate::result::{Method, Part, RELAY_RECORD, RelayCase};

/// Percentages of records that the handler passes.
const PASSED: [u32; 3] = [100, 50, 10];

/// Receivers of mirrors.
const RECEIVERS: [u32; 2] = [4, 16];

/// Methods that judge records.
const METHODS: [Method; 3] = [Method::ReadWrite, Method::Streams, Method::Kernel];

/// The reference, and each method for each share of records that are passed.
pub(super) fn cases(part: Part) -> Vec<RelayCase> {
    let of_share = |passed| METHODS.map(|method| by(part, method, Some(passed)));
    [by(part, Method::Discard, None)].into_iter().chain(PASSED.into_iter().flat_map(of_share)).collect()
}

/// The reference, and each method for each number of receivers; all records are passed.
pub(super) fn mirrors() -> Vec<RelayCase> {
    let part = Part::KernelMirror;
    let to = |receivers| METHODS.map(|method| by(part, method, Some(PASSED[0])).with(receivers));
    [by(part, Method::Discard, None)].into_iter().chain(RECEIVERS.into_iter().flat_map(to)).collect()
}

fn by(part: Part, method: Method, passed: Option<u32>) -> RelayCase {
    RelayCase { passed, ..RelayCase::new(part, method).of(RELAY_RECORD).with(1) }
}
