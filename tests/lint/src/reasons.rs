//! Every member and every dependency says why it is there, in the root manifest and nowhere else.

use crate::finding::Finding;
use crate::tree::Tree;

const ROOT: &str = "Cargo.toml";

/// Finds lines without a reason, and dependencies that a member declares by itself.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let root = tree.text(ROOT).unwrap_or_default();
    let members = tree.ending_in("/Cargo.toml").filter(|(path, _)| !path.starts_with("fuzz/"));
    check_root(root).into_iter().chain(members.flat_map(|(path, text)| check_member(path, text))).collect()
}

/// The root manifest line by line: a comment is nothing that a TOML reader keeps.
fn check_root(text: &str) -> Vec<Finding> {
    let mut section = "";
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line;
        } else if line.starts_with("members") {
            section = "members";
        } else if needs_reason(section, line) && !has_reason(line) {
            let place = format!("{ROOT}:{}", index + 1);
            let problem = format!("no reason after `{}`", line.trim_end_matches(','));
            findings.push(Finding::new(place, problem, "end the line with `# why it is there`"));
        }
    }
    findings
}

fn needs_reason(section: &str, line: &str) -> bool {
    match section {
        "members" => line.starts_with('"'),
        // Our own crates have their reason in the list of members.
        "[workspace.dependencies]" => {
            line.contains('=') && !line.starts_with('#') && !line.contains("path =")
        }
        _ => false,
    }
}

/// A comment of some words after the value; `#` inside a string is none.
fn has_reason(line: &str) -> bool {
    let mut quoted = false;
    let comment = line.find(|character| {
        quoted ^= character == '"';
        character == '#' && !quoted
    });
    comment.is_some_and(|start| line[start + 1..].trim().len() >= 5)
}

fn check_member(path: &str, text: &str) -> Vec<Finding> {
    let manifest: toml::Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, error.to_string(), "make it valid TOML")],
    };
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let declared = tables.iter().filter_map(|name| manifest.get(*name)?.as_table()).flatten();
    let own =
        declared.filter(|(_, value)| value.get("workspace").and_then(toml::Value::as_bool) != Some(true));
    let finding = |(name, _): (&String, &toml::Value)| {
        let remedy =
            "declare it in the root's [workspace.dependencies] with a reason, here `.workspace = true`";
        Finding::new(path, format!("declares {name} by itself"), remedy)
    };
    own.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Every workspace member and every dependency states its reason.
    #[test]
    fn lines_without_a_reason_are_found() {
        let root = "[workspace]\nmembers = [\n  \"a\", # bytes and values\n  \"b\",\n]\n[workspace.dependencies]\n\
                    ours = { path = \"a\" }\nlibc = \"0.2\" # system calls\nhash = \"#1.0 because\"\nserde = \"1\" #\n";
        let places: Vec<_> = check_root(root).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["Cargo.toml:4", "Cargo.toml:9", "Cargo.toml:10"]);
    }

    #[test]
    fn a_member_declares_nothing_by_itself() {
        let member = "[dependencies]\nlibc.workspace = true\n[dev-dependencies]\nrand = \"0.9\"\n";
        let findings = check(&Tree::from([("Cargo.toml", ""), ("crates/a/Cargo.toml", member)]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].problem, "declares rand by itself");
    }
}
