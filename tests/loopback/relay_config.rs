//! `wirepath relay --config`: many streams with classes and rates, and who sees them.

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use rustix::process::Signal;
use serde_json::Value;
use wirepath_tests::process::{Process, find, run};
use wirepath_tests::{Deadline, http, require, server, trials};

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        a_stream_that_fails_leaves_the_others_alone,
        why_the_last_output_is_gone_is_said_once,
        hundreds_of_streams_run_at_once,
        what_went_through_is_what_is_counted,
        malformed_datagrams_and_outputs_that_are_gone_are_counted,
        rates_of_classes_and_streams_hold,
        wrong_files_are_named_with_their_line,
        a_file_is_checked_and_nothing_is_opened,
        a_stream_of_the_command_line_has_a_class_of_the_file,
        what_could_not_be_shown_or_kept_is_an_error_at_once,
        a_signal_stops_streams_that_run_and_those_that_wait,
        the_table_is_drawn_on_a_terminal_and_gone_at_the_end,
    ]
}

/// They load the machine.
pub(crate) fn alone() -> Vec<Trial> {
    trials![
        classes_get_their_shares_of_what_is_moved,
        classes_get_their_shares_of_processor_time_and_it_is_shown,
        classes_get_their_shares_on_each_thread,
    ]
}

/// A folder with a configuration in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(configuration: &str) -> Result<Folder> {
        let folder = Folder(tempfile::tempdir()?);
        std::fs::write(folder.path("relay.toml"), configuration)?;
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn relay(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(server::binary()?);
        command.args(["relay", "--config"]).arg(self.path("relay.toml")).args(arguments);
        Ok(command)
    }

    fn output(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.relay(arguments)?.output()?)
    }

    fn json(&self, name: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&std::fs::read(self.path(name))?)?)
    }
}

/// A relay with an HTTP door.
struct Watched {
    process: Process,
    door: SocketAddr,
}

impl Watched {
    fn start(folder: &Folder, arguments: &[&str]) -> Result<Watched> {
        let mut command = folder.relay(arguments)?;
        command.args(["--metrics", "127.0.0.1:0", "--json"]).arg(folder.path("report.json"));
        let mut process = Process::start(&command, true)?;
        let door = Deadline::seconds(20.0).wait_for("the door", || {
            let log = process.log();
            ensure!(process.is_running()?, "it ended: {log}");
            let address = log.split("http://").nth(1).and_then(|rest| rest.split("/metrics").next());
            Ok(address.and_then(|address| address.parse().ok()))
        })?;
        Ok(Watched { process, door })
    }

    fn status(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&http::get(self.door, "/api/status")?.body)?)
    }

    /// The names of its engine's threads, in order.
    fn engine_threads(&self) -> Result<Vec<String>> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.pid()))?;
        let names =
            tasks.map(|task| Ok(std::fs::read_to_string(task?.path().join("comm"))?.trim().to_owned()));
        let mut names: Vec<String> = names.collect::<Result<_>>()?;
        names.retain(|name| name.starts_with("engine-"));
        names.sort_unstable();
        Ok(names)
    }

    /// Waits until the streams' statuses are as `wanted`, and answers them.
    fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        Deadline::seconds(60.0).wait_for(what, || {
            let status = self.status()?;
            Ok(wanted(&status["streams"]).then(|| status["streams"].clone()))
        })
    }
}

/// Numbers by name and labels, as OpenMetrics has them.
fn numbers(text: &str) -> Result<HashMap<String, f64>> {
    ensure!(text.ends_with("# EOF\n"), "the end is missing: {text}");
    let samples = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (name, number) = line.rsplit_once(' ').with_context(|| format!("no number: {line}"))?;
        Ok((name.to_owned(), number.parse().with_context(|| format!("no number: {line}"))?))
    });
    samples.collect()
}

