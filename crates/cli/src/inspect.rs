//! `wirepath inspect`.

mod examine;
mod json;
mod movie;
mod text;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{format, terminal};
use examine::{Damage, Found};

/// Arguments of `wirepath inspect`.
#[derive(Args)]
#[command(after_help = "\
Example:   wirepath inspect film.ts
           wirepath inspect movie.mp4
           wirepath inspect movie.mkv
           wirepath inspect --json film.ts | jq .bit_rate.peak_bits_per_second

Images (*.wpi in the cache folder), transport streams, MP4 and Matroska files are distinguished by content. Of MP4 and \
Matroska files only boxes or elements are read, of others the whole file; checksums of images are verified. The JSON is \
described in docs/inspect.md.

Exit code: 0 if the file can be played, 1 if not; standard error says where and why. For MP4 and Matroska files, 0 means \
that tracks and samples can be found.")]
pub(crate) struct Inspect {
    /// A stored transport stream, an MP4 or Matroska file, or a wire image
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let inspection = match examine::examine(&self.file, !self.json)? {
            Found::Stream(inspection) => inspection,
            Found::Movie(movie) => {
                terminal::print(&movie::shown(&movie, self.json))?;
                return Ok(ExitCode::SUCCESS);
            }
        };
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
