//! `wirepath assess report`: a result as a page, as Markdown, as CSV.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use wirepath_assess::{clients, report};
use wirepath_report::{Document, Table, csv, html, markdown};

use super::read::{self, Kept};
use crate::{format, terminal};

/// Arguments of `wirepath assess report`.
#[derive(Args)]
#[command(after_help = "\
FILE may be `-` for standard output. Without options, an HTML page is written beside the result, with `.html` instead of \
`.json`.")]
pub(crate) struct Report {
    /// The result: JSON that `wirepath assess --json FILE` wrote
    #[arg(value_name = "RESULT.json")]
    result: PathBuf,

    /// Write a self-contained HTML page with tables and plots, for screen and print
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Write every run as a row of CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl Report {
    pub(super) fn run(self) -> Result<ExitCode> {
        let result = read::kept(&self.result)?;
        let nothing_named = [&self.html, &self.markdown, &self.csv].iter().all(|named| named.is_none());
        let html_file =
            self.html.clone().or_else(|| nothing_named.then(|| self.result.with_extension("html")));
        let files = [html_file.as_deref(), self.markdown.as_deref(), self.csv.as_deref()];
        ensure!(
            files.iter().flatten().filter(|file| is_standard_output(file)).count() <= 1,
            "only one of --html, --markdown and --csv can be written to standard output"
        );
        // Files are written first, since the reader of standard output may close it early.
        for to_standard in [false, true] {
            let wanted = |file: &&PathBuf| is_standard_output(file) == to_standard;
            if let Some(file) = html_file.as_ref().filter(wanted) {
                self.write(file, &html(result.document()).context("writing the page")?)?;
            }
            if let Some(file) = self.markdown.as_ref().filter(wanted) {
                self.write(file, &markdown(&result.document()))?;
            }
            if let Some(file) = self.csv.as_ref().filter(wanted) {
                self.write(file, &csv(&result.rows()).context("writing CSV")?)?;
            }
        }
        if nothing_named && let Some(file) = &html_file {
            terminal::print(&format!("{}\n", format::name(file)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes to a file. Refuses to overwrite the result itself.
    fn write(&self, file: &Path, text: &str) -> Result<()> {
        if is_standard_output(file) {
            return terminal::print(text);
        }
        let name = format::name(file);
        let same = |one: &Path, other: &Path| Some(one.canonicalize().ok()? == other.canonicalize().ok()?);
        ensure!(same(file, &self.result) != Some(true), "{name} is the result itself: name another file");
        std::fs::write(file, text).with_context(|| format!("cannot write {name}"))
    }
}

impl Kept {
    fn document(&self) -> Document {
        match self {
            Kept::Assessment(result) => report::document(result),
            Kept::Clients(result) => clients::document(result),
        }
    }

    fn rows(&self) -> Table {
        match self {
            Kept::Assessment(result) => report::runs(result),
            Kept::Clients(result) => clients::steps(result),
        }
    }
}

fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}
