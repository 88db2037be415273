//! Page loan: figures 1 to 6 of the zero-copy protocol paper.

use wirepath_report::plot::{Axis, Line, Lines, Point, Unit};
use wirepath_report::{Cell, Kind, Panel, Section, Table, number};

use crate::confidence::MedianRatio;
use crate::loan::GOAL;
use crate::result::{Assessment, Loan, LoanPoint, QueuePoint, QueuedSend, Transport};
use crate::statistics::Summary;

/// Figure of the paper: axis and lines.
struct Plot {
    caption: &'static str,
    axis: &'static str,
    kind: Axis,
    unit: Unit,
    /// True for sends that begin at a page boundary.
    aligned: bool,
    lines: &'static [(&'static str, Derive)],
}

/// Point of a size, with sustained bytes per second, run by run.
struct Seen<'a> {
    point: &'a LoanPoint,
    copied: Vec<f64>,
    lent: Vec<f64>,
}

/// Computes a value with its range from a point; `None` if it was not measured.
type Derive = fn(&Seen<'_>) -> Option<Value>;

/// Figure, its smallest and largest value, and whether it is noisy.
type Value = (f64, (f64, f64), bool);

const PLOTS: [Plot; 6] = [
    Plot {
        caption: "Send rate R, and its limit Rmax if the copy cost nothing (figure 1 of [3]).",
        axis: "rate of a single send",
        kind: Axis::Logarithmic,
        unit: Unit::Rate,
        aligned: true,
        lines: &[
            ("R", |seen| rate(seen.point, quantity(&seen.point.copied_send_s)?)),
            ("Rmax", |seen| rate(seen.point, without_copy(seen.point)?)),
            ("copy only", |seen| rate(seen.point, quantity(&seen.point.copy_s)?)),
        ],
    },
    Plot {
        caption: "Send rate with copies and with loans (figure 2 of [3]).",
        axis: "rate of a single send",
        kind: Axis::Logarithmic,
        unit: Unit::Rate,
        aligned: true,
        lines: &[
            ("copy", |seen| rate(seen.point, quantity(&seen.point.copied_send_s)?)),
            ("loan", |seen| rate(seen.point, quantity(&seen.point.lent_send_s)?)),
        ],
    },
    Plot {
        caption: "The same of sends that begin shortly before a page: a loan has a part of one page more.",
        axis: "rate of a single send",
        kind: Axis::Logarithmic,
        unit: Unit::Rate,
        aligned: false,
        lines: &[
            ("copy", |seen| rate(seen.point, quantity(&seen.point.copied_send_s)?)),
            ("loan", |seen| rate(seen.point, quantity(&seen.point.lent_send_s)?)),
        ],
    },
    Plot {
        caption: "Cost of the copy alone and of the loan alone (figure 3 of [3]): a send that lends, less what a send costs \
                  besides its copy.",
        axis: "time of a single send",
        kind: Axis::Logarithmic,
        unit: Unit::Time,
        aligned: true,
        lines: &[
            ("copy alone", |seen| quantity(&seen.point.copy_s)),
            ("loan alone", |seen| loan_alone(seen.point)),
        ],
    },
    Plot {
        caption: "Sustained throughput with copies and with loans (figure 4 of [3]).",
        axis: "sustained throughput",
        kind: Axis::Linear,
        unit: Unit::Rate,
        aligned: true,
        lines: &[("copy", |seen| quantity(&seen.copied)), ("loan", |seen| quantity(&seen.lent))],
    },
    Plot {
        caption: "Throughput as a single send promises it, and as it was sustained (figure 5 of [3]).",
        axis: "throughput",
        kind: Axis::Linear,
        unit: Unit::Rate,
        aligned: true,
        lines: &[
            ("copy, sustained", |seen| quantity(&seen.copied)),
            ("loan, sustained", |seen| quantity(&seen.lent)),
            ("copy, promised", |seen| rate(seen.point, quantity(&seen.point.copied_send_s)?)),
            ("loan, promised", |seen| rate(seen.point, quantity(&seen.point.lent_send_s)?)),
        ],
    },
];

/// Kinds of sends to a queue, as the report names them.
const QUEUED: [(QueuedSend, &str); 4] = [
    (QueuedSend::Copied, "copy"),
    (QueuedSend::Lent, "loan"),
    (QueuedSend::Fragments, "copy, fragments"),
    (QueuedSend::Spliced, "sendfile, fragments"),
];

pub(super) fn section(assessment: &Assessment, loan: &Loan) -> Section {
    let mut section = Section::new("loan", "The page loan");
    section.paragraph(
        "A send copies its payload into the kernel, or lends its pages until the network is done with them. Small sends \
         are cheaper to copy; from some size on lending is. Unless a figure says otherwise, sends begin where a page does.",
    );
    section.table(thresholds(loan));
    let groups = groups(assessment, loan);
    for plot in &PLOTS {
        let panels = groups.iter().enumerate().filter_map(|(index, group)| panel(plot, index, group));
        section.figure(plot.caption, panels.collect());
    }
    let queues: Vec<&[QueuePoint]> = loan.queue.chunk_by(|one, other| one.mtu == other.mtu).collect();
    if !queues.is_empty() {
        section.figure(
            "Sends that a full queue refused, for each accepted one (figure 6 of [3]).",
            queues.iter().enumerate().filter_map(|(index, points)| queue_panel(index, points)).collect(),
        );
    }
    for points in queues {
        section.table(queue(points));
    }
    for (transport, mtu, points) in &groups {
        section.table(table(*transport, *mtu, points));
        // Results without the automatic choice are older.
        if points.iter().any(|seen| !seen.point.auto_send_s.is_empty()) {
            section.table(choices(*transport, *mtu, points));
        }
        section.table(fragments(*mtu, points));
    }
    section
}

/// Points by transport and MTU, sizes ascending.
fn groups<'a>(assessment: &Assessment, loan: &'a Loan) -> Vec<(Transport, u32, Vec<Seen<'a>>)> {
    let mut points: Vec<&LoanPoint> = loan.points.iter().collect();
    let key = |point: &LoanPoint| (point.transport, point.mtu);
    points.sort_by_key(|point| (key(point), point.size, !point.aligned));
    let chunks = points.chunk_by(|one, other| key(one) == key(other));
    let seen = |point: &&'a LoanPoint| {
        let (copied, lent) = assessment.sustained(point);
        Seen { point, copied, lent }
    };
    chunks.map(|points| (points[0].transport, points[0].mtu, points.iter().map(seen).collect())).collect()
}

