//! Figures of the papers, compared with this machine.

mod gain;

use wirepath_datapath::{BlockPath, DataPath};
use wirepath_report::{Cell, Kind, Table, number};

use crate::path_costs::{Cost, Group};
use crate::result::{Assessment, Experiment, LoanPoint, PathKind, PathVariant, Transport};
use crate::statistics::Summary;
use gain::Gain;

/// Claim of a paper: gain of one path over another, when streaming full packets.
struct Claim {
    /// Path of the paper.
    path: DataPath,
    /// Path that it is compared with.
    than: DataPath,
    gain: f64,
}

/// Section 5 of [1], and section 4 of [2].
const CLAIMS: [Claim; 4] = [
    Claim { path: DataPath::Krtpsendfile, than: DataPath::RtpSendfile, gain: 0.27 },
    Claim { path: DataPath::Rtpsendfile, than: DataPath::RtpSendfile, gain: 0.10 },
    Claim { path: DataPath::Krtpmsend, than: DataPath::ReadSendRtp, gain: 0.36 },
    Claim { path: DataPath::MmapRtpmsend, than: DataPath::ReadSendRtp, gain: 0.24 },
];

/// Section 3.3 of [3]: throughput with loans, at the best size.
const LOAN_GAIN: (u64, u32, f64) = (8192, 1500, 0.4564);

/// Line of table 2 of [1], or of what its lines have become.
struct Line {
    transport: Transport,
    path: PathKind,
    /// Payload size; `None` for the whole file.
    size: Option<u64>,
    /// Seconds for 1 GB with Linux 2.4.21 and with 2.6.5; `None` for a path that is newer than the paper.
    seconds: Option<[f64; 2]>,
}

impl Line {
    /// Returns whether a group of results has this line's experiment and transport.
    fn is_of(&self, group: &Group<'_>) -> bool {
        (group.experiment, group.transport) == (self.path.experiment(), self.transport)
    }

    /// Share of processor time that Linux 2.6.5 saved.
    fn improvement(&self) -> Option<f64> {
        self.seconds.map(|[before, after]| 1.0 - after / before)
    }
}

const fn stream(transport: Transport, path: DataPath, size: u64, seconds: [f64; 2]) -> Line {
    Line { transport, path: PathKind::Stream(path), size: Some(size), seconds: Some(seconds) }
}

const fn download(transport: Transport, path: BlockPath, size: u64, seconds: [f64; 2]) -> Line {
    let size = if size == 0 { None } else { Some(size) };
    Line { transport, path: PathKind::Block(path), size, seconds: Some(seconds) }
}

