//! What the engine and the image store count, declared for `/metrics` and `/api/status`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;
use wirepath_engine::{Counters, Engine};
use wirepath_playback::LatenessSnapshot;

use crate::images::{Image, Progress, Store};
use crate::metrics::{Histogram, Metric, Metrics, Value};
use crate::status::Status;

/// Upper ends, in microseconds, of the lateness histogram that `/metrics` shows.
const LATENESS_US: [u64; 12] =
    [250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 40_000, 100_000, 250_000, 1_000_000];

const ENGINE: &[Metric<Counters>] = &[
    Metric {
        name: "trains",
        help: "Trains of packets sent; each is one kernel call where the data path segments",
        unit: None,
        read: |counters| Value::Counter(counters.trains),
    },
    Metric {
        name: "packets",
        help: "RTP packets sent",
        unit: None,
        read: |counters| Value::Counter(counters.packets),
    },
    Metric {
        name: "payload",
        help: "RTP payload bytes sent",
        unit: Some("bytes"),
        read: |counters| Value::Counter(counters.octets),
    },
    Metric {
        name: "packets_lost",
        help: "RTP packets that the network did not take: no route, a filter, a device that is down",
        unit: None,
        read: |counters| Value::Counter(counters.packets_lost),
    },
    Metric {
        name: "sockets_full",
        help: "Times that a socket had no room for a train, which was then tried again",
        unit: None,
        read: |counters| Value::Counter(counters.full),
    },
    Metric {
        name: "slips",
        help: "Times that a playback was so late that its timetable was moved instead of being caught up with",
        unit: None,
        read: |counters| Value::Counter(counters.slips),
    },
    Metric {
        name: "cold_waits",
        help: "Times that a playback or download waited for bytes to be brought in or packed",
        unit: None,
        read: |counters| Value::Counter(counters.cold_waits),
    },
    Metric {
        name: "wakeups",
        help: "Times that an engine thread slept and was woken",
        unit: None,
        read: |counters| Value::Counter(counters.wakeups),
    },
    Metric {
        name: "batches",
        help: "Kernel calls that sent the trains of many sessions at once",
        unit: None,
        read: |counters| Value::Counter(counters.batches),
    },
    Metric {
        name: "download",
        help: "Bytes sent by downloads",
        unit: Some("bytes"),
        read: |counters| Value::Counter(counters.download_octets),
    },
    Metric {
        name: "playbacks",
        help: "Playbacks that exist, playing or not",
        unit: None,
        read: |counters| Value::Gauge(counters.playbacks as f64),
    },
    Metric {
        name: "downloads",
        help: "Downloads that run",
        unit: None,
        read: |counters| Value::Gauge(counters.downloads as f64),
    },
    Metric {
        name: "lateness",
        help: "How long after it was due a train left",
        unit: Some("seconds"),
        read: |counters| Value::Histogram(histogram(&counters.lateness)),
    },
];

const IMAGES: &[Metric<Arc<Store>>] = &[
    Metric {
        name: "packed",
        help: "Wire images packed to their end",
        unit: None,
        read: |store| Value::Counter(store.counters().packed.load(Relaxed)),
    },
    Metric {
        name: "failed",
        help: "Assets that could not be packed",
        unit: None,
        read: |store| Value::Counter(store.counters().failed.load(Relaxed)),
    },
    Metric {
        name: "found",
        help: "Wire images found in the cache and used",
        unit: None,
        read: |store| Value::Counter(store.counters().found.load(Relaxed)),
    },
    Metric {
        name: "rejected",
        help: "Wire images found damaged or stale, and packed again",
        unit: None,
        read: |store| Value::Counter(store.counters().rejected.load(Relaxed)),
    },
    Metric {
        name: "open",
        help: "Wire images that are open",
        unit: None,
        read: |store| Value::Gauge(store.open_count() as f64),
    },
    Metric {
        name: "cache_used",
        help: "Room that wire images take, unfinished ones with what is reserved for them",
        unit: Some("bytes"),
        read: |store| Value::Gauge(store.cache().used() as f64),
    },
    Metric {
        name: "cache_budget",
        help: "Room that wire images may take",
        unit: Some("bytes"),
        read: |store| Value::Gauge(store.cache().budget() as f64),
    },
];

