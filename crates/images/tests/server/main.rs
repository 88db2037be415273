//! The program as a user starts it, and clients around it.

mod answers;
mod care;
mod page;
mod pictures;
mod tiff;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use wirepath_tests::http::{self, Response};
use wirepath_tests::process::{Process, open_folder};

fn main() -> ExitCode {
    let together = [answers::trials(), tiff::trials(), page::trials()];
    wirepath_tests::trial::run(together.into_iter().flatten().collect(), care::trials())
}

/// A running `wirepath-images`, and its folder.
struct TestBed {
    process: Process,
    address: SocketAddr,
    folder: TempDir,
}

impl TestBed {
    /// Starts it with these further arguments.
    fn with(arguments: &[&str]) -> Result<TestBed> {
        let folder = open_folder()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_wirepath-images"));
        command.arg(folder.path()).args(["--http", "127.0.0.1:0"]).args(arguments);
        let mut process = Process::start(&command, false)?;
        let mut line = String::new();
        BufReader::new(process.take_stdout()?).read_line(&mut line)?;
        let address =
            line.trim_end().strip_prefix("ready http=http://").and_then(|rest| rest.strip_suffix('/'));
        let address = address.with_context(|| format!("it printed {line:?}: {}", process.log()))?.parse()?;
        Ok(TestBed { process, address, folder })
    }

    fn new() -> Result<TestBed> {
        TestBed::with(&[])
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
