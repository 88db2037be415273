//! `wirepath assess report`: a result as a page, as Markdown, as CSV, in the documentation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use wirepath_assess::{Assessment, report};

use super::read;
use crate::{format, terminal};

/// Arguments of `wirepath assess report`.
#[derive(Args)]
#[command(after_help = "\
FILE may be `-` for standard output. Without any of the options, the page is written beside the result, with `.html` in \
place of `.json`.")]
pub(crate) struct Report {
    /// The result: JSON that `wirepath assess --json FILE` wrote
    #[arg(value_name = "RESULT.json")]
    result: PathBuf,

    /// Write a page of HTML that needs nothing else: tables and plots, for screens and paper
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Write every run as a row of CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Fill in the figures of Wirepath's own documents, where these have places for them
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
}

impl Report {
    pub(super) fn run(self) -> Result<ExitCode> {
        let result = read::result(&self.result)?;
        let nothing_named =
            [&self.html, &self.markdown, &self.csv, &self.docs].iter().all(|named| named.is_none());
        let html = self.html.clone().or_else(|| nothing_named.then(|| self.result.with_extension("html")));
        let files = [html.as_deref(), self.markdown.as_deref(), self.csv.as_deref()];
        ensure!(
            files.iter().flatten().filter(|file| is_standard_output(file)).count() <= 1,
            "only one of --html, --markdown and --csv can be written to standard output"
        );
        // Files come first: whoever reads standard output may have seen enough before its end.
        for to_standard in [false, true] {
            let wanted = |file: &&PathBuf| is_standard_output(file) == to_standard;
            if let Some(file) = html.as_ref().filter(wanted) {
                self.write(file, &report::html(&result).context("writing the page")?)?;
            }
            if let Some(file) = self.markdown.as_ref().filter(wanted) {
                self.write(file, &report::markdown(&result))?;
            }
            if let Some(file) = self.csv.as_ref().filter(wanted) {
                self.write(file, &report::csv(&result).context("writing CSV")?)?;
            }
            if let Some(folder) = self.docs.as_ref().filter(|_| !to_standard) {
                fill_documents(folder, &result)?;
            }
        }
        if nothing_named && let Some(file) = &html {
            terminal::print(&format!("{}\n", format::name(file)))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes to a file, but never over the result itself.
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

fn is_standard_output(file: &Path) -> bool {
    file == Path::new("-")
}

/// Fills in documents of a folder and of its folder `paths`.
fn fill_documents(folder: &Path, result: &Assessment) -> Result<()> {
    let mut documents = documents(folder)?;
    let paths = folder.join("paths");
    if paths.is_dir() {
        documents.extend(self::documents(&paths)?);
    }
    let mut places = 0;
    for document in documents {
        let name = format::name(&document);
        let text = std::fs::read_to_string(&document).with_context(|| format!("cannot read {name}"))?;
        let Some(filled) = report::fill(&text, result).with_context(|| name.clone())? else { continue };
        places += 1;
        if filled != text {
            std::fs::write(&document, filled).with_context(|| format!("cannot write {name}"))?;
            terminal::print(&format!("{name}\n"))?;
        }
    }
    if places == 0 {
        bail!("no document in {} has a place for figures (`<!-- figure: PATH -->`)", format::name(folder));
    }
    Ok(())
}

/// The Markdown files in a folder, by name.
fn documents(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = || format!("cannot list {}", format::name(folder));
    let entries = std::fs::read_dir(folder).with_context(name)?;
    let files = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = files.collect::<Result<_, _>>().with_context(name)?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "md"));
    files.sort();
    Ok(files)
}
