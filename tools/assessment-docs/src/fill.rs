//! Figures in the documentation, filled in from kept results.
//!
//! A document marks generated parts: a line `<!-- figure: PATH from RESULT... -->` for a data path, or `<!--
//! table: NAME from RESULT... -->`, and a line `<!-- end -->`. The text between them is generated; the rest
//! is left as it is. Results are named by their place in the folder of results, without `.json`. The tables
//! `table-2` and `table-2-kernels` are one for all their results: of each experiment over a transport they have
//! the first.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use wirepath_assess::Assessment;
use wirepath_assess::report::{Extract, compare_kernels, extract};
use wirepath_assess::result::{Experiment, TcpPeer};
use wirepath_report::{escaped, markdown_table, number};

/// End of every generated part.
const END: &str = "<!-- end -->";

/// Columns of a line of prose.
const WIDTH: usize = 110;

/// Tables, by their names in marks.
const TABLES: [(&str, Extract); 9] = [
    ("machine", Extract::Machine),
    ("cheapest", Extract::Cheapest),
    ("stream", Extract::BySize(Experiment::Stream)),
    ("download", Extract::BySize(Experiment::Download)),
    ("profiles", Extract::Profiles),
    ("loan", Extract::Loan),
    ("relay", Extract::Relay),
    ("counted", Extract::Counted),
    ("claims", Extract::Claims),
];

/// Kept results, each read once.
pub(crate) struct Results {
    folder: PathBuf,
    read: HashMap<String, Assessment>,
}

/// Table 2 of the papers, from results of one machine.
const TABLE_2: &str = "table-2";

/// The same of two kernels, from results of both.
const KERNELS: &str = "table-2-kernels";

/// Content of a generated part.
enum What {
    /// Tables of each result.
    Each(Extract),
    /// Table 2 of the papers, one for all results.
    Table2,
    /// The same for two kernels.
    Kernels,
}

/// A mark that begins a generated part.
struct Mark<'a> {
    what: What,
    /// Names of results.
    sources: Vec<&'a str>,
}

/// Fills in the documents of a folder and of its folder `paths`, and answers which of them change.
pub(crate) fn folder(documents: &Path, results: &Path, write: bool) -> Result<Vec<PathBuf>> {
    let mut results = Results { folder: results.to_owned(), read: HashMap::new() };
    let mut changed = Vec::new();
    for file in markdown_files(documents)?.into_iter().chain(markdown_files(&documents.join("paths"))?) {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
        let filled = fill(&text, &mut results).with_context(|| name.clone())?;
        if filled != text {
            if write {
                std::fs::write(&file, filled).with_context(|| format!("cannot write {name}"))?;
            }
            changed.push(file);
        }
    }
    Ok(changed)
}

/// The Markdown files in a folder, by name; none where there is no folder.
fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let name = || format!("cannot list {}", folder.display());
    let entries = std::fs::read_dir(folder).with_context(name)?;
    let files = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut files: Vec<PathBuf> = files.collect::<Result<_, _>>().with_context(name)?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "md"));
    files.sort();
    Ok(files)
}

/// The document with its generated parts made anew.
fn fill(document: &str, results: &mut Results) -> Result<String> {
    let mut filled = String::with_capacity(document.len());
    let mut lines = document.split_inclusive('\n').enumerate();
    while let Some((index, text)) = lines.next() {
        filled.push_str(text);
        let Some(mark) = Mark::of(text).with_context(|| format!("line {}", index + 1))? else { continue };
        let end = lines.find(|(_, text)| text.trim() == END);
        let Some((_, end)) = end else {
            bail!("line {}: this part does not end; put a line `{END}` behind it", index + 1)
        };
        filled.push_str(&format!("\n{}\n\n{end}", mark.generated(results)?.trim()));
    }
    Ok(filled)
}

