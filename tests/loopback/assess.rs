//! `wirepath assess` on the loopback device, as a user without privileges and as root.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_datapath::calibration::Host;
use wirepath_tests::process::{self, Process};
use wirepath_tests::proxy::ClosedPort;
use wirepath_tests::{Deadline, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        an_assessment_without_privileges_is_complete,
        a_machine_is_described_and_its_costs_are_measured,
        root_without_capabilities_measures_over_loopback,
        what_cannot_be_sent_is_an_error,
        an_option_that_an_experiment_has_no_use_for_is_refused,
        a_sink_that_is_not_there_is_said_before_anything_is_measured,
        what_measures_nothing_is_an_error,
        a_result_that_cannot_be_written_is_an_error_at_once,
        a_result_that_cannot_be_written_in_the_end_is_shown,
        an_interrupt_keeps_what_was_measured,
        a_second_interrupt_ends_it_at_once,
        another_host_receives,
        what_another_host_says_is_kept_for_the_device,
        loans_are_forced_and_counted,
        a_download_lends_by_the_calibration,
        a_calibration_that_is_something_else_is_told_at_once,
        a_sink_that_stops_is_an_error_and_keeps_what_was_measured,
        an_assessment_killed_leaves_no_receiver,
    ]
}

/// Enough for a run of each path, and little.
const TINY: [&str; 4] = ["--volume", "1MiB", "--runs", "2"];

/// So much that it does not end by itself while a test waits.
const LONG: [&str; 4] = ["--volume", "1MiB", "--runs", "100"];

/// Promise: With privileges, verification runs over a link on which checksums are verified.
/// Promise: Without privileges an assessment measures over loopback and says what it left out.
/// Promise: A result names the version and commit of the program that made it.
fn an_assessment_without_privileges_is_complete() -> Result<()> {
    let folder = process::open_folder()?;
    for experiment in ["stream", "download"] {
        let mut command = process::as_ordinary_user(program()?.as_str(), folder.path());
        command.args(["assess", experiment, "--json", "-", "--scratch"]).arg(folder.path()).args(TINY);
        let output = command.output().context("running it")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{experiment}: {}: {errors}", output.status);
        let result: Value =
            serde_json::from_slice(&output.stdout).context("standard output is not JSON alone")?;
        ensure!(result["schema"] == "wirepath-assessment/1" && result["partial"] == false, "{result:#}");
        ensure!(result["settings"]["sink"] == "loopback", "{:#}", result["settings"]);
        ensure!(result["program"] == version()?.as_str(), "{}", result["program"]);
        let measurements = result["measurements"].as_array().context("no measurements")?;
        let left_out = result["left_out"].to_string();
        let plain = if experiment == "stream" { "read_writev" } else { "read_write" };
        for size in [512, 1024, 2048] {
            ensure!(
                measurements.iter().any(|one| one["path"] == plain && one["size"] == size),
                "no {plain} of {size} bytes: {left_out}"
            );
        }
        for measurement in measurements {
            ensure!(measurement["verified"] == true, "{measurement:#}");
            let runs = measurement["runs"].as_array().context("no runs")?;
            let sent = |run: &Value| run["bytes"] == 1 << 20 && run["packets"].as_u64() > Some(0);
            ensure!(runs.len() == 2 && runs.iter().all(sent), "{measurement:#}");
        }
        ensure!(left_out.contains("root"), "it does not say what takes root: {left_out}");
        ensure!(left_out.contains("checksums on the wire"), "it claims to have seen checksums: {left_out}");
    }
    Ok(())
}

