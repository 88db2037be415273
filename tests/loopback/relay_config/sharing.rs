//! Classes get their shares, and classes and streams keep to their rates.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::{Deadline, http, trials};

use super::{Folder, Watched, endless, moved, numbers};

pub(super) fn trials() -> Vec<Trial> {
    trials![rates_of_classes_and_streams_hold]
}

/// They load the machine.
pub(super) fn alone() -> Vec<Trial> {
    trials![
        classes_get_their_shares_of_what_is_moved,
        classes_get_their_shares_of_processor_time_and_it_is_shown,
        classes_get_their_shares_on_each_thread,
    ]
}

/// Promise: Classes get their shares of the moved volume, and classes and streams keep their rates.
///
/// Volume while all have something to do, whenever it is looked at, and however fast the machine is.
fn classes_get_their_shares_of_what_is_moved() -> Result<()> {
    const ENOUGH: u64 = 1 << 30;
    let classes = "[sharing]\npolicy = \"fair-share\"\nround = \"1MiB\"\n\
                   [[class]]\nname = \"gold\"\nshare = 3\n[[class]]\nname = \"rest\"\nshare = 1\n";
    let streams = [
        endless("one", "class = \"gold\""),
        endless("two", "class = \"rest\""),
        endless("three", "class = \"rest\""),
    ];
    let folder = Folder::new(&format!("{classes}{}", streams.concat()))?;
    let relay = Watched::start(&folder, &[])?;
    let all = |streams: &Value| [0, 1, 2].map(|place| moved(&streams[place]));
    let before = all(&relay.wait_for("all that run", |streams| all(streams).iter().all(|moved| *moved > 0))?);
    // Threads name themselves when they first run, which may be later than the listener.
    ensure!(relay.engine_threads()? == ["engine-0"], "classes are weighed on more than one thread");
    let now = relay.wait_for("enough volume", |streams| {
        all(streams).iter().sum::<u64>() > before.iter().sum::<u64>() + ENOUGH
    })?;
    let [one, two, three] = std::array::from_fn(|place| (all(&now)[place] - before[place]) as f64);
    let (share, within) = (one / (two + three), two / three);
    ensure!((2.94..3.06).contains(&share), "gold got {share} times what the rest got");
    ensure!((0.9..1.1).contains(&within), "within the class one got {within} times what the other got");
    Ok(())
}

/// Promise: `resource = "cpu"` shares processor time, and the status shows the share of each class.
///
/// By the relay's own account: what touches every byte gets its share of processor time, and what nobody
/// looks at moves more in less.
fn classes_get_their_shares_of_processor_time_and_it_is_shown() -> Result<()> {
    const ENOUGH_SECONDS: f64 = 1.0;
    let classes = "[sharing]\npolicy = \"fair-share\"\nresource = \"cpu\"\nround = \"5ms\"\n\
                   [[class]]\nname = \"gold\"\nshare = 3\n[[class]]\nname = \"rest\"\n";
    let streams = [
        endless("touched", "class = \"gold\"\nframing = \"fixed:64KiB\"\nhandlers = [\"touch:7\"]"),
        endless("unseen", "class = \"rest\""),
    ];
    let folder = Folder::new(&format!("{classes}{}", streams.concat()))?;
    let said = String::from_utf8(folder.output(&["--check"])?.stdout)?;
    ensure!(
        said.ends_with(": OK, 2 streams in 2 classes, sharing processor time in rounds of 5ms\n"),
        "{said}"
    );
    let mut relay = Watched::start(&folder, &[])?;
    let used = |streams: &Value| [0, 1].map(|place| streams[place]["cpu_seconds"].as_f64().unwrap_or(0.0));
    let before = relay.wait_for("both that run", |streams| used(streams).iter().all(|used| *used > 0.0))?;
    let now = relay.wait_for("enough time", |streams| {
        used(streams).iter().sum::<f64>() > used(&before).iter().sum::<f64>() + ENOUGH_SECONDS
    })?;
    let [gold, rest] = std::array::from_fn(|place| used(&now)[place] - used(&before)[place]);
    ensure!((2.7..3.3).contains(&(gold / rest)), "gold took {gold} s, the rest {rest} s");
    ensure!(moved(&now[0]) < 3 * moved(&now[1]), "a byte costs the same: {now}");
    ensure!(now[0]["cpu_percent"].as_f64().is_some_and(|percent| percent > 0.0), "{now}");

    let scrape = http::get(relay.http, "/metrics")?;
    let numbers = numbers(std::str::from_utf8(&scrape.body)?)?;
    let of = |labels: &str| numbers.get(&format!("wirepath_{labels}")).copied().unwrap_or(0.0);
    let (class, stream) = (
        of("class_cpu_seconds_total{class=\"gold\"}"),
        of("stream_cpu_seconds_total{stream=\"touched\",class=\"gold\"}"),
    );
    ensure!(class == stream && class >= used(&now)[0], "{class} and {stream} of {now}");
    relay.process.signal(Signal::INT)?;
    let ended = relay.process.wait(Deadline::seconds(20.0))?;
    ensure!(ended.code() == Some(130), "{ended}: {}", relay.process.log());
    ensure!(relay.process.log().contains(" of processor time"), "{}", relay.process.log());
    let report = folder.json("report.json")?;
    ensure!(used(&report["streams"])[0] >= class, "{report}");
    Ok(())
}