impl<'a> Mark<'a> {
    /// The mark in a line, if it has one.
    fn of(line: &'a str) -> Result<Option<Mark<'a>>> {
        let inner = line.trim().strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some((kind, rest)) = inner.and_then(|inner| inner.split_once(": ")) else { return Ok(None) };
        if !["figure", "table"].contains(&kind) {
            return Ok(None);
        }
        let (name, sources) = rest.split_once(" from ").context("no result is named: `from RESULT`")?;
        let what = match kind {
            "figure" => What::Each(Extract::Path(name.parse().context("naming a data path")?)),
            _ if name == TABLE_2 => What::Table2,
            _ if name == KERNELS => What::Kernels,
            _ => {
                let found = TABLES.iter().find(|(known, _)| *known == name);
                let names = || TABLES.map(|(known, _)| known).join(", ");
                let unknown =
                    || format!("unknown table {name:?}: expected {TABLE_2}, {KERNELS} or one of {}", names());
                What::Each(found.with_context(unknown)?.1)
            }
        };
        Ok(Some(Mark { what, sources: sources.split_whitespace().collect() }))
    }

    /// Tables of each result, with a line on their origin.
    fn generated(&self, results: &mut Results) -> Result<String> {
        let What::Each(what) = self.what else { return self.together(results) };
        let mut text = String::new();
        for source in &self.sources {
            let assessment = results.get(source)?;
            let tables = extract(assessment, what);
            ensure!(!tables.is_empty(), "{source} has nothing of it");
            for table in &tables {
                text += &format!("{}\n\n", markdown_table(table).trim_end());
            }
            text += &format!("{} (`{source}`)\n\n", origin(assessment));
        }
        Ok(text.lines().map(wrapped).collect())
    }

    /// One table of all results, with a line on the origin of each. If several results share table 2, the lines
    /// say what it has of which.
    fn together(&self, results: &mut Results) -> Result<String> {
        let assessments =
            self.sources.iter().map(|source| Ok(results.get(source)?.clone())).collect::<Result<Vec<_>>>()?;
        let all: Vec<&Assessment> = assessments.iter().collect();
        let (table, parts) = match self.what {
            What::Kernels => (compare_kernels(&all), vec![Vec::new(); all.len()]),
            _ => wirepath_assess::report::table_2(&all),
        };
        ensure!(!table.rows.is_empty(), "{:?} have no path of the table in common", self.sources);
        let mut text = format!("{}\n\n", markdown_table(&table).trim_end());
        for ((source, assessment), parts) in self.sources.iter().zip(&assessments).zip(parts) {
            let of_parts = match parts.is_empty() || all.len() == 1 {
                true => String::new(),
                false => format!("{}: ", parts.join(", ")),
            };
            text += &format!("{of_parts}{} (`{source}`)\n\n", origin(assessment));
        }
        Ok(text.lines().map(wrapped).collect())
    }
}

/// A line of prose as lines of at most [`WIDTH`] columns; a row of a table as it is.
fn wrapped(line: &str) -> String {
    if line.starts_with('|') {
        return format!("{line}\n");
    }
    let (mut text, mut columns) = (String::new(), 0);
    for word in line.split(' ') {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > WIDTH {
            text.push('\n');
            columns = 0;
        } else if columns > 0 {
            text.push(' ');
            columns += 1;
        }
        text.push_str(word);
        columns += width;
    }
    text + "\n"
}

impl Results {
    fn get(&mut self, name: &str) -> Result<&Assessment> {
        if !self.read.contains_key(name) {
            let assessment = crate::read(&self.folder.join(format!("{name}.json")))?;
            self.read.insert(name.to_owned(), assessment);
        }
        Ok(&self.read[name])
    }
}

/// Origin of figures, and how far they can be relied on.
fn origin(assessment: &Assessment) -> String {
    let settings = &assessment.settings;
    let mut sink = escaped(&number::visible(&settings.sink));
    // Where it is a receiver, the method says so.
    if let Some(peer @ (TcpPeer::Device | TcpPeer::Both)) = settings.tcp_peer {
        sink = format!("{sink} (of TCP: {peer})");
    }
    if settings.experiments == [Experiment::Count] {
        return format!("Counted {}, sink {sink}.", measured(assessment));
    }
    let mut text = format!(
        "Measured {}: medians of {} runs of {}, sink {sink}. Figures in italics are noisy.",
        measured(assessment),
        settings.runs,
        number::about_bytes(settings.volume),
    );
    if assessment.host.processor.contains("QEMU TCG") {
        text += " An emulated machine whose clock counts instructions: a second stands for a thousand million of them.";
    }
    if settings.quick {
        text += " The quick form: not to be quoted.";
    }
    if assessment.partial {
        text += " The assessment was stopped before its end.";
    }
    text
}

/// Day, machine and kernel.
fn measured(assessment: &Assessment) -> String {
    let day = assessment.started.split('T').next().unwrap_or_default();
    let host = &assessment.host;
    let processors = if host.processors == 1 { "processor" } else { "processors" };
    let text = format!("{day}, {}, {} {processors}, Linux {}", host.processor, host.processors, host.kernel);
    escaped(&number::visible(&text))
}

#[cfg(test)]
mod tests {
    use wirepath_tests::assessment;

