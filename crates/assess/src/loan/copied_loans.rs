//! Loans that became copies, whose runs are invalid for lending.

use super::sends::Sends;
use crate::findings::Findings;
use crate::result::{Loans, Transport};

/// Run with loans that became copies.
pub(super) struct CopiedLoans {
    pub(super) sends: Sends,
    pub(super) loans: Loans,
}

/// Returns whether the kernel copied all loans over this transport in these runs.
pub(super) fn kernel_copies(copied: &[CopiedLoans], transport: Transport) -> bool {
    let of = copied.iter().filter(|copied| copied.sends.transport == transport);
    let counts: Loans = of.map(|copied| copied.loans).sum();
    counts.loans > 0 && counts.copied_by_kernel == counts.loans
}

/// Records the sizes whose loans became copies, one entry per transport.
pub(super) fn explain(copied: &[CopiedLoans], mtu: u32, found: &mut Findings<'_>) {
    for transport in [Transport::Udp, Transport::Tcp] {
        let of: Vec<&CopiedLoans> =
            copied.iter().filter(|copied| copied.sends.transport == transport).collect();
        let sizes = || of.iter().map(|copied| copied.sends.size);
        let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { continue };
        let what = format!("loans over {transport} of sends from {least} to {most} bytes, MTU {mtu}");
        found.leave_out(&what, &describe(of.iter().map(|copied| copied.loans).sum()));
    }
}

fn describe(counts: Loans) -> String {
    let refused = match counts.copies {
        0 => String::new(),
        copies => format!(", and {copies} sends copied: MSG_ZEROCOPY limit (net.core.optmem_max)"),
    };
    format!(
        "the kernel copied {} of {} loans after all{refused}, so these say nothing of lending: it copies what a socket of this \
         machine receives (over veth and loopback always) and what a device cannot gather or compute checksums of; use \
         --sink drop or HOST:PORT",
        counts.copied_by_kernel, counts.loans
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::sends::SendKind;

    fn turned(transport: Transport, size: u32, counts: [u64; 3]) -> CopiedLoans {
        let [loans, copies, copied_by_kernel] = counts;
        CopiedLoans {
            sends: Sends { kind: SendKind::Lent, transport, size, segment: 1472, aligned: true },
            loans: Loans { loans, copies, copied_by_kernel, outstanding: 0, outstanding_most: 1 },
        }
    }

    #[test]
    fn loans_are_counted_against_loans() {
        use Transport::{Tcp, Udp};
        let all =
            [turned(Tcp, 4096, [10, 0, 10]), turned(Tcp, 65_536, [20, 0, 20]), turned(Udp, 64, [8, 3, 2])];
        assert!(kernel_copies(&all, Tcp) && !kernel_copies(&all, Udp) && !kernel_copies(&all[..2], Udp));
        let (mut result, mut progress) = (crate::example::nothing(), crate::progress::NoProgress);
        result.left_out.clear();
        let mut found = Findings::new(&mut result, &mut progress);
        explain(&all, 1500, &mut found);
        let [udp, tcp] = &result.left_out[..] else { panic!("{:?}", result.left_out) };
        assert!(tcp.what.contains("TCP of sends from 4096 to 65536 bytes, MTU 1500"), "{}", tcp.what);
        assert!(tcp.why.starts_with("the kernel copied 30 of 30 loans after all, so"), "{}", tcp.why);
        assert!(
            udp.why.starts_with("the kernel copied 2 of 8 loans after all, and 3 sends copied"),
            "{}",
            udp.why
        );
    }
}
