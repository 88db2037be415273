//! The bare C loops.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use wirepath_tests::Deadline;
use wirepath_tests::process::{self, Process};

use crate::test_bed::{self, TestBed};

/// Data paths that there is a loop for.
pub(crate) const PATHS: [&str; 6] =
    ["wire_uring", "wire_mapping", "wire_sendfile", "gso_writev", "sendmmsg", "read_writev"];

/// Packets in the longest train (see the design: one UDP datagram holds no more).
pub(crate) const MOST_PACKETS: usize = 48;

/// Payload bytes of a packet.
const PAYLOAD: u64 = 1316;

/// Bytes of the file that is sent round and round: larger than caches, smaller than memory.
const FILE_BYTES: u64 = 256 << 20;

/// Setting of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Setting {
    /// Packets sent to one socket at a time.
    pub(crate) packets_per_train: usize,
    /// Connected sockets, served in turn.
    pub(crate) sockets: usize,
    /// Sleeps between trains; none in a loop that only sends.
    pub(crate) pauses: Option<Pauses>,
}

/// Sleeps of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Pauses {
    /// Trains sent after each sleep.
    pub(crate) trains_per_wakeup: u32,
    /// Time from wake-up to wake-up in microseconds.
    pub(crate) interval_us: u32,
}

/// The compiled loops and the file they send.
pub(crate) struct Loops {
    program: PathBuf,
    file: PathBuf,
}

impl Loops {
    /// Compiles them.
    pub(crate) fn build() -> Result<Self> {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/bare.c");
        let (program, file) = (test_bed::scratch("bare")?, test_bed::scratch("payload")?);
        let output = program.to_str().context("the target folder's name is not UTF-8")?;
        process::run("cc", ["-O2", "-Wall", "-Wextra", "-o", output, source], 60.0)
            .context("compiling bare.c")?;
        if std::fs::metadata(&file).map_or(0, |metadata| metadata.len()) != FILE_BYTES {
            // Not zeros: a file system may store those as a hole, which has no pages.
            let block: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
            std::fs::write(&file, block.repeat((FILE_BYTES >> 20) as usize))
                .context("writing what to send")?;
        }
        Ok(Self { program, file })
    }

    /// Runs one; answers user and system seconds per GiB of payload.
    pub(crate) fn run(&self, bed: &TestBed, path: &str, bytes: u64, setting: Setting) -> Result<f64> {
        let packets = setting.packets_per_train.clamp(1, MOST_PACKETS).to_string();
        let mut command = bed.server().command(&self.program);
        command.args([path, &bytes.to_string()]).arg(&self.file).args([packets, setting.sockets.to_string()]);
        if let Some(Pauses { trains_per_wakeup, interval_us }) = setting.pauses {
            command
                .args([PAYLOAD, trains_per_wakeup.into(), interval_us.into()].map(|value| value.to_string()));
        }
        command.env("LC_ALL", "C");
        let before = bed.dropped()?;
        let output = limited(Process::start(&command, true)?)?;
        ensure!(bed.dropped()? > before, "nothing arrived at the sink");
        let numbers: Vec<f64> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [user, system, packets, _] = numbers[..] else { anyhow::bail!("bare printed {output}") };
        Ok((user + system) / (packets * PAYLOAD as f64 / (1u64 << 30) as f64))
    }
}

fn limited(mut process: Process) -> Result<String> {
    process.succeed(Deadline::seconds(300.0))
}
