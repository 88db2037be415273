//! What hot memory holds, declared for `/metrics` and `/api/status`. Only where there is some.

use std::sync::Arc;

use serde_json::json;

use crate::images::{HotImage, HotMemory};
use crate::metrics::{Metric, Metrics, Value};
use crate::status::Status;

const HOT: &[Metric<Arc<HotMemory>>] = &[
    Metric {
        name: "used",
        help: "Memory that holds images to be sent from, being copied and leaving counted",
        unit: Some("bytes"),
        read: |hot| Value::Gauge(hot.used() as f64),
    },
    Metric {
        name: "budget",
        help: "Memory that may hold images to be sent from",
        unit: Some("bytes"),
        read: |hot| Value::Gauge(hot.budget() as f64),
    },
    Metric {
        name: "images",
        help: "Images held in memory to be sent from",
        unit: None,
        read: |hot| Value::Gauge(hot.images().len() as f64),
    },
    Metric {
        name: "copied",
        help: "Images copied into memory to be sent from",
        unit: None,
        read: |hot| Value::Counter(hot.copied()),
    },
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