/// Promise: All experiments run at once or alone: machine, downloads, streams, profiles, loans.
fn a_machine_is_described_and_its_costs_are_measured() -> Result<()> {
    let folder = process::open_folder()?;
    let mut command = process::as_ordinary_user(program()?.as_str(), folder.path());
    let json = folder.path().join("host.json");
    command
        .args(["assess", "host", "--quick", "--runs", "2", "--scratch"])
        .arg(folder.path())
        .arg("--json")
        .arg(&json);
    let output = command.output().context("running it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = String::from_utf8_lossy(&output.stdout);
    for title in
        ["The machine", "Network devices", "Limits and settings", "Data paths", "getpid", "Copying by size"]
    {
        ensure!(shown.contains(title), "no {title}: {shown}");
    }
    let result: Value = serde_json::from_slice(&fs::read(&json)?)?;
    ensure!(result["host"]["paths"].as_array().is_some_and(|all| all.len() > 15), "{:#}", result["host"]);
    ensure!(result["costs"]["kernel_entry_ns"].as_array().is_some_and(|runs| runs.len() == 2), "{result:#}");
    Ok(())
}

/// Promise: Root without capabilities, as in a container, measures over loopback.
///
/// As in a container.
fn root_without_capabilities_measures_over_loopback() -> Result<()> {
    require!(process::is_root(), "only root has capabilities to lose");
    require!(process::find("setpriv").is_some(), "`setpriv` is not installed");
    let folder = process::open_folder()?;
    let without = |sink: &[&str]| -> Result<Output> {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(program()?);
        command
            .args(["assess", "stream", "--json", "-", "--scratch"])
            .arg(folder.path())
            .args(TINY)
            .args(sink);
        command.output().context("running it")
    };
    let output = without(&[])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(result["settings"]["sink"] == "loopback", "{:#}", result["settings"]);
    ensure!(result["measurements"].as_array().is_some_and(|all| all.len() > 4), "{result:#}");
    let left_out = result["left_out"].to_string();
    ensure!(
        left_out.contains("sinks drop, drop-nooffload and veth") && left_out.contains("CAP_SYS_ADMIN"),
        "{left_out}"
    );
    let asked_for = without(&["--sink", "drop"])?;
    let errors = String::from_utf8_lossy(&asked_for.stderr);
    ensure!(asked_for.status.code() == Some(1) && errors.contains("CAP_SYS_ADMIN"), "{errors}");
    Ok(())
}

/// Promise: A missing sink, a forbidden processor and useless options are errors before the first run.
/// Promise: A size that cannot be sent is refused with a clear error.
fn what_cannot_be_sent_is_an_error() -> Result<()> {
    let folder = process::open_folder()?;
    let small = folder.path().join("small");
    fs::write(&small, [7; 100])?;
    for (file, why) in [
        (folder.path().join("missing"), "No such file"),
        (folder.path().to_owned(), "directory"),
        (small, "100 bytes"),
    ] {
        let mut command = assess(folder.path(), "loopback", &TINY)?;
        command.arg("--file").arg(&file);
        let output = command.output().context("running it")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{}: {errors}", output.status);
        ensure!(errors.contains(why) && errors.contains(&file.display().to_string()), "{errors}");
    }
    for wrong in [
        &["--sink", "peer"][..],
        &["--mtu", "20"][..],
        &["--cpu", "9999"],
        &["--volume", "0"],
        &["--runs", "0"],
    ] {
        let output = assess(folder.path(), "loopback", wrong)?.output().context("running it")?;
        let errors = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2) && !errors.is_empty(), "{wrong:?}: {}", output.status);
        // At once: nothing was looked at, so nothing is shown.
        ensure!(output.stdout.is_empty(), "{wrong:?}: {}", String::from_utf8_lossy(&output.stdout));
    }
    let bare = ["--bare", "/bin/true"];
    for (options, why) in [(&["--cache", "cold"][..], "use --cache warm"), (&[], "use --sink drop")] {
        let mut command = assess(folder.path(), "loopback", &bare)?;
        let output = command.args(options).output().context("running it")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && errors.contains(why), "{}: {errors}", output.status);
    }
    Ok(())
}

