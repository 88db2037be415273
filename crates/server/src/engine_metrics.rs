//! What the engine and the image store count, declared for `/metrics` and `/api/status`.

use std::sync::Arc;

use serde_json::json;
use wirepath_counters::{Histogram, Metric, Value};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_streams::{Counters, Engine, LatenessSnapshot};

use crate::images::{Image, Progress, Store, StoreCounts};

/// Upper ends, in microseconds, of the lateness histogram that `/metrics` shows.
const LATENESS_US: [u64; 12] =
    [250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 40_000, 100_000, 250_000, 1_000_000];

const ENGINE: &[Metric<Counters>] = &[
    Metric::new(
        "trains",
        "Trains of packets sent; each is one kernel call where the data path segments.",
        |counters| Value::Counter(counters.trains),
    ),
    Metric::new("packets", "RTP packets sent.", |counters| Value::Counter(counters.packets)),
    Metric::new("payload_bytes", "RTP payload bytes sent.", |counters| Value::Counter(counters.octets)),
    Metric::new(
        "packets_lost",
        "RTP packets that the network did not take: no route, a filter, a device that is down.",
        |counters| Value::Counter(counters.packets_lost),
    ),
    Metric::new("socket_full", "Sends repeated because the socket buffer was full.", |counters| {
        Value::Counter(counters.full)
    }),
    Metric::new(
        "clock_resyncs",
        "Playbacks that were too late to catch up, so that their clock was moved.",
        |counters| Value::Counter(counters.slips),
    ),
    Metric::new("io_stalls", "Waits of playbacks and downloads for data to be read or packed.", |counters| {
        Value::Counter(counters.cold_waits)
    }),
    Metric::new("wakeups", "Wakeups of engine threads.", |counters| Value::Counter(counters.wakeups)),
    Metric::new("batches", "Kernel calls that sent the trains of many sessions at once.", |counters| {
        Value::Counter(counters.batches)
    }),
    Metric::new("download_bytes", "Bytes sent by downloads.", |counters| {
        Value::Counter(counters.download_octets)
    }),
    Metric::new("playbacks", "Playbacks that exist, playing or not.", |counters| {
        Value::Gauge(counters.playbacks)
    }),
    Metric::new("downloads", "Downloads that run.", |counters| Value::Gauge(counters.downloads)),
    Metric::new(
        "lateness_seconds",
        "Time between the moment a train was due and its departure.",
        |counters| Value::Histogram(histogram(&counters.lateness)),
    ),
];

/// Shows what engine and store count, the data path in use and why, and how late trains leave.
pub(crate) fn register(engine: &Arc<Engine>, store: &Arc<Store>, metrics: &mut Metrics, status: &mut Status) {
    let counted = Arc::clone(engine);
    metrics.register("engine", ENGINE, move || counted.counters());
    let counted = Arc::clone(store);
    metrics.register("images", StoreCounts::METRICS, move || counted.counts());

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

    use wirepath_media::ts::synthetic::Sample;
    use wirepath_streams::{BlockingPool, Importance};

    use super::*;
    use crate::images::Cache;

    /// Promise: The status says why an asset failed without naming folders of the machine.
    #[test]
    fn the_status_names_no_folder_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.ts");
        fs::write(&path, Sample { packets: 5000, ..Sample::default() }.stream().bytes).unwrap();
        let cache = Cache::open(&folder.path().join("cache"), 1000).unwrap();
        let readers = BlockingPool::start("reader", 1, Importance::Equal).unwrap();
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