fn a_stream_that_fails_leaves_the_others_alone() -> Result<()> {
    let folder = Folder::new(
        "[[stream]]\nname = \"broken\"\nin = [\"file:missing\"]\nout = [\"file:never\"]\n\
         [[stream]]\nname = \"sound\"\nin = [\"file:source\"]\nout = [\"file:copy\", \"file:second\"]\n\
         [[stream]]\nname = \"cut\"\nin = [\"file:source\"]\nframing = \"ts\"\nout = [\"file:third\"]\n",
    )?;
    std::fs::write(folder.path("source"), [7; 300_000])?;
    let report = folder.path("report.json");
    let output = folder.output(&["--json", &report.display().to_string()])?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
    for line in [
        "wirepath: broken: failed: file:/".to_owned(),
        format!("{}: opening: No such file", folder.path("missing").display()),
        "wirepath: sound: started".to_owned(),
        "wirepath: sound: ended: 293.0 KiB in, 585.9 KiB out".to_owned(),
        "wirepath: cut: failed: ".to_owned(),
    ] {
        ensure!(said.contains(&line), "{line} is not in: {said}");
    }
    ensure!(std::fs::read(folder.path("copy"))? == [7; 300_000], "other bytes came");
    ensure!(std::fs::read(folder.path("second"))? == [7; 300_000], "other bytes came");
    ensure!(!folder.path("never").exists(), "a file was made for nothing");
    let report = folder.json("report.json")?;
    ensure!(report["schema"] == "wirepath-relay-streams/1", "{report}");
    let states: Vec<&Value> = (0..3).map(|place| &report["streams"][place]["state"]).collect();
    ensure!(states == ["failed", "ended", "failed"], "{report}");
    let sound = &report["streams"][1];
    ensure!(
        sound["name"] == "sound" && sound["bytes_in"] == 300_000 && sound["bytes_out"] == 600_000,
        "{report}"
    );
    ensure!(
        report["streams"][0]["error"].as_str().is_some_and(|error| error.contains("No such file")),
        "{report}"
    );
    Ok(())
}

fn why_the_last_output_is_gone_is_said_once() -> Result<()> {
    let folder =
        Folder::new("[[stream]]\nname = \"full\"\nin = [\"file:source\"]\nout = [\"file:/dev/full\"]\n")?;
    std::fs::write(folder.path("source"), [7; 300_000])?;
    let mut alone = Command::new(server::binary()?);
    alone
        .args(["relay", "--out", "file:/dev/full", "--in"])
        .arg(format!("file:{}", folder.path("source").display()));
    for (output, last) in [
        (
            folder.output(&["--json", &folder.path("report.json").display().to_string()])?,
            "full: failed: no output is left; ",
        ),
        (alone.output()?, "wirepath: no output is left\n"),
    ] {
        let said = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1) && said.contains(last), "{}: {said}", output.status);
        ensure!(said.matches("No space left on device").count() == 1, "{said}");
    }
    let error = &folder.json("report.json")?["streams"][0]["error"];
    ensure!(error.as_str().is_some_and(|error| error.contains("No space left on device")), "{error}");
    Ok(())
}

fn hundreds_of_streams_run_at_once() -> Result<()> {
    const STREAMS: usize = 300;
    let streams = (0..STREAMS).map(|number| {
        format!("[[stream]]\nname = \"{number}\"\nin = [\"file:source{number}\"]\nout = [\"unix:out{number}?listen\"]\n")
    });
    let readers = (0..STREAMS).map(|number| {
        format!("[[stream]]\nname = \"from {number}\"\nin = [\"unix:out{number}\"]\nout = [\"file:copy{number}\"]\n")
    });
    let sending = Folder::new(&streams.collect::<String>())?;
    std::fs::write(sending.path("receivers.toml"), readers.collect::<String>())?;
    let content = |number: usize| vec![number as u8; 1000 + 100 * number];
    for number in 0..STREAMS {
        std::fs::write(sending.path(&format!("source{number}")), content(number))?;
    }
    let mut senders = Process::start(&sending.relay(&[])?, true)?;
    Deadline::seconds(60.0).wait_for("all that listen", || {
        let listens = |number: usize| sending.path(&format!("out{number}")).exists();
        Ok((0..STREAMS).all(listens).then_some(()))
    })?;
    let mut receivers = Command::new(server::binary()?);
    receivers.args(["relay", "--config"]).arg(sending.path("receivers.toml"));
    Process::start(&receivers, true)?.succeed(Deadline::seconds(60.0))?;
    senders.succeed(Deadline::seconds(60.0))?;
    for number in 0..STREAMS {
        let copy = std::fs::read(sending.path(&format!("copy{number}")))?;
        ensure!(copy == content(number), "stream {number} has other bytes: {}", copy.len());
    }
    Ok(())
}