/// Promise: Streams are spread over threads by their shares; shares hold on each thread.
///
/// Threads may differ in speed; on each, classes have their shares.
fn classes_get_their_shares_on_each_thread() -> Result<()> {
    const ENOUGH: u64 = 1 << 29;
    let classes = "[sharing]\npolicy = \"fair-share\"\nround = \"1MiB\"\n\
                   [[class]]\nname = \"gold\"\nshare = 3\n[[class]]\nname = \"rest\"\n";
    let of = |name: &str, class: &str| endless(name, &format!("class = \"{class}\""));
    let streams = [of("one", "gold"), of("two", "gold"), of("three", "rest"), of("four", "rest")];
    let folder = Folder::new(&format!("{classes}{}", streams.concat()))?;
    let relay = Watched::start(&folder, &["--threads", "2"])?;
    let all = |streams: &Value| [0, 1, 2, 3].map(|place| moved(&streams[place]));
    let before = relay.wait_for("all that run", |streams| all(streams).iter().all(|moved| *moved > 0))?;
    let threads = [0, 1, 2, 3].map(|place| before[place]["thread"].as_u64());
    ensure!(threads == [0, 1, 0, 1].map(Some), "they are on {threads:?}");
    let names = relay.engine_threads()?;
    ensure!(names == ["engine-0", "engine-1"], "{names:?}");
    let before = all(&before);
    let now = all(&relay.wait_for("enough volume", |streams| {
        let grown = all(streams).iter().zip(before).all(|(now, before)| *now > before + ENOUGH / 4);
        grown && all(streams).iter().sum::<u64>() > before.iter().sum::<u64>() + 4 * ENOUGH
    })?);
    for (gold, rest) in [(0, 2), (1, 3)] {
        let share = (now[gold] - before[gold]) as f64 / (now[rest] - before[rest]) as f64;
        ensure!((2.94..3.06).contains(&share), "gold got {share} times what the rest got on a thread");
    }
    Ok(())
}

/// Promise: All streams of a class with a rate run on one thread, and the class keeps its rate.
/// Promise: Classes get their shares of the moved volume, and classes and streams keep their rates.
///
/// The bytes that may have moved by then do not depend on the machine.
fn rates_of_classes_and_streams_hold() -> Result<()> {
    const ENOUGH: u64 = 4_000_000;
    // A turn may read a whole pipe beyond its allowance, which later turns make up for.
    const TURN: f64 = 1024.0 * 1024.0;
    let classes =
        "[[class]]\nname = \"capped\"\nrate = \"16MB/s\"\nburst = \"1MB\"\n[[class]]\nname = \"free\"\n";
    let streams = [
        endless("one", "class = \"capped\""),
        endless("two", "class = \"capped\""),
        endless("own", "class = \"free\"\nrate = \"64Mbit/s\""),
        endless("free", "class = \"free\""),
    ];
    let folder = Folder::new(&format!("{classes}{}", streams.concat()))?;
    // As many threads as streams, and the class is on one nevertheless.
    let mut relay = Watched::start(&folder, &["--threads", "8"])?;
    // Streams without a limit get ahead of the others, however busy the machine is.
    relay.wait_for("some volume", |streams| {
        let volumes: Vec<u64> = (0..4).map(|place| moved(&streams[place])).collect();
        volumes.iter().all(|volume| *volume > ENOUGH) && volumes[3] > volumes[..3].iter().sum()
    })?;
    // Threads name themselves when they first run, which may be later than the listener.
    let threads = relay.engine_threads()?;
    ensure!(threads.len() == 4, "a thread has nothing to do: {threads:?}");
    relay.process.signal(Signal::INT)?;
    let ended = relay.process.wait(Deadline::seconds(20.0))?;
    ensure!(ended.code() == Some(130), "{ended}: {}", relay.process.log());
    let report = folder.json("report.json")?;
    let seconds = report["seconds"].as_f64().context("seconds")?;
    let read = |place: usize| report["streams"][place]["bytes_in"].as_f64().context("bytes_in");
    let (one, two, own) = (read(0)?, read(1)?, read(2)?);
    let thread = |place: usize| &report["streams"][place]["thread"];
    ensure!(thread(0) == thread(1) && thread(2) != thread(3), "{report}");
    ensure!(one + two <= 1e6 + 16e6 * seconds + TURN, "the class read {} in {seconds} s", one + two);
    ensure!(own <= 0.8e6 + 8e6 * seconds + TURN, "the stream read {own} in {seconds} s");
    Ok(())
}
