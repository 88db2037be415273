//! Cases of an eBPF handler in the kernel and in user space.

use crate::result::{Method, Part, RELAY_RECORD, RelayCase};

/// Percentages of records that the handler passes.
const PASSED: [u32; 3] = [100, 50, 10];

/// The reference, and each method for each share of records that are passed.
pub(super) fn cases(part: Part) -> Vec<RelayCase> {
    let by = |method| RelayCase::new(part, method).of(RELAY_RECORD).with(1);
    let methods = [Method::ReadWrite, Method::Streams, Method::Kernel];
    let of_share = |passed| methods.map(|method| RelayCase { passed: Some(passed), ..by(method) });
    [by(Method::Discard)].into_iter().chain(PASSED.into_iter().flat_map(of_share)).collect()
}