fn what_went_through_is_what_is_counted() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let folder = Folder::new(
        "[[class]]\nname = \"live\"\n[[class]]\nname = \"idle\"\n\
         [[stream]]\nname = \"lines\"\nin = [\"unix:inlet?listen\"]\nframing = \"line\"\n\
         handlers = [\"match:wire\", \"crc32c\"]\nout = [\"file:one\", \"file:two\"]\n\
         [[stream]]\nname = \"waits\"\nclass = \"idle\"\nin = [\"unix:never?listen\"]\nout = [\"file:three\"]\n",
    )?;
    let mut relay = Watched::start(&folder, &[])?;
    Deadline::seconds(20.0).wait_for("who listens", || Ok(folder.path("inlet").exists().then_some(())))?;
    let mut source = UnixStream::connect(folder.path("inlet"))?;
    for number in 0..1000u32 {
        writeln!(source, "{} number {number}", if number.is_multiple_of(2) { "wire" } else { "path" })?;
    }
    let (sent, passed): (usize, usize) = (0..1000).fold((0, 0), |(sent, passed), number: u32| {
        let bytes = format!("wire number {number}\n").len();
        (sent + bytes, if number.is_multiple_of(2) { passed + bytes } else { passed })
    });
    relay.wait_for("the lines", |streams| streams[0]["bytes_out"] == 2 * passed)?;

    let scrape = run("curl", ["-sS", "-i", &format!("http://{}/metrics", relay.door)], 20.0)?;
    let (head, text) = scrape.split_once("\r\n\r\n").context("no head")?;
    ensure!(head.to_lowercase().contains("content-type: application/openmetrics-text"), "{head}");
    let numbers = numbers(text)?;
    let (of_lines, of_waits) = ("stream=\"lines\",class=\"live\"", "stream=\"waits\",class=\"idle\"");
    for (name, labels, expected) in [
        ("wirepath_stream_in_bytes_total", of_lines, sent),
        ("wirepath_stream_out_bytes_total", of_lines, 2 * passed),
        ("wirepath_stream_running", of_lines, 1),
        ("wirepath_stream_in_bytes_total", of_waits, 0),
        ("wirepath_stream_running", of_waits, 0),
        ("wirepath_class_in_bytes_total", "class=\"live\"", sent),
        ("wirepath_class_streams", "class=\"live\"", 1),
        ("wirepath_class_out_bytes_total", "class=\"idle\"", 0),
    ] {
        let key = format!("{name}{{{labels}}}");
        ensure!(numbers.get(&key) == Some(&(expected as f64)), "{key} is not {expected} in {text}");
    }
    ensure!(numbers.get("wirepath_relay_streams_opening") == Some(&1.0), "{text}");
    let outputs: Vec<f64> = numbers
        .iter()
        .filter(|(name, _)| name.starts_with(&format!("wirepath_stream_output_out_bytes_total{{{of_lines}")))
        .map(|(_, bytes)| *bytes)
        .collect();
    ensure!(outputs == [passed as f64; 2], "{outputs:?} in {text}");
    ensure!(text.contains("handler=\"crc32c\",what=\"crc32c\""), "{text}");
    let status = relay.status()?;
    ensure!(
        status["schema"] == "wirepath-relay-status/1" && status["streams"][1]["state"] == "opening",
        "{status}"
    );
    ensure!(http::get(relay.door, "/anything")?.status == 404, "there is something else");

    drop(source);
    relay.wait_for("its end", |streams| streams[0]["state"] == "ended")?;
    relay.process.signal(Signal::TERM)?;
    let ended = relay.process.wait(Deadline::seconds(20.0))?;
    ensure!(ended.code() == Some(143), "{ended}: {}", relay.process.log());
    ensure!(relay.process.log().contains("wirepath: lines: ended: "), "{}", relay.process.log());
    let report = folder.json("report.json")?;
    ensure!(
        report["streams"][0]["bytes_in"] == sent && report["streams"][1]["state"] == "stopped",
        "{report}"
    );
    ensure!(std::fs::read(folder.path("one"))?.len() == passed, "other bytes came");
    Ok(())
}

/// Streams that could move as much as the machine can.
fn endless(name: &str, more: &str) -> String {
    format!("[[stream]]\nname = \"{name}\"\nin = [\"file:/dev/zero\"]\nout = [\"file:/dev/null\"]\n{more}\n")
}

