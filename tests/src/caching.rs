//! `wirepath relay --cache` as a process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;

use crate::http::{self, Response};
use crate::origin::Origin;
use crate::process::Process;
use crate::{Deadline, server};

/// A running cache, killed when dropped.
pub struct Cache {
    /// The process; its standard error is its log.
    pub process: Process,
    /// Listen address.
    pub address: SocketAddr,
    report: PathBuf,
    _reports: tempfile::TempDir,
}

impl Cache {
    /// A cache of this origin in this folder, with further arguments.
    pub fn start(origin: &Origin, folder: &Path, arguments: &[&str]) -> Result<Cache> {
        Cache::of(&format!("http://{}", origin.address), folder, arguments)
    }

    /// A cache of the origin with this URL.
    pub fn of(origin: &str, folder: &Path, arguments: &[&str]) -> Result<Cache> {
        let reports = tempfile::tempdir()?;
        let report = reports.path().join("report.json");
        let mut command = Command::new(server::binary()?);
        command.arg("relay").arg("--cache").arg(folder).args(["--origin", origin, "--listen", "127.0.0.1:0"]);
        command.arg("--json").arg(&report).args(arguments);
        let mut process = Process::start(&command, false)?;
        let stdout = process.take_stdout()?;
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            // An empty line says that there is none.
            drop(BufReader::new(stdout).read_line(&mut line));
            tell.send(line)
        });
        let line = told.recv_timeout(Deadline::seconds(15.0).left()).unwrap_or_default();
        // The first, which is ours; those that the arguments add follow.
        let address = line
            .trim_end()
            .strip_prefix("ready http=http://")
            .and_then(|rest| rest.split_once('/'))
            .map(|(first, _)| first);
        let Some(address) = address else {
            // All that it printed has been read when its end has been waited for.
            let ended = process.wait(Deadline::seconds(10.0));
            bail!("`{line}` says no address; {ended:?}, and the log:\n{}", process.log());
        };
        Ok(Cache { process, address: address.parse()?, report, _reports: reports })
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The answer to GET.
    pub fn get(&self, path: &str) -> Result<Response> {
        http::get(self.address, path)
    }

    /// The answer to GET with these headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        http::request(self.address, "GET", path, headers)
    }

    /// Asks it to end, waits until it has, and answers what it says that it did.
    pub fn end(self) -> Result<Value> {
        self.process.signal(Signal::TERM)?;
        self.report(Deadline::seconds(20.0))
    }

    /// Waits until it has ended, and answers what it says that it did.
    pub fn report(mut self, deadline: Deadline) -> Result<Value> {
        self.process.succeed(deadline)?;
        serde_json::from_slice(&std::fs::read(&self.report)?).context("its report")
    }
}

/// Names in a cache's folder with this ending.
pub fn names(folder: &Path, ending: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let name = item?.file_name().to_string_lossy().into_owned();
        names.extend(name.ends_with(ending).then_some(name));
    }
    Ok(names)
}

/// Waits until so many entries are kept: that is after their clients have them.
pub fn wait_for_entries(folder: &Path, count: usize) -> Result<()> {
    Deadline::seconds(10.0)
        .wait_for("entries in the cache", || Ok((names(folder, ".json")?.len() == count).then_some(())))
}
