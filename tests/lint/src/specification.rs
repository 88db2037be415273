//! Every promise is linked to the test that shows it, or marked pending.
//!
//! A promise is a list item of SPECIFICATION.md. Its tests are links to source files whose text is the name
//! of a test function as code: ``[`seek_continues`](tests/netns/seek.rs)``. A promise not kept yet ends in
//! *pending*.

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::finding::Finding;
use crate::links::{self, Target};
use crate::rust;
use crate::tree::Tree;

const SPECIFICATION: &str = "SPECIFICATION.md";

/// Finds promises without a test, with a test that does not exist, or with a test and still pending.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(SPECIFICATION) else {
        return vec![Finding::new(SPECIFICATION, "it does not exist", "write down what is promised")];
    };
    let promises = promises(text);
    if promises.is_empty() {
        return vec![Finding::new(SPECIFICATION, "it promises nothing", "write each promise as a list item")];
    }
    promises.iter().flat_map(|promise| check_promise(tree, promise)).collect()
}

#[derive(Default)]
struct Promise {
    line: usize,
    pending: bool,
    /// Link text that was code, and where it leads.
    tests: Vec<(String, String)>,
}

fn promises(text: &str) -> Vec<Promise> {
    let mut done = Vec::new();
    let mut current = Promise::default();
    let mut link: Option<String> = None;
    let mut emphasised = false;
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::Item) => {
                let line = text[..range.start].matches('\n').count() + 1;
                current = Promise { line, ..Promise::default() };
            }
            Event::End(TagEnd::Item) => done.push(std::mem::take(&mut current)),
            Event::Start(Tag::Emphasis) => emphasised = true,
            Event::End(TagEnd::Emphasis) => emphasised = false,
            Event::Text(word) if emphasised => current.pending |= word.starts_with("pending"),
            Event::Start(Tag::Link { dest_url, .. }) => link = Some(dest_url.into_string()),
            Event::End(TagEnd::Link) => link = None,
            Event::Code(name) => current.tests.extend(link.clone().map(|file| (name.into_string(), file))),
            _ => {}
        }
    }
    done
}

fn check_promise(tree: &Tree, promise: &Promise) -> Vec<Finding> {
    let place = format!("{SPECIFICATION}:{}", promise.line);
    if promise.tests.is_empty() && !promise.pending {
        let remedy = "link the test that shows it, or mark it *pending*";
        return vec![Finding::new(place, "a promise without a test", remedy)];
    }
    let missing = promise.tests.iter().filter(|(name, url)| !is_test(tree, name, url));
    let finding = |(name, url): &(String, String)| {
        let remedy = "write the test, name the one that shows it, or mark the promise *pending*";
        Finding::new(&place, format!("there is no test `{name}` in {url}"), remedy)
    };
    missing.map(finding).collect()
}

fn is_test(tree: &Tree, name: &str, url: &str) -> bool {
    let Target::File(path) = links::target(SPECIFICATION, url) else { return false };
    let Some(stream) = tree.text(&path).and_then(|text| rust::tokens(text).ok()) else { return false };
    rust::tests(stream).iter().any(|test| test == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(specification: &str) -> Vec<String> {
        let source = "#[test]\nfn keeps() {}\nfn helper() {}";
        let tree = Tree::from([(SPECIFICATION, specification), ("crates/a/src/lib.rs", source)]);
        check(&tree).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn kept_and_pending_promises_pass() {
        let text = "- It keeps. [`keeps`](crates/a/src/lib.rs)\n- It will. *pending*\n- `code` in it. *pending: 2027*\n";
        assert_eq!(problems(text), [""; 0]);
    }

    #[test]
    fn promises_without_a_real_test_are_found() {
        let text = "- Nothing here.\n- Not a test. [`helper`](crates/a/src/lib.rs)\n\
                    - Gone. [`keeps`](crates/b/src/lib.rs)\n- A plain [link](crates/a/src/lib.rs).\n";
        assert_eq!(problems(text).len(), 4);
    }

    #[test]
    fn an_empty_specification_is_found() {
        assert_eq!(problems("# Specification\n"), ["it promises nothing"]);
    }
}