fn panel(plot: &Plot, index: usize, group: &(Transport, u32, Vec<Seen<'_>>)) -> Option<Panel> {
    let (protocol, mtu, points) = group;
    let letter = char::from_u32('a' as u32 + index as u32 % 26).unwrap_or('?');
    let title = format!("({letter}) {}, MTU {}", protocol, number::count((*mtu).into()));
    let line = |(name, derive): &(&str, Derive)| {
        let point = |seen: &Seen<'_>| {
            if seen.point.aligned != plot.aligned {
                return None;
            }
            let (value, range, noisy) = derive(seen)?;
            Some(Point { size: seen.point.size, value, range, noisy })
        };
        Line { name: (*name).to_owned(), points: points.iter().filter_map(point).collect() }
    };
    let scene = Lines {
        title: &format!("{} {title}", plot.caption),
        x_axis: "bytes of a send",
        x_unit: Unit::Bytes,
        y_axis: plot.axis,
        y_kind: plot.kind,
        y_unit: plot.unit,
        lines: plot.lines.iter().map(line).filter(|line| !line.points.is_empty()).collect(),
    }
    .scene()?;
    Some(Panel { title, scene })
}

fn queue_panel(index: usize, points: &[QueuePoint]) -> Option<Panel> {
    let letter = char::from_u32('a' as u32 + index as u32 % 26).unwrap_or('?');
    let title = format!("({letter}) UDP, MTU {}", number::count(points.first()?.mtu.into()));
    let line = |(kind, name): &(QueuedSend, &str)| {
        let of = points.iter().filter(|point| point.kind == *kind);
        let point = |point: &QueuePoint| {
            let (value, range, noisy) = quantity(&point.errors_per_send())?;
            Some(Point { size: point.size, value, range, noisy })
        };
        Line { name: (*name).to_owned(), points: of.filter_map(point).collect() }
    };
    let scene = Lines {
        title: &title,
        x_axis: "bytes of a send",
        x_unit: Unit::Bytes,
        y_axis: "refused sends for each accepted one",
        y_kind: Axis::Linear,
        y_unit: Unit::Plain,
        lines: QUEUED.iter().map(line).filter(|line| !line.points.is_empty()).collect(),
    }
    .scene()?;
    Some(Panel { title, scene })
}

