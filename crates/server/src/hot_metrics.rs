//! Metrics and status of hot memory.

use std::sync::Arc;

use serde_json::json;

use crate::images::{HotImage, HotMemory};
use wirepath_counters::{Metric, Value};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;

const HOT: &[Metric<Arc<HotMemory>>] = &[
    Metric::new(
        "used_bytes",
        "Memory that holds images to be sent from, being copied and leaving counted.",
        |hot| Value::Gauge(hot.used()),
    ),
    Metric::new("budget_bytes", "Memory that may hold images to be sent from.", |hot| {
        Value::Gauge(hot.budget())
    }),
    Metric::new("images", "Images held in memory to be sent from.", |hot| {
        Value::Gauge(hot.images().len() as u64)
    }),
    Metric::new("copied", "Images copied into memory to be sent from.", |hot| Value::Counter(hot.copied())),
];

/// Shows what is held, and why not more.
pub(crate) fn register(hot: &Arc<HotMemory>, metrics: &mut Metrics, status: &mut Status) {
    let counted = Arc::clone(hot);
    metrics.register("hot", HOT, move || Arc::clone(&counted));
    let shown = Arc::clone(hot);
    status.add("hot_memory", move || {
        json!({
            "used_bytes": shown.used(),
            "budget_bytes": shown.budget(),
            "images": shown.images().iter().map(image).collect::<Vec<_>>(),
            "given_up": shown.given_up(),
        })
    });
}

fn image(image: &HotImage) -> serde_json::Value {
    json!({"name": image.name, "bytes": image.bytes, "sessions": image.sessions})
}
