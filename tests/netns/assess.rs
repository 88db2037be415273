//! `wirepath assess` on a test bed of its own, and that nothing of it is left.
//!
//! ```text
//!   namespace without a name          another one
//!   sink (ifb or dummy, drops)
//!   tcpsink (the same, and acknowledges TCP)
//!   near ------------- veth ---------- far, a receiver
//! ```

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_datapath::calibration::Host;
use wirepath_tests::process::{self, Process, is_root};
use wirepath_tests::{Deadline, require, server, trials};

/// One after the other: they compare what namespaces and devices there are.
pub(crate) fn trials() -> Vec<Trial> {
    trials![
        every_path_is_measured_on_a_device_that_drops,
        a_device_without_offloads_is_measured,
        a_receiver_behind_a_link_is_measured,
        a_download_lends_by_the_calibration,
        tcp_goes_to_a_receiver_where_nothing_acknowledges,
        everything_is_measured_at_once_and_reported,
        an_assessment_killed_leaves_no_namespace_and_no_device,
    ]
}

const TINY: [&str; 4] = ["--volume", "2MiB", "--runs", "2"];

/// Promise: Zero-copy sends that the kernel copied anyway are counted and shown.
/// Promise: Every path that runs is verified, then measured with all packet sizes that it can send.
/// Promise: The papers' paths make as many system calls per packet as the papers' tables say.
/// Promise: An assessment of streaming writes the server's calibration for the measured devices.
fn every_path_is_measured_on_a_device_that_drops() -> Result<()> {
    let (result, told) = assessed(&["stream", "--sink", "drop"])?;
    ensure_told(told.context("the server was told nothing")?, "with_checksums")?;
    let measurements = result["measurements"].as_array().context("no measurements")?;
    let measured =
        ensure_every_path_and_size(&result, "stream", &[Some(512), Some(1024), Some(1460), Some(2048)])?;
    ensure!(measured >= 54, "{measured} of 10 paths over UDP and 6 over TCP with 4 sizes");
    ensure_copied(measurements, &["wire_uring", "gso_zerocopy"], |copied| copied == 0)?;
    // The papers' table 4.
    for (path, calls) in
        [("read_writev", 2.0), ("read_send_rtp", 2.0), ("mmap_writev", 1.0), ("rtp_sendfile", 2.0)]
    {
        for one in measurements.iter().filter(|one| one["path"] == path && one["transport"] == "udp") {
            let counted = one["calls_per_packet"].as_f64().context("root may count")?;
            ensure!((counted - calls).abs() < 0.01, "{one:#}");
        }
    }
    ensure_table_2_over_tcp(measurements)
}

/// The 15 lines of streaming over TCP in the papers' table 2, and the trains beside them.
fn ensure_table_2_over_tcp(measurements: &[Value]) -> Result<()> {
    // A full connection may cut a frame, and let the sender wait.
    let (one, two, few) = (1.0..1.5, 2.0..2.5, 0.02..0.5);
    let paths = [
        ("read_send_rtp", &two),
        ("read_writev", &two),
        ("mmap_send_rtp", &two),
        ("mmap_writev", &one),
        ("rtp_sendfile", &two),
        ("interleaved", &few),
    ];
    for (path, calls) in paths {
        for size in [512, 1024, 2048] {
            let is_it =
                |one: &&Value| one["path"] == path && one["transport"] == "tcp" && one["size"] == size;
            let one = measurements.iter().find(is_it).with_context(|| format!("no {path}, {size} bytes"))?;
            let counted = one["calls_per_packet"].as_f64().context("root may count")?;
            ensure!(calls.contains(&counted), "{one:#}");
            let whole = one["packets_per_train"].as_u64().context("no length of trains")?;
            ensure!((whole > 30) == (path == "interleaved"), "{one:#}");
        }
    }
    Ok(())
}

/// Promise: Every path that runs is verified, then measured with all packet sizes that it can send.
/// Promise: An assessment of streaming writes the server's calibration for the measured devices.
fn a_device_without_offloads_is_measured() -> Result<()> {
    let (result, told) = assessed(&["stream", "--sink", "drop-nooffload"])?;
    ensure_told(told.context("the server was told nothing")?, "without_checksums")?;
    ensure!(result["measurements"].as_array().is_some_and(|all| all.len() > 10), "{result:#}");
    Ok(())
}

