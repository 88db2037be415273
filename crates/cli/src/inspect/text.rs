//! Inspection as text.

use comfy_table::CellAlignment;
use wirepath_media::image::PayloadRecipe;
use wirepath_media::inspect::{PacketsPerTrain, Peak, PidReport, Report};
use wirepath_media::ts::{Played, Programme, Stream, VideoFormat};
use wirepath_report::terminal::{Terminal, lines};

use super::examine::{ImageFacts, Inspection};
use super::json::share;
use crate::plot::plot;
use crate::{format, warnings};

/// Spaces beside each column. Few, for narrow terminals.
pub(super) const PADDING: (u16, u16) = (1, 0);

/// Window over which the peak rate is measured.
pub(super) const PEAK_WINDOW_US: u64 = 1_000_000;

/// Maximum number of random access points in the list.
const STARTS_SHOWN: usize = 5;

/// The whole inspection, in lines that fit the terminal where possible.
pub(super) fn text(inspection: &Inspection, terminal: Terminal) -> String {
    let report = &inspection.report;
    let warnings = &report.description.warnings;
    let mut parts = vec![format!("{}\n{}", heading(inspection), overview(inspection, terminal))];
    if inspection.recipe.is_transport_stream() {
        parts.push(programmes(report, terminal));
    }
    let title = if inspection.damage().is_empty() { "PIDs" } else { "PIDs (intact segments only)" };
    parts.push(section(title, &pids(report, terminal)));
    let caption = "Bit rate over time (h:mm:ss)";
    let chart = plot(&report.bit_rate, report.duration_us, terminal.width, terminal.utf8);
    parts.push(section(caption, &chart));
    parts.push(section("Warnings", &warnings::lines("  ", "  and ", warnings)));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// Section with a title; empty if there is no content.
pub(super) fn section(title: &str, content: &str) -> String {
    if content.is_empty() { String::new() } else { format!("{title}\n{content}") }
}

/// Highest rate over a second; for shorter media, the mean rate.
pub(super) fn peak(report: &Report) -> Option<Peak> {
    report.bit_rate.peak(PEAK_WINDOW_US).or_else(|| {
        let bits_per_second = report.mean_bits_per_second()?;
        Some(Peak { bits_per_second, window_us: report.duration_us })
    })
}

fn heading(inspection: &Inspection) -> String {
    let (name, size) = (format::name(&inspection.file), format::size(inspection.size_bytes));
    let stride = inspection.report.description.stride;
    match &inspection.image {
        None => format!("{name}: transport stream in {stride}-byte packets, {size}\n"),
        Some(_) if !inspection.recipe.is_transport_stream() => {
            format!("{name}: wire image of a movie, {size}\n")
        }
        Some(_) => format!("{name}: wire image of a transport stream in {stride}-byte packets, {size}\n"),
    }
}

fn overview(inspection: &Inspection, terminal: Terminal) -> String {
    let report = &inspection.report;
    let recipe = inspection.recipe;
    let mut rows = vec![("duration", format::time(report.duration_us)), ("bit rate", rates(report))];
    if let Some(Played { programme, pcr_pid, .. }) = report.description.played {
        let programme =
            programme.map_or("no announced programme".to_owned(), |number| format!("programme {number}"));
        rows.push(("clock", format!("{programme}, PID {}", pid_name(pcr_pid))));
    }
    let packet = match recipe.payload {
        PayloadRecipe::TransportStream { ts_per_packet } => format!("{ts_per_packet} transport packets each"),
        PayloadRecipe::Tracks { limit, .. } => format!("at most {limit} bytes of payload"),
    };
    rows.push(("packets", format!("{} of {packet}", format::count(report.packets))));
    rows.push(("trains", trains(report, recipe.burst_us)));
    rows.push(("random access", starts(&report.starts_us, report.mean_start_distance_us())));
    rows.extend(inspection.image.iter().flat_map(image_rows));
    let mut table = terminal.grid();
    table.add_rows(rows.into_iter().map(|(what, value)| [what.to_owned(), value]));
    lines(&mut table, PADDING)
}

fn rates(report: &Report) -> String {
    mean_and_peak(report.mean_bits_per_second(), peak(report))
}

pub(super) fn mean_and_peak(mean: Option<u64>, peak: Option<Peak>) -> String {
    let (Some(mean), Some(peak)) = (mean, peak) else { return "none: no duration".to_owned() };
    let seconds = peak.window_us as f64 / 1e6;
    let peak = format::bit_rate(peak.bits_per_second);
    format!("{} mean, {peak} peak over {seconds:.1} s", format::bit_rate(mean))
}

fn trains(report: &Report, burst_us: u32) -> String {
    let count = format::count(report.trains.count);
    let burst = f64::from(burst_us) / 1000.0;
    let packets =
        report.trains.packets_per_train().map_or(String::new(), |PacketsPerTrain { min, median, max }| {
            format!(" of {min} to {max} packets, median {median}")
        });
    format!("{count}{packets}, in bursts of {burst} ms at most")
}

pub(super) fn starts(starts: &[u64], mean_distance_us: Option<u64>) -> String {
    let mut text = match (starts.len(), mean_distance_us) {
        (0, _) => return "none: playback can start anywhere".to_owned(),
        (1, _) => "1 point: ".to_owned(),
        (count, distance) => {
            let distance = distance.unwrap_or_default() as f64 / 1e6;
            format!("{} points, {distance:.2} s apart: ", format::count(count as u64))
        }
    };
    let shown: Vec<String> = starts.iter().take(STARTS_SHOWN).map(|start| format::time(*start)).collect();
    text.push_str(&shown.join(", "));
    if starts.len() > STARTS_SHOWN {
        text.push_str(", ...");
    }
    text
}

fn image_rows(image: &ImageFacts) -> Vec<(&'static str, String)> {
    let plan = &image.header.plan;
    let segments = format::counted(image.segments as u64, "segment", "segments");
    let state = match image.damage.len() {
        0 => format!("yes: checksums of header, table and {segments} match"),
        damaged => format!("NO: {damaged} of {segments} damaged"),
    };
    let identity = plan.identity;
    let mut rows = vec![
        ("intact", state),
        ("asset", format!("{} bytes, inode {} on device {}", identity.size, identity.inode, identity.device)),
        ("asset modified", format::moment(identity.mtime_ns)),
    ];
    rows.extend(plan.streams.iter().flat_map(|stream| {
        let first = format!("sequence number {}, timestamp {}", stream.sequence, stream.timestamp);
        [("SSRC", format!("{:#010x}", stream.ssrc)), ("first packet", first)]
    }));
    rows
}

fn programmes(report: &Report, terminal: Terminal) -> String {
    let description = &report.description;
    if description.programmes.is_empty() {
        return section("Programmes", "  none announced\n");
    }
    let clock = description.played.and_then(|clock| clock.programme);
    let mut table = terminal.grid();
    table.set_header(["number", "service", "PMT PID", "PCR PID", "played", "streams"]);
    table.add_rows(description.programmes.iter().map(|programme| {
        [
            programme.number.to_string(),
            report.services.get(&programme.number).map_or_else(String::new, |service| service.name.clone()),
            pid_name(programme.pmt_pid),
            programme.pcr_pid.map_or("none".to_owned(), pid_name),
            if clock == Some(programme.number) { "yes, clock" } else { "yes" }.to_owned(),
            streams(programme, report),
        ]
    }));
    section("Programmes", &lines(&mut table, PADDING))
}

fn streams(programme: &Programme, report: &Report) -> String {
    let stream = |stream: &Stream| {
        let language = stream.language.as_ref().map(|language| format!(" ({language})"));
        let video = report.videos.get(&stream.pid).map(|VideoFormat { width, height, frame_rate }| {
            let rate = frame_rate.map(|rate| format!(" {} fps", (rate * 100.0).round() / 100.0));
            format!(" {width}x{height}{}", rate.unwrap_or_default())
        });
        format!("{}{}{}", stream.codec.name(), video.unwrap_or_default(), language.unwrap_or_default())
    };
    programme.streams.iter().map(stream).collect::<Vec<_>>().join(", ")
}

fn pids(report: &Report, terminal: Terminal) -> String {
    let mut table = terminal.grid();
    table.set_header(["PID", "content", "language", "packets", "share", "bit rate", "errors"]);
    table.add_rows(report.pids.iter().map(|pid| pid_row(pid, report)));
    for index in 3..=5 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&mut table, PADDING)
}

fn pid_row(pid: &PidReport, report: &Report) -> [String; 7] {
    let share = share(pid, report);
    let rate = report.mean_bits_per_second().map(|mean| format::bit_rate((mean as f64 * share) as u64));
    [
        pid_name(pid.pid),
        pid.role.clone(),
        pid.language.clone().unwrap_or_default(),
        format::count(pid.packets),
        format!("{:.1} %", share * 100.0),
        rate.unwrap_or_default(),
        errors(pid),
    ]
}

fn errors(pid: &PidReport) -> String {
    let kinds = [
        (pid.continuity_errors, "continuity"),
        (pid.transport_errors, "transport"),
        (pid.scrambled, "scrambled"),
    ];
    let found = kinds.iter().filter(|(count, _)| *count > 0);
    let found: Vec<String> = found.map(|(count, kind)| format!("{} {kind}", format::count(*count))).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(", ") }
}

/// Formats a PID in decimal and hexadecimal digits.
fn pid_name(pid: u16) -> String {
    format!("{pid} ({pid:#x})")
}