/// Promise: A missing sink, a forbidden processor and useless options are errors before the first run.
fn an_option_that_an_experiment_has_no_use_for_is_refused() -> Result<()> {
    for (experiment, option, value) in
        [("host", "--mtu", "1400"), ("host", "--bare", "/bin/true"), ("relay", "--loan", "on")]
    {
        let output = Command::new(program()?).args(["assess", experiment, option, value]).output()?;
        let errors = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2), "{}: {errors}", output.status);
        ensure!(errors.contains(option) && errors.contains("not an option of this experiment"), "{errors}");
        let help = Command::new(program()?).args(["assess", experiment, "--help"]).output()?;
        ensure!(
            !String::from_utf8(help.stdout)?.contains(&format!("{option} <")),
            "{option} of {experiment}"
        );
    }
    Ok(())
}

/// Promise: A missing sink, a forbidden processor and useless options are errors before the first run.
fn a_sink_that_is_not_there_is_said_before_anything_is_measured() -> Result<()> {
    let closed = ClosedPort::new()?;
    let nobody = closed.address();
    let scratch = process::open_folder()?;
    let mut command = Command::new(program()?);
    command.args(["assess", "--quick", "--sink", &nobody.to_string(), "--scratch"]).arg(scratch.path());
    command.arg("--calibration").arg(scratch.path().join("calibration.json"));
    let output = command.output().context("running it")?;
    let errors = String::from_utf8(output.stderr)?;
    let said = format!("no sink answers at {nobody}: Connection refused");
    ensure!(output.status.code() == Some(1) && errors.contains(&said), "{}: {errors}", output.status);
    ensure!(errors.contains(&format!("wirepath assess sink --listen 0.0.0.0:{}", nobody.port())), "{errors}");
    ensure!(output.stdout.is_empty() && errors.lines().count() == 1, "{errors}");
    ensure!(fs::read_dir(scratch.path())?.count() == 0, "a file was made");
    Ok(())
}

/// Promise: An experiment that measured nothing fails; an experiment that was left out does not.
///
/// Files in memory cannot be cold.
fn what_measures_nothing_is_an_error() -> Result<()> {
    let shared = Path::new("/dev/shm");
    require!(shared.is_dir(), "there is no /dev/shm");
    let folder = tempfile::tempdir_in(shared)?;
    let json = folder.path().join("result.json");
    let mut command = assess(folder.path(), "loopback", &TINY)?;
    command.args(["--cache", "cold", "--json"]).arg(&json);
    let output = command.output().context("running it")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1) && errors.contains("stream measured nothing"), "{errors}");
    let result: Value = serde_json::from_slice(&fs::read(&json)?)?;
    ensure!(result["measurements"].as_array().is_some_and(Vec::is_empty), "{result:#}");
    ensure!(
        result["partial"] == false && result["left_out"].to_string().contains("stay in the page cache"),
        "{result:#}"
    );
    Ok(())
}

/// Promise: A result file that cannot be written is an error at the start, and the file is written whole or
/// not at all.
fn a_result_that_cannot_be_written_is_an_error_at_once() -> Result<()> {
    let folder = process::open_folder()?;
    for json in [folder.path().join("missing/result.json"), folder.path().to_owned()] {
        // It would take minutes if it measured before it looked.
        let mut command = assess(folder.path(), "loopback", &LONG)?;
        command.arg("--json").arg(&json);
        let mut process = Process::start(&command, true)?;
        let status = process.wait(Deadline::seconds(10.0))?;
        let log = process.log();
        ensure!(status.code() == Some(1) && log.contains("cannot write the result"), "{status}: {log}");
    }
    Ok(())
}

/// Promise: A result file that cannot be written is an error at the start, and the file is written whole or
/// not at all.
fn a_result_that_cannot_be_written_in_the_end_is_shown() -> Result<()> {
    let (folder, results) = (process::open_folder()?, process::open_folder()?);
    let place = results.path().join("results");
    fs::create_dir(&place)?;
    let mut command = assess(folder.path(), "loopback", &LONG)?;
    command.arg("--json").arg(place.join("result.json"));
    let mut process = Process::start(&command, true)?;
    until_it_measures(&process)?;
    fs::remove_dir_all(&place)?;
    process.signal(Signal::INT)?;
    let status = process.wait(Deadline::seconds(30.0))?;
    let log = process.log();
    ensure!(log.contains("s/GiB") && log.contains("read_writev"), "what was measured is lost: {log}");
    ensure!(status.code() == Some(1) && log.contains("cannot write the result"), "{status}: {log}");
    Ok(())
}

