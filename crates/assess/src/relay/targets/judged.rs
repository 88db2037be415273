//! Targets of an eBPF handler in the kernel, relative to the same handler in user space.

use super::{Goal, scaled, sum};
use crate::result::{Method, Part, RelayCase, RelayCost};
use crate::statistics::Summary;
use crate::verdict::Significance;

/// Limit of the cost of a record in the kernel, as a share of its cost in user space, both above the cost of the
/// source.
const KERNEL: f64 = 0.6;

/// Targets whose figures were all measured.
pub(super) fn targets(costs: &[RelayCost]) -> Vec<Goal> {
    let in_kernel = costs.iter().filter(|cost| cost.case.method == Method::Kernel);
    in_kernel.filter_map(|cost| target(cost, costs)).collect()
}

fn target(kernel: &RelayCost, costs: &[RelayCost]) -> Option<Goal> {
    let RelayCase { part, links, passed, .. } = kernel.case;
    let source = Summary::of(find(costs, part, Method::Discard, 1, None)?.costs_of_others())?;
    let user = Summary::of(find(costs, part, Method::Streams, links, passed)?.costs())?;
    let kernel = Summary::of(kernel.costs())?;
    let ratio = (kernel.median - source.median) / (user.median - source.median);
    // Limit of the whole cost.
    let allowed = sum(&scaled(&user, KERNEL), &scaled(&source, 1.0 - KERNEL));
    let judged = match part {
        Part::KernelMirror => format!("to {links} receivers"),
        _ => format!("{} % passed", passed?),
    };
    let what =
        format!("{part}, records of 1 KiB, {judged}: the handler in the kernel, to the same in user space");
    let significance = Significance::of(&kernel, &allowed);
    ratio.is_finite().then_some(Goal { what, limit: KERNEL, ratio, significance })
}

fn find(
    costs: &[RelayCost],
    part: Part,
    method: Method,
    links: u32,
    passed: Option<u32>,
) -> Option<&RelayCost> {
    costs.iter().find(|RelayCost { case, .. }| {
        (case.part, case.method, case.links, case.passed) == (part, method, links, passed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::cases::cases;
    use crate::result::{RELAY_RECORD, RelayRun};

    /// Costs of all cases of a part, with the given microseconds for a record.
    fn measured(part: Part, cost: impl Fn(&RelayCase) -> f64) -> Vec<RelayCost> {
        let of = |case: RelayCase| {
            let run = RelayRun {
                user_s: 0.0,
                system_s: if case.method == Method::Discard { 1e-3 } else { 0.0 },
                wall_s: 1.0,
                bytes: 1000 * RELAY_RECORD,
                delivered: 0,
                machine_s: None,
                tasks_s: Some(cost(&case) * 1e-3),
                taken: None,
            };
            RelayCost { case, mtu: 1500, verified: true, runs: vec![run; 3] }
        };
        cases(part).into_iter().map(of).collect()
    }

    /// Promise: A handler in the kernel is compared with the same in user space by the time of all that works for it.
    #[test]
    fn costs_above_that_of_the_source_are_compared() {
        let costs = measured(Part::KernelUdp, |case| match case.method {
            Method::Discard => 3.0, // of which the process takes 1
            Method::Streams => 6.0,
            _ if case.passed == Some(10) => 3.0,
            _ => 7.0,
        });
        let found: Vec<(f64, bool)> =
            targets(&costs).iter().map(|goal| ((goal.ratio * 100.0).round(), goal.is_met())).collect();
        assert_eq!(found, [(125.0, false), (125.0, false), (25.0, true)]);
        let without: Vec<RelayCost> =
            costs.into_iter().filter(|cost| cost.case.method != Method::Discard).collect();
        assert!(targets(&without).is_empty());
    }

    /// Promise: A handler in the kernel is compared with the same in user space by the time of all that works for it.
    #[test]
    fn mirrors_are_compared_with_those_to_as_many_receivers() {
        let costs = measured(Part::KernelMirror, |case| match (case.method, case.links) {
            (Method::Discard, _) => 3.0, // of which the process takes 1
            (Method::Streams, links) => 2.0 + f64::from(links),
            (_, links) => 2.0 + 0.5 * f64::from(links),
        });
        let found: Vec<(f64, bool)> =
            targets(&costs).iter().map(|goal| ((goal.ratio * 100.0).round(), goal.is_met())).collect();
        assert_eq!(found, [(50.0, true); 2]);
    }
}