fn moved(stream: &Value) -> u64 {
    stream["bytes_in"].as_u64().unwrap_or(0) + stream["bytes_out"].as_u64().unwrap_or(0)
}

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
    ensure!(relay.engine_threads()? == ["engine-0"], "classes are weighed on more than one thread");
    let all = |streams: &Value| [0, 1, 2].map(|place| moved(&streams[place]));
    let before = all(&relay.wait_for("all that run", |streams| all(streams).iter().all(|moved| *moved > 0))?);
    let now = relay.wait_for("enough volume", |streams| {
        all(streams).iter().sum::<u64>() > before.iter().sum::<u64>() + ENOUGH
    })?;
    let [one, two, three] = std::array::from_fn(|place| (all(&now)[place] - before[place]) as f64);
    let (share, within) = (one / (two + three), two / three);
    ensure!((2.94..3.06).contains(&share), "gold got {share} times what the rest got");
    ensure!((0.9..1.1).contains(&within), "within the class one got {within} times what the other got");
    Ok(())
}

/// By the relay's own account: what touches every byte gets its share of processor time, and what nobody looks at moves more in less.
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

    let scrape = http::get(relay.door, "/metrics")?;
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

/// How fast one thread is beside the other is the machine's business; on each the classes have their shares.
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

/// What somebody who watches the numbers has to see: datagrams that are refused, and an output that a mirror goes on without.
fn malformed_datagrams_and_outputs_that_are_gone_are_counted() -> Result<()> {
    require!(find("curl").is_some(), "curl is not installed");
    let inlet = crate::relay::free_port()?;
    let folder = Folder::new(&format!(
        "[[stream]]\nname = \"packets\"\nin = [\"udp://@{inlet}\"]\nframing = \"ts\"\nout = [\"file:copy\", \"unix:gone\"]\n"
    ))?;
    let door = UnixListener::bind(folder.path("gone"))?;
    let mut relay = Watched::start(&folder, &[])?;
    drop(door.accept()?);
    relay.wait_for("a socket that is bound", |streams| streams[0]["state"] == "running")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(inlet)?;
    let packet = [&[0x47, 0x01, 0x00, 0x10][..], &[0; 184]].concat();
    for datagram in [b"hostile", &packet[..], &packet[..100], &packet] {
        ensure!(sender.send(datagram)? == datagram.len());
    }
    let read = 7 + 188 + 100 + 188;
    let streams = relay.wait_for("what was sent", |streams| {
        streams[0]["bytes_in"] == read && streams[0]["outputs"][0]["bytes"] == 2 * 188
    })?;
    let gone = &streams[0]["ended_outputs"][0];
    let missed = gone["dropped_bytes"].as_u64().with_context(|| streams.to_string())?;
    ensure!(missed > 0 && streams[0]["gone_outputs"]["failed"] == 1, "{streams}");

    let numbers = numbers(&run("curl", ["-sS", &format!("http://{}/metrics", relay.door)], 20.0)?)?;
    let stream = "stream=\"packets\",class=\"\"";
    let output = format!("{stream},port=\"1\",output=\"unix:{}\"", folder.path("gone").display());
    for (name, labels, expected) in [
        ("stream_malformed_datagrams_total", stream.to_owned(), 2),
        ("stream_malformed_bytes_total", stream.to_owned(), 107),
        ("stream_outputs_failed_total", stream.to_owned(), 1),
        ("stream_outputs_disconnected_total", stream.to_owned(), 0),
        ("stream_output_gone", output.clone(), 1),
        ("stream_output_dropped_bytes_total", output, missed),
    ] {
        let name = format!("wirepath_{name}{{{labels}}}");
        ensure!(numbers.get(&name) == Some(&(expected as f64)), "{name} is not {expected}: {numbers:?}");
    }
    relay.process.signal(Signal::TERM)?;
    let status = relay.process.wait(Deadline::seconds(20.0))?;
    ensure!(status.code() == Some(143), "{status}: {}", relay.process.log());
    Ok(())
}

