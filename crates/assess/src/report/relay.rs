//! Relay of data from sources to sinks: the stream service and alternatives.

mod judged;

use wirepath_report::{Cell, Kind, Section, Table, number};

use crate::relay::{Goal, targets};
use crate::result::{Method, Part, RelayCost};
use crate::statistics::Summary;

/// Section with a table of the targets and a table for each part.
pub(super) fn section(costs: &[RelayCost]) -> Section {
    let mut section = Section::new("relay", "From sources to sinks");
    if costs.is_empty() {
        return section;
    }
    section.paragraph(
        "Processor time of the process that moves the data, whatever way it does it; those at both ends are other processes. With a \
         sink on the same machine a part of receiving is charged to whoever sends, the same for all ways: the ratios are between \
         what all of it costs. Section 5.1 of [4] compares such programs.",
    );
    section.table(of_targets(&targets(costs)));
    for part in costs.chunk_by(|one, other| one.case.part == other.case.part) {
        let is_judged = part.first().is_some_and(|cost| cost.case.part.is_judged());
        section.table(if is_judged { judged::table(part) } else { of_part(part) });
    }
    section
}

fn of_targets(targets: &[Goal]) -> Table {
    let caption = "What the stream service is held to: its cost, as a share of another.";
    let mut table = Table::new(caption, &["target", "#at most", "#measured", "verdict"]);
    for target in targets {
        let verdict = if target.is_met() { "met" } else { "not met" };
        let verdict = match target.significance.doubt() {
            None => Cell::new(verdict, if target.is_met() { Kind::Good } else { Kind::Bad }),
            Some(doubt) => Cell::new(format!("{verdict}; {doubt}"), Kind::Noisy),
        };
        table.row([
            Cell::plain(&target.what),
            Cell::plain(number::significant(target.limit)),
            Cell::plain(number::significant(target.ratio)),
            verdict,
        ]);
    }
    table
}

fn of_part(costs: &[RelayCost]) -> Table {
    let first = &costs[0];
    let cost_head = if first.case.is_of_datagrams() { "#CPU / datagram" } else { "#CPU s/GiB" };
    let heads = ["method", "block", cost_head, "#spread", "#relative", "#rate", "verified"];
    let mut table = Table::new(caption(first.case.part), &heads);
    let loops = costs.iter().filter(|cost| cost.case.method == Method::ReadWrite && !cost.case.touch);
    let best = |links: u32| {
        let medians = loops.clone().filter(|cost| cost.case.links == links).filter_map(median);
        medians.min_by(f64::total_cmp)
    };
    for cost in costs {
        let summary = Summary::of(cost.costs());
        let shown = |median: f64| match cost.case.is_of_datagrams() {
            true => number::time(median),
            false => number::significant(median),
        };
        let kind = if summary.is_some_and(|summary| summary.is_noisy()) { Kind::Noisy } else { Kind::Plain };
        let relative = summary.zip(best(cost.case.links)).map(|(summary, best)| summary.median / best);
        let rate = Summary::of(cost.rates()).map(|summary| summary.median);
        table.row([
            Cell::code(cost.case.what()),
            Cell::figure(cost.case.block, number::bytes),
            Cell::new(summary.map_or_else(|| number::NOTHING.to_owned(), |one| shown(one.median)), kind),
            Cell::figure(summary, |summary| number::spread(summary.spread)),
            Cell::figure(relative, number::significant),
            Cell::figure(rate, number::bit_rate),
            if cost.verified { Cell::new("yes", Kind::Good) } else { Cell::new("no", Kind::Bad) },
        ]);
    }
    table
}

fn median(cost: &RelayCost) -> Option<f64> {
    Summary::of(cost.costs()).map(|summary| summary.median)
}

/// Caption of a part's table.
fn caption(part: Part) -> String {
    let counted = match part.is_judged() {
        true => {
            "Cost: processor time for a record that comes, of the source, the measured process, the sinks and all \
             kernel threads, to which the kernel charges its work in soft interrupts. Relative: to the same handler \
             in user space, both above the cost of the source (that of discarding, without the process). Machine: time in which the processors were not \
             idle, and the ratio by it, which mean something if no other program ran. Process: processor time of \
             the measured process alone"
        }
        false => "Relative: to the best loop of read and write with as many links that touches nothing",
    };
    let what = match part {
        Part::FileToSocket => "A file to 16 connections at once (figure 6 of [4])",
        Part::SocketToFile => "16 connections, each to a file of its own (figure 7 of [4])",
        Part::SocketToSocket => "16 connections to 16 others, as TCP proxies do it (figure 8 of [4])",
        Part::Merge => "Records of 16 connections in turn to one (figure 9 of [4])",
        Part::Stripe => "Records of one connection to several in turn",
        Part::Random => "Records of one connection, each to one of several at random",
        Part::Mirror => "One connection to several (figure 10 of [4])",
        Part::UdpMirror => "Datagrams to 64 receivers, by what arrives together",
        Part::Crowd => "Streams on one engine, most of them idle",
        Part::Files => {
            "Files of several sizes to 16 clients that ask for one after the other (figure 6 of [4])"
        }
        Part::FileProxy => "The same through a proxy (figure 8 of [4])",
        Part::Orders => "Records of 16 connections to one, by the order of inputs",
        Part::KernelTcp => "Records of 1 KiB of one connection to another, judged by an eBPF handler",
        Part::KernelUdp => "Datagrams of 1 KiB to a receiver, judged by an eBPF handler",
        Part::KernelMirror => "Datagrams of 1 KiB to each of several receivers, judged by an eBPF handler",
    };
    format!("{what}. {counted}.")
}
