//! `wirepath assess compare`: two results side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use wirepath_assess::Assessment;
use wirepath_assess::compare::compare;

use super::read;
use crate::{format, terminal};

/// Arguments of `wirepath assess compare`.
#[derive(Args)]
#[command(after_help = "\
The improvement is that of the second result over the first, in percent of the first. A difference within the spread of the \
runs is shown as ±spread; a question mark follows the change if there are too few runs to know the spread. \
Relative figures (a path to the plain path in the same result) agree if they differ by at most 10 %; others are listed.

Exit code: 0 if both results could be read, whatever the comparison; 1 if not.")]
pub(crate) struct Compare {
    /// The result to compare with: JSON that `wirepath assess --json FILE` wrote
    #[arg(value_name = "A.json")]
    first: PathBuf,

    /// The result to compare
    #[arg(value_name = "B.json")]
    second: PathBuf,

    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn run(self) -> Result<ExitCode> {
        let (first, second) = (read::result(&self.first)?, read::result(&self.second)?);
        let comparison = compare(&first, &second);
        if self.json {
            let json = serde_json::to_string_pretty(&comparison).context("writing the comparison as JSON")?;
            terminal::print(&(json + "\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let terminal = terminal::output();
        let head =
            |letter, file, result| terminal.paragraph(&format!("{letter}: {}", described(file, result)));
        let mut text = head("A", &self.first, &first) + &head("B", &self.second, &second);
        for table in comparison.tables() {
            text += &format!("\n{}", terminal.table(&table));
        }
        text += &format!("\n{}", terminal.paragraph(&comparison.statement()));
        terminal::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Describes a result.
fn described(file: &Path, result: &Assessment) -> String {
    let Assessment { started, host, .. } = result;
    let machine = format!("{started}, {}, Linux {}", host.processor, host.kernel);
    // Texts in a result are untrusted input, like file names.
    format!("{}, {}", format::name(file), format::name(Path::new(&machine)))
}