/// What may have moved by then is known whatever the machine does meanwhile.
fn rates_of_classes_and_streams_hold() -> Result<()> {
    const ENOUGH: u64 = 4_000_000;
    // What one turn may read beyond what is left: all that a pipe holds. It is made up for later.
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
    let threads = relay.engine_threads()?;
    ensure!(threads.len() == 4, "a thread has nothing to do: {threads:?}");
    // What has no limit gets ahead of the others, however much else the machine has to do.
    relay.wait_for("some volume", |streams| {
        let volumes: Vec<u64> = (0..4).map(|place| moved(&streams[place])).collect();
        volumes.iter().all(|volume| *volume > ENOUGH) && volumes[3] > volumes[..3].iter().sum()
    })?;
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

const COPY: &str = "[[stream]]\nname = \"copy\"\nin = [\"file:source\"]\nout = [\"file:target\"]\n";

fn wrong_files_are_named_with_their_line() -> Result<()> {
    for (configuration, said) in [
        ("[[class]]\nname = \"a\"\n".to_owned(), "relay.toml has no [[stream]]"),
        (format!("{COPY}frame = \"ts\"\n"), "relay.toml, line 5: unknown field `frame`"),
        (format!("{COPY}class = \"live\"\n"), "relay.toml, line 5: there is no class live; declare it"),
        (
            format!("{COPY}rate = \"100Mb/s\"\n"),
            "relay.toml, line 5: 100Mb/s is no rate; a rate is for instance",
        ),
        (format!("{COPY}{COPY}"), "relay.toml, line 6: there is a stream copy already"),
        (format!("{COPY}order ="), "relay.toml, line 5: "),
    ] {
        let folder = Folder::new(&configuration)?;
        std::fs::write(folder.path("source"), "bytes")?;
        for arguments in [&["--check"][..], &[]] {
            let output = folder.output(arguments)?;
            let error = String::from_utf8(output.stderr)?;
            ensure!(output.status.code() == Some(1) && error.contains(said), "{configuration}: {error}");
            ensure!(
                output.stdout.is_empty() && !folder.path("target").exists(),
                "it did something: {configuration}"
            );
        }
    }
    let missing = Command::new(server::binary()?).args(["relay", "--config", "/does/not/exist"]).output()?;
    let error = String::from_utf8(missing.stderr)?;
    ensure!(error.contains("cannot read the configuration file /does/not/exist: No such file"), "{error}");
    for (arguments, said) in [
        (&["--check"][..], "not provided:\n  --config <FILE>\n"),
        (&["--check", "--in", "-", "--out", "-"], "not provided:\n  --config <FILE>\n"),
        (&["--framing", "ts", "--config", "/dev/null"], "--in <ADDRESS>"),
        // One stream stays on one thread.
        (&["--threads", "2", "--in", "-", "--out", "-"], "--config <FILE>"),
        (&["--in", "-", "--out", "-", "--rate", "fast"], "fast is no rate; a rate is for instance 100Mbit/s"),
    ] {
        let output = Command::new(server::binary()?).arg("relay").args(arguments).output()?;
        let error = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(2) && error.contains(said), "{arguments:?}: {error}");
    }
    Ok(())
}

fn a_file_is_checked_and_nothing_is_opened() -> Result<()> {
    let folder = Folder::new(&format!("[[class]]\nname = \"a\"\n{COPY}"))?;
    let output = folder.output(&["--check"])?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success() && said.ends_with("relay.toml: OK, 1 stream in 1 class, best effort\n"),
        "{said}"
    );
    ensure!(output.stderr.is_empty() && !folder.path("target").exists(), "it did something");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/relay.toml");
    let output =
        Command::new(server::binary()?).args(["relay", "--check", "--config"]).arg(example).output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(
        output.status.success()
            && said
                .ends_with("relay.toml: OK, 2 streams in 2 classes, sharing volume in rounds of 4.0 MiB\n"),
        "{said}"
    );
    Ok(())
}

fn a_stream_of_the_command_line_has_a_class_of_the_file() -> Result<()> {
    let folder = Folder::new(&format!("[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n{COPY}"))?;
    std::fs::write(folder.path("source"), "bytes")?;
    let [source, second, report] =
        ["source", "second", "report.json"].map(|name| folder.path(name).display().to_string());
    let (source, second) = (format!("file:{source}"), format!("file:{second}"));
    let wires = ["--in", &source, "--out", &second, "--rate", "1MB/s"];
    let unknown = folder.output(&[&wires[..], &["--class", "c"]].concat())?;
    let error = String::from_utf8(unknown.stderr)?;
    ensure!(
        unknown.status.code() == Some(1) && error.contains("--class: there is no class c; there are a, b"),
        "{error}"
    );
    let output = folder.output(&[&wires[..], &["--class", "b", "--json", &report]].concat())?;
    ensure!(output.status.success(), "{output:?}");
    let json = folder.json("report.json")?;
    let of = |place: usize| (&json["streams"][place]["name"], &json["streams"][place]["class"]);
    ensure!(
        of(0) == (&"copy".into(), &"a".into()) && of(1) == (&"command line".into(), &"b".into()),
        "{json}"
    );
    ensure!(
        std::fs::read(folder.path("second"))? == b"bytes"
            && std::fs::read(folder.path("target"))? == b"bytes"
    );

    // Alone, its class is a name, and its JSON is what it always was.
    std::fs::remove_file(folder.path("second"))?;
    let mut alone = Command::new(server::binary()?);
    let output = alone.arg("relay").args(wires).args(["--class", "c", "--json", &report]).output()?;
    let json = folder.json("report.json")?;
    ensure!(
        output.status.success() && json["schema"] == "wirepath-relay/1" && json["class"] == "c",
        "{json}"
    );
    ensure!(json["bytes_in"] == 5 && json["outputs"][0]["bytes"] == 5 && json["state"] == "ended", "{json}");
    Ok(())
}

