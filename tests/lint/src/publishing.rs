//! A crate that is published says what a registry and docs.rs need, and uses only crates that are published.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, Metadata, Package};

use crate::finding::Finding;

/// Manifest of a published crate.
pub(crate) struct Published {
    name: String,
    version: String,
    /// Fields that a registry shows, files that licences require, and whether they are there.
    fields: Vec<(&'static str, bool)>,
    /// Keywords and categories: a registry takes five of each at most, keywords of 20 characters at most.
    keywords: Vec<String>,
    categories: usize,
    /// Crates of the workspace that it uses.
    uses: BTreeSet<String>,
}

/// The published crates of the workspace.
pub(crate) fn published(metadata: &Metadata) -> Vec<Published> {
    let members = metadata.workspace_packages();
    let ours: BTreeSet<&str> = members.iter().map(|package| package.name.as_str()).collect();
    let is_published =
        |package: &&&Package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty());
    members.iter().filter(is_published).map(|package| published_of(package, &ours)).collect()
}

fn published_of(package: &Package, ours: &BTreeSet<&str>) -> Published {
    let is_used = |dependency: &&cargo_metadata::Dependency| {
        dependency.kind != DependencyKind::Development && ours.contains(dependency.name.as_str())
    };
    Published {
        name: package.name.to_string(),
        version: package.version.to_string(),
        fields: vec![
            ("description", package.description.is_some()),
            ("license", package.license.is_some()),
            ("readme", package.readme.is_some()),
            ("rust-version", package.rust_version.is_some()),
            ("package.metadata.docs.rs", package.metadata.pointer("/docs/rs").is_some()),
            ("LICENSE-MIT", package.manifest_path.with_file_name("LICENSE-MIT").exists()),
            ("LICENSE-APACHE", package.manifest_path.with_file_name("LICENSE-APACHE").exists()),
        ],
        keywords: package.keywords.clone(),
        categories: package.categories.len(),
        uses: package.dependencies.iter().filter(is_used).map(|used| used.name.clone()).collect(),
    }
}

/// Finds what a registry would refuse or not show.
pub(crate) fn check(published: &[Published]) -> Vec<Finding> {
    let names: BTreeSet<&str> = published.iter().map(|package| package.name.as_str()).collect();
    published.iter().flat_map(|package| check_package(package, &names, &published[0].version)).collect()
}

fn check_package(package: &Published, published: &BTreeSet<&str>, version: &str) -> Vec<Finding> {
    let finding =
        |problem: String, remedy: &str| Finding::new(format!("package {}", package.name), problem, remedy);
    let missing = package.fields.iter().filter(|(_, is_there)| !is_there);
    let mut findings: Vec<Finding> = missing
        .map(|(field, _)| {
            finding(
                format!("is published without `{field}`"),
                "add it to the manifest, or the file to the crate's folder",
            )
        })
        .collect();
    let is_short = |keyword: &String| (1..=20).contains(&keyword.len());
    if !(1..=5).contains(&package.keywords.len()) || !package.keywords.iter().all(is_short) {
        findings.push(finding("has wrong keywords".to_owned(), "name 1 to 5, of at most 20 characters"));
    }
    if !(1..=5).contains(&package.categories) {
        findings.push(finding("has wrong categories".to_owned(), "name 1 to 5 that the registry knows"));
    }
    if package.version != version {
        findings.push(finding("has a version of its own".to_owned(), "inherit that of the workspace"));
    }
    let unpublished = package.uses.iter().filter(|used| !published.contains(used.as_str()));
    let remedy = "publish that, too, or move what it needs";
    findings.extend(unpublished.map(|used| finding(format!("uses {used}, which is not published"), remedy)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, has_readme: bool, keywords: &[&str], uses: &[&str]) -> Published {
        Published {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            fields: vec![("readme", has_readme)],
            keywords: keywords.iter().map(|word| (*word).to_owned()).collect(),
            categories: 1,
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
        }
    }

    /// Promise: Published crates have the metadata that a registry and docs.rs show, and depend only on
    /// published crates.
    #[test]
    fn what_a_registry_would_refuse_is_found() {
        assert_eq!(check(&[package("a", true, &["zero-copy"], &["b"]), package("b", true, &["b"], &[])]), []);
        let wrong = [package("a", false, &["a-keyword-that-is-too-long"], &["b"])];
        let problems: Vec<_> = check(&wrong).into_iter().map(|finding| finding.problem).collect();
        assert_eq!(
            problems,
            ["is published without `readme`", "has wrong keywords", "uses b, which is not published"]
        );
        let later =
            Published { version: "0.2.0".to_owned(), categories: 6, ..package("c", true, &["c"], &[]) };
        assert_eq!(check(&[package("a", true, &["a"], &[]), later]).len(), 2);
    }
}