/// Promise: Zero-copy sends that the kernel copied anyway are counted and shown.
/// Promise: Every path that runs is verified, then measured with all packet sizes that it can send.
fn a_receiver_behind_a_link_is_measured() -> Result<()> {
    let (result, told) = assessed(&["download", "--sink", "veth"])?;
    ensure!(told.is_none(), "a server sends no downloads by these paths: {told:?}");
    let measurements = result["measurements"].as_array().context("no measurements")?;
    for transport in ["udp", "tcp"] {
        ensure!(measurements.iter().any(|one| one["transport"] == transport), "nothing over {transport}");
    }
    let sizes = [Some(512), Some(1024), Some(1472), Some(2048), None];
    let measured = ensure_every_path_and_size(&result, "download", &sizes)?;
    ensure!(measured >= 40, "{measured} of 6 paths with 4 sizes over UDP and 5 over TCP");
    // Data that stays on the host is copied, even if the caller asked for no copy.
    ensure_copied(measurements, &["uring_send", "mmap_zerocopy"], |copied| copied > 0)
}

/// Of sends by reference it is told how many the kernel copied, where the kernel tells it (io_uring from
/// Linux 6.2 on).
fn ensure_copied(measurements: &[Value], paths: &[&str], is_right: impl Fn(u64) -> bool) -> Result<()> {
    let told = |run: &Value| run["copied"].as_u64().is_some_and(&is_right);
    for one in measurements {
        let name = one["path"].as_str().context("no path")?;
        let mut runs = one["runs"].as_array().context("no runs")?.iter();
        ensure!(!paths.contains(&name) || runs.all(told), "{one:#}");
    }
    Ok(())
}

/// Every path that runs here was measured with every size, verified and its calls counted, or is left out by
/// name with that size. Answers how many were measured.
fn ensure_every_path_and_size(result: &Value, experiment: &str, sizes: &[Option<u64>]) -> Result<usize> {
    let measurements = result["measurements"].as_array().context("no measurements")?;
    let paths = result["host"]["paths"].as_array().context("no paths")?;
    let mut measured = 0;
    for path in paths.iter().filter(|path| path["experiment"] == experiment && path["runs"] == true) {
        // The whole file is no datagram.
        for size in sizes.iter().filter(|size| size.is_some() || path["transport"] == "tcp") {
            let is_it = |one: &&Value| {
                (&one["path"], &one["transport"]) == (&path["path"], &path["transport"])
                    && one["size"].as_u64() == *size
            };
            let Some(one) = measurements.iter().find(is_it) else {
                ensure!(
                    is_left_out(result, path, *size),
                    "{} of {size:?}: not measured, not left out",
                    path["path"]
                );
                continue;
            };
            ensure!(one["verified"] == true && one["mtu"] == 1500, "{one:#}");
            ensure!(one["calls_per_packet"].is_number(), "root may count, and it was not: {one:#}");
            measured += 1;
        }
    }
    Ok(measured)
}

/// Returns whether a line says so: `PATH, PATH, UDP, from SIZE bytes on` or `PATH, SIZE bytes, UDP`.
fn is_left_out(result: &Value, path: &Value, size: Option<u64>) -> bool {
    let lines = result["left_out"].as_array().into_iter().flatten();
    let mut lines = lines.filter_map(|line| line["what"].as_str());
    let name = path["path"].as_str().unwrap_or_default();
    let transport = path["transport"].as_str().unwrap_or_default().to_uppercase();
    lines.any(|line| {
        let parts: Vec<&str> = line.split(", ").collect();
        let size_of = |part: &str| part.strip_suffix(" bytes").and_then(|bytes| bytes.parse::<u64>().ok());
        let from = |part: &str| size_of(part.strip_prefix("from ")?.strip_suffix(" on")?);
        let of_size = |part: &&str| match size {
            None => *part == "the whole file",
            Some(size) => size_of(part) == Some(size) || from(part).is_some_and(|least| least <= size),
        };
        parts.contains(&name) && parts.contains(&transport.as_str()) && parts.iter().any(of_size)
    })
}

