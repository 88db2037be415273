//! Inspection as JSON, described in `docs/inspect.md`. Removing a field or changing its meaning needs a new
//! schema.

use serde_json::{Map, Value, json};
use wirepath_media::image::{PayloadRecipe, Recipe};
use wirepath_media::inspect::{PidReport, Report};
use wirepath_media::ts::{PACKET_LENGTH, Played, Programme};

use super::examine::{Damage, IMAGE_VERSION, ImageFacts, Inspection};
use super::text::peak;
use crate::warnings;

/// Version of the JSON schema.
pub(super) const SCHEMA: u32 = 2;

pub(super) fn json(inspection: &Inspection) -> Value {
    let Inspection { file, size_bytes, recipe, report, image } = inspection;
    let mut object = Map::new();
    object.insert("schema".into(), SCHEMA.into());
    object.insert("file".into(), file.to_string_lossy().into());
    object.insert("container".into(), "mpegts".into());
    object.insert("kind".into(), if image.is_some() { "image" } else { "asset" }.into());
    object.insert("size_bytes".into(), (*size_bytes).into());
    extend(&mut object, media(report));
    extend(&mut object, packing(report, *recipe));
    if let Some(image) = image {
        object.insert("image".into(), image_facts(image));
    }
    object.into()
}

fn media(report: &Report) -> Value {
    let description = &report.description;
    json!({
        "packet_bytes": description.stride,
        "duration_us": report.duration_us,
        "payload_bytes": report.payload_bytes,
        "clock": description.played.map(|Played { programme, pcr_pid, video_pid }| {
            json!({"programme": programme, "pcr_pid": pcr_pid, "video_pid": video_pid})
        }),
        "programmes": list(&description.programmes, |of| programme(of, report)),
        "pids": list(&report.pids, |pid| pid_facts(pid, report)),
        "bit_rate": {
            "mean_bits_per_second": report.mean_bits_per_second(),
            "peak_bits_per_second": peak(report).map(|peak| peak.bits_per_second),
            "peak_window_us": peak(report).map(|peak| peak.window_us),
            "interval_us": report.bit_rate.interval_us,
            "bits_per_second": report.bit_rate.bits_per_second().collect::<Vec<_>>(),
        },
        "random_access_points": {
            "count": report.starts_us.len(),
            "mean_distance_us": report.mean_start_distance_us(),
            "times_us": report.starts_us,
        },
        "warnings": warnings::json(&description.warnings),
        "warnings_omitted": description.warnings.omitted,
    })
}

fn packing(report: &Report, recipe: Recipe) -> Value {
    let ts_per_packet = match recipe.payload {
        PayloadRecipe::TransportStream { ts_per_packet } => Some(ts_per_packet),
        PayloadRecipe::Tracks { .. } => None,
    };
    json!({
        "recipe": {
            "ts_packets_per_packet": ts_per_packet,
            "packet_bytes": recipe.packet_size(),
            "burst_us": recipe.burst_us,
        },
        "packets": report.packets,
        "trains": {
            "count": report.trains.count,
            "packets_per_train": report.trains.packets_per_train(),
            "by_packets": report.trains.by_packets,
            "discontinuities": report.trains.discontinuities,
        },
    })
}

fn programme(programme: &Programme, report: &Report) -> Value {
    let clock = report.description.played.and_then(|clock| clock.programme);
    let service = report.services.get(&programme.number);
    json!({
        "number": programme.number,
        "pmt_pid": programme.pmt_pid,
        "pcr_pid": programme.pcr_pid,
        "service": service.map(|service| &service.name),
        "provider": service.map(|service| &service.provider).filter(|provider| !provider.is_empty()),
        "played": true,
        "clock": clock == Some(programme.number),
        "streams": list(&programme.streams, |stream| json!({
            "pid": stream.pid,
            "stream_type": stream.stream_type,
            "codec": stream.codec.name(),
            "language": stream.language,
            "width": report.videos.get(&stream.pid).map(|video| video.width),
            "height": report.videos.get(&stream.pid).map(|video| video.height),
            "frame_rate": report.videos.get(&stream.pid).and_then(|video| video.frame_rate),
        })),
    })
}

fn pid_facts(pid: &PidReport, report: &Report) -> Value {
    json!({
        "pid": pid.pid,
        "role": pid.role,
        "language": pid.language,
        "packets": pid.packets,
        "share": share(pid, report),
        "continuity_errors": pid.continuity_errors,
        "transport_errors": pid.transport_errors,
        "scrambled": pid.scrambled,
    })
}

/// Share of all packets that have this PID, from 0 to 1.
pub(super) fn share(pid: &PidReport, report: &Report) -> f64 {
    let all = report.payload_bytes / PACKET_LENGTH as u64;
    pid.packets as f64 / all.max(1) as f64
}

fn image_facts(image: &ImageFacts) -> Value {
    let plan = &image.header.plan;
    json!({
        "version": IMAGE_VERSION,
        "asset": {
            "size_bytes": plan.identity.size,
            "mtime_ns": plan.identity.mtime_ns,
            "inode": plan.identity.inode,
            "device": plan.identity.device,
        },
        "ssrc": plan.streams.first().map(|stream| stream.ssrc),
        "first_sequence": plan.streams.first().map(|stream| stream.sequence),
        "first_timestamp": plan.streams.first().map(|stream| stream.timestamp),
        "streams": list(&plan.streams, |stream| {
            json!({
                "ssrc": stream.ssrc,
                "first_sequence": stream.sequence,
                "first_timestamp": stream.timestamp,
                "payload_type": stream.payload_type,
                "clock_hz": stream.clock_hz,
            })
        }),
        "segments": image.segments,
        "intact": image.damage.is_empty(),
        "damage": list(&image.damage, |Damage { segment, offset, reason }| {
            json!({"segment": segment, "offset": offset, "reason": reason})
        }),
    })
}

fn list<T>(items: &[T], describe: impl Fn(&T) -> Value) -> Value {
    items.iter().map(describe).collect()
}

fn extend(object: &mut Map<String, Value>, fields: Value) {
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
}
