//! What the kernel module's paths are to gain over those that need no module, and whether results show it (section 5 of the papers).

use crate::cost::{self, Group};
use crate::report::{Cell, Kind, Table};
use crate::result::Assessment;
use crate::way::SINGLE;

/// What a path is held to, with packets that fill the MTU.
struct Goal {
    /// What is meant, where the paths' names do not say it.
    remark: &'static str,
    path: &'static str,
    single: bool,
    than: &'static str,
    limit: Limit,
}

/// How much less a path has to cost than another, or how much more it may.
#[derive(Clone, Copy)]
enum Limit {
    /// At least such a share less.
    Less(f64),
    /// At most so many times as much.
    Times(f64),
}

use Limit::{Less, Times};

const GOALS: [Goal; 8] = [
    goal("packets by themselves, from a file", "krtpsendfile", true, "rtp_sendfile", Less(0.40)),
    goal("packets by themselves, from memory", "krtpmsend", true, "read_send_rtp", Less(0.36)),
    goal("as it is", "krtpmsend", false, "read_send_rtp", Less(0.36)),
    goal("a call a packet, from memory", "mmap_rtpmsend", false, "read_send_rtp", Less(0.24)),
    goal(
        "a call a packet, from a file, to the best without a module",
        "rtpsendfile",
        false,
        "mmap_writev",
        Less(0.10),
    ),
    goal("the same, to the papers' best", "rtpsendfile", false, "rtp_sendfile", Less(0.10)),
    goal("trains", "krtpsendfile", false, "rtp_sendfile", Less(0.80)),
    goal("trains, to packets that are ready", "krtpsendfile", false, "wire_sendfile", Times(1.3)),
];

const fn goal(
    remark: &'static str,
    path: &'static str,
    single: bool,
    than: &'static str,
    limit: Limit,
) -> Goal {
    Goal { remark, path, single, than, limit }
}

/// Paths whose cost is shown by itself: those of the goals, and what else there is to send packets with headers by.
const SHOWN: [&str; 16] = [
    "read_writev",
    "read_send_rtp",
    "mmap_writev",
    "mmap_send_rtp",
    "rtp_sendfile",
    "gso_writev",
    "wire_sendfile",
    "mmap_send_msend",
    "mmap_rtpmsend",
    "rtpsendfile",
    "sendfilew",
    "krtpmsend:single",
    "krtpsendfile:single",
    "krtpmsend",
    "krtpsendfile",
    "gso_zerocopy",
];

/// Whether the goals are met by each of the results, which are called by these letters; and what a packet costs in each.
pub fn tables(results: &[(char, &Assessment)]) -> Vec<Table> {
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
        let limit = goal.limit.in_words(goal.than);
        goals.row(
            [Cell::code(goal.name()), Cell::plain(limit), Cell::plain(goal.remark)].into_iter().chain(cells),
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
            let cells = figures
                .into_iter()
                .map(|figure| Cell::figure(figure, |ns| crate::report::number::count(ns.round() as u64)));
            costs.row([Cell::code(path)].into_iter().chain(cells));
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
        let group = cost::groups(result).into_iter().find(|group| group.experiment == "stream")?;
        let size = group.full_size();
        Some(Stream { group, size })
    }

    /// Processor time of a packet: the median of the runs.
    fn nanoseconds(&self, path: &str) -> Option<f64> {
        let cost = self.group.find(path, self.size)?;
        let bytes = self.size? as f64;
        Some(cost.median()? / (1u64 << 30) as f64 * bytes * 1e9)
    }
}

impl Goal {
    fn name(&self) -> String {
        format!("{}{}", self.path, if self.single { SINGLE } else { "" })
    }

    /// What a result says of it.
    fn cell(&self, stream: Option<&Stream<'_>>) -> Cell {
        let cost = |path: &str| stream?.nanoseconds(path);
        let Some((one, other)) = cost(&self.name()).zip(cost(self.than)) else {
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
    use super::*;
    use crate::example;

    /// Promise: `wirepath assess goals` judges the module's paths by what was measured.
    #[test]
    fn goals_are_judged_by_what_was_measured() {
        let mut result = example::full();
        let like = |result: &Assessment, path: &str| {
            let mut all = result.measurements.iter();
            all.find(|one| one.path == path && one.experiment == "stream" && one.size == Some(1460))
                .cloned()
                .unwrap()
        };
        let mut single = like(&result, "rtp_sendfile");
        single.path = "krtpsendfile:single".to_owned();
        for run in &mut single.runs {
            (run.user_s, run.system_s) = (run.user_s / 2.0, run.system_s / 2.0);
        }
        result.measurements.push(single);
        let tables = tables(&[('A', &result), ('B', &example::nothing())]);
        let row = |index: usize| -> Vec<&str> {
            tables[0].rows[index].iter().map(|cell| cell.text.as_str()).collect()
        };
        assert_eq!(row(0)[..2], ["krtpsendfile:single", "40 % less than rtp_sendfile"]);
        assert_eq!(row(0)[3..], ["50.0 % less, met", "not measured"]);
        assert_eq!(row(7)[3], "not measured");
        let costs = &tables[1].rows;
        assert!(costs.iter().any(|row| row[0].text == "mmap_writev" && row[2].text == "–"), "{costs:?}");
    }

    /// Promise: `wirepath assess goals` judges the module's paths by what was measured.
    #[test]
    fn a_limit_is_kept_or_not() {
        assert!(Less(0.4).is_kept(0.6) && !Less(0.4).is_kept(0.61));
        assert!(Times(1.3).is_kept(1.3) && !Times(1.3).is_kept(1.31));
        assert_eq!([Less(0.1).figure(1.25), Less(0.1).figure(0.25)], ["25.0 % more", "75.0 % less"]);
    }
}