/// Promise: An interrupted assessment keeps its measurements and marks the result as partial.
fn an_interrupt_keeps_what_was_measured() -> Result<()> {
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    let mut command = assess(folder.path(), "loopback", &LONG)?;
    command.arg("--json").arg(&json);
    let mut process = Process::start(&command, true)?;
    until_it_measures(&process)?;
    process.signal(Signal::INT)?;
    let status = process.wait(Deadline::seconds(30.0))?;
    ensure!(status.code() == Some(130), "{status}: {}", process.log());
    let result: Value = serde_json::from_slice(&fs::read(&json)?)?;
    ensure!(result["partial"] == true && result["left_out"].to_string().contains("stopped"), "{result:#}");
    ensure!(result["measurements"].as_array().is_some_and(|all| !all.is_empty()), "{result:#}");
    Ok(())
}

/// Promise: A second interrupt ends an assessment at once.
fn a_second_interrupt_ends_it_at_once() -> Result<()> {
    let folder = process::open_folder()?;
    // A sink that never answers: nothing ends the wait but the signal.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    silent.set_nonblocking(true)?;
    let command = assess(folder.path(), &silent.local_addr()?.to_string(), &TINY)?;
    let mut process = Process::start(&command, true)?;
    // The first only sees that somebody listens.
    let connection = || {
        Deadline::seconds(60.0)
            .wait_for("a connection", || Ok(silent.accept().ok()))
            .with_context(|| process.log())
    };
    let _connections = [connection()?, connection()?];
    process.signal(Signal::INT)?;
    process.signal(Signal::INT)?;
    // One that comes while the first is told of is as good as none: it is sent until it is heard.
    let status = Deadline::seconds(5.0).wait_for("its end", || {
        process.signal(Signal::INT).ok();
        Ok(process.wait(Deadline::seconds(0.1)).ok())
    })?;
    ensure!(status.code() == Some(130), "{status}");
    Ok(())
}

/// Promise: Another host receives data for an assessment, and serves nothing to other peers.
///
/// The receiver that a user starts on the other host.
fn another_host_receives() -> Result<()> {
    let folder = process::open_folder()?;
    let (mut sink, address) = start_sink()?;
    let mut command = assess(folder.path(), &address, &TINY)?;
    command.args(["--json", "-"]);
    let output = command.output().context("running it")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(result["settings"]["sink"] == address.as_str(), "{:#}", result["settings"]);
    ensure!(result["measurements"].as_array().is_some_and(|all| all.len() > 4), "{result:#}");
    ensure!(sink.is_running()?, "the sink ended: {}", sink.log());
    Ok(())
}