/// Shows what engine and store count, the data path in use and why, and how late trains leave.
pub(crate) fn register(engine: &Arc<Engine>, store: &Arc<Store>, metrics: &mut Metrics, status: &mut Status) {
    let counted = Arc::clone(engine);
    metrics.register("engine", ENGINE, move || counted.counters());
    let counted = Arc::clone(store);
    metrics.register("images", IMAGES, move || Arc::clone(&counted));

    let shown = Arc::clone(engine);
    status.add("data_path", move || {
        let host = shown.support().host();
        let own = shown.support().host_for_own_headers();
        let exceptions: Vec<_> = shown
            .support()
            .step_downs()
            .into_iter()
            .map(|(local, choice)| json!({"local": local, "name": choice.path.name(), "reason": choice.reason}))
            .collect();
        let calibrations = shown.support().measured_costs();
        json!({
            "name": host.path.name(),
            "reason": host.reason,
            "own_headers": {"name": own.path.name(), "reason": own.reason},
            "exceptions": exceptions,
            "calibrations": calibrations,
        })
    });
    let shown = Arc::clone(engine);
    status.add("lateness_us", move || lateness(&shown.counters().lateness));
    let shown = Arc::clone(engine);
    status.add("engine", move || json!({"threads": shown.threads()}));
    let shown = Arc::clone(store);
    status.add("assets", move || shown.open_images().iter().map(|image| asset(image)).collect());
}

fn asset(image: &Image) -> serde_json::Value {
    let (state, reason) = match &*image.progress().borrow() {
        Progress::Growing { until_us } => ("packing", Some(format!("{} s are ready", until_us / 1_000_000))),
        Progress::Complete => ("ready", None),
        Progress::Failed(failure) => ("failed", Some(failure.public.to_string())),
    };
    let summary = image.summary();
    json!({
        "name": image.name(),
        "state": state,
        "reason": reason,
        "duration_s": summary.duration_us.map(|us| us as f64 / 1e6),
        "bits_per_second": summary.bits_per_second(),
        "packet_bytes": image.plan().recipe.packet_size(),
    })
}

fn histogram(lateness: &LatenessSnapshot) -> Histogram {
    Histogram {
        count: lateness.count(),
        sum: lateness.sum_us() as f64 / 1e6,
        at_most: LATENESS_US.map(|us| (us as f64 / 1e6, lateness.at_most(us))).to_vec(),
    }
}

fn lateness(lateness: &LatenessSnapshot) -> serde_json::Value {
    let histogram: Vec<_> =
        LATENESS_US.iter().map(|us| json!({"at_most": us, "trains": lateness.at_most(*us)})).collect();
    json!({
        "trains": lateness.count(),
        "p50": lateness.quantile_us(0.5),
        "p99": lateness.quantile_us(0.99),
        "max": lateness.largest_us(),
        "histogram": histogram,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use wirepath_engine::{BlockingPool, Priority};
    use wirepath_media::ts::synthetic::Sample;

    use super::*;
    use crate::images::Cache;

    #[test]
    fn the_status_names_no_folder_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.ts");
        fs::write(&path, Sample { packets: 5000, ..Sample::default() }.stream().bytes).unwrap();
        let cache = Cache::open(&folder.path().join("cache"), 1000).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let store = Store::new(cache, 20_000, readers, 1).unwrap();
        let image =
            store.image(Arc::new(File::open(&path).unwrap()), "clip.ts", store.usual_recipe()).unwrap();
        let failure = loop {
            match &*image.progress().borrow() {
                Progress::Failed(failure) => break failure.clone(),
                Progress::Growing { .. } => std::thread::yield_now(),
                Progress::Complete => panic!("there is no room for it"),
            }
        };
        let secret = folder.path().to_str().unwrap();
        assert!(failure.reason.contains(secret), "the log says where: {failure:?}");
        let shown = asset(&image);
        assert_eq!(shown["state"], "failed");
        assert!(!shown.to_string().contains(secret), "{shown}");
        assert!(shown["reason"].as_str().unwrap().contains("room"), "{shown}");
    }
}