/// Table 2 of [1].
const TABLE_2: [Line; 43] = {
    use Transport::{Tcp, Udp};
    [
        download(Udp, BlockPath::ReadWrite, 512, [11.537200, 8.714675]),
        download(Udp, BlockPath::ReadWrite, 1024, [7.357300, 5.844012]),
        download(Udp, BlockPath::ReadWrite, 2048, [5.499400, 8.144362]),
        download(Udp, BlockPath::MmapSend, 512, [11.038000, 9.399971]),
        download(Udp, BlockPath::MmapSend, 1024, [7.579700, 7.139615]),
        download(Udp, BlockPath::MmapSend, 2048, [7.431000, 6.536707]),
        download(Udp, BlockPath::Sendfile, 512, [9.030200, 6.052180]),
        download(Udp, BlockPath::Sendfile, 1024, [6.358000, 3.951599]),
        download(Udp, BlockPath::Sendfile, 2048, [5.331400, 5.736328]),
        stream(Udp, DataPath::ReadSendRtp, 512, [10.918800, 8.742471]),
        stream(Udp, DataPath::ReadSendRtp, 1024, [7.439200, 6.271547]),
        stream(Udp, DataPath::ReadSendRtp, 2048, [5.336900, 7.825210]),
        stream(Udp, DataPath::ReadWritev, 512, [11.135600, 9.351078]),
        stream(Udp, DataPath::ReadWritev, 1024, [7.361700, 6.622893]),
        stream(Udp, DataPath::ReadWritev, 2048, [5.552400, 7.602744]),
        stream(Udp, DataPath::RtpSendfile, 512, [13.342500, 9.064322]),
        stream(Udp, DataPath::RtpSendfile, 1024, [7.638400, 8.005983]),
        stream(Udp, DataPath::RtpSendfile, 2048, [6.900000, 7.312389]),
        download(Tcp, BlockPath::ReadWrite, 512, [10.310800, 7.105820]),
        download(Tcp, BlockPath::ReadWrite, 1024, [7.733400, 5.978091]),
        download(Tcp, BlockPath::ReadWrite, 2048, [6.509300, 5.504263]),
        download(Tcp, BlockPath::MmapSend, 512, [10.225300, 7.986786]),
        download(Tcp, BlockPath::MmapSend, 1024, [8.615400, 7.827110]),
        download(Tcp, BlockPath::MmapSend, 2048, [8.175900, 7.640939]),
        download(Tcp, BlockPath::Sendfile, 512, [4.144200, 2.776278]),
        download(Tcp, BlockPath::Sendfile, 1024, [2.966100, 1.996097]),
        download(Tcp, BlockPath::Sendfile, 2048, [2.132500, 1.526668]),
        download(Tcp, BlockPath::Sendfile, 0, [1.308400, 1.044841]),
        stream(Tcp, DataPath::ReadSendRtp, 512, [10.337000, 7.381678]),
        stream(Tcp, DataPath::ReadSendRtp, 1024, [7.949900, 5.956495]),
        stream(Tcp, DataPath::ReadSendRtp, 2048, [6.733600, 5.355886]),
        stream(Tcp, DataPath::ReadWritev, 512, [10.422900, 7.790716]),
        stream(Tcp, DataPath::ReadWritev, 1024, [7.777100, 6.038782]),
        stream(Tcp, DataPath::ReadWritev, 2048, [6.536500, 5.441773]),
        stream(Tcp, DataPath::MmapSendRtp, 512, [19.188100, 11.453159]),
        stream(Tcp, DataPath::MmapSendRtp, 1024, [12.779300, 9.551148]),
        stream(Tcp, DataPath::MmapSendRtp, 2048, [10.701500, 8.546500]),
        stream(Tcp, DataPath::MmapWritev, 512, [10.611900, 8.184156]),
        stream(Tcp, DataPath::MmapWritev, 1024, [9.019000, 7.897200]),
        stream(Tcp, DataPath::MmapWritev, 2048, [8.373700, 7.708428]),
        stream(Tcp, DataPath::RtpSendfile, 512, [14.399500, 7.337885]),
        stream(Tcp, DataPath::RtpSendfile, 1024, [7.683300, 4.230557]),
        stream(Tcp, DataPath::RtpSendfile, 2048, [4.421200, 2.606704]),
    ]
};

/// Lines of streaming over TCP as a server sends it today: trains in one call.
const TODAY: [Line; 3] = {
    const fn interleaved(size: u64) -> Line {
        Line { transport: Transport::Tcp, path: PathKind::Interleaved, size: Some(size), seconds: None }
    }
    [interleaved(512), interleaved(1024), interleaved(2048)]
};

/// Returns whether table 2 has lines of an experiment over a transport.
pub(super) fn has_part(experiment: Experiment, transport: Transport) -> bool {
    lines().any(|line| (line.path.experiment(), line.transport) == (experiment, transport))
}

fn lines() -> impl Iterator<Item = &'static Line> {
    TABLE_2.iter().chain(&TODAY)
}