/// Promise: Costs measured to another host are stored for the device on the route to that host.
///
/// Over the loopback device, so the kernel copies what is lent.
fn what_another_host_says_is_kept_for_the_device() -> Result<()> {
    let folder = process::open_folder()?;
    let (_sink, address) = start_sink()?;
    for experiment in ["stream", "loan"] {
        let output = of(experiment, folder.path(), &address, &TINY)?.output().context("running it")?;
        ensure!(output.status.success(), "{experiment}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let kept: Value = serde_json::from_slice(&fs::read(folder.path().join("calibration.json"))?)?;
    let lo = serde_json::json!({"named": "lo"});
    let entry = &kept["entries"][0];
    let costs = entry["costs"].as_array().context("no costs")?;
    let (own, stored): (Vec<&Value>, Vec<&Value>) =
        costs.iter().partition(|cost| cost["own_headers"] == true);
    // Two lengths of trains; with headers of a session's own `gso_writev`, and `krtpsendfile` where the
    // module is loaded.
    ensure!(entry["device"] == lo && stored.len() == 8 && [2, 4].contains(&own.len()), "{kept:#}");
    for transport in ["udp", "tcp"] {
        let thresholds = kept["loan_thresholds"].as_array().context("no thresholds")?;
        let of_transport: Vec<_> = thresholds.iter().filter(|one| one["transport"] == transport).collect();
        let [threshold] = of_transport[..] else { anyhow::bail!("{kept:#}") };
        ensure!(threshold["device"] == lo && threshold["aligned_bytes"].is_null(), "{threshold:#}");
        ensure!(threshold["unaligned_bytes"].is_null(), "{threshold:#}");
        ensure!(
            threshold["origin"].to_string().contains("the kernel copies whatever is lent"),
            "{threshold:#}"
        );
    }
    Ok(())
}

/// Promise: `--loan on` and `--loan off` force the path `loan`, and a result counts lent and copied sends.
fn loans_are_forced_and_counted() -> Result<()> {
    let folder = process::open_folder()?;
    for (setting, lends) in [("on", true), ("off", false)] {
        let mut command = of("download", folder.path(), "loopback", &TINY)?;
        command.args(["--loan", setting, "--json", "-"]);
        let output = command.output().context("running it")?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && log.contains(&format!("--loan {setting}")), "{log}");
        let result: Value = serde_json::from_slice(&output.stdout)?;
        let measurements = result["measurements"].as_array().context("no measurements")?;
        let of_loan: Vec<&Value> = measurements.iter().filter(|one| one["path"] == "loan").collect();
        ensure!(of_loan.len() > 4, "{result:#}");
        for run in of_loan.iter().flat_map(|one| one["runs"].as_array().into_iter().flatten()) {
            let [loans, copies, by_kernel, most] =
                ["loans", "copies", "copied_by_kernel", "outstanding_most"]
                    .map(|name| run["loans"][name].as_u64());
            ensure!(loans.is_some_and(|loans| (loans > 0) == lends), "{run:#}");
            ensure!(copies.is_some_and(|copies| lends || copies > 0), "{run:#}");
            ensure!(by_kernel == loans && most.is_some_and(|most| (most > 0) == lends), "{run:#}");
        }
    }
    Ok(())
}

/// Promise: `loan` decides by measured thresholds, for aligned and other sends.
///
/// The threshold of a file is the policy over UDP; over TCP it has none. On loopback the kernel copies, so what is
/// lent by it is counted on a device that drops, in another test.
fn a_download_lends_by_the_calibration() -> Result<()> {
    let folder = process::open_folder()?;
    for (bytes, policy) in [(Some(1), "from 1 bytes on"), (None, "never")] {
        let threshold = serde_json::json!({
            "host": serde_json::to_value(Host::this())?, "device": "with_checksums", "mtu": 1500, "transport": "udp",
            "origin": "made for a test", "unix_s": 1, "aligned_bytes": bytes, "unaligned_bytes": bytes, "quick": false,
        });
        let calibration = serde_json::json!({"version": 1, "entries": [], "loan_thresholds": [threshold]});
        fs::write(folder.path().join("calibration.json"), calibration.to_string())?;
        let output = of("download", folder.path(), "loopback", &TINY)?.args(["--json", "-"]).output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        let over_udp =
            format!("`loan` over UDP lends page-aligned sends {policy}, other sends {policy}: measured");
        ensure!(output.status.success() && log.contains(&over_udp), "{log}");
        ensure!(log.contains("`loan` over TCP lends page-aligned sends from 5120 bytes on"), "{log}");
    }
    Ok(())
}

fn a_calibration_that_is_something_else_is_told_at_once() -> Result<()> {
    let folder = process::open_folder()?;
    fs::write(folder.path().join("calibration.json"), "notes")?;
    for experiment in ["stream", "loan", "download"] {
        let output = of(experiment, folder.path(), "loopback", &LONG)?.output().context("running it")?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1) && log.contains("is left as it is"), "{experiment}: {log}");
    }
    ensure!(fs::read_to_string(folder.path().join("calibration.json"))? == "notes", "it was changed");
    Ok(())
}

