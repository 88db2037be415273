//! `wirepath assess clients` on a test bed of its own.
//!
//! ```text
//!   namespace of the server                       namespace of the clients
//!   sink (drops what is not judged)
//!   near ------------------- veth ----------------- far
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::process::{self, Process, is_root};
use wirepath_tests::{Deadline, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_few_clients_are_found_timely,
        a_peer_is_measured_in_turns,
        data_paths_and_processors_are_measured_in_turns,
        nginx_is_measured_over_http,
        a_peer_that_does_not_start_is_named
    ]
}

/// A search that ends within seconds.
const TINY: [&str; 14] = [
    "--quick",
    "--first",
    "4",
    "--most",
    "8",
    "--window",
    "1s",
    "--settle",
    "500ms",
    "--ramp",
    "100",
    "--rates",
    "2",
    "--processors=one",
];

/// Runs it with these arguments; answers the result, the exit code and what it printed.
fn assessed(arguments: &[&str]) -> Result<(Value, i32, String)> {
    require!(is_root(), "network namespaces need root");
    require!(process::find("ip").is_some(), "`ip` is not installed");
    let processors = std::thread::available_parallelism()?.get();
    require!(processors > 1, "the server and its clients need a processor each");
    let folder = process::open_folder()?;
    let path = |name: &str| folder.path().join(name);
    let mut command = Command::new(server::binary()?);
    command.args(["assess", "clients"]).args(TINY).args(arguments);
    command.arg("--scratch").arg(path("scratch")).arg("--calibration").arg(path("calibration.json"));
    command.arg("--json").arg(path("result.json")).arg("--csv").arg(path("steps.csv"));
    command.arg("--report").arg(path("result.html"));
    let mut process = Process::start(&command, true)?;
    let status = process.wait(Deadline::seconds(180.0))?;
    let told = process.log();
    let refused = told.contains("namespaces, which take root");
    require!(!refused, "making network namespaces is not permitted here");
    let json = fs::read_to_string(path("result.json")).with_context(|| format!("no result: {told}"))?;
    let page = fs::read_to_string(path("result.html"))?;
    ensure!(page.contains("<svg") && page.contains("Timely clients"), "{page}");
    let result: Value = serde_json::from_str(&json)?;
    let steps = result["searches"].as_array().context("no searches")?.iter();
    let steps: usize = steps.map(|search| search["steps"].as_array().map_or(0, Vec::len)).sum();
    let rows = fs::read_to_string(path("steps.csv"))?.lines().count();
    ensure!(rows == steps + 1, "{rows} rows for {steps} steps");
    Ok((result, status.code().unwrap_or(-1), told))
}

/// Promise: `assess clients` finds the number of timely clients, the cost of a client, and the limit that was
/// reached.
///
/// With few clients the limit is that no more are tried, or this machine: what is found is judged by its
/// form.
fn a_few_clients_are_found_timely() -> Result<()> {
    for transport in ["udp", "tcp"] {
        let (result, code, told) = assessed(&["--transport", transport])?;
        let search = &result["searches"][0];
        let Some(largest) = search["largest"].as_u64() else {
            require!(false, "this machine is too busy for four timely clients: {told}");
            continue;
        };
        ensure!(code == 0 && (1..=8).contains(&largest), "{code}: {told}");
        let steps = search["steps"].as_array().context("no steps")?;
        let is_best = |step: &&Value| step["clients"] == largest && step["limit"].is_null();
        let figures = &steps.iter().find(is_best).context("no step with the largest number")?["figures"];
        let number = |name: &str| figures[name].as_f64().with_context(|| format!("no {name}: {figures:#}"));
        ensure!(number("user_s")? + number("system_s")? > 0.0, "{figures:#}");
        // 2 Mb/s to each, with headers, on devices that are ours alone.
        let rate = number("bits_per_second")? / largest as f64;
        ensure!((1.5e6..4e6).contains(&rate), "{rate} b/s to each: {figures:#}");
        ensure!(figures["lost"] == 0 && number("lateness_p99_ms")? < 105.1, "{figures:#}");
        ensure!(told.contains(", timely ("), "progress is said: {told}");
    }
    Ok(())
}

