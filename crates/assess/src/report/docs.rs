//! Figures in the documentation, filled in from a kept result.
//!
//! A document says where: a line `<!-- figure: PATH -->` for a data path, or `<!-- table: NAME -->`, and a line
//! `<!-- end -->`. What is between them is generated; the rest is left as it is.

use super::counted_tables;
use super::number;
use super::papers;
use super::sections::{self, of_every_size};
use super::table::{Table, escaped};
use crate::cost::{self, Group};
use crate::result::Assessment;

/// What ends every generated part.
const END: &str = "<!-- end -->";

/// Names of tables.
const TABLES: [&str; 9] =
    ["machine", "cheapest", "stream", "download", "profiles", "loan", "relay", "claims", "table-2"];

/// Begins the name of the tables of kernel calls and copies; what follows is the series of the kernel, such as `6.12`. Only a result
/// of the experiment `count` alone fills them in, if it is of such a kernel, and such a result fills in nothing else.
const COUNTED: &str = "counted ";

/// Why a document cannot be filled in.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// A part begins and does not end.
    #[error("line {line}: this part does not end; put a line `{END}` behind it")]
    Endless {
        /// Where it begins.
        line: usize,
    },
    /// A table that does not exist.
    #[error("line {line}: there is no table {name:?}; there are {tables}", tables = TABLES.join(", "))]
    UnknownTable {
        /// Where it is asked for.
        line: usize,
        /// What it is called there.
        name: String,
    },
}

/// The document with its generated parts made from this result; nothing where it has none.
///
/// # Errors
/// [`FillError`] for a part without an end, and for a table that does not exist.
pub fn fill(document: &str, assessment: &Assessment) -> Result<Option<String>, FillError> {
    let groups = cost::groups(assessment);
    let mut filled = String::with_capacity(document.len());
    let mut found = false;
    let mut lines = document.split_inclusive('\n').enumerate();
    while let Some((index, text)) = lines.next() {
        filled.push_str(text);
        let Some((kind, name)) = opening(text).filter(|(_, name)| is_for(name, assessment)) else { continue };
        found = true;
        let line = index + 1;
        let generated = match kind {
            "figure" => figure(assessment, &groups, name),
            _ => tables(assessment, &groups, name)
                .ok_or_else(|| FillError::UnknownTable { line, name: name.to_owned() })?,
        };
        let end = lines.find(|(_, text)| text.trim() == END).ok_or(FillError::Endless { line })?;
        filled.push_str(&format!("\n{}\n\n{}", generated.trim(), end.1));
    }
    Ok(found.then_some(filled))
}

/// Whether a part is made from such a result; else it is left as it is.
fn is_for(name: &str, assessment: &Assessment) -> bool {
    match name.strip_prefix(COUNTED) {
        Some(series) => counts_only(assessment) && assessment.host.kernel.starts_with(&format!("{series}.")),
        None => !counts_only(assessment),
    }
}

fn counts_only(assessment: &Assessment) -> bool {
    assessment.settings.experiments == ["count"]
}

/// The kind and name of the part that a line begins.
fn opening(line: &str) -> Option<(&str, &str)> {
    let (kind, name) = line.trim().strip_prefix("<!-- ")?.strip_suffix(" -->")?.split_once(": ")?;
    ["figure", "table"].contains(&kind).then_some((kind, name))
}