    use super::*;

    const ASSESSMENT: &str = "2026-11-21-amd-epyc-2-cores-assessment/assessment";

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn kept() -> Results {
        Results { folder: root().join("results"), read: HashMap::new() }
    }

    /// Promise: Figures in the documents are generated from the stored results that they name.
    #[test]
    fn the_documents_agree_with_the_kept_results() {
        let changed = folder(&root().join("docs"), &root().join("results"), false).unwrap();
        assert!(changed.is_empty(), "run `cargo run -p wirepath-assessment-docs -- fill`: {changed:?}");
    }

    /// Promise: Figures in the documents are generated from the stored results that they name.
    #[test]
    fn every_page_of_a_data_path_has_a_place_for_its_figure() {
        let pages = markdown_files(&root().join("docs/paths")).unwrap();
        let names = pages.iter().filter_map(|page| Some((page, page.file_stem()?.to_str()?)));
        let of_paths: Vec<_> = names.filter(|(_, name)| *name != "README").collect();
        for (page, name) in &of_paths {
            let text = std::fs::read_to_string(page).unwrap();
            assert!(text.contains(&format!("\n<!-- figure: {name} from ")), "docs/paths/{name}.md");
        }
        assert!(of_paths.len() >= 25, "{} pages", of_paths.len());
    }

    /// Promise: Figures in the documents are generated from the stored results that they name.
    #[test]
    fn what_is_between_the_marks_is_generated_and_the_rest_is_left() {
        let page =
            format!("# a\n\n<!-- figure: wire_sendfile from {ASSESSMENT} -->\nold\n<!-- end -->\nafter\n");
        let filled = fill(&page, &mut kept()).unwrap();
        assert!(filled.starts_with("# a\n") && filled.contains("Streaming over UDP"), "{filled}");
        assert!(filled.ends_with("\n\n<!-- end -->\nafter\n") && !filled.contains("old"), "{filled}");
        assert!(filled.contains("2026-11-21") && filled.contains("relative to read\\_writev"), "{filled}");
        assert_eq!(fill(&filled, &mut kept()).unwrap(), filled);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let wrong = |text: &str| format!("{:#}", fill(text, &mut kept()).unwrap_err());
        let mark = |what: &str| format!("\n<!-- {what} from {ASSESSMENT} -->\n");
        assert!(wrong(&mark("figure: loan")).contains("line 2: this part does not end"));
        assert!(wrong(&(mark("table: gold") + END)).contains("line 2: unknown table \"gold\""));
        assert!(wrong(&(mark("figure: gold") + END)).contains("unknown data path \"gold\""));
        assert!(wrong(&(mark("table: counted") + END)).contains("has nothing of it"));
        assert!(wrong("<!-- figure: loan -->\n<!-- end -->\n").contains("no result is named"));
        assert!(wrong("<!-- figure: loan from gold -->\n<!-- end -->\n").contains("gold.json is not a file"));
        assert_eq!(fill("no marks <!-- figure: a -->", &mut kept()).unwrap(), "no marks <!-- figure: a -->");
    }

