//! Modules side by side import each other in one direction only; a module and its children count as one.
//!
//! Imports are paths that begin with `crate`, `self` or `super`, followed through re-exports to the module
//! that defines what they name. A child may use what its parent defines. Code for tests is not looked at.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::rust::{self, Source};
use crate::tree::Tree;

/// Folders whose modules still import each other, and why. The list only shrinks.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/cli/src/inspect", "the forms of one report share their words"),
    ("crates/engine/src", "a command calls a task, and a task has handles that send commands"),
];

/// Finds circles of modules in `crates/`.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for (path, text) in tree.ending_in(".rs") {
        let Some((folder, file)) = path.split_once("/src/").filter(|_| path.starts_with("crates/")) else {
            continue;
        };
        // Another rule finds files that are not Rust.
        if let Ok(tokens) = rust::tokens(text) {
            let module = Module { file: path.to_owned(), source: Source::read(tokens) };
            crates.entry(folder).or_default().modules.insert(name_of(file), module);
        }
    }
    let mut excepted: BTreeSet<&str> = exceptions.iter().map(|(folder, _)| *folder).collect();
    let mut findings = Vec::new();
    for (folder, imports) in crates.iter().flat_map(|(folder, one)| one.imports(folder)) {
        if let Some(circle) = circle(&imports)
            && !excepted.remove(folder.as_str())
        {
            findings.push(found(&folder, &circle, &imports));
        }
    }
    let unused =
        |folder| Finding::new(folder, "has no circle", "remove the exception in tests/lint/src/modules.rs");
    findings.extend(excepted.into_iter().map(unused));
    findings
}

/// Name of the module in a file of `src`, the crate's root being the empty one.
fn name_of(file: &str) -> Name {
    let path = file.trim_end_matches(".rs");
    let mut name: Name = path.split('/').map(str::to_owned).collect();
    if name.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        name.pop();
    }
    name
}

/// Path of a module from the root of its crate.
type Name = Vec<String>;

/// Imports between the children of one module, and where each is first written.
type Imports = BTreeMap<(String, String), String>;

/// A file of a crate.
struct Module {
    file: String,
    source: Source,
}

/// The modules of a crate by name.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Name, Module>,
}

impl Crate {
    /// The imports between modules side by side, by the folder that they lie in; the crate's is `root`.
    fn imports(&self, root: &str) -> BTreeMap<String, Imports> {
        let mut all: BTreeMap<String, Imports> = BTreeMap::new();
        for (name, module) in self.modules.iter().filter(|(name, _)| !self.is_for_tests(name)) {
            for path in &module.source.paths {
                let scope = [&name[..], &path.scope[..]].concat();
                let Some(target) = self.resolve(&scope, &path.segments, 0) else { continue };
                let common = name.iter().zip(&target).take_while(|(one, other)| one == other).count();
                if let (Some(from), Some(to)) = (name.get(common), target.get(common)) {
                    let line = format!("{}:{}", module.file, path.line);
                    let folder = [&[format!("{root}/src")], &name[..common]].concat().join("/");
                    let imports = all.entry(folder).or_default();
                    imports.entry((from.clone(), to.clone())).or_insert(line);
                }
            }
        }
        all
    }

    fn is_for_tests(&self, name: &[String]) -> bool {
        (1..=name.len()).any(|length| {
            let parent = self.modules.get(&name[..length - 1]);
            parent.is_some_and(|parent| parent.source.test_modules.contains(&name[length - 1]))
        })
    }

    /// The module that defines what a path in `scope` names; nothing if that is in another crate.
    fn resolve(&self, scope: &[String], path: &[String], depth: usize) -> Option<Name> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(Vec::new(), rest, depth),
            "self" => self.resolve_or_stay(scope, rest, depth),
            "super" => self.resolve_or_stay(&scope[..scope.len().saturating_sub(1)], rest, depth),
            _ if self.has_child(scope, first) || self.source(scope)?.names.contains_key(first) => {
                self.descend(scope.to_vec(), path, depth)
            }
            _ => None,
        }
    }

    fn resolve_or_stay(&self, scope: &[String], rest: &[String], depth: usize) -> Option<Name> {
        match rest.first().map(String::as_str) {
            Some("super" | "self") => self.resolve(scope, rest, depth),
            _ => self.descend(scope.to_vec(), rest, depth),
        }
    }

    /// Follows names from `module` down and through re-exports.
    fn descend(&self, mut module: Name, path: &[String], depth: usize) -> Option<Name> {
        for (index, name) in path.iter().enumerate() {
            if self.has_child(&module, name) {
                module.push(name.clone());
                continue;
            }
            let Some(source) = self.source(&module).filter(|_| depth < 16) else { break };
            if let Some(target) = source.names.get(name) {
                let target = [&target[..], &path[index + 1..]].concat();
                return self.resolve(&module, &target, depth + 1);
            }
            let defines = |glob: &Name| {
                let target = self.resolve(&module, glob, depth + 1)?;
                self.source(&target)?.defines.contains(name).then_some(target)
            };
            return source.globs.iter().find_map(defines).or(Some(module));
        }
        Some(module)
    }

    fn has_child(&self, module: &[String], name: &str) -> bool {
        self.modules.contains_key(&[module, &[name.to_owned()]].concat())
    }

    /// The source of a module, or of the file that an inline module is in.
    fn source(&self, module: &[String]) -> Option<&Source> {
        let mut lengths = (0..=module.len()).rev();
        lengths.find_map(|length| self.modules.get(&module[..length])).map(|module| &module.source)
    }
}