/// What a data path costs, in every experiment that measured it.
fn figure(assessment: &Assessment, groups: &[Group<'_>], path: &str) -> String {
    let tables: Vec<Table> = groups.iter().map(|group| of_every_size(group, path)).collect();
    let texts: Vec<String> = tables.iter().filter(|table| !table.rows.is_empty()).map(with_caption).collect();
    if texts.is_empty() {
        return format!("The last kept assessment did not measure it ({}).", measured(assessment));
    }
    format!("{}\n\n{}", texts.join("\n\n"), origin(assessment))
}

fn tables(assessment: &Assessment, groups: &[Group<'_>], name: &str) -> Option<String> {
    let of = |experiment: &str| {
        let groups = groups.iter().filter(|group| group.experiment == experiment);
        groups.map(sections::by_size).collect::<Vec<_>>()
    };
    let tables = match name {
        "machine" => sections::machine(assessment),
        "cheapest" => vec![sections::cheapest(assessment)],
        "stream" | "download" => of(name),
        "profiles" => sections::profiles(assessment),
        "loan" => sections::loan(assessment),
        "relay" => sections::relay(&assessment.relay),
        name if name.starts_with(COUNTED) => counted_tables(&assessment.counts),
        "claims" => vec![papers::claims(assessment, groups)],
        "table-2" => vec![papers::table_2(groups)],
        _ => return None,
    };
    let texts: Vec<String> = tables.iter().filter(|table| !table.rows.is_empty()).map(with_caption).collect();
    match texts.is_empty() {
        true => Some(format!("The last kept assessment did not measure it ({}).", measured(assessment))),
        false => Some(format!("{}\n\n{}", texts.join("\n\n"), origin(assessment))),
    }
}

fn with_caption(table: &Table) -> String {
    format!("{}\n\n{}", escaped(&table.caption), table.markdown().trim_end())
}

/// Where figures are from, and how far they can be relied on.
fn origin(assessment: &Assessment) -> String {
    let settings = &assessment.settings;
    if counts_only(assessment) {
        return format!(
            "Counted {}, sink {}.",
            measured(assessment),
            escaped(&number::visible(&settings.sink))
        );
    }
    let mut text = format!(
        "Measured {}: medians of {} runs of {}, sink {}. Figures in italics are noisy.",
        measured(assessment),
        settings.runs,
        number::about_bytes(settings.volume),
        escaped(&number::visible(&settings.sink)),
    );
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
    let text = format!("{day}, {}, {} processors, Linux {}", host.processor, host.processors, host.kernel);
    escaped(&number::visible(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn what_is_between_the_marks_is_generated_and_the_rest_is_left() {
        let page = "# wire_sendfile\n\n<!-- figure: wire_sendfile -->\nold\n<!-- end -->\nafter\n";
        let filled = fill(page, &example::full()).unwrap().unwrap();
        assert!(
            filled.starts_with("# wire_sendfile\n\n<!-- figure: wire_sendfile -->\n\nStreaming over UDP"),
            "{filled}"
        );
        assert!(filled.ends_with("\n\n<!-- end -->\nafter\n") && !filled.contains("old"), "{filled}");
        assert!(filled.contains("2026-11-22") && filled.contains("relative to read\\_writev"), "{filled}");
        assert_eq!(fill(&filled, &example::full()).unwrap().unwrap(), filled);
    }

    #[test]
    fn every_table_can_be_filled_in_from_any_result() {
        for assessment in [example::full(), example::nothing()] {
            for name in TABLES {
                let page = format!("<!-- table: {name} -->\n<!-- end -->");
                let filled = fill(&page, &assessment).unwrap().unwrap();
                assert!(filled.len() > page.len() + 20, "{name}: {filled}");
            }
        }
    }

    /// Promise: Counted figures are filled into the documents for the kernel they were counted on.
    #[test]
    fn counted_tables_are_filled_in_from_a_count_on_such_a_kernel_and_nothing_else_is() {
        let page = |name: &str| format!("<!-- table: {name} -->\nold\n<!-- end -->\n");
        let mut result = example::full();
        result.host.kernel = "6.12.95+deb12-cloud-amd64".to_owned();
        assert_eq!(fill(&page("counted 6.12"), &result), Ok(None));
        result.settings.experiments = vec!["count".to_owned()];
        assert_eq!(fill(&page("counted 6.1"), &result), Ok(None));
        assert_eq!(fill(&page("stream"), &result), Ok(None));
        let filled = fill(&page("counted 6.12"), &result).unwrap().unwrap();
        assert!(
            filled.contains("`krtpsendfile`") && filled.contains("Counted 2026") && !filled.contains("old")
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let assessment = example::nothing();
        assert_eq!(fill("no marks <!-- figure: a -->", &assessment), Ok(None));
        assert_eq!(fill("\n<!-- figure: a -->\n", &assessment), Err(FillError::Endless { line: 2 }));
        let unknown = fill("<!-- table: gold -->\n<!-- end -->\n", &assessment).unwrap_err();
        assert!(unknown.to_string().contains("\"gold\"; there are machine"), "{unknown}");
    }

    #[test]
    fn a_hostile_result_writes_no_markup() {
        let mut assessment = example::full();
        assessment.host.processor = "<!-- end --><script>".to_owned();
        let filled = fill("<!-- table: stream -->\n<!-- end -->\n", &assessment).unwrap().unwrap();
        assert!(!filled.contains("<script>") && filled.matches("<!-- end -->").count() == 1, "{filled}");
    }
}
