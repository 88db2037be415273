//! A relay with what it reports, and records that say which they are.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use wirepath_tests::Deadline;
use wirepath_tests::process::Process;

use crate::relay::{relay, wait_for};

/// Bytes of a record.
pub(crate) const RECORD: usize = 1000;

/// A relay, with a folder for its sockets and files.
pub(crate) struct Rig {
    folder: TempDir,
    process: Option<Process>,
}

impl Rig {
    pub(crate) fn new() -> Result<Rig> {
        Ok(Rig { folder: tempfile::tempdir()?, process: None })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// An address of something in the folder.
    pub(crate) fn at(&self, kind: &str, name: &str) -> String {
        format!("{kind}:{}", self.path(name).display())
    }

    /// Somebody that the relay is to connect to.
    pub(crate) fn outlet(&self, name: &str) -> Result<(String, UnixListener)> {
        Ok((self.at("unix", name), UnixListener::bind(self.path(name))?))
    }

    pub(crate) fn start(&mut self, arguments: &[&str]) -> Result<()> {
        let report = self.path("report.json").display().to_string();
        let command = relay(&[arguments, &["--json", &report]].concat())?;
        self.process = Some(Process::start(&command, true)?);
        Ok(())
    }

    /// Starts it with a socket to read from, and answers the other end of that.
    pub(crate) fn start_with_inlet(&mut self, arguments: &[&str]) -> Result<UnixStream> {
        let inlet = self.at("unix", "inlet?listen");
        self.start(&[&["--in", &inlet], arguments].concat())?;
        wait_for(&self.path("inlet"))?;
        Ok(UnixStream::connect(self.path("inlet"))?)
    }

    pub(crate) fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("it was not started")
    }

    /// Waits for its end, which must be with this code; answers its report and its words.
    pub(crate) fn end(&mut self, code: i32) -> Result<(Value, String)> {
        let process = self.process()?;
        let status = process.wait(Deadline::seconds(60.0))?;
        let words = process.log();
        ensure!(status.code() == Some(code), "{status}: {words}");
        let report = std::fs::read(self.path("report.json")).context(words.clone())?;
        Ok((serde_json::from_slice(&report)?, words))
    }
}

/// Records that begin with their numbers.
pub(crate) fn records(count: u64) -> Vec<u8> {
    (0..count).flat_map(record).collect()
}

pub(crate) fn record(number: u64) -> Vec<u8> {
    let filler = (0..RECORD - 8).map(|at| (number as usize * 31 + at) as u8);
    number.to_be_bytes().into_iter().chain(filler).collect()
}

/// The numbers of the records, all of which are whole.
pub(crate) fn numbers(bytes: &[u8]) -> Result<Vec<u64>> {
    ensure!(bytes.len().is_multiple_of(RECORD), "{} bytes are no whole records", bytes.len());
    let number = |bytes: &[u8]| -> Result<u64> {
        let number = u64::from_be_bytes(bytes[..8].try_into()?);
        ensure!(bytes == record(number), "record {number} has other bytes");
        Ok(number)
    };
    bytes.chunks(RECORD).map(number).collect()
}

/// The report's entry of the output whose address ends with `name`.
pub(crate) fn output<'a>(report: &'a Value, name: &str) -> Result<&'a Value> {
    named(report, "outputs", name)
}

/// The report's entry of such an output that has ended.
pub(crate) fn ended<'a>(report: &'a Value, name: &str) -> Result<&'a Value> {
    named(report, "ended_outputs", name)
}

pub(crate) fn named<'a>(report: &'a Value, list: &str, name: &str) -> Result<&'a Value> {
    let outputs = report[list].as_array().with_context(|| format!("no {list} in {report}"))?;
    let found = outputs.iter().find(|output| output["name"].as_str().is_some_and(|all| all.ends_with(name)));
    found.with_context(|| format!("no {name} among the {list} of {report}"))
}

/// The number that stands in front of this.
pub(crate) fn number_before(words: &str, what: &str) -> Result<usize> {
    let (before, _) = words.split_once(what).with_context(|| words.to_owned())?;
    let digits = before.rsplit(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().with_context(|| words.to_owned())
}
