//! MP4 or Matroska file as text and as JSON; `docs/inspect.md` describes the JSON.

use serde_json::{Value, json};
use wirepath_media::inspect::{MovieReport, TrackReport};

use super::examine::Movie;
use super::json::SCHEMA;
use super::text::{PADDING, PEAK_WINDOW_US, mean_and_peak, section, starts};
use crate::plot::plot;
use crate::{format, terminal};
use wirepath_report::number::visible;
use wirepath_report::terminal::{Terminal, lines};

/// Report about a movie, as text or as JSON.
pub(super) fn shown(movie: &Movie, as_json: bool) -> String {
    if as_json { format!("{}\n", of(movie)) } else { text(movie, terminal::output()) }
}

fn of(Movie { file, size_bytes, report }: &Movie) -> Value {
    let peak = report.peak(PEAK_WINDOW_US);
    json!({
        "schema": SCHEMA,
        "file": file.to_string_lossy(),
        "kind": "asset",
        "container": report.container,
        "size_bytes": size_bytes,
        "brand": report.brand,
        "tables_offset": report.tables_offset,
        "fragmented": report.fragmented,
        "cues": report.cues,
        "truncated": report.truncated,
        "duration_us": report.duration_us,
        "payload_bytes": report.payload_bytes,
        "tracks": report.tracks.iter().map(track).collect::<Value>(),
        "bit_rate": {
            "mean_bits_per_second": report.mean_bits_per_second(),
            "peak_bits_per_second": peak.map(|peak| peak.bits_per_second),
            "peak_window_us": peak.map(|peak| peak.window_us),
            "interval_us": report.bit_rate.interval_us,
            "bits_per_second": report.bit_rate.bits_per_second().collect::<Vec<_>>(),
        },
        "random_access_points": {
            "count": report.starts_us.len(),
            "mean_distance_us": report.mean_start_distance_us(),
            "times_us": report.starts_us,
        },
        "warnings": report.warnings().iter().map(|text| json!({"text": text})).collect::<Value>(),
        "warnings_omitted": 0,
    })
}

fn track(track: &TrackReport) -> Value {
    let mut object = json!(track);
    if let Value::Object(fields) = &mut object {
        fields.insert("mean_bits_per_second".into(), track.mean_bits_per_second().into());
    }
    object
}

fn text(movie: &Movie, terminal: Terminal) -> String {
    let Movie { file, size_bytes, report } = movie;
    let (name, size) = (format::name(file), format::size(*size_bytes));
    let chart = plot(&report.bit_rate, report.duration_us, terminal.width, terminal.utf8);
    let warnings: String = report.warnings().iter().map(|line| format!("  {}\n", visible(line))).collect();
    let mut parts = vec![
        format!("{name}: {}, {size}\n\n{}", kind(report), overview(report, terminal)),
        section("Tracks", &tracks(report, terminal)),
        section("Bit rate over time (h:mm:ss)", &chart),
        section("Warnings", &warnings),
    ];
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn kind(report: &MovieReport) -> String {
    let brand = report.brand.as_ref().map(|brand| format!(" ({})", visible(brand.trim_end())));
    let fragmented = if report.fragmented { "fragmented " } else { "" };
    let container = match report.container {
        "matroska" => "Matroska",
        "webm" => "WebM",
        _ => "MP4",
    };
    format!("{fragmented}{container} file{}", brand.unwrap_or_default())
}

fn overview(report: &MovieReport, terminal: Terminal) -> String {
    let peak = report.peak(PEAK_WINDOW_US);
    let has_video = report.tracks.iter().any(|track| track.kind == "video");
    let starts = match has_video {
        true if report.starts_us.is_empty() => "none".to_owned(),
        _ => starts(&report.starts_us, report.mean_start_distance_us()),
    };
    let rows = [
        ("duration", format::time(report.duration_us)),
        ("bit rate", mean_and_peak(report.mean_bits_per_second(), peak)),
        ("tables", tables(report)),
        ("random access", starts),
    ];
    let mut table = terminal.grid();
    table.add_rows(rows.into_iter().map(|(what, value)| [what.to_owned(), value]));
    lines(&mut table, PADDING)
}

fn tables(report: &MovieReport) -> String {
    let place = format::count(report.tables_offset);
    match report.cues {
        None => format!("moov box at byte {place}"),
        Some(cues) => format!("Tracks element at byte {place}, {} cues", format::count(cues)),
    }
}

fn tracks(report: &MovieReport, terminal: Terminal) -> String {
    let mut table = terminal.grid();
    table.set_header(["track", "content", "language", "start", "duration", "samples", "bit rate", "RTP"]);
    table.add_rows(report.tracks.iter().map(|track| {
        [
            track.id.to_string(),
            content(track),
            track.language.clone().unwrap_or_default(),
            format!("{:.3} s", track.start_us as f64 / 1e6),
            format::time(track.duration_us),
            format::count(track.samples),
            track.mean_bits_per_second().map(format::bit_rate).unwrap_or_default(),
            track.rtp.unwrap_or("no").to_owned(),
        ]
    }));
    lines(&mut table, PADDING)
}

/// Codec, and the size and rate of video or audio.
fn content(track: &TrackReport) -> String {
    let mut parts = vec![visible(&track.codec)];
    parts.extend(track.profile.clone());
    if let (Some(width), Some(height)) = (track.width, track.height) {
        parts.push(format!("{width}x{height}"));
    }
    parts.extend(track.frame_rate.map(|rate| format!("{} fps", (rate * 100.0).round() / 100.0)));
    if let (Some(channels), Some(sample_rate)) = (track.channels, track.sample_rate) {
        let channels = match channels {
            1 => "mono".to_owned(),
            2 => "stereo".to_owned(),
            more => format!("{more} channels"),
        };
        parts.push(format!("{} kHz {channels}", f64::from(sample_rate) / 1000.0));
    }
    if track.kind != "video" && track.kind != "audio" {
        parts.push(format!("({})", visible(&track.kind)));
    }
    parts.join(" ")
}