/// Refused sends, and processor time for each accepted send, of one MTU.
fn queue(points: &[QueuePoint]) -> Table {
    let heads = [
        "size",
        "#errors, copies",
        "#errors, loans",
        "#errors, fragments",
        "#errors, sendfile",
        "#time, copies",
        "#time, loans",
        "#time, fragments",
        "#time, sendfile",
    ];
    let (mtu, bits, bytes) =
        points.first().map_or((0, 0, 0), |point| (point.mtu, point.bits_per_second, point.queue_bytes));
    let caption = format!(
        "Errors against a queue of {} at {}, MTU {}: refused sends for each accepted one, and processor time for \
         each accepted one (figure 6 of [3]).",
        number::bytes(bytes),
        number::bit_rate(bits as f64 / 8.0),
        number::count(mtu.into())
    );
    let mut table = Table::new(caption, &heads);
    let mut sizes: Vec<u64> = points.iter().map(|point| point.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let of = |kind| points.iter().find(|point| (point.size, point.kind) == (size, kind));
        let cell = |runs: Option<Vec<f64>>, format: fn(f64) -> String| {
            let value = runs.and_then(|runs| quantity(&runs));
            // A queue that is full in some runs only is not noise of the measurement.
            Cell::figure(value, |(value, _, _)| format(value))
        };
        let errors = |kind| {
            let format = |value| if value == 0.0 { "0".to_owned() } else { number::significant(value) };
            cell(of(kind).map(QueuePoint::errors_per_send), format)
        };
        let time = |kind| {
            let seconds =
                |point: &QueuePoint| point.runs.iter().map(|run| run.cpu_s / run.sent as f64).collect();
            cell(of(kind).map(seconds), number::time)
        };
        let figures = QUEUED.map(|(kind, _)| errors(kind)).into_iter();
        let figures = figures.chain(QUEUED.map(|(kind, _)| time(kind)));
        table.row([Cell::plain(number::bytes(size))].into_iter().chain(figures));
    }
    let copied: u64 = points.iter().flat_map(|point| &point.runs).map(|run| run.copied_by_kernel).sum();
    table.notes.push(format!(
        "Each refused send is a packet that the queue counted as dropped. The kernel copied {} loans.",
        number::count(copied)
    ));
    table
}

