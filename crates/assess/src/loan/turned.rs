//! Loans that became copies, which say nothing of lending.

use super::sends::Sends;
use crate::findings::Findings;
use crate::result::{Loans, Transport};

/// A run that has such.
pub(super) struct Turned {
    pub(super) sends: Sends,
    pub(super) loans: Loans,
}

/// Returns whether the kernel copied all that was lent over this transport in these runs.
pub(super) fn kernel_copies(turned: &[Turned], transport: Transport) -> bool {
    let counts = total(turned.iter().filter(|turned| turned.sends.transport == transport));
    counts.loans > 0 && counts.copied_by_kernel == counts.loans
}

/// Records the sizes whose loans became copies, a line for each transport.
pub(super) fn explain(turned: &[Turned], mtu: u32, found: &mut Findings) {
    for transport in [Transport::Udp, Transport::Tcp] {
        let of: Vec<&Turned> = turned.iter().filter(|turned| turned.sends.transport == transport).collect();
        let sizes = || of.iter().map(|turned| turned.sends.size);
        let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else { continue };
        let what = format!("loans over {transport} of sends from {least} to {most} bytes, MTU {mtu}");
        found.leave_out(&what, &in_words(total(of.iter().copied())));
    }
}

fn in_words(counts: Loans) -> String {
    let refused = match counts.copies {
        0 => String::new(),
        copies => {
            format!(", and {copies} sends found the kernel unwilling to borrow more (net.core.optmem_max)")
        }
    };
    format!(
        "the kernel copied {} of {} loans after all{refused}, so these say nothing of lending: it copies what a socket of this \
         machine receives (over veth and loopback always) and what a device cannot gather or compute checksums of; use \
         --sink HOST:PORT, or for UDP --sink drop",
        counts.copied_by_kernel, counts.loans
    )
}

fn total<'a>(turned: impl Iterator<Item = &'a Turned>) -> Loans {
    turned.fold(Loans::default(), |sum, Turned { loans, .. }| Loans {
        loans: sum.loans + loans.loans,
        copies: sum.copies + loans.copies,
        copied_by_kernel: sum.copied_by_kernel + loans.copied_by_kernel,
        outstanding_most: sum.outstanding_most.max(loans.outstanding_most),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loan::sends::How;

    fn turned(transport: Transport, size: u32, counts: [u64; 3]) -> Turned {
        let [loans, copies, copied_by_kernel] = counts;
        Turned {
            sends: Sends { how: How::Lent, transport, size, segment: 1472, aligned: true },
            loans: Loans { loans, copies, copied_by_kernel, outstanding_most: 1 },
        }
    }

    #[test]
    fn loans_are_counted_against_loans() {
        use Transport::{Tcp, Udp};
        let all =
            [turned(Tcp, 4096, [10, 0, 10]), turned(Tcp, 65_536, [20, 0, 20]), turned(Udp, 64, [8, 3, 2])];
        assert!(kernel_copies(&all, Tcp) && !kernel_copies(&all, Udp) && !kernel_copies(&all[..2], Udp));
        let mut found = Findings::default();
        explain(&all, 1500, &mut found);
        let [udp, tcp] = &found.left_out[..] else { panic!("{:?}", found.left_out) };
        assert!(tcp.what.contains("TCP of sends from 4096 to 65536 bytes, MTU 1500"), "{}", tcp.what);
        assert!(tcp.why.starts_with("the kernel copied 30 of 30 loans after all, so"), "{}", tcp.why);
        assert!(
            udp.why.starts_with("the kernel copied 2 of 8 loans after all, and 3 sends found"),
            "{}",
            udp.why
        );
    }
}