fn what_could_not_be_shown_or_kept_is_an_error_at_once() -> Result<()> {
    let folder = Folder::new(COPY)?;
    std::fs::write(folder.path("source"), "bytes")?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let output = folder.output(&["--metrics", &address])?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{error}");
    ensure!(
        error.contains(&format!("cannot open the door for --metrics on {address}: Address already in use")),
        "{error}"
    );
    ensure!(!folder.path("target").exists(), "it began nevertheless");
    let output = folder.output(&["--json", "/does/not/exist"])?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(
        output.status.code() == Some(1) && error.contains("the result cannot be written to /does/not/exist"),
        "{error}"
    );
    ensure!(!folder.path("target").exists(), "it began nevertheless");
    Ok(())
}

fn a_signal_stops_streams_that_run_and_those_that_wait() -> Result<()> {
    let waits = "[[stream]]\nname = \"waits\"\nin = [\"unix:inlet?listen\"]\nout = [\"file:never\"]\n";
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = Folder::new(&format!("{COPY}{waits}{}", endless("endless", "rate = \"1MB/s\"")))?;
        std::fs::write(folder.path("source"), "bytes")?;
        let mut relay = Watched::start(&folder, &[])?;
        relay.wait_for("the copy", |streams| {
            streams[0]["state"] == "ended" && streams[2]["state"] == "running"
        })?;
        relay.process.signal(signal)?;
        let ended = relay.process.wait(Deadline::seconds(20.0))?;
        ensure!(ended.code() == Some(code), "{ended}: {}", relay.process.log());
        ensure!(relay.process.log().contains("wirepath: endless: stopped: "), "{}", relay.process.log());
    }
    Ok(())
}

/// A real terminal, of 60 columns and 12 lines.
fn the_table_is_drawn_on_a_terminal_and_gone_at_the_end() -> Result<()> {
    require!(find("script").is_some() && find("stty").is_some(), "script or stty is not installed");
    let many: String = (0..20).map(|number| {
        format!("[[stream]]\nname = \"waits {number}\"\nin = [\"unix:inlet{number}?listen\"]\nout = [\"file:never{number}\"]\n")
    }).collect();
    let folder = Folder::new(&format!("{many}{}", endless("endless", "rate = \"1MB/s\"")))?;
    let relay =
        format!("{} relay --config {}", server::binary()?.display(), folder.path("relay.toml").display());
    let mut terminal = Command::new("script");
    let command = format!("stty cols 60 rows 12; exec {relay}");
    terminal.env("SHELL", "/bin/sh").args([
        "--quiet",
        "--flush",
        "--return",
        "--command",
        &command,
        "/dev/null",
    ]);
    let mut terminal = Process::start(&terminal, true)?;
    // To draw it anew, it goes up by as many lines as fit, but for the one it is in: none was so long that it took two.
    Deadline::seconds(30.0).wait_for("a table", || {
        let log = terminal.log();
        ensure!(terminal.is_running()?, "it ended: {log}");
        Ok((log.contains("endless ")
            && log.contains("and 14 streams more")
            && log.contains("Mbit/s")
            && log.contains("\u{1b}[10A"))
        .then_some(()))
    })?;
    let child = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", terminal.pid()))?;
    let child: i32 = child.split_whitespace().next().context("no child")?.parse()?;
    let child = rustix::process::Pid::from_raw(child).context("no process")?;
    rustix::process::kill_process(child, Signal::INT)?;
    let ended = terminal.wait(Deadline::seconds(20.0))?;
    ensure!(ended.code() == Some(130), "{ended}: {}", terminal.log());
    let log = terminal.log();
    ensure!(log.contains("wirepath: endless: stopped: "), "{log:?}");
    // Behind the table that was drawn last, its lines are emptied, and nothing is written any more.
    let (_, after) = log.rsplit_once("state").context("no table")?;
    ensure!(after.matches("\u{1b}[2K").count() == 11, "the table is left: {log:?}");
    ensure!(after.ends_with("\u{1b}[2K\u{1b}[10A"), "there is more: {log:?}");
    Ok(())
}
