//! `wirepath assess goals`: what the kernel module gains, in one result or in several.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use wirepath_assess::report::in_ascii;
use wirepath_assess::{Assessment, goals};

use super::compare::described;
use super::read;
use super::text::shown;
use crate::table::paragraph;
use crate::terminal;

/// Arguments of `wirepath assess goals`.
#[derive(Args)]
#[command(after_help = "\
Each path of the module is held to what the papers gained with it, beside the best path that needs no module. Several results \
stand side by side: other kernels, other machines, or one emulated machine whose copies are dear in one and cheap in the other.

Exit code: 0 if all results could be read, whatever they say; 1 if not.")]
pub(crate) struct Goals {
    /// Results: JSON that `wirepath assess stream --json FILE` wrote, or `wirepath assess`
    #[arg(value_name = "RESULT.json", required = true, num_args = 1..=26)]
    results: Vec<PathBuf>,
}

impl Goals {
    pub(super) fn run(self) -> Result<ExitCode> {
        let results =
            self.results.iter().map(|file| read::result(file)).collect::<Result<Vec<Assessment>>>()?;
        let lettered: Vec<(char, &Assessment)> = ('A'..='Z').zip(&results).collect();
        let (width, utf8) = (terminal::width(), terminal::speaks_utf8());
        let mut text = String::new();
        for ((letter, result), file) in lettered.iter().zip(&self.results) {
            text += &paragraph(&format!("{letter}: {}", described(file, result)), width.into());
        }
        for table in goals::tables(&lettered) {
            text += &format!("\n{}", shown(&table, width.into(), utf8));
        }
        terminal::print(&if utf8 { text } else { in_ascii(&text) })?;
        Ok(ExitCode::SUCCESS)
    }
}
