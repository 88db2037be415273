//! `wirepath relay --config`: many streams with classes and rates, and who sees them.

mod control;
mod file;
mod lending;
mod running;
mod seen;
mod sharing;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::Value;
use wirepath_tests::process::{Process, of_threads};
use wirepath_tests::{Deadline, http, server};

pub(crate) fn trials() -> Vec<Trial> {
    let trials = [
        running::trials(),
        seen::trials(),
        sharing::trials(),
        file::trials(),
        control::trials(),
        lending::trials(),
    ];
    trials.into_iter().flatten().collect()
}

/// They load the machine.
pub(crate) fn alone() -> Vec<Trial> {
    sharing::alone()
}

const COPY: &str = "[[stream]]\nname = \"copy\"\nin = [\"file:source\"]\nout = [\"file:target\"]\n";

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

/// A relay with an HTTP listener.
struct Watched {
    process: Process,
    http: SocketAddr,
}

impl Watched {
    fn start(folder: &Folder, arguments: &[&str]) -> Result<Watched> {
        let mut command = folder.relay(arguments)?;
        command.args(["--metrics", "127.0.0.1:0", "--json"]).arg(folder.path("report.json"));
        let mut process = Process::start(&command, true)?;
        let http = Deadline::seconds(20.0).wait_for("the listener", || {
            let log = process.log();
            ensure!(process.is_running()?, "it ended: {log}");
            let address = log.split("http://").nth(1).and_then(|rest| rest.split("/metrics").next());
            Ok(address.and_then(|address| address.parse().ok()))
        })?;
        Ok(Watched { process, http })
    }

    fn status(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&http::get(self.http, "/api/status")?.body)?)
    }

    /// The names of its engine's threads, in order.
    fn engine_threads(&self) -> Result<Vec<String>> {
        let names = of_threads(self.process.pid(), "comm")?.into_iter();
        let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
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

/// Streams that could move as much as the machine can.
fn endless(name: &str, more: &str) -> String {
    format!("[[stream]]\nname = \"{name}\"\nin = [\"file:/dev/zero\"]\nout = [\"file:/dev/null\"]\n{more}\n")
}

fn moved(stream: &Value) -> u64 {
    stream["bytes_in"].as_u64().unwrap_or(0) + stream["bytes_out"].as_u64().unwrap_or(0)
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
