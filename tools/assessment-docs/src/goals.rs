//! Goals of the kernel module's paths against those that need no module, and results (section 5 of the
//! papers).

use wirepath_assess::Assessment;
use wirepath_assess::path_costs::{self, Group};
use wirepath_assess::result::{Experiment, PathKind, PathVariant, Transport, Variant};
use wirepath_datapath::DataPath;
use wirepath_report::{Cell, Kind, Table, number};

/// Goal of a path, with packets that fill the MTU.
struct Goal {
    /// Explanation, where the paths' names do not suffice.
    remark: &'static str,
    path: PathVariant,
    than: PathVariant,
    limit: Limit,
}

/// Least gain over another path, or most cost.
#[derive(Clone, Copy)]
enum Limit {
    /// At least such a share less.
    Less(f64),
    /// At most so many times as much.
    Times(f64),
}

use Limit::{Less, Times};

const GOALS: [Goal; 8] = {
    use DataPath::*;
    [
        goal("packets by themselves, from a file", single(Krtpsendfile), RtpSendfile, Less(0.40)),
        goal("packets by themselves, from memory", single(Krtpmsend), ReadSendRtp, Less(0.36)),
        goal("as it is", plain(Krtpmsend), ReadSendRtp, Less(0.36)),
        goal("a call a packet, from memory", plain(MmapRtpmsend), ReadSendRtp, Less(0.24)),
        goal(
            "a call a packet, from a file, to the best without a module",
            plain(Rtpsendfile),
            MmapWritev,
            Less(0.10),
        ),
        goal("the same, to the papers' best", plain(Rtpsendfile), RtpSendfile, Less(0.10)),
        goal("trains", plain(Krtpsendfile), RtpSendfile, Less(0.80)),
        goal("trains, to packets that are ready", plain(Krtpsendfile), WireSendfile, Times(1.3)),
    ]
};

const fn goal(remark: &'static str, path: PathVariant, than: DataPath, limit: Limit) -> Goal {
    Goal { remark, path, than: plain(than), limit }
}

const fn plain(path: DataPath) -> PathVariant {
    PathVariant { kind: PathKind::Stream(path), variant: Variant::Plain }
}

const fn single(path: DataPath) -> PathVariant {
    PathVariant { kind: PathKind::Stream(path), variant: Variant::Single }
}

/// Paths whose cost is shown by itself: those of the goals, and what else there is to send packets with
/// headers by.
const SHOWN: [PathVariant; 17] = {
    use DataPath::*;
    [
        plain(ReadWritev),
        plain(ReadSendRtp),
        plain(MmapWritev),
        plain(MmapSendRtp),
        plain(RtpSendfile),
        plain(Sendmmsg),
        plain(GsoWritev),
        plain(WireSendfile),
        plain(MmapSendMsend),
        plain(MmapRtpmsend),
        plain(Rtpsendfile),
        plain(Sendfilew),
        single(Krtpmsend),
        single(Krtpsendfile),
        plain(Krtpmsend),
        plain(Krtpsendfile),
        plain(GsoZerocopy),
    ]
};