/// Promise: Other servers, started by a command, are measured in turns with `wirepath serve`.
fn a_peer_is_measured_in_turns() -> Result<()> {
    // The same program under another name: what every machine has.
    let binary = server::binary()?;
    let program = binary.to_str().context("a path that is not UTF-8")?;
    let peer = format!(
        "other=exec {program} serve \"$MEDIA\" --rtsp $ADDRESS:$PORT --http $ADDRESS:0 --cache \"$MEDIA/../other\" \
         --burst 20ms"
    );
    let (result, _, told) = assessed(&["--peer", &peer])?;
    let searches = result["searches"].as_array().context("no searches")?;
    let names: Vec<&Value> = searches.iter().map(|search| &search["server"]).collect();
    ensure!(names == ["wirepath", "other"], "{names:?}");
    // Every search takes two steps at least: of 4 clients, then of 8, of 4 again or of fewer.
    let name = |line: &str| {
        ["wirepath", "other"].into_iter().find(|name| line.contains(&format!(" {name}: clients ")))
    };
    let order: Vec<&str> = told.lines().filter_map(name).take(4).collect();
    ensure!(order == ["wirepath", "other", "wirepath", "other"], "{order:?}: {told}");
    Ok(())
}

/// Promise: `assess clients` alternates between data paths and processors of a server, and reports the path
/// that was used.
fn data_paths_and_processors_are_measured_in_turns() -> Result<()> {
    let (result, _, told) = assessed(&["--path", "sendmmsg,gso_writev", "--processors=all"])?;
    let searches = result["searches"].as_array().context("no searches")?;
    let names = ["2 Mb/s UDP, sendmmsg", "2 Mb/s UDP, gso_writev", "2 Mb/s UDP, all cores, sendmmsg"];
    ensure!(searches.len() == names.len(), "{} searches: {told}", searches.len());
    for search in searches {
        for step in search["steps"].as_array().context("no steps")? {
            let figures = &step["figures"];
            ensure!(figures["data_path"] == search["case"]["path"], "{step:#}");
            ensure!(figures["link_drops"].is_u64() && figures["descriptors"].as_u64() > Some(3), "{step:#}");
        }
    }
    // Every search takes two steps at least.
    let name =
        |line: &str| names.into_iter().find(|name| line.contains(&format!("{name} wirepath: clients ")));
    let order: Vec<&str> = told.lines().filter_map(name).take(2 * names.len()).collect();
    ensure!(order == [names, names].concat(), "{order:?}: {told}");
    let counters = Path::new("/sys/class/powercap/intel-rapl:0/energy_uj").exists();
    let packages = result["conditions"]["energy_packages"].as_array().context("no packages")?.len();
    ensure!(counters || packages == 0, "{packages} packages without counters");
    Ok(())
}

/// Promise: `assess clients` counts HTTP players of `wirepath serve` and nginx in turns, and measures the
/// cost of a player.
fn nginx_is_measured_over_http() -> Result<()> {
    require!(process::find("nginx").is_some(), "nginx is not installed");
    let script = std::fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/peers/nginx"))?;
    let peer = format!("nginx={}", script.display());
    let (result, code, told) = assessed(&["--transport", "http", "--peer", &peer])?;
    for name in ["wirepath", "nginx"] {
        let mut searches = result["searches"].as_array().context("no searches")?.iter();
        let search = searches.find(|search| search["server"] == name);
        let search = search.with_context(|| format!("no search of {name}: {told}"))?;
        ensure!(search["case"]["transport"] == "http", "{search:#}");
        let Some(largest) = search["largest"].as_u64() else {
            require!(false, "this machine is too busy for four timely clients: {told}");
            continue;
        };
        ensure!(code == 0 && (1..=8).contains(&largest), "{code}: {told}");
        let steps = search["steps"].as_array().context("no steps")?;
        let best = steps.iter().find(|step| step["clients"] == largest && step["limit"].is_null());
        let figures = &best.context("no step with the largest number")?["figures"];
        let number = |name: &str| figures[name].as_f64().with_context(|| format!("no {name}: {figures:#}"));
        // The first byte may come within less than what is told, a tenth of a millisecond.
        ensure!(number("first_packet_p99_ms")? >= 0.0 && figures["lateness_p99_ms"].is_null(), "{figures:#}");
        ensure!(number("sent_share").is_err() || number("sent_share")? >= 0.9, "{figures:#}");
    }
    Ok(())
}

/// Promise: If a server does not start, the error shows the end of its log, and the exit code is 3.
fn a_peer_that_does_not_start_is_named() -> Result<()> {
    let (result, code, told) = assessed(&["--peer", "broken=echo no licence found; exit 1"])?;
    let why = result["left_out"].to_string();
    ensure!(code == 3 && why.contains("broken") && why.contains("no licence found"), "{code}: {why}: {told}");
    Ok(())
}