/// A shortest circle of imports, if there is one.
fn circle(imports: &Imports) -> Option<Vec<&str>> {
    let starts: BTreeSet<&str> = imports.keys().map(|(from, _)| from.as_str()).collect();
    starts.into_iter().filter_map(|start| way_back(start, imports)).min_by_key(Vec::len)
}

/// A shortest way from a module over imports back to itself.
fn way_back<'a>(start: &'a str, imports: &'a Imports) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut ways = std::collections::VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        let last = *way.last()?;
        for (_, to) in imports.keys().filter(|(from, _)| from == last) {
            if to == start {
                return Some(way);
            }
            if seen.insert(to.as_str()) {
                ways.push_back([&way[..], &[to.as_str()]].concat());
            }
        }
    }
    None
}

fn found(folder: &str, circle: &[&str], imports: &Imports) -> Finding {
    let next = circle.iter().cycle().skip(1);
    let place = |(from, to): (&&str, &&str)| imports.get(&((*from).to_owned(), (*to).to_owned()));
    let places: Vec<&str> = circle.iter().zip(next).filter_map(place).map(String::as_str).collect();
    let problem = format!("{} import each other ({})", circle.join(", "), places.join(", "));
    Finding::new(folder, problem, "move what both need to a module below them")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems<const N: usize>(files: [(&str, &str); N]) -> Vec<String> {
        check_with(&Tree::from(files), &[])
            .into_iter()
            .map(|finding| format!("{}: {}", finding.place, finding.problem))
            .collect()
    }

    /// Promise: Sibling modules do not import each other in cycles.
    #[test]
    fn a_circle_is_found_with_its_lines() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; mod d;"),
            ("crates/a/src/b.rs", "use crate::c::C;"),
            ("crates/a/src/c.rs", "use std::io;\nfn f() { super::d::g() }"),
            ("crates/a/src/d.rs", "use crate::{b::{self, B}, e};"),
        ];
        assert_eq!(
            problems(files),
            [
                "crates/a/src: b, c, d import each other (crates/a/src/b.rs:1, crates/a/src/c.rs:2, crates/a/src/d.rs:1)"
            ]
        );
    }

    #[test]
    fn imports_are_followed_through_re_exports() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; pub use b::B; pub use c::{C as D};"),
            ("crates/a/src/b.rs", "use crate::D;"),
            ("crates/a/src/c.rs", "use crate::B;"),
        ];
        assert_eq!(problems(files).len(), 1);
    }

    #[test]
    fn a_module_and_its_children_count_as_one() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c;"),
            ("crates/a/src/b.rs", "mod inner; use inner::I; pub struct B;"),
            ("crates/a/src/b/inner.rs", "use super::B; mod field { use super::super::B; use crate::c::C; }"),
            ("crates/a/src/c.rs", ""),
        ];
        assert_eq!(problems(files), [""; 0]);
        let mut back = files;
        back[3].1 = "use crate::b::B;";
        assert_eq!(problems(back).len(), 1);
    }

    #[test]
    fn code_for_tests_is_not_looked_at() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; #[cfg(test)] mod tests;"),
            ("crates/a/src/b.rs", "use crate::c::C; use crate::tests::x;"),
            ("crates/a/src/c.rs", "#[cfg(test)] mod tests { use crate::b::B; }"),
            ("crates/a/src/tests.rs", "use crate::b::B;"),
        ];
        assert_eq!(problems(files), [""; 0]);
    }

    #[test]
    fn exceptions_are_used_or_found() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c;"),
            ("crates/a/src/b.rs", "use crate::c::C;"),
            ("crates/a/src/c.rs", "use crate::b::B;"),
        ];
        let tree = Tree::from(files);
        assert_eq!(check_with(&tree, &[("crates/a/src", "")]), []);
        let unused = check_with(&tree, &[("crates/a/src", ""), ("crates/b/src", "")]);
        assert_eq!((unused.len(), unused[0].problem.as_str()), (1, "has no circle"));
    }
}