/// Sends as one datagram, which the kernel fragments, beside trains; no rows if there are none.
fn fragments(mtu: u32, points: &[Seen<'_>]) -> Table {
    let heads = [
        "size",
        "begins at",
        "#train, copied",
        "#fragments, copied",
        "#fragments/train",
        "#99 % interval",
        "#fragments, sendfile",
        "#sendfile/copied fragments",
        "#99 % interval of sendfile",
    ];
    let caption = format!("IP fragments beside trains, MTU {}.", number::count(mtu.into()));
    let mut table = Table::new(caption, &heads);
    for Seen { point, .. } in points.iter().filter(|seen| !seen.point.fragments_send_s.is_empty()) {
        let time = |runs: &[f64]| Cell::figure(quantity(runs), |(value, _, _)| number::time(value));
        let to_trains = MedianRatio::of_pairs(&point.fragments_send_s, &point.copied_send_s);
        let spliced = MedianRatio::of_pairs(&point.spliced_send_s, &point.fragments_send_s);
        table.row([
            Cell::plain(number::bytes(point.size)),
            Cell::plain(if point.aligned { "a page" } else { "elsewhere" }),
            time(&point.copied_send_s),
            time(&point.fragments_send_s),
            median(to_trains),
            interval(to_trains),
            time(&point.spliced_send_s),
            median(spliced),
            interval(spliced),
        ]);
    }
    table
}

fn median(ratio: Option<MedianRatio>) -> Cell {
    Cell::figure(ratio, |ratio| number::significant(ratio.median))
}

fn interval(ratio: Option<MedianRatio>) -> Cell {
    let bounds = ratio.and_then(|ratio| ratio.lower.zip(ratio.upper));
    let to = |(lower, upper)| format!("{} to {}", number::significant(lower), number::significant(upper));
    Cell::figure(bounds, to)
}

fn quantity(runs: &[f64]) -> Option<Value> {
    let summary = Summary::of(runs.iter().copied())?;
    Some((summary.median, (summary.least, summary.greatest), summary.is_noisy()))
}

/// Bytes per second of a send that takes this many seconds.
fn rate(point: &LoanPoint, (seconds, (least, greatest), noisy): Value) -> Option<Value> {
    let rate = |seconds: f64| point.size as f64 / seconds;
    (seconds > 0.0).then(|| (rate(seconds), (rate(greatest), rate(least)), noisy))
}

/// Cost of a send without its copy (t2 of the paper).
fn without_copy(point: &LoanPoint) -> Option<Value> {
    let ((send, (least, greatest), noisy), (copy, _, copy_noisy)) =
        (quantity(&point.copied_send_s)?, quantity(&point.copy_s)?);
    (send > copy).then(|| (send - copy, ((least - copy).max(0.0), greatest - copy), noisy || copy_noisy))
}

fn loan_alone(point: &LoanPoint) -> Option<Value> {
    let ((send, (least, greatest), noisy), (rest, _, rest_noisy)) =
        (quantity(&point.lent_send_s)?, without_copy(point)?);
    (send > rest).then(|| (send - rest, ((least - rest).max(0.0), greatest - rest), noisy || rest_noisy))
}

fn thresholds(loan: &Loan) -> Table {
    let mut table = Table::new(
        "From which size of a send on lending is cheaper.",
        &["transport", "#MTU", "#threshold from a page on", "#threshold from elsewhere"],
    );
    let never = |kernel_copies: bool| if kernel_copies { "the kernel copies" } else { "never cheaper" };
    let cell = |bytes: Option<u64>, kernel_copies| {
        Cell::plain(bytes.map_or_else(|| never(kernel_copies).to_owned(), number::bytes))
    };
    for threshold in &loan.thresholds {
        table.row([
            Cell::plain(threshold.transport.to_string()),
            Cell::plain(number::count(threshold.mtu.into())),
            cell(threshold.aligned_bytes, threshold.kernel_copies),
            cell(threshold.unaligned_bytes, threshold.kernel_copies),
        ]);
    }
    table
}

fn table(protocol: Transport, mtu: u32, points: &[Seen<'_>]) -> Table {
    let heads = [
        "size",
        "begins at",
        "#copy alone",
        "#loan alone",
        "#send that copies",
        "#send that lends",
        "#lent/copied",
        "#sustained, copies",
        "#sustained, loans",
        "#gain",
        "#errors, copies",
        "#errors, loans",
    ];
    let caption = format!("The loan over {}, MTU {}.", protocol, number::count(mtu.into()));
    let mut table = Table::new(caption, &heads);
    for Seen { point, copied: copied_rates, lent: lent_rates } in points {
        let shown = |value: Option<Value>, format: fn(f64) -> String| {
            let kind = if value.is_some_and(|(_, _, noisy)| noisy) { Kind::Noisy } else { Kind::Plain };
            Cell { kind, ..Cell::figure(value, |(value, _, _)| format(value)) }
        };
        let cell = |value| shown(value, number::time);
        let (copied, lent) = (quantity(&point.copied_send_s), quantity(&point.lent_send_s));
        let ratio = |over: Option<Value>, under: Option<Value>| -> Option<Value> {
            let ((over, _, noisy), (under, _, other)) = over.zip(under)?;
            let ratio = over / under;
            Some((ratio, (ratio, ratio), noisy || other))
        };
        let (copied_rate, lent_rate) = (quantity(copied_rates), quantity(lent_rates));
        table.row([
            Cell::plain(number::bytes(point.size)),
            Cell::plain(if point.aligned { "a page" } else { "elsewhere" }),
            cell(quantity(&point.copy_s)),
            cell(loan_alone(point)),
            cell(copied),
            cell(lent),
            shown(ratio(lent, copied), number::significant),
            shown(copied_rate, number::bit_rate),
            shown(lent_rate, number::bit_rate),
            shown(ratio(lent_rate, copied_rate), |ratio| number::change(ratio - 1.0)),
            Cell::plain(number::count(point.copied_errors)),
            Cell::plain(number::count(point.lent_errors)),
        ]);
    }
    table
}

/// Ratios of paired rounds: lending to copying, and the automatic choice to the better of both.
fn choices(protocol: Transport, mtu: u32, points: &[Seen<'_>]) -> Table {
    let heads = [
        "size",
        "begins at",
        "#rounds",
        "#lent/copied",
        "#99 % interval",
        "cheaper",
        "automatic",
        "#auto/best",
        "#99 % interval of auto",
    ];
    let caption = format!("The automatic choice over {}, MTU {}.", protocol, number::count(mtu.into()));
    let mut table = Table::new(caption, &heads);
    let cheaper = |ratio: MedianRatio| match ratio {
        _ if ratio.is_below(1.0) => "lending",
        _ if ratio.is_above(1.0) => "copying",
        _ => "undecided",
    };
    for Seen { point, .. } in points {
        let (ratio, auto) = (point.lent_to_copied, point.auto_to_best);
        table.row([
            Cell::plain(number::bytes(point.size)),
            Cell::plain(if point.aligned { "a page" } else { "elsewhere" }),
            Cell::plain(number::count(point.copied_send_s.len() as u64)),
            median(ratio),
            interval(ratio),
            Cell::plain(ratio.map_or("not lent", cheaper)),
            Cell::plain(if point.auto_lends == Some(true) { "lends" } else { "copies" }),
            median(auto),
            interval(auto),
        ]);
    }
    let sizes = |of: &dyn Fn(MedianRatio) -> bool| {
        points.iter().filter(|seen| seen.point.auto_to_best.is_some_and(of)).count()
    };
    table.notes.push(format!(
        "The automatic choice, by the calibration of earlier results, relative to the better kind of sends: at most {GOAL} at \
         {} of {} sizes and alignments, more at {}, undecided at {}.",
        sizes(&|ratio| ratio.is_below(GOAL)),
        points.len(),
        sizes(&|ratio| ratio.is_above(GOAL)),
        sizes(&|ratio| ratio.is_undecided(GOAL)),
    ));
    table
}
