//! Keeps the figures of Wirepath's own documents equal to the results that are kept, and holds results to the
//! goals of the kernel module. For developers; nothing that users run.

mod fill;
mod goals;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use wirepath_assess::Assessment;
use wirepath_report::terminal::Terminal;

/// Keeps the figures of the documents equal to the kept results.
#[derive(Parser)]
enum Command {
    /// Fill in the figures of the documents where a line `<!-- figure: PATH from RESULT... -->` or `<!--
    /// table: NAME from RESULT... -->` says so, up to a line `<!-- end -->`, and print the names of those
    /// that changed
    Fill {
        /// Folder of the documents
        #[arg(default_value = "docs")]
        documents: PathBuf,
        /// Folder that the marks' results are in
        #[arg(long, default_value = "results")]
        results: PathBuf,
        /// Change nothing, and exit with 1 if something would change
        #[arg(long)]
        check: bool,
    },
    /// Hold results side by side to what the kernel module's paths are to gain over those that need no module
    Goals {
        /// Results: JSON that `wirepath assess stream --json FILE` wrote, or `wirepath assess`
        #[arg(value_name = "RESULT.json", required = true, num_args = 1..=26)]
        results: Vec<PathBuf>,
    },
}

fn main() -> Result<ExitCode> {
    match Command::parse() {
        Command::Fill { documents, results, check } => {
            let changed = fill::folder(&documents, &results, !check)?;
            changed.iter().for_each(|document| println!("{}", document.display()));
            Ok(if check && !changed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
        Command::Goals { results } => goals(&results),
    }
}

fn goals(files: &[PathBuf]) -> Result<ExitCode> {
    let results = files.iter().map(|file| read(file)).collect::<Result<Vec<Assessment>>>()?;
    let lettered: Vec<(char, &Assessment)> = ('A'..='Z').zip(&results).collect();
    let terminal = Terminal { width: 160, utf8: true };
    for ((letter, result), file) in lettered.iter().zip(files) {
        let Assessment { started, host, .. } = result;
        let (file, processor, kernel) = (file.display(), &host.processor, &host.kernel);
        print!(
            "{}",
            terminal.paragraph(&format!("{letter}: {file}, {started}, {processor}, Linux {kernel}"))
        );
    }
    for table in goals::tables(&lettered) {
        print!("\n{}", terminal.table(&table));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a kept result.
fn read(file: &Path) -> Result<Assessment> {
    ensure!(file.is_file(), "{} is not a file", file.display());
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Assessment::from_json(&text).with_context(|| file.display().to_string())
}