/// Gains claimed by the papers, and gains on this machine: of the paths themselves, which need the kernel
/// module. Claims without measurements are left out.
pub(super) fn claims(assessment: &Assessment, groups: &[Group<'_>]) -> Table {
    let heads = ["claim", "#papers", "#this machine", "verdict"];
    let mut table =
        Table::new("Gains in the papers ([1], [2], [3]) and here (streaming, full packets).", &heads);
    for group in groups.iter().filter(|group| group.experiment == Experiment::Stream) {
        for claim in &CLAIMS {
            let what = format!("{} over {}: processor time", claim.path, claim.than);
            measured(claim, group).into_iter().for_each(|here| row(&mut table, &what, claim.gain, &here));
        }
    }
    let (size, mtu, gain) = LOAN_GAIN;
    for loan in assessment.loan.iter() {
        let is_it = |point: &&LoanPoint| {
            (point.transport, point.mtu, point.aligned, point.size) == (Transport::Udp, mtu, true, size)
        };
        let here = loan.points.iter().find(is_it).and_then(|point| throughput(assessment, point));
        let what = format!("page loan over copy: throughput of {} sends over UDP", number::bytes(size));
        here.into_iter().for_each(|here| row(&mut table, &what, gain, &here));
    }
    table
}

/// Gain of lending over copying, in sustained throughput. The paper's processor was busy all the time, so where
/// rounds were paired, their processor times say it, without the load of other programs.
fn throughput(assessment: &Assessment, point: &LoanPoint) -> Option<Gain> {
    if let Some(ratio) = point.lent_to_copied {
        return Some(Gain::of_pairs(ratio));
    }
    let (copied, lent) = assessment.sustained(point);
    let (copied, lent) = (Summary::of(copied)?, Summary::of(lent)?);
    Some(Gain::of(lent.median / copied.median - 1.0, &lent, &copied))
}

fn row(table: &mut Table, what: &str, claimed: f64, gain: &Gain) {
    table.row([
        Cell::plain(what),
        Cell::plain(number::percent(claimed)),
        Cell::new(number::percent(gain.share), if gain.noisy { Kind::Noisy } else { Kind::Plain }),
        gain.verdict(claimed),
    ]);
}

/// Gain of a claim's path, if both paths were measured.
fn measured(claim: &Claim, group: &Group<'_>) -> Option<Gain> {
    let full = group.full_size();
    let summary = |path: DataPath| group.find(PathVariant::plain(path), full)?.summary;
    let (cost, than) = (summary(claim.path)?, summary(claim.than)?);
    Some(Gain::of(1.0 - cost.median / than.median, &cost, &than))
}

/// Table 2 of the papers, and the same paths and sizes on this machine.
pub(super) fn table_2(groups: &[Group<'_>]) -> Table {
    let heads = [
        "path",
        "over",
        "size",
        "#Linux 2.4.21 s/GB",
        "#Linux 2.6.5 s/GB",
        "#improvement",
        "#s/GiB here",
        "#relative, 2.6.5",
        "#relative, here",
    ];
    let mut table = Table::new("Table 2 of [1], and the same paths here.", &heads);
    for line in lines() {
        let Some((group, here)) = measured_line(line, groups) else { continue };
        let [before, after] = line.seconds.map_or([None; 2], |seconds| seconds.map(Some));
        let kind = if here.is_noisy() { Kind::Noisy } else { Kind::Plain };
        table.row([
            Cell::code(line.path.name()),
            Cell::plain(line.transport.to_string()),
            Cell::plain(number::size(line.size)),
            Cell::figure(before, number::significant),
            Cell::figure(after, number::significant),
            Cell::figure(line.improvement(), number::change),
            Cell { kind, ..Cell::figure(here.median(), number::significant) },
            Cell::figure(relative_then(line), number::significant),
            Cell::figure(group.relative(here), number::significant),
        ]);
    }
    let plain = |experiment: Experiment| experiment.baseline().map_or("", PathKind::name);
    table.notes.push(format!(
        "Relative: to {} when streaming, to {} when downloading, with the same size. The papers' file is 1 GB, read from \
         disk.",
        plain(Experiment::Stream),
        plain(Experiment::Download)
    ));
    table.notes.extend(notes(|line| measured_line(line, groups).is_some()));
    table
}

/// Group and figure of a line, if the groups have it.
fn measured_line<'a, 'b>(line: &Line, groups: &'b [Group<'a>]) -> Option<(&'b Group<'a>, &'b Cost<'a>)> {
    let group = groups.iter().find(|group| line.is_of(group))?;
    Some((group, group.find(PathVariant::plain(line.path), line.size)?))
}

/// Notes on a table: newer paths that it has, and lines of the paper that it does not have.
fn notes(is_shown: impl Fn(&Line) -> bool) -> Vec<String> {
    let mut notes = Vec::new();
    if TODAY.iter().any(&is_shown) {
        notes.push(format!(
            "{} is newer than the paper: trains of packets in one call, as wirepath serve sends them over TCP.",
            PathKind::Interleaved
        ));
    }
    let mut missing: Vec<(String, usize)> = Vec::new();
    for line in TABLE_2.iter().filter(|line| !is_shown(line)) {
        let experiment = if line.path.has_headers() { "streaming" } else { "download" };
        let name = format!("{experiment} over {}", line.transport);
        match missing.last_mut() {
            Some((last, lines)) if *last == name => *lines += 1,
            _ => missing.push((name, 1)),
        }
    }
    if !missing.is_empty() {
        let parts: Vec<String> = missing.iter().map(|(name, lines)| format!("{name} ({lines})")).collect();
        notes.push(format!(
            "Not measured here, of the {} rows of the paper: {}.",
            TABLE_2.len(),
            parts.join(", ")
        ));
    }
    notes
}

/// Table 2 of the papers beside kernels of today: `before` and `after` are the results of one kernel each.
pub(super) fn table_2_of_kernels(before: &[Group<'_>], after: &[Group<'_>], names: [&str; 2]) -> Table {
    let [old, new] = names;
    let heads = [
        "path",
        "over",
        "size",
        "#Linux 2.4.21 to 2.6.5",
        &format!("#Linux {old} s/GiB"),
        &format!("#Linux {new} s/GiB"),
        &format!("#{old} to {new}"),
        "#relative, 2.6.5",
        &format!("#relative, {old}"),
        &format!("#relative, {new}"),
    ];
    let mut table = Table::new("Table 2 of [1], and the same paths with two kernels of today.", &heads);
    let find = |line: &Line, groups: &[Group<'_>]| {
        let (group, cost) = measured_line(line, groups)?;
        Some((cost.median()?, group.relative(cost), cost.is_noisy()))
    };
    for line in lines() {
        let Some((before, after)) = find(line, before).zip(find(line, after)) else { continue };
        let cell = |(median, _, is_noisy): (f64, Option<f64>, bool)| {
            Cell::new(number::significant(median), if is_noisy { Kind::Noisy } else { Kind::Plain })
        };
        table.row([
            Cell::code(line.path.name()),
            Cell::plain(line.transport.to_string()),
            Cell::plain(number::size(line.size)),
            Cell::figure(line.improvement(), number::change),
            cell(before),
            cell(after),
            Cell::plain(number::change(1.0 - after.0 / before.0)),
            Cell::figure(relative_then(line), number::significant),
            Cell::figure(before.1, number::significant),
            Cell::figure(after.1, number::significant),
        ]);
    }
    table.notes.extend(notes(|line| find(line, before).zip(find(line, after)).is_some()));
    table
}

/// Cost of a line with Linux 2.6.5, as a share of the plain path.
fn relative_then(line: &Line) -> Option<f64> {
    let plain = line.path.experiment().baseline().filter(|plain| *plain != line.path)?;
    let same =
        |other: &&Line| (other.path, other.transport, other.size) == (plain, line.transport, line.size);
    Some(line.seconds?[1] / TABLE_2.iter().find(same)?.seconds?[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::path_costs::groups;

    /// Improvements as printed in the paper; with the paper's last digits where it rounds down.
    #[test]
    fn improvements_are_those_of_the_paper() {
        let printed = [
            24.46, 20.57, -48.10, 14.84, 5.81, 12.03, 32.98, 37.85, -7.60, 19.93, 15.70, -46.62, 16.03,
            10.04, -36.93, 32.06, -4.81, -5.98, 31.08, 22.70, 15.44, 21.89, 9.15, 6.54, 33.01, 32.70, 28.41,
            20.14, 28.59, 25.07, 20.46, 25.25, 22.35, 16.75, 40.31, 25.26, 20.14, 22.88, 12.44, 7.94, 49.04,
            44.94, 41.04,
        ];
        assert_eq!(TABLE_2.len(), printed.len());
        for (line, printed) in TABLE_2.iter().zip(printed) {
            let improvement = 100.0 * line.improvement().unwrap();
            assert!((improvement - printed).abs() < 0.011, "{} {:?}: {improvement}", line.path, line.size);
        }
    }

    #[test]
    fn kernels_are_compared_where_both_were_measured() {
        let (one, other) = (example::full(), example::full());
        let table = table_2_of_kernels(&groups(&one), &groups(&other), ["6.1", "6.12"]);
        let whole = table_2(&groups(&one));
        assert_eq!(table.rows.len(), whole.rows.len());
        let row = &table.rows[0];
        assert_eq!((&row[4].text, &row[6].text), (&row[5].text, &number::change(0.0)), "the same result");
        assert_eq!((&row[3].text, &row[4].text), (&whole.rows[0][5].text, &whole.rows[0][6].text));
        assert!(table_2_of_kernels(&groups(&one), &[], ["6.1", "6.12"]).rows.is_empty());
    }

    /// Promise: Table 2 of the papers is shown with the figures of this machine, and says which rows have none.
    #[test]
    fn rows_of_the_paper_without_a_figure_are_named() {
        let assessment = example::full();
        let table = table_2(&groups(&assessment));
        let over_tcp = |path: &str| table.rows.iter().find(|row| row[0].text == path && row[1].text == "TCP");
        let row = over_tcp("rtp_sendfile").unwrap();
        assert_eq!([&row[3].text, &row[4].text, &row[5].text], ["14.4", "7.34", "+49.0 %"]);
        assert!(row[6].text != "–" && row[7].text == "0.942", "{row:?}");
        let today = over_tcp("interleaved").unwrap();
        assert_eq!([&today[3].text, &today[5].text, &today[7].text], ["–"; 3]);
        let missing =
            |table: &Table| table.notes.iter().find(|note| note.contains("Not measured here")).cloned();
        assert_eq!(missing(&table), None);

        let mut older = assessment.clone();
        older.measurements.retain(|one| {
            (one.experiment, one.transport) != (Experiment::Stream, Transport::Tcp) && one.size != Some(2048)
        });
        let table = table_2(&groups(&older));
        assert_eq!(
            missing(&table).unwrap(),
            "Not measured here, of the 43 rows of the paper: download over UDP (3), streaming over UDP (3), download over \
             TCP (3), streaming over TCP (15)."
        );
        let kernels = table_2_of_kernels(&groups(&assessment), &groups(&older), ["6.1", "6.12"]);
        assert_eq!(missing(&kernels), missing(&table));
        assert_eq!(kernels.rows.len(), table.rows.len());
    }

    #[test]
    fn claims_are_those_of_the_paths_themselves() {
        let mut assessment = example::full();
        let shown = |assessment: &Assessment, row: usize| -> Vec<String> {
            let table = claims(assessment, &groups(assessment));
            table.rows[row].iter().map(|cell| cell.text.clone()).collect()
        };
        assert_eq!(shown(&assessment, 0)[1], "46 %", "no other path stands for those of the module");
        let dear =
            assessment.measurements.iter().find(|one| one.path == PathVariant::plain(DataPath::RtpSendfile));
        let dear = dear.cloned().unwrap();
        for size in [512, 1024, 1460] {
            let path = PathVariant::plain(DataPath::Krtpsendfile);
            assessment.measurements.push(crate::result::Measurement {
                path,
                size: Some(size),
                ..dear.clone()
            });
        }
        assert_eq!(shown(&assessment, 0)[3], "turned round");
        assert!(claims(&example::nothing(), &[]).rows.is_empty());
    }
}
