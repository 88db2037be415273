//! `wirepath inspect`.

mod examine;
mod json;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{format, terminal};
use examine::Damage;

/// Arguments of `wirepath inspect`.
#[derive(Args)]
#[command(after_help = "\
Example:   wirepath inspect film.ts
           wirepath inspect --json film.ts | jq .bit_rate.peak_bits_per_second

Images (*.wpi in the cache folder) and assets are distinguished by content. The whole file is read and checksums are \
verified. The JSON is described in docs/inspect.md.

Exit code: 0 if the file can be played, 1 if not; standard error says where and why.")]
pub(crate) struct Inspect {
    /// A stored transport stream, or a wire image
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let inspection = examine::examine(&self.file, !self.json)?;
        let shown = match self.json {
            true => format!("{}\n", json::json(&inspection)),
            false => text::text(&inspection, terminal::output()),
        };
        terminal::print(&shown)?;
        for Damage { offset, segment, reason } in inspection.damage() {
            eprintln!("{}: error: byte {offset}, segment {segment}: {reason}", format::name(&self.file));
        }
        Ok(if inspection.damage().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