/// Lent and copied sends were measured for each transport and MTU.
fn ensure_loans(result: &Value, told: Option<&Value>) -> Result<()> {
    let points = result["loan"]["points"].as_array().context("no points")?;
    for (transport, mtu) in [("udp", 1500), ("tcp", 1500), ("udp", 9000), ("tcp", 9000)] {
        let of_series = |point: &&Value| point["transport"] == transport && point["mtu"] == mtu;
        let series: Vec<&Value> = points.iter().filter(of_series).collect();
        ensure!(series.len() >= 10, "{} sizes over {transport}, MTU {mtu}", series.len());
        for point in series {
            let runs = point["copied_send_s"].as_array().context("no runs")?;
            // Sizes for which no kind is proved cheaper get up to four times as many rounds.
            ensure!(
                (2..=8).contains(&runs.len()) && runs.iter().all(|run| run.as_f64() > Some(0.0)),
                "{point:#}"
            );
            ensure!(point["copied_throughput"].as_f64() > Some(0.0), "{point:#}");
            let auto = point["auto_send_s"].as_array().context("no automatic choice")?;
            ensure!(auto.len() == runs.len() && point["auto_to_best"]["rounds"] == runs.len(), "{point:#}");
        }
    }
    let sends = result["measurements"].as_array().context("no measurements")?;
    ensure!(sends.iter().all(|one| one["experiment"] != "loan" || one["verified"] == true), "{sends:#?}");
    // On a device that drops, what is lent is lent.
    let transports = if acknowledges(result)? { &["udp", "tcp"][..] } else { &["udp"] };
    for (transport, mtu) in transports.iter().flat_map(|transport| [(transport, 1500), (transport, 9000)]) {
        let lent = points.iter().filter(|point| {
            point["transport"] == *transport && point["mtu"] == mtu && point["lent_throughput"].is_number()
        });
        ensure!(lent.count() >= 10, "too little was lent over {transport}, MTU {mtu}: {points:#?}");
    }
    ensure_thresholds_of_tcp(result, told)?;
    for point in points {
        let is_large = point["transport"] == "udp" && point["size"].as_u64() >= point["mtu"].as_u64();
        for kind in ["fragments_send_s", "spliced_send_s"] {
            let runs = point[kind].as_array().context("no list")?;
            ensure!(runs.is_empty() != is_large, "{kind}: {point:#}");
        }
    }
    let left_out = result["left_out"].as_array().context("nothing is said of what was left out")?;
    ensure_queued(result["loan"]["queue"].as_array().context("no queue")?, left_out)
}

/// Returns whether TCP had no receiver; if it had one, the result says why.
fn acknowledges(result: &Value) -> Result<bool> {
    let peer = result["settings"]["tcp_peer"].as_str().context("no peer of TCP")?;
    let left_out = result["left_out"].to_string();
    let is_explained = left_out.contains("TCP on the device that drops");
    ensure!(is_explained == (peer != "device"), "TCP had a {peer}: {left_out}");
    if peer != "device" {
        println!("TCP was measured to a receiver: {left_out}");
    }
    Ok(peer == "device")
}

/// Thresholds over TCP are kept for devices if no receiver was measured. Two rounds decide nothing: then none is found.
fn ensure_thresholds_of_tcp(result: &Value, told: Option<&Value>) -> Result<()> {
    let found = result["loan"]["thresholds"].as_array().context("no thresholds")?;
    let kept = told.and_then(|told| told["loan_thresholds"].as_array()).map_or(&[][..], Vec::as_slice);
    let of_tcp = |all: &[Value]| all.iter().filter(|one| one["transport"] == "tcp").count();
    let expected = if acknowledges(result)? { of_tcp(found) } else { 0 };
    ensure!(of_tcp(kept) == expected, "{found:#?}, {kept:#?}");
    Ok(())
}

