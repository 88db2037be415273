//! The program as a user starts it, and clients around it.

mod answers;
mod python;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use wirepath_tests::http::{self, Response};
use wirepath_tests::process::{Process, open_folder};

fn main() -> ExitCode {
    let together = [answers::trials(), python::trials()];
    wirepath_tests::trial::run(together.into_iter().flatten().collect(), Vec::new())
}

/// A running `wirepath-records`, and its folder.
struct TestBed {
    process: Process,
    address: SocketAddr,
    /// For lines.
    tcp: SocketAddr,
    folder: TempDir,
}

impl TestBed {
    /// Starts it.
    fn new() -> Result<TestBed> {
        let folder = open_folder()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirepath-records"));
        command.arg(folder.path()).args(["--http", "127.0.0.1:0", "--tcp", "127.0.0.1:0"]);
        let mut process = Process::start(&command, false)?;
        let mut line = String::new();
        BufReader::new(process.take_stdout()?).read_line(&mut line)?;
        let addresses =
            line.trim_end().strip_prefix("ready http=http://").and_then(|rest| rest.split_once("/ tcp="));
        let (http, tcp) = addresses.with_context(|| format!("it printed {line:?}: {}", process.log()))?;
        let (address, tcp) = (http.parse()?, tcp.parse()?);
        Ok(TestBed { process, address, tcp, folder })
    }

    /// Stores a file.
    fn store(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).with_context(|| name.to_owned())?;
        Ok(path)
    }

    fn get(&self, path: &str) -> Result<Response> {
        http::get(self.address, path)
    }

    /// The body of a good answer.
    fn body(&self, path: &str) -> Result<Vec<u8>> {
        let answer = self.get(path)?;
        ensure!(answer.status == 200, "{path}: {} {}", answer.status, String::from_utf8_lossy(&answer.body));
        Ok(answer.body)
    }
}