/// Returns whether the goals are met by each of the results, which are called by these letters; and what a
/// packet costs in each.
pub(crate) fn tables(results: &[(char, &Assessment)]) -> Vec<Table> {
    let streams: Vec<(char, Option<Stream<'_>>)> =
        results.iter().map(|(letter, result)| (*letter, Stream::of(result))).collect();
    let letters = || streams.iter().map(|(letter, _)| format!("#{letter}"));
    let heads =
        |first: &[&str]| -> Vec<String> { first.iter().map(ToString::to_string).chain(letters()).collect() };
    let table = |caption, heads: &[String]| {
        Table::new(caption, &heads.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut goals = table(
        "What the module's paths are to gain: processor time beside that of a path without it, packets that fill the MTU.",
        &heads(&["path", "goal", "of"]),
    );
    for goal in &GOALS {
        let cells = streams.iter().map(|(_, stream)| goal.cell(stream.as_ref()));
        let limit = goal.limit.in_words(&goal.than.to_string());
        goals.row(
            [Cell::code(goal.path.to_string()), Cell::plain(limit), Cell::plain(goal.remark)]
                .into_iter()
                .chain(cells),
        );
    }
    goals.notes.push(
        "A goal that is met in some of the columns only is not met: what a copy costs decides it.".to_owned(),
    );
    let mut costs = table(
        "Processor time of a packet in nanoseconds. In a guest whose clock counts instructions (docs/vm.md): instructions.",
        &heads(&["path"]),
    );
    for path in SHOWN {
        let figures: Vec<Option<f64>> =
            streams.iter().map(|(_, stream)| stream.as_ref()?.nanoseconds(path)).collect();
        if figures.iter().any(Option::is_some) {
            let cells =
                figures.into_iter().map(|figure| Cell::figure(figure, |ns| number::count(ns.round() as u64)));
            costs.row([Cell::code(path.to_string())].into_iter().chain(cells));
        }
    }
    vec![goals, costs]
}

/// The streaming part of a result.
struct Stream<'a> {
    group: Group<'a>,
    size: Option<u64>,
}

impl<'a> Stream<'a> {
    fn of(result: &'a Assessment) -> Option<Stream<'a>> {
        let group = path_costs::groups(result)
            .into_iter()
            .find(|group| (group.experiment, group.transport) == (Experiment::Stream, Transport::Udp))?;
        let size = group.full_size();
        Some(Stream { group, size })
    }

    /// Processor time of a packet: the median of the runs.
    fn nanoseconds(&self, path: PathVariant) -> Option<f64> {
        let cost = self.group.find(path, self.size)?;
        let bytes = self.size? as f64;
        Some(cost.median()? / (1u64 << 30) as f64 * bytes * 1e9)
    }
}

impl Goal {
    /// Result for the goal.
    fn cell(&self, stream: Option<&Stream<'_>>) -> Cell {
        let cost = |path| stream?.nanoseconds(path);
        let Some((one, other)) = cost(self.path).zip(cost(self.than)) else {
            return Cell::plain("not measured");
        };
        let ratio = one / other;
        let kind = if self.limit.is_kept(ratio) { Kind::Good } else { Kind::Bad };
        let verdict = if kind == Kind::Good { "met" } else { "not met" };
        Cell::new(format!("{}, {verdict}", self.limit.figure(ratio)), kind)
    }
}

impl Limit {
    fn in_words(self, than: &str) -> String {
        match self {
            Less(share) => format!("{:.0} % less than {than}", share * 100.0),
            Times(times) => format!("at most {times} times {than}"),
        }
    }

    fn is_kept(self, ratio: f64) -> bool {
        match self {
            Less(share) => ratio <= 1.0 - share,
            Times(times) => ratio <= times,
        }
    }

    /// A ratio in the terms of the limit.
    fn figure(self, ratio: f64) -> String {
        match self {
            Less(_) if ratio > 1.0 => format!("{:.1} % more", (ratio - 1.0) * 100.0),
            Less(_) => format!("{:.1} % less", (1.0 - ratio) * 100.0),
            Times(_) => format!("{ratio:.2} times"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn kept(name: &str) -> Assessment {
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results");
        crate::read(&results.join(name)).unwrap()
    }

    /// Promise: `assessment-docs goals` judges the module's paths by measurements.
    #[test]
    fn goals_are_judged_by_what_was_measured() {
        let guest = kept("2026-11-22-guests-6.1-and-6.12/6.12-default.stream.json");
        let without = kept("2026-11-21-amd-epyc-2-cores-assessment/assessment.json");
        let tables = tables(&[('A', &guest), ('B', &without)]);
        let row = |table: usize, index: usize| -> Vec<&str> {
            tables[table].rows[index].iter().map(|cell| cell.text.as_str()).collect()
        };
        assert_eq!(row(0, 0)[..2], ["krtpsendfile:single", "40 % less than rtp_sendfile"]);
        assert_eq!(row(0, 0)[3..], ["53.8 % less, met", "not measured"]);
        assert_eq!(row(0, 7)[3], "2.08 times, not met");
        assert_eq!(row(1, 0)[..2], ["read_writev", "10,285"]);
        assert!(tables[1].rows.iter().any(|row| row[0].text == "krtpmsend" && row[2].text == "–"));
    }

    /// Promise: `assessment-docs goals` judges the module's paths by measurements.
    #[test]
    fn a_limit_is_kept_or_not() {
        assert!(Less(0.4).is_kept(0.6) && !Less(0.4).is_kept(0.61));
        assert!(Times(1.3).is_kept(1.3) && !Times(1.3).is_kept(1.31));
        assert_eq!([Less(0.1).figure(1.25), Less(0.1).figure(0.25)], ["25.0 % more", "75.0 % less"]);
    }
}
