//! Targets of handlers: relative to careful loops, to plain programs, and to each other.

use super::{Goal, target};
use crate::relay::cases::{PEEKED_RECORD, PLAIN};
use crate::result::{HandlerKind, Method, Part, RelayCase, RelayCost};
use crate::statistics::Summary;

/// Limits of a reading handler and of a handler that rewrites in place, relative to the best careful loop.
const READ: f64 = 0.85;
const IN_PLACE: f64 = 0.9;

/// Limit of both handlers relative to a plain program.
const PLAINLY: f64 = 0.75;

/// Limit of slices relative to records that are copied into one buffer.
const SLICES: f64 = 1.0;

/// Limit of peeking relative to a stream without a handler.
const PEEK: f64 = 1.2;

const PARTS: [Part; 5] =
    [Part::FileToSocket, Part::SocketToFile, Part::SocketToSocket, Part::Merge, Part::Mirror];

/// Targets whose figures were all measured.
pub(super) fn targets(costs: &[RelayCost]) -> Vec<Goal> {
    let mut found = Vec::new();
    for part in PARTS {
        // All compared cases have the same number of links.
        let Some(links) = handled(costs, part).next().map(|cost| cost.case.links) else { continue };
        let of = |method: Method, touch: bool, handler: Option<HandlerKind>| {
            costs.iter().filter(move |cost| {
                let RelayCase { part: of, method: by, touch: touches, links: with, .. } = cost.case;
                (of, by, touches, with) == (part, method, touch, links) && cost.case.handler == handler
            })
        };
        let read = Some(HandlerKind::Read);
        for (what, touch, handler, limit) in
            [("that reads", false, read, READ), ("that rewrites in place", true, None, IN_PLACE)]
        {
            let streams = best(of(Method::Streams, touch, handler));
            let careful = best(of(Method::ReadWrite, touch, handler));
            let of_buffer = |cost: &&RelayCost| cost.case.block == Some(PLAIN);
            let plain = best(of(Method::Plain, touch, handler).filter(of_buffer));
            // In merges, the buffer of a plain program has one record: it is compared with a stream of such records.
            let beside_plain = match part {
                Part::Merge => best(of(Method::Streams, touch, handler).filter(of_buffer)),
                _ => streams,
            };
            let name = format!("{part} with a handler {what}");
            found.extend(goal(format!("{name}, to the best careful loop"), limit, streams, careful));
            found.extend(goal(format!("{name}, to a plain program of 32 KiB"), PLAINLY, beside_plain, plain));
        }
        let of_records = |cost: &&RelayCost| cost.case.block == Some(PEEKED_RECORD);
        let peeked = best(of(Method::Streams, false, Some(HandlerKind::Peek)).filter(of_records));
        let unhandled = best(of(Method::Streams, false, None).filter(of_records));
        let what = format!("{part} with a handler that peeks, to records of 64 KiB without one");
        found.extend(goal(what, PEEK, peeked, unhandled));
        for slices in of(Method::Streams, false, Some(HandlerKind::Slices)) {
            let gathered = of(Method::Streams, false, Some(HandlerKind::Gathered))
                .find(|cost| cost.case.block == slices.case.block);
            let record = wirepath_report::number::bytes(slices.case.block.unwrap_or(0));
            let what = format!("{part}, records of {record} in slices, to copied together");
            found.extend(goal(what, SLICES, best([slices].into_iter()), best(gathered.into_iter())));
        }
    }
    found
}

fn handled(costs: &[RelayCost], part: Part) -> impl Iterator<Item = &RelayCost> {
    costs.iter().filter(move |cost| cost.case.part == part && cost.case.handler.is_some())
}

fn goal(what: String, limit: f64, one: Option<Summary>, other: Option<Summary>) -> Option<Goal> {
    target(what, limit, &one?, &other?)
}

/// Summary with the lowest median.
fn best<'a>(costs: impl Iterator<Item = &'a RelayCost>) -> Option<Summary> {
    let summaries = costs.filter_map(|cost| Summary::of(cost.costs()));
    summaries.min_by(|one, other| one.median.total_cmp(&other.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::cases::{cases, handler_cases};
    use crate::result::RelayRun;

    /// Costs of all cases of a part, with the given seconds per GiB.
    fn measured(part: Part, seconds: impl Fn(&RelayCase) -> f64) -> Vec<RelayCost> {
        let all = cases(part).into_iter().chain(handler_cases(part));
        all.map(|case| {
            let run = RelayRun {
                user_s: 0.0,
                system_s: seconds(&case),
                wall_s: 1.0,
                bytes: 1 << 30,
                delivered: 1 << 30,
                machine_s: None,
                tasks_s: None,
                taken: None,
            };
            RelayCost { case, mtu: 1500, verified: true, runs: vec![run; 3] }
        })
        .collect()
    }

    /// Promise: A goal is compared with the best measured loop, and is marked as in doubt if the runs do not
    /// decide it.
    #[test]
    fn handlers_are_held_to_the_best_careful_loop_and_to_a_plain_program() {
        let of = |case: &RelayCase| match (case.method, case.handler, case.block) {
            (Method::Streams, Some(HandlerKind::Slices), _) => 0.5,
            (Method::Streams, Some(HandlerKind::Peek), _) => 0.36,
            (Method::Streams, None, Some(_)) => 0.3,
            (Method::Streams, ..) => 0.8,
            (Method::ReadWrite, _, Some(block)) => {
                if block == 256 << 10 {
                    1.0
                } else {
                    1.5
                }
            }
            _ => 2.0,
        };
        let found = targets(&measured(Part::SocketToSocket, of));
        let ratio = |what: &str| {
            let found: Vec<f64> =
                found.iter().filter(|goal| goal.what.contains(what)).map(|goal| goal.ratio).collect();
            assert!(!found.is_empty(), "{what}");
            found
        };
        assert_eq!(ratio("best careful"), [0.8, 0.8]);
        assert_eq!(ratio("plain program"), [0.4, 0.4]);
        assert_eq!(ratio("peeks"), [0.36 / 0.3]);
        assert_eq!(ratio("in slices"), [0.5 / 0.8; 4]);
        assert!(targets(&measured(Part::Stripe, |_| 1.0)).is_empty());
        for part in PARTS {
            assert!(targets(&measured(part, |_| 1.0)).len() >= 5, "{part}");
        }
    }

    #[test]
    fn merges_are_held_to_a_plain_program_with_records_of_the_same_length() {
        let found = targets(&measured(Part::Merge, |case| match (case.method, case.block) {
            (Method::Streams, Some(PLAIN)) => 0.6,
            (Method::Streams, _) => 0.5,
            (Method::Plain, _) => 1.0,
            _ => 2.0,
        }));
        let of = |what: &str| -> Vec<f64> {
            found.iter().filter(|goal| goal.what.contains(what)).map(|goal| goal.ratio).collect()
        };
        assert_eq!((of("plain program"), of("best careful")), (vec![0.6; 2], vec![0.25; 2]));
    }
}