/// Sends met a full queue, which dropped what the sender was told of. Before Linux 6.8 nothing can be lent to a
/// queue, and on a fast processor datagrams of many fragments never fit into it: these are then left out.
fn ensure_queued(queue: &[Value], left_out: &[Value]) -> Result<()> {
    let no_loans = left_out.iter().any(|one| one.to_string().contains("optmem_max"));
    let never_fit = |one: &&Value| {
        let (what, why) = (one["what"].to_string(), one["why"].to_string());
        what.contains("61440 bytes") && what.contains("fragmented") && why.contains("never had room")
    };
    let never_fit = left_out.iter().filter(never_fit).count();
    let (mut kinds, mut was_full) = (BTreeSet::new(), false);
    for point in queue {
        let runs = point["runs"].as_array().context("no runs")?;
        ensure!(runs.len() == 2, "{point:#}");
        for run in runs {
            ensure!(run["sent"].as_u64() > Some(0) && run["errors"] == run["dropped"], "{point:#}");
            ensure!(run["copied_by_kernel"] == 0, "it was not lent: {point:#}");
        }
        if point["size"] == 61_440 {
            was_full |= runs.iter().any(|run| run["errors"].as_u64() > Some(0));
            kinds.insert(format!("{}, MTU {}", point["kind"], point["mtu"]));
        }
    }
    ensure!(kinds.len() + never_fit == if no_loans { 6 } else { 8 }, "{kinds:?}, {left_out:?}");
    // On a busy machine, fragments may leave no faster than the queue takes them.
    ensure!(was_full, "no kind of sends met a full queue: {queue:#?}");
    Ok(())
}

/// Promise: `loan` decides by measured thresholds, for aligned and other sends.
/// Promise: `assess download` over TCP copies no lent page if the device of `--sink drop` acknowledges.
///
/// Over UDP the threshold of a file decides; over TCP it has none, and the default does.
fn a_download_lends_by_the_calibration() -> Result<()> {
    require!(is_root(), "network namespaces need root");
    let folder = process::open_folder()?;
    for (bytes, lends) in [(Some(1), true), (None, false)] {
        let threshold = serde_json::json!({
            "host": serde_json::to_value(Host::this())?, "device": "with_checksums", "mtu": 1500, "transport": "udp",
            "origin": "made for a test", "unix_s": 1, "aligned_bytes": bytes, "unaligned_bytes": bytes, "quick": false,
        });
        let calibration = serde_json::json!({"version": 1, "entries": [], "loan_thresholds": [threshold]});
        let file = folder.path().join("calibration.json");
        fs::write(&file, calibration.to_string())?;
        let mut command = command(&["download", "--sink", "drop", "--json", "-"])?;
        command.args(TINY).arg("--scratch").arg(folder.path()).arg("--calibration").arg(&file);
        let output = command.output().context("running it")?;
        let log = String::from_utf8_lossy(&output.stderr);
        require!(!log.contains("no device that drops"), "this kernel has neither ifb nor dummy");
        ensure!(output.status.success() && log.contains("`loan` over UDP lends"), "{log}");
        let result: Value = serde_json::from_slice(&output.stdout)?;
        let measurements = result["measurements"].as_array().context("no measurements")?;
        let lent = measurements
            .iter()
            .filter(|one| one["path"] == "loan" && one["transport"] == "udp")
            .filter_map(|one| one["runs"][0]["loans"]["loans"].as_u64());
        ensure!((lent.sum::<u64>() > 0) == lends, "threshold {bytes:?}: {result:#}");
        if acknowledges(&result)? {
            let over_tcp = measurements.iter().filter(|one| one["transport"] == "tcp");
            // Linux 6.18 reports most sends of an io_uring that share a segment as copied, wherever they go.
            let shares = |one: &&Value| one["path"] == "uring_send" && one["size"].is_number();
            let over_tcp: Vec<Value> = over_tcp.filter(|one| !shares(one)).cloned().collect();
            ensure!(over_tcp.iter().any(|one| one["path"] == "mmap_zerocopy"), "{result:#}");
            ensure_copied(&over_tcp, &["uring_send", "mmap_zerocopy", "loan"], |copied| copied == 0)?;
        }
    }
    Ok(())
}

/// Promise: Without `nft`, `--sink drop` measures TCP to a receiver, and the result says why.
fn tcp_goes_to_a_receiver_where_nothing_acknowledges() -> Result<()> {
    require!(is_root(), "network namespaces need root");
    let nft = process::find("nft");
    require!(nft.is_some() && process::find("unshare").is_some(), "`nft` or `unshare` is not installed");
    let folder = process::open_folder()?;
    // In a mount namespace of its own, where `nft` cannot be executed.
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind /dev/null \"$0\" && exec \"$@\""]).args(nft);
    command.arg(server::binary()?).args(["assess", "download", "--sink", "drop", "--json", "-"]).args(TINY);
    command.arg("--scratch").arg(folder.path());
    command.arg("--calibration").arg(folder.path().join("calibration.json"));
    let output = command.output().context("running it")?;
    let log = String::from_utf8_lossy(&output.stderr);
    require!(!log.contains("no device that drops"), "this kernel has neither ifb nor dummy");
    ensure!(output.status.success(), "{log}");
    let result: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(!acknowledges(&result)? && result["settings"]["tcp_peer"] == "receiver", "{result:#}");
    let mut measurements = result["measurements"].as_array().context("no measurements")?.iter();
    ensure!(measurements.any(|one| one["transport"] == "tcp"), "nothing was measured over TCP: {result:#}");
    let left_out = result["left_out"].as_array().context("nothing is left out")?;
    let why = left_out.iter().find(|one| one["what"].as_str().is_some_and(|what| what.starts_with("TCP on")));
    ensure!(why.is_some_and(|why| why["why"].to_string().contains("nft")), "{left_out:#?}");
    Ok(())
}