    /// The results "full" and "nothing" of nobody, and one in which every text is hostile.
    fn examples() -> Results {
        let hostile = "<!-- end --><script>alert(1)</script>|`\u{1b}[2J [a](b)";
        let read = [
            ("full", assessment::full()),
            ("nothing", assessment::nothing()),
            ("hostile", assessment::with_texts(hostile)),
        ];
        let read = read.into_iter().map(|(name, result)| (name.to_owned(), result)).collect();
        Results { folder: PathBuf::new(), read }
    }

    fn filled(table: &str, result: &str) -> Result<String> {
        fill(&format!("<!-- table: {table} from {result} -->\n{END}\n"), &mut examples())
    }

    /// Promise: Figures in the documents are generated from the stored results that they name.
    #[test]
    fn every_table_is_filled_from_a_full_result_and_an_empty_one_is_named() {
        for name in TABLES.map(|(name, _)| name).into_iter().chain([TABLE_2]) {
            let full = filled(name, "full").unwrap();
            assert!(full.contains("| --- |") && full.contains("2026-11-22"), "{name}: {full}");
            match filled(name, "nothing") {
                Ok(text) => assert!(name == "machine" && text.contains("2026-11-22"), "{name}: {text}"),
                Err(error) => {
                    let error = format!("{error:#}");
                    let none = "[\"nothing\"] have no path of the table in common";
                    assert!(error.ends_with("nothing has nothing of it") || error.ends_with(none), "{error}");
                }
            }
        }
    }

    /// Promise: Table 2 of the papers is shown with the figures of this machine, and says which rows have none.
    #[test]
    fn results_that_share_table_2_are_told_apart() {
        let mut results = examples();
        let mut older = assessment::full();
        older.started = "2025-01-01T00:00:00Z".to_owned();
        older.measurements.retain(|one| {
            (one.experiment, one.transport.to_string().as_str()) != (Experiment::Stream, "TCP")
        });
        let mut newer = assessment::full();
        newer.measurements.retain(|one| one.experiment == Experiment::Stream);
        results.read.insert("older".to_owned(), older);
        results.read.insert("newer".to_owned(), newer);
        let mut filled = |sources: &str| {
            fill(&format!("<!-- table: {TABLE_2} from {sources} -->\n{END}\n"), &mut results).unwrap()
        };
        let alone = filled("older").replace('\n', " ");
        assert!(!alone.contains("| `interleaved` |"), "{alone}");
        assert!(alone.contains("of the 43 rows of the paper: streaming over TCP (15)."), "{alone}");
        assert!(alone.contains(" Measured 2025-01-01"), "{alone}");
        let both = filled("newer older").replace('\n', " ");
        assert!(
            both.contains("| `interleaved` | TCP |") && both.contains("| `sendfile` | TCP | whole"),
            "{both}"
        );
        assert!(!both.contains("Not measured here"), "{both}");
        assert!(both.contains(" Streaming over UDP, Streaming over TCP: Measured 2026-11-22"), "{both}");
        assert!(both.contains(" Download over UDP, Download over TCP: Measured 2025-01-01"), "{both}");
    }

    /// Promise: No text of a result becomes markup, a formula or a control sequence of the terminal.
    #[test]
    fn hostile_results_write_no_markup() {
        for name in TABLES.map(|(name, _)| name).into_iter().chain([TABLE_2]) {
            let text = filled(name, "hostile").unwrap();
            let raw = text.replace("\\<", "").replace("\\[", "");
            assert!(raw.matches('<').count() == 2 && !raw.contains(['[', '\u{1b}']), "{name}: {text}");
            assert_eq!(text.lines().filter(|line| line.trim() == END).count(), 1, "{name}: {text}");
        }
    }
}
