//! Metrics and status of engine, playbacks, image store and hot memory.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use wirepath_counters::{Metric, Value};
use wirepath_datapath::{Choice, DataPath, LendingSwitch, Support};
use wirepath_net::metrics::Metrics;
use wirepath_net::process;
use wirepath_net::status::Status;
use wirepath_playback::{Counters, LatenessSnapshot, Playbacks};

use crate::images::{HotCounts, HotMemory, Image, PageCounts, Progress, Store, StoreCounts};
use crate::plays::Plays;
use crate::warnings;

/// Counts of files that HTTP sends.
const LOANS: &[Metric<LendingSwitch>] = &[
    Metric::new(
        "lent_bytes",
        "Bytes of files that HTTP sent without a copy: lent pages of the page cache.",
        |switch| Value::Counter(switch.lent_bytes()),
    ),
    Metric::new(
        "copied_bytes",
        "Bytes of files that HTTP copied because of the rule of lending.",
        |switch| Value::Counter(switch.copied_bytes()),
    ),
];

/// Registers counters, the current data path and its reason, the lateness of trains, threads, assets and
/// warnings.
pub(crate) fn register(
    playbacks: &Arc<Playbacks>,
    store: &Arc<Store>,
    hot: Option<Arc<HotMemory>>,
    plays: Arc<Plays>,
    metrics: &mut Metrics,
    status: &mut Status,
) {
    let counted = Arc::clone(playbacks);
    metrics.register("engine", wirepath_engine::Counters::METRICS, move || counted.engine().counters());
    let counted = Arc::clone(playbacks);
    metrics.register("playback", Counters::METRICS, move || counted.counters());
    let switch = playbacks.lending().clone();
    metrics.register("loans", LOANS, move || switch.clone());
    let counted = Arc::clone(store);
    metrics.register("images", StoreCounts::METRICS, move || counted.counts());
    let counted = Arc::clone(store);
    metrics.register("pages", PageCounts::METRICS, move || counted.page_counts());

    let shown = Arc::clone(playbacks);
    status.add("data_path", move || data_path(shown.support(), &shown.counters()));
    let shown = Arc::clone(playbacks);
    status.add("lateness_us", move || lateness(&shown.counters().lateness_seconds));
    let shown = Arc::clone(playbacks);
    status.add("engine", move || json!({"threads": shown.engine().threads()}));
    let shown = Arc::clone(store);
    status.add("assets", move || assets(&shown.open_images(), plays.read_served()));
    status.add("threads", threads);
    status.conclude("warnings", warnings::conclude);
    if let Some(hot) = hot {
        let counted = Arc::clone(&hot);
        metrics.register("hot", HotCounts::METRICS, move || counted.counts());
        status.add("hot_memory", move || hot.json());
    }
}

fn data_path(support: &Support, counters: &Counters) -> Json {
    let (host, own) = (support.host(), support.host_for_own_headers());
    // The counters of a running thread are read one after another, so there may be more mapped trains than lent ones.
    let (mapped, lent) = (counters.trains_mapped, counters.trains_lent);
    let rings = [(DataPath::WireUring, lent.saturating_sub(mapped)), (DataPath::WireMapping, mapped)];
    let rings = rings.into_iter().filter(|(_, trains)| *trains > 0);
    let exception = |(local, choice): (_, Choice)| json!({"local": local, "name": choice.path.name(), "reason": choice.reason});
    json!({
        "name": host.path.name(),
        "reason": host.reason,
        "trains": counters.trains,
        "by_io_uring": rings.map(|(path, trains)| json!({"name": path.name(), "trains": trains})).collect::<Vec<_>>(),
        "trains_copied": counters.trains_copied,
        "own_headers": {"name": own.path.name(), "reason": own.reason},
        "exceptions": support.step_downs().into_iter().map(exception).collect::<Vec<_>>(),
        "devices_without_checksums": support.devices_without_checksums(),
        "calibrations": support.measured_costs(),
    })
}

/// Open images with the plays of their assets, then assets that were played and are not open.
fn assets(images: &[Arc<Image>], mut plays: HashMap<String, u64>) -> Json {
    let count = |image: &Arc<Image>| plays.get(image.name()).copied().unwrap_or(0);
    let mut assets: Vec<Json> = images.iter().map(|image| asset(image, count(image))).collect();
    for image in images {
        plays.remove(image.name());
    }
    let mut closed: Vec<(String, u64)> = plays.into_iter().collect();
    closed.sort_unstable();
    assets.extend(closed.into_iter().map(|(name, plays)| {
        json!({
            "name": name, "state": "closed", "reason": null, "plays": plays,
            "duration_s": null, "bits_per_second": null, "packet_bytes": null,
        })
    }));
    Json::Array(assets)
}

fn threads() -> Json {
    let thread = |thread: process::Thread| json!({"id": thread.id, "name": thread.name, "cpu_seconds": thread.cpu.as_secs_f64()});
    process::threads().into_iter().map(thread).collect()
}

fn asset(image: &Image, plays: u64) -> Json {
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
        "sent_from": if image.is_sent_from_asset() { "asset" } else { "image" },
        "plays": plays,
        "duration_s": summary.duration_us.map(|us| us as f64 / 1e6),
        "bits_per_second": summary.bits_per_second(),
        "packet_bytes": image.plan().recipe.packet_size(),
    })
}

fn lateness(lateness: &LatenessSnapshot) -> Json {
    let histogram: Vec<_> =
        lateness.histogram().map(|(us, trains)| json!({"at_most": us, "trains": trains})).collect();
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
    use crate::images::ImageFolder;

    /// Promise: The status says why an asset failed without naming folders of the machine.
    #[test]
    fn the_status_names_no_folder_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clip.ts");
        fs::write(&path, Sample { packets: 5000, ..Sample::default() }.stream().bytes).unwrap();
        let cache = ImageFolder::open(&folder.path().join("cache"), 1000).unwrap();
        let readers = BlockingPool::start("reader", 1, Priority::Normal).unwrap();
        let store = Store::new(cache, readers, 1).unwrap();
        let image =
            store.image(Arc::new(File::open(&path).unwrap()), "clip.ts", store.usual_limits()).unwrap();
        let failure = loop {
            match &*image.progress().borrow() {
                Progress::Failed(failure) => break failure.clone(),
                Progress::Growing { .. } => std::thread::yield_now(),
                Progress::Complete => panic!("there is no room for it"),
            }
        };
        let secret = folder.path().to_str().unwrap();
        assert!(failure.reason.contains(secret), "the log says where: {failure:?}");
        let shown = asset(&image, 0);
        assert_eq!(shown["state"], "failed");
        assert!(!shown.to_string().contains(secret), "{shown}");
        assert!(shown["reason"].as_str().unwrap().contains("space"), "{shown}");
    }
}