/// Every path was profiled, or is left out.
fn ensure_profiles(result: &Value) -> Result<()> {
    let profiles = result["profiles"].as_array().context("no profiles")?;
    let paths = result["host"]["paths"].as_array().context("no paths")?;
    for path in paths.iter().filter(|path| path["runs"] == true) {
        let of_path = |one: &&Value| one["path"] == path["path"] && one["transport"] == path["transport"];
        let Some(profile) = profiles.iter().find(of_path) else {
            let left_out = result["left_out"].to_string();
            let name = path["path"].as_str().context("no name")?;
            ensure!(left_out.contains(name), "{name} has no profile and is not left out: {left_out}");
            continue;
        };
        let shares =
            ["copying", "entering", "network", "user"].map(|name| profile[name].as_f64().unwrap_or(-1.0));
        ensure!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{profile:#}");
        ensure!(
            shares.iter().sum::<f64>() < 1.001 && profile["samples"].as_u64() >= Some(1000),
            "{profile:#}"
        );
    }
    ensure!(profiles.len() > paths.len() / 2, "{} profiles of {} paths", profiles.len(), paths.len());
    Ok(())
}

/// Promise: All experiments run at once or alone: machine, downloads, streams, profiles, loans.
/// Promise: `assess loan` measures lent and copied sends over TCP without a receiver, or says what the kernel lacks.
///
/// Without an experiment all are made, and the result becomes a page.
fn everything_is_measured_at_once_and_reported() -> Result<()> {
    let (result, told) = assessed(&["--quick"])?;
    ensure_loans(&result, told.as_ref())?;
    ensure_profiles(&result)?;
    ensure_told(told.context("the server was told nothing")?, "with_checksums")?;
    ensure!(
        result["settings"]["experiments"]
            == serde_json::json!(["host", "loan", "download", "stream", "profile"])
    );
    ensure!(
        result["partial"] == false && result["costs"]["copies"].as_array().is_some_and(|all| all.len() > 50)
    );
    for experiment in ["download", "stream", "loan"] {
        let mut measurements = result["measurements"].as_array().context("no measurements")?.iter();
        ensure!(measurements.any(|one| one["experiment"] == experiment), "nothing of {experiment}");
    }
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    fs::write(&json, serde_json::to_vec(&result)?)?;
    let output = command(&["report"])?.arg(&json).output().context("reporting")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(folder.path().join("result.html"))?;
    ensure!(page.contains("wire_sendfile") && page.contains("</html>"), "no page");
    Ok(())
}

/// Promise: After an assessment, also a killed one, no namespace, device or process remains.
fn an_assessment_killed_leaves_no_namespace_and_no_device() -> Result<()> {
    require!(is_root(), "network namespaces need root");
    let folder = process::open_folder()?;
    let mut traces = Traces::before()?;
    let mut command = command(&["stream", "--sink", "drop", "--volume", "4MiB", "--runs", "1000"])?;
    command.arg("--scratch").arg(folder.path());
    let mut process = Process::start(&command, true)?;
    Deadline::seconds(60.0).wait_for("its namespaces", || {
        traces.look(process.pid());
        Ok((traces.namespaces.len() >= 2).then_some(()))
    })?;
    process.signal(Signal::KILL)?;
    process.wait(Deadline::seconds(5.0))?;
    traces.ensure_gone()
}

/// A server finds figures for its paths on this kind of device.
fn ensure_told(told: Value, device: &str) -> Result<()> {
    let entry = &told["entries"][0];
    ensure!(entry["device"] == device && entry["mtu"] == 1500, "{told:#}");
    let costs = entry["costs"].as_array().context("no costs")?;
    for path in ["wire_sendfile", "gso_writev", "sendmmsg", "read_writev"] {
        for packets in [8, 48] {
            let cost = costs.iter().find(|cost| cost["path"] == path && cost["packets_per_train"] == packets);
            ensure!(
                cost.is_some_and(|cost| cost["cpu_ns_per_packet"].as_f64() > Some(1.0)),
                "{path}: {told:#}"
            );
        }
    }
    Ok(())
}

/// A good assessment that leaves nothing behind, and what a server is told by it, if anything.
pub(crate) fn assessed(arguments: &[&str]) -> Result<(Value, Option<Value>)> {
    require!(is_root(), "network namespaces need root");
    require!(process::find("ip").is_some(), "`ip` is not installed");
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    let mut traces = Traces::before()?;
    let mut command = command(arguments)?;
    command.args(TINY).arg("--json").arg(&json).arg("--scratch").arg(folder.path());
    let calibration = folder.path().join("calibration.json");
    command.arg("--calibration").arg(&calibration);
    let mut process = Process::start(&command, true)?;
    let status = Deadline::seconds(400.0).wait_for("its end", || {
        traces.look(process.pid());
        Ok(process.wait(Deadline::seconds(0.02)).ok())
    })?;
    let log = process.log();
    require!(!log.contains("no device that drops"), "this kernel has neither ifb nor dummy");
    ensure!(status.success(), "{status}: {log}");
    ensure!(traces.namespaces.len() >= 2, "it was on no test bed of its own");
    traces.ensure_gone()?;
    let told = calibration.exists().then(|| fs::read(&calibration)).transpose()?;
    let told = told.map(|text| serde_json::from_slice(&text)).transpose()?;
    Ok((serde_json::from_slice(&fs::read(&json)?)?, told))
}

fn command(arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(server::binary()?);
    command.arg("assess").args(arguments);
    Ok(command)
}

/// Leftovers of an assessment.
struct Traces {
    /// Devices that were here before.
    links: String,
    /// The namespace that tests are in.
    ours: String,
    /// Namespaces that threads of it and of its receiver were in.
    namespaces: BTreeSet<String>,
}

impl Traces {
    fn before() -> Result<Traces> {
        let ours = fs::read_link("/proc/self/ns/net")?.to_string_lossy().into_owned();
        Ok(Traces { links: links()?, ours, namespaces: BTreeSet::new() })
    }

    /// Notes where the threads of a process and of its children are.
    fn look(&mut self, pid: u32) {
        let threads: Vec<_> = threads_of(&pid.to_string()).collect();
        let children = threads.iter().filter_map(|thread| fs::read_to_string(thread.join("children")).ok());
        let children: Vec<String> = children
            .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        let all = threads.into_iter().chain(children.iter().flat_map(|child| threads_of(child)));
        self.namespaces
            .extend(all.filter_map(|thread| namespace_of(&thread)).filter(|name| *name != self.ours));
    }

    /// Sees that nobody is in these namespaces any more, and no device is here that was not.
    fn ensure_gone(&self) -> Result<()> {
        Deadline::seconds(10.0).wait_for("namespaces to be gone", || {
            let processes = fs::read_dir("/proc")?.filter_map(Result::ok);
            let names = processes.filter_map(|process| process.file_name().into_string().ok());
            let numbers = names.filter(|name| name.parse::<u32>().is_ok());
            let left = numbers
                .flat_map(|pid| threads_of(&pid).collect::<Vec<_>>())
                .filter_map(|thread| namespace_of(&thread))
                .any(|namespace| self.namespaces.contains(&namespace));
            Ok((!left).then_some(()))
        })?;
        ensure!(links()? == self.links, "devices before:\n{}\nand after:\n{}", self.links, links()?);
        Ok(())
    }
}

/// Folders of a process's threads, which may end while we look.
fn threads_of(pid: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    threads.filter_map(|thread| Some(thread.ok()?.path()))
}

fn namespace_of(thread: &Path) -> Option<String> {
    Some(fs::read_link(thread.join("ns/net")).ok()?.to_string_lossy().into_owned())
}

/// Names of the devices here.
fn links() -> Result<String> {
    let table = process::run("ip", ["-br", "link"], 10.0)?;
    let names = table.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.collect::<Vec<_>>().join("\n"))
}