/// Promise: An interrupted assessment keeps its measurements and marks the result as partial.
fn a_sink_that_stops_is_an_error_and_keeps_what_was_measured() -> Result<()> {
    let folder = process::open_folder()?;
    let json = folder.path().join("result.json");
    let (sink, address) = start_sink()?;
    let mut command = assess(folder.path(), &address, &LONG)?;
    command.arg("--json").arg(&json);
    let mut process = Process::start(&command, true)?;
    until_it_measures(&process)?;
    sink.signal(Signal::KILL)?;
    let status = process.wait(Deadline::seconds(30.0))?;
    ensure!(status.code() == Some(1), "{status}: {}", process.log());
    ensure!(process.log().contains("the sink 127.0.0.1:"), "{}", process.log());
    let result: Value = serde_json::from_slice(&fs::read(&json)?)?;
    ensure!(result["partial"] == true, "{result:#}");
    ensure!(result["measurements"].as_array().is_some_and(|all| !all.is_empty()), "{result:#}");
    Ok(())
}

/// Promise: After an assessment, also a killed one, no namespace, device or process remains.
fn an_assessment_killed_leaves_no_receiver() -> Result<()> {
    let folder = process::open_folder()?;
    let mut process = Process::start(&assess(folder.path(), "loopback", &LONG)?, true)?;
    until_it_measures(&process)?;
    let receivers = children_of(process.pid())?;
    ensure!(!receivers.is_empty(), "it has no receiver");
    process.signal(Signal::KILL)?;
    process.wait(Deadline::seconds(5.0))?;
    Deadline::seconds(5.0).wait_for("the receiver's end", || {
        let gone = |pid: &u32| process::status_number(*pid, "VmSize").is_err();
        Ok(receivers.iter().all(gone).then_some(()))
    })
}

/// Output of `--version`: the program's version and its commit.
fn version() -> Result<String> {
    let version = process::run(&program()?, ["--version"], 10.0)?.trim_end().to_owned();
    let parts = version.strip_prefix("wirepath ").and_then(|rest| rest.split_once(" (")?.1.strip_suffix(')'));
    let commit = parts.context("no commit")?.trim_end_matches("-dirty");
    let is_commit = commit.len() == 12 && commit.bytes().all(|letter| letter.is_ascii_hexdigit());
    ensure!(is_commit || commit == "unknown", "{version}");
    Ok(version)
}

fn program() -> Result<String> {
    server::binary()?.into_os_string().into_string().ok().context("the program's path is not UTF-8")
}

/// `assess stream`.
fn assess(scratch: &Path, sink: &str, options: &[&str]) -> Result<Command> {
    of("stream", scratch, sink, options)
}

/// One experiment.
fn of(experiment: &str, scratch: &Path, sink: &str, options: &[&str]) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(["assess", experiment, "--sink", sink, "--scratch"]).arg(scratch).args(options);
    command.arg("--calibration").arg(scratch.join("calibration.json"));
    Ok(command)
}

/// A sink, and where it listens.
fn start_sink() -> Result<(Process, String)> {
    let mut command = Command::new(program()?);
    command.args(["assess", "sink", "--listen", "127.0.0.1:0"]);
    let mut sink = Process::start(&command, false)?;
    let mut line = String::new();
    BufReader::new(sink.take_stdout()?).read_line(&mut line)?;
    let address = line.trim_end().strip_prefix("listening on ").context(line.clone())?.to_owned();
    TcpStream::connect(&address)?;
    Ok((sink, address))
}

/// Waits until the first rounds are over: a tenth is for what comes before them.
fn until_it_measures(process: &Process) -> Result<()> {
    Deadline::seconds(100.0)
        .wait_for("the first rounds", || Ok(process.log().contains("stream: 20 %").then_some(())))
        .with_context(|| process.log())
}

/// Processes that threads of this one started.
pub(crate) fn children_of(pid: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.filter_map(Result::ok) {
        let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
    }
    Ok(children)
}
