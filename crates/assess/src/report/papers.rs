//! Figures of the papers, compared with this machine.

mod gain;

use wirepath_datapath::{BlockPath, DataPath};
use wirepath_report::{Cell, Kind, Table, number};

use crate::path_costs::Group;
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

/// Line of table 2 of [1].
struct Line {
    transport: Transport,
    path: PathKind,
    /// Payload size; `None` for the whole file.
    size: Option<u64>,
    /// Seconds for 1 GB with Linux 2.4.21 and with 2.6.5.
    seconds: [f64; 2],
}

impl Line {
    /// Returns whether a group of results has this line's experiment and transport.
    fn is_of(&self, group: &Group<'_>) -> bool {
        (group.experiment, group.transport) == (self.path.experiment(), self.transport)
    }
}

const fn stream(path: DataPath, size: u64, seconds: [f64; 2]) -> Line {
    Line { transport: Transport::Udp, path: PathKind::Stream(path), size: Some(size), seconds }
}

const fn download(transport: Transport, path: BlockPath, size: u64, seconds: [f64; 2]) -> Line {
    let size = if size == 0 { None } else { Some(size) };
    Line { transport, path: PathKind::Block(path), size, seconds }
}

/// Table 2 of [1], without streaming over TCP: TCP joins packets, so that the boundaries marked by RTP
/// headers are lost.
const TABLE_2: [Line; 28] = {
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
        stream(DataPath::ReadSendRtp, 512, [10.918800, 8.742471]),
        stream(DataPath::ReadSendRtp, 1024, [7.439200, 6.271547]),
        stream(DataPath::ReadSendRtp, 2048, [5.336900, 7.825210]),
        stream(DataPath::ReadWritev, 512, [11.135600, 9.351078]),
        stream(DataPath::ReadWritev, 1024, [7.361700, 6.622893]),
        stream(DataPath::ReadWritev, 2048, [5.552400, 7.602744]),
        stream(DataPath::RtpSendfile, 512, [13.342500, 9.064322]),
        stream(DataPath::RtpSendfile, 1024, [7.638400, 8.005983]),
        stream(DataPath::RtpSendfile, 2048, [6.900000, 7.312389]),
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
    ]
};

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
    for line in &TABLE_2 {
        let Some(group) = groups.iter().find(|group| line.is_of(group)) else { continue };
        let Some(here) = group.find(PathVariant::plain(line.path), line.size) else { continue };
        let [before, after] = line.seconds;
        let kind = if here.is_noisy() { Kind::Noisy } else { Kind::Plain };
        table.row([
            Cell::code(line.path.name()),
            Cell::plain(line.transport.to_string()),
            Cell::plain(number::size(line.size)),
            Cell::plain(number::significant(before)),
            Cell::plain(number::significant(after)),
            Cell::plain(number::change(1.0 - after / before)),
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
    table
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
    for line in &TABLE_2 {
        let find = |groups: &[Group<'_>]| {
            let group = groups.iter().find(|group| line.is_of(group))?;
            let cost = group.find(PathVariant::plain(line.path), line.size)?;
            Some((cost.median()?, group.relative(cost), cost.is_noisy()))
        };
        let Some((before, after)) = find(before).zip(find(after)) else { continue };
        let cell = |(median, _, is_noisy): (f64, Option<f64>, bool)| {
            Cell::new(number::significant(median), if is_noisy { Kind::Noisy } else { Kind::Plain })
        };
        table.row([
            Cell::code(line.path.name()),
            Cell::plain(line.transport.to_string()),
            Cell::plain(number::size(line.size)),
            Cell::plain(number::change(1.0 - line.seconds[1] / line.seconds[0])),
            cell(before),
            cell(after),
            Cell::plain(number::change(1.0 - after.0 / before.0)),
            Cell::figure(relative_then(line), number::significant),
            Cell::figure(before.1, number::significant),
            Cell::figure(after.1, number::significant),
        ]);
    }
    table
}

/// Cost of a line with Linux 2.6.5, as a share of the plain path.
fn relative_then(line: &Line) -> Option<f64> {
    let plain = line.path.experiment().baseline().filter(|plain| *plain != line.path)?;
    let same =
        |other: &&Line| (other.path, other.transport, other.size) == (plain, line.transport, line.size);
    Some(line.seconds[1] / TABLE_2.iter().find(same)?.seconds[1])
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
            20.14,
        ];
        for (line, printed) in TABLE_2.iter().zip(printed) {
            let improvement = 100.0 * (1.0 - line.seconds[1] / line.seconds[0]);
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
