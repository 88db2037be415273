//! Performance targets of the stream service.

mod handlers;
mod judged;

use super::cases::{BURST, BUSY, FEW, IDLE, LINKS};
use crate::result::{Method, Part, Program, RELAY_DATAGRAM, RelayCase, RelayCost};
use crate::statistics::Summary;
use crate::verdict::Significance;

/// Target and its measured ratio.
#[derive(Clone, Debug, PartialEq)]
pub struct Goal {
    /// Compared figures, in words.
    pub what: String,
    /// Upper limit of the ratio.
    pub limit: f64,
    /// Measured ratio, of medians.
    pub ratio: f64,
    /// Significance of the distance from the limit, relative to the spread of the runs.
    pub significance: Significance,
}

impl Goal {
    /// Returns whether the medians meet the target.
    pub fn is_met(&self) -> bool {
        self.ratio <= self.limit
    }
}

/// Limit for a rewriting handler, as a multiple of a careful user-level loop; where all kinds of handlers
/// were measured, [`handlers`] has other limits.
const HANDLER: f64 = 1.0 / 0.85;

/// Limit relative to a loop without policies, records and counters that makes the same calls.
const BARE: f64 = 1.1;

/// Limit for each further sink of a mirror, as a share of one copy by `read` and `write`.
const FURTHER_SINK: f64 = 0.4;

/// Targets whose figures were all measured.
pub fn targets(costs: &[RelayCost]) -> Vec<Goal> {
    let all = Costs(costs);
    let mut targets = Vec::new();
    let mut hold = |what: String, limit: f64, one: Option<Summary>, other: Option<Summary>| {
        targets.extend(one.zip(other).and_then(|(one, other)| target(what, limit, &one, &other)));
    };
    let (proxy, file) = (Part::SocketToSocket, Part::FileToSocket);
    let streams = |part, touch| all.find(part, Method::Streams, touch, LINKS, None);
    let best = all.best_loop(proxy, false);
    hold("socket to socket, to the best loop of read and write".to_owned(), 0.4, streams(proxy, false), best);
    let haproxy = all.find(proxy, Method::Program(Program::HaProxy), false, LINKS, None);
    let splice = |part, links| all.find(part, Method::Splice, false, links, None);
    let what = "socket to socket, to a bare loop of splice".to_owned();
    hold(what, BARE, streams(proxy, false), splice(proxy, LINKS));
    hold("socket to socket, to HAProxy".to_owned(), 0.9, streams(proxy, false), haproxy);
    let sendfile = all.find(file, Method::Sendfile, false, LINKS, None);
    hold("file to socket, to bare sendfile".to_owned(), 1.05, streams(file, false), sendfile);
    let has_handlers = costs.iter().any(|cost| cost.case.handler.is_some());
    for part in [file, Part::SocketToFile, proxy].into_iter().filter(|_| !has_handlers) {
        let what = format!("{part} with a handler that rewrites, to a loop that does the same");
        hold(what, HANDLER, streams(part, true), all.best_loop(part, true));
    }
    let of_burst = |method| {
        let burst = Some(BURST * RELAY_DATAGRAM);
        all.find(Part::UdpMirror, method, false, super::cases::RECEIVERS, burst)
    };
    let what = "a datagram to each of 64 receivers, to recv and send";
    hold(what.to_owned(), 0.25, of_burst(Method::Streams), of_burst(Method::ReadWrite));
    let what = format!("{BUSY} busy streams beside {IDLE} idle ones, by the byte, to {FEW} streams");
    hold(what, 1.2, all.find(Part::Crowd, Method::Streams, false, BUSY, None), all.few());
    let what = format!("{BUSY} busy streams beside {IDLE} idle ones, to a bare loop of splice");
    hold(what, BARE, all.find(Part::Crowd, Method::Streams, false, BUSY, None), splice(Part::Crowd, BUSY));
    targets.extend(all.further_sink());
    targets.extend(handlers::targets(costs));
    targets.extend(judged::targets(costs));
    targets
}

/// Target on a cost as a multiple of another cost.
fn target(what: String, limit: f64, one: &Summary, other: &Summary) -> Option<Goal> {
    let ratio = Some(one.median / other.median).filter(|ratio| ratio.is_finite())?;
    Some(Goal { what, limit, ratio, significance: Significance::of(one, &scaled(other, limit)) })
}

/// Measured costs.
struct Costs<'a>(&'a [RelayCost]);

impl Costs<'_> {
    /// Finds the first cost of a method; of any block size if `block` is `None`.
    fn find(
        &self,
        part: Part,
        method: Method,
        touch: bool,
        links: u32,
        block: Option<u64>,
    ) -> Option<Summary> {
        let found = self.0.iter().find(|cost| {
            let is_it = (cost.case.part, cost.case.method, cost.case.touch) == (part, method, touch);
            is_it
                && cost.case.handler.is_none()
                && cost.case.links == links
                && (block.is_none() || cost.case.block == block)
        });
        Summary::of(found?.costs())
    }

    /// Lowest cost of a part's `read` and `write` loops, of any block size.
    fn best_loop(&self, part: Part, touch: bool) -> Option<Summary> {
        let loops = self.0.iter().filter(|cost| {
            let RelayCase { part: of, method, touch: touches, handler, .. } = cost.case;
            (of, method, touches, handler) == (part, Method::ReadWrite, touch, None)
        });
        let summaries = loops.filter_map(|cost| Summary::of(cost.costs()));
        summaries.min_by(|one, other| one.median.total_cmp(&other.median))
    }

    fn few(&self) -> Option<Summary> {
        self.find(Part::Crowd, Method::Streams, false, FEW, None)
    }

    /// Cost of each of sixteen sinks beyond the first, as a share of a loop's cost for reading and writing
    /// once.
    fn further_sink(&self) -> Option<Goal> {
        let of = |method, links| self.find(Part::Mirror, method, false, links, None);
        let (one, many, copy) =
            (of(Method::Streams, 1)?, of(Method::Streams, LINKS)?, of(Method::ReadWrite, 1)?);
        let further = f64::from(LINKS - 1);
        let ratio = (many.median - one.median) / further / copy.median;
        // Limit of the cost of all sinks together.
        let allowed = sum(&one, &scaled(&copy, FURTHER_SINK * further));
        let significance = Significance::of(&many, &allowed);
        let what = "a further sink of a mirror, to one copy by read and write".to_owned();
        ratio.is_finite().then_some(Goal { what, limit: FURTHER_SINK, ratio, significance })
    }
}

