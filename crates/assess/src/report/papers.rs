//! What the papers measured, beside what this machine does.

mod gain;

use crate::cost::{Cost, Group};
use crate::report::number;
use crate::report::table::{Cell, Kind, Table};
use crate::result::{Assessment, LoanPoint, Transport};
use crate::statistics::Summary;
use crate::verdict::baseline;
use gain::Gain;

/// A gain that a paper claims: of one path over another, when streaming full packets.
struct Claim {
    /// What was claimed, with its place.
    what: &'static str,
    /// The path of the paper, which needs the papers' kernel, and what comes nearest to it without.
    paths: [&'static str; 2],
    /// The path it is better than.
    than: &'static str,
    /// The gain.
    gain: f64,
}

/// Section 5 of [1], and 4 of [2].
const CLAIMS: [Claim; 4] = [
    Claim {
        what: "krtpsendfile over rtp_sendfile",
        paths: ["krtpsendfile", "wire_sendfile"],
        than: "rtp_sendfile",
        gain: 0.27,
    },
    Claim {
        what: "rtpsendfile over rtp_sendfile",
        paths: ["rtpsendfile", "gso_zerocopy"],
        than: "rtp_sendfile",
        gain: 0.10,
    },
    Claim {
        what: "krtpmsend over read_send_rtp",
        paths: ["krtpmsend", "wire_uring"],
        than: "read_send_rtp",
        gain: 0.36,
    },
    Claim {
        what: "mmap_rtpmsend over read_send_rtp",
        paths: ["mmap_rtpmsend", "gso_zerocopy"],
        than: "read_send_rtp",
        gain: 0.24,
    },
];

/// Section 3.3 of [3]: throughput with loans, at the size where it was best.
const LOAN_GAIN: (u64, u32, f64) = (8192, 1500, 0.4564);

/// A line of table 2 of [1].
struct Line {
    transport: Transport,
    experiment: &'static str,
    path: &'static str,
    /// Null is the whole file.
    size: Option<u64>,
    /// Seconds for 1 GB with Linux 2.4.21 and with 2.6.5.
    seconds: [f64; 2],
}

const fn line(
    experiment: &'static str,
    transport: Transport,
    path: &'static str,
    size: u64,
    seconds: [f64; 2],
) -> Line {
    Line { transport, experiment, path, size: if size == 0 { None } else { Some(size) }, seconds }
}

/// Table 2 of [1], without streaming over TCP: TCP joins packets, and what an RTP header marks is gone.
const TABLE_2: [Line; 28] = {
    use Transport::{Tcp, Udp};
    [
        line("download", Udp, "read_write", 512, [11.537200, 8.714675]),
        line("download", Udp, "read_write", 1024, [7.357300, 5.844012]),
        line("download", Udp, "read_write", 2048, [5.499400, 8.144362]),
        line("download", Udp, "mmap_send", 512, [11.038000, 9.399971]),
        line("download", Udp, "mmap_send", 1024, [7.579700, 7.139615]),
        line("download", Udp, "mmap_send", 2048, [7.431000, 6.536707]),
        line("download", Udp, "sendfile", 512, [9.030200, 6.052180]),
        line("download", Udp, "sendfile", 1024, [6.358000, 3.951599]),
        line("download", Udp, "sendfile", 2048, [5.331400, 5.736328]),
        line("stream", Udp, "read_send_rtp", 512, [10.918800, 8.742471]),
        line("stream", Udp, "read_send_rtp", 1024, [7.439200, 6.271547]),
        line("stream", Udp, "read_send_rtp", 2048, [5.336900, 7.825210]),
        line("stream", Udp, "read_writev", 512, [11.135600, 9.351078]),
        line("stream", Udp, "read_writev", 1024, [7.361700, 6.622893]),
        line("stream", Udp, "read_writev", 2048, [5.552400, 7.602744]),
        line("stream", Udp, "rtp_sendfile", 512, [13.342500, 9.064322]),
        line("stream", Udp, "rtp_sendfile", 1024, [7.638400, 8.005983]),
        line("stream", Udp, "rtp_sendfile", 2048, [6.900000, 7.312389]),
        line("download", Tcp, "read_write", 512, [10.310800, 7.105820]),
        line("download", Tcp, "read_write", 1024, [7.733400, 5.978091]),
        line("download", Tcp, "read_write", 2048, [6.509300, 5.504263]),
        line("download", Tcp, "mmap_send", 512, [10.225300, 7.986786]),
        line("download", Tcp, "mmap_send", 1024, [8.615400, 7.827110]),
        line("download", Tcp, "mmap_send", 2048, [8.175900, 7.640939]),
        line("download", Tcp, "sendfile", 512, [4.144200, 2.776278]),
        line("download", Tcp, "sendfile", 1024, [2.966100, 1.996097]),
        line("download", Tcp, "sendfile", 2048, [2.132500, 1.526668]),
        line("download", Tcp, "sendfile", 0, [1.308400, 1.044841]),
    ]
};

/// The gains that the papers claim, and those of this machine.
pub(super) fn claims(assessment: &Assessment, groups: &[Group<'_>]) -> Table {
    let heads = ["claim", "#papers", "measured here", "#this machine", "verdict"];
    let mut table =
        Table::new("What the papers gained, and what is gained here (streaming, full packets).", &heads);
    let stream = groups.iter().find(|group| group.experiment == "stream");
    for claim in &CLAIMS {
        let found = stream.and_then(|group| measured(claim, group));
        let pair = found.as_ref().map(|(path, _)| format!("{path} over {}", claim.than));
        row(
            &mut table,
            format!("{}: processor time", claim.what),
            claim.gain,
            pair,
            found.map(|(_, gain)| gain),
        );
    }
    let (size, mtu, gain) = LOAN_GAIN;
    let points = assessment.loan.iter().flat_map(|loan| &loan.points);
    let mut udp = points.filter(|point| (point.transport, point.mtu) == (Transport::Udp, mtu));
    let here = udp.find(|point| point.size == size);
    let here = here.and_then(|point| throughput(assessment, point));
    let what = format!("page loan over copy: throughput of {} sends over UDP", number::bytes(size));
    row(&mut table, what, gain, here.as_ref().map(|_| "the same".to_owned()), here);
    table
}

/// What lending gains over copying, in sustained throughput.
fn throughput(assessment: &Assessment, point: &LoanPoint) -> Option<Gain> {
    let (copied, lent) = assessment.sustained(point);
    let (copied, lent) = (Summary::of(copied)?, Summary::of(lent)?);
    Some(Gain::of(lent.median / copied.median - 1.0, &lent, &copied))
}

fn row(table: &mut Table, what: String, claimed: f64, pair: Option<String>, gain: Option<Gain>) {
    let verdict = gain.as_ref().map_or_else(|| Cell::plain("not measured"), Gain::verdict);
    let kind = if gain.as_ref().is_some_and(|gain| gain.noisy) { Kind::Noisy } else { Kind::Plain };
    table.row([
        Cell::plain(what),
        Cell::plain(number::percent(claimed)),
        Cell::plain(pair.unwrap_or_else(|| number::NOTHING.to_owned())),
        Cell { kind, ..Cell::figure(gain, |gain| number::percent(gain.share)) },
        verdict,
    ]);
}

/// The path that was measured for a claim, and its gain.
fn measured(claim: &Claim, group: &Group<'_>) -> Option<(&'static str, Gain)> {
    let full = group.full_size();
    let than = group.find(claim.than, full)?.summary?;
    let found = claim.paths.into_iter().find_map(|path| Some((path, group.find(path, full)?.summary?)));
    found.map(|(path, cost)| (path, Gain::of(1.0 - cost.median / than.median, &cost, &than)))
}

/// Table 2 of the papers beside the same paths and sizes here.
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
    let mut table = Table::new("Table 2 of the papers, and the same paths here.", &heads);
    for line in &TABLE_2 {
        let group = groups
            .iter()
            .find(|group| (group.experiment, group.transport) == (line.experiment, line.transport));
        let here: Option<&Cost<'_>> = group.and_then(|group| group.find(line.path, line.size));
        let [before, after] = line.seconds;
        let kind = if here.is_some_and(|cost| cost.is_noisy()) { Kind::Noisy } else { Kind::Plain };
        table.row([
            Cell::code(line.path),
            Cell::plain(line.transport.to_string()),
            Cell::plain(number::size(line.size)),
            Cell::plain(number::significant(before)),
            Cell::plain(number::significant(after)),
            Cell::plain(number::change(1.0 - after / before)),
            Cell { kind, ..Cell::figure(here.and_then(Cost::median), number::significant) },
            Cell::figure(relative_then(line), number::significant),
            Cell::figure(group.zip(here).and_then(|(group, cost)| group.relative(cost)), number::significant),
        ]);
    }
    let plain = |experiment| baseline(experiment).unwrap_or_default();
    table.notes.push(format!(
        "Relative: to {} when streaming, to {} when downloading, with the same size. The papers' file is 1 GB, read from \
         disk.",
        plain("stream"),
        plain("download")
    ));
    table
}

/// What the line cost with 2.6.5, as a share of the plain path.
fn relative_then(line: &Line) -> Option<f64> {
    let plain = baseline(line.experiment).filter(|plain| *plain != line.path)?;
    let same = |other: &&Line| {
        (other.experiment, other.transport, other.size) == (line.experiment, line.transport, line.size)
            && other.path == plain
    };
    Some(line.seconds[1] / TABLE_2.iter().find(same)?.seconds[1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::groups;
    use crate::example;

    /// The improvements that the paper prints; its own last digits, where it rounds them down.
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
    fn claims_are_measured_with_what_there_is() {
        let assessment = example::full();
        let table = claims(&assessment, &groups(&assessment));
        let shown = |row: usize, column: usize| table.rows[row][column].text.as_str();
        assert_eq!((shown(0, 2), shown(0, 4)), ("wire_sendfile over rtp_sendfile", "holds"));
        assert_eq!(shown(4, 1), "46 %");
        assert_eq!(shown(1, 4), "holds");
        let empty = claims(&example::nothing(), &[]);
        assert!(empty.rows.iter().all(|row| row[4].text == "not measured"));
    }
}
