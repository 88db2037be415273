//! Links between documents and to files lead somewhere.

use pulldown_cmark::{Event, Parser, Tag};

use crate::finding::Finding;
use crate::tree::Tree;

/// Finds links of `*.md` files to files that do not exist.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending_in(".md").flat_map(|(path, text)| check_document(tree, path, text)).collect()
}

fn check_document(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event else { continue };
        let line = text[..range.start].matches('\n').count() + 1;
        let place = format!("{path}:{line}");
        match target(path, &dest_url) {
            Target::Elsewhere => {}
            Target::File(file) if tree.has(&file) => {}
            Target::File(file) => {
                let problem = format!("links to {file}, which does not exist");
                findings.push(Finding::new(place, problem, "mend or remove the link"));
            }
            Target::Outside => {
                let problem = format!("links to {dest_url}, outside the project");
                findings.push(Finding::new(place, problem, "link to a file of the project or to a full URL"));
            }
        }
    }
    findings
}

/// Target of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Another site, or a place in the same document.
    Elsewhere,
    /// This file or folder of the project.
    File(String),
    /// A file that is not in the project.
    Outside,
}

/// Resolves `url` as written in the document `from`.
pub(crate) fn target(from: &str, url: &str) -> Target {
    let path = url.split(['#', '?']).next().unwrap_or_default();
    if path.is_empty() || url.contains("://") || url.starts_with("mailto:") {
        return Target::Elsewhere;
    }
    if path.starts_with('/') {
        return Target::Outside;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return Target::Outside,
            ".." => {}
            name => parts.push(name),
        }
    }
    Target::File(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_resolve_from_their_document() {
        let file = |path: &str| Target::File(path.to_owned());
        assert_eq!(target("README.md", "docs/guide.md#ports"), file("docs/guide.md"));
        assert_eq!(target("docs/a/b.md", "../guide.md"), file("docs/guide.md"));
        assert_eq!(target("README.md", "../secret.md"), Target::Outside);
        assert_eq!(target("README.md", "/etc/passwd"), Target::Outside);
        assert_eq!(target("README.md", "#limits"), Target::Elsewhere);
        assert_eq!(target("README.md", "https://example.org/a.md"), Target::Elsewhere);
    }

    /// Promise: Links between documents lead to files that exist.
    #[test]
    fn a_dead_link_is_found_with_its_line() {
        let text = "See [this](docs/guide.md),\nand [that](docs/gone.md).\n`[code](docs/code.md)`\n";
        let findings = check(&Tree::from([("README.md", text), ("docs/guide.md", "")]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].place, "README.md:2");
    }
}