fn scaled(summary: &Summary, by: f64) -> Summary {
    let Summary { median, least, greatest, .. } = *summary;
    Summary { median: median * by, least: least * by, greatest: greatest * by, ..*summary }
}

/// Sum of two independent figures, with the larger of the two interquartile ranges.
fn sum(one: &Summary, other: &Summary) -> Summary {
    let median = one.median + other.median;
    let distance = one.distance().zip(other.distance()).map(|(one, other)| one.max(other));
    Summary {
        median,
        least: one.least + other.least,
        greatest: one.greatest + other.greatest,
        spread: distance.map(|distance| distance / median),
        outliers: one.outliers + other.outliers,
        runs: one.runs.min(other.runs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::RelayRun;

    fn cost(part: Part, method: Method, touch: bool, links: u32, seconds: &[f64]) -> RelayCost {
        let run = |cpu: &f64| RelayRun {
            user_s: 0.0,
            system_s: *cpu,
            wall_s: 1.0,
            bytes: 1 << 30,
            delivered: 1 << 30,
            machine_s: None,
            tasks_s: None,
            taken: None,
        };
        RelayCost {
            case: RelayCase {
                part,
                method,
                touch,
                block: None,
                links,
                idle: 0,
                handler: None,
                order: None,
                passed: None,
            },
            mtu: 1500,
            verified: true,
            runs: seconds.iter().map(run).collect(),
        }
    }

    fn steady(part: Part, method: Method, links: u32, seconds: f64) -> RelayCost {
        cost(part, method, false, links, &[seconds; 3])
    }

    /// Promise: A goal is compared with the best measured loop, and is marked as in doubt if the runs do not
    /// decide it.
    #[test]
    fn a_target_is_held_to_the_best_loop() {
        let part = Part::SocketToSocket;
        let costs = [
            steady(part, Method::ReadWrite, 16, 3.0),
            steady(part, Method::ReadWrite, 16, 1.0),
            steady(part, Method::Streams, 16, 0.39),
        ];
        let [target] = &targets(&costs)[..] else { panic!("{:?}", targets(&costs)) };
        assert_eq!(
            (target.ratio, target.is_met(), target.significance),
            (0.39, true, Significance::Significant)
        );
    }

    /// Promise: A goal is compared with the best measured loop, and is marked as in doubt if the runs do not
    /// decide it.
    #[test]
    fn a_target_within_the_noise_or_of_two_runs_is_in_doubt() {
        let part = Part::FileToSocket;
        let of = |seconds: &[f64]| {
            let costs =
                [steady(part, Method::Sendfile, 16, 1.0), cost(part, Method::Streams, false, 16, seconds)];
            targets(&costs)[0].clone()
        };
        let close = of(&[1.0, 1.06, 1.2]);
        assert_eq!((close.is_met(), close.significance), (false, Significance::TooNoisy));
        assert_eq!(of(&[1.2, 1.2]).significance, Significance::TooFewRuns);
        assert_eq!((of(&[1.2; 3]).is_met(), of(&[1.2; 3]).significance), (false, Significance::Significant));
    }

    #[test]
    fn streams_are_held_to_bare_loops_that_have_as_many_links() {
        let of = |method, links, seconds| steady(Part::Crowd, method, links, seconds);
        let costs = [
            of(Method::Splice, FEW, 1.0),
            of(Method::Splice, BUSY, 1.6),
            of(Method::Streams, FEW, 1.0),
            of(Method::Streams, BUSY, 1.6),
        ];
        let found = targets(&costs);
        assert_eq!((found[0].ratio, found[0].is_met()), (1.6, false), "to ten streams");
        assert_eq!((found[1].ratio, found[1].is_met()), (1.0, true), "to the loop: it is the network's");
    }

    #[test]
    fn further_sinks_are_those_beyond_the_first() {
        let mirror = |method, links, seconds| steady(Part::Mirror, method, links, seconds);
        let costs = [
            mirror(Method::Streams, 1, 0.5),
            mirror(Method::Streams, 16, 3.5),
            mirror(Method::ReadWrite, 1, 1.0),
        ];
        let found = targets(&costs);
        assert_eq!(
            (found[0].ratio, found[0].is_met(), found[0].significance),
            (0.2, true, Significance::Significant)
        );
    }

    #[test]
    fn what_was_not_measured_has_no_target() {
        assert!(targets(&[]).is_empty());
        assert!(targets(&[steady(Part::Crowd, Method::Streams, FEW, 1.0)]).is_empty());
    }
}
