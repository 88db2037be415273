//! Machine of a measurement.

use anyhow::Result;
use serde::Serialize;
use wirepath_assess::host::machine;
use wirepath_tests::process;

/// The machine, its kernel, the commit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: u32,
    pub(crate) kernel: String,
    pub(crate) commit: String,
    /// True if files differed from the commit.
    pub(crate) modified: bool,
    pub(crate) date: String,
    /// Load averages when the measurement began.
    pub(crate) load: String,
}

impl Machine {
    pub(crate) fn describe() -> Result<Self> {
        let git = |arguments: &[&str]| {
            let prefix = ["-c", "safe.directory=*", "-C", env!("CARGO_MANIFEST_DIR")];
            process::run("git", prefix.iter().chain(arguments), 10.0).map(|text| text.trim().to_owned())
        };
        Ok(Self {
            processor: machine::processor(),
            processors: machine::processors(),
            kernel: machine::kernel(),
            commit: git(&["rev-parse", "--short=12", "HEAD"])?,
            modified: !git(&["status", "--porcelain"])?.is_empty(),
            date: process::run("date", ["-u", "+%Y-%m-%d"], 5.0)?.trim().to_owned(),
            load: machine::load(),
        })
    }

    /// A name for a folder: date and machine.
    pub(crate) fn folder_name(&self) -> String {
        let name: String = format!("{}-{}-cores", self.processor, self.processors)
            .chars()
            .map(
                |character| {
                    if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' }
                },
            )
            .collect();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        format!("{}-{}", self.date, words.join("-"))
    }
}
