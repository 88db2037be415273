//! Every package we build with has a licence we accept and comes from where packages come from.
//!
//! The list is deny.toml's, which `cargo deny` reads too; this needs no tool and no network.

use cargo_metadata::Metadata;
use spdx::{Expression, ParseMode};

use crate::finding::Finding;
use crate::tree::Tree;

const POLICY: &str = "deny.toml";

/// Facts of a package that the rule needs.
pub(crate) struct Package {
    /// Name and version.
    pub(crate) name: String,
    /// SPDX expression, as the package states it.
    pub(crate) licence: Option<String>,
    /// True if it is ours or from the public registry.
    pub(crate) from_known_source: bool,
}

/// All packages of the lock file that this platform builds.
pub(crate) fn packages(metadata: &Metadata) -> Vec<Package> {
    let package = |package: &cargo_metadata::Package| Package {
        name: format!("{} {}", package.name, package.version),
        licence: package.license.clone(),
        from_known_source: package.source.as_ref().is_none_or(cargo_metadata::Source::is_crates_io),
    };
    metadata.packages.iter().map(package).collect()
}

/// Finds packages with no or another licence, from another source, and entries of the policy nobody needs.
pub(crate) fn check(tree: &Tree, packages: &[Package]) -> Vec<Finding> {
    let allowed = match policy(tree) {
        Ok(allowed) => allowed,
        Err(error) => return vec![Finding::new(POLICY, error, "list SPDX identifiers in `licenses.allow`")],
    };
    packages.iter().filter_map(|package| check_package(&allowed, package)).collect()
}

fn policy(tree: &Tree) -> Result<Vec<String>, String> {
    let text = tree.text(POLICY).ok_or("it does not exist")?;
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let allow = table.get("licenses").and_then(|licenses| licenses.get("allow")?.as_array());
    let names = allow.into_iter().flatten().filter_map(toml::Value::as_str).map(str::to_owned);
    Some(names.collect())
        .filter(|names: &Vec<String>| !names.is_empty())
        .ok_or("it allows nothing".to_owned())
}

fn check_package(allowed: &[String], package: &Package) -> Option<Finding> {
    let place = format!("package {}", package.name);
    if !package.from_known_source {
        let remedy = "take it from the registry, where it cannot change under us";
        return Some(Finding::new(place, "comes from an unknown source", remedy));
    }
    let remedy = "use another package, or accept the licence in deny.toml";
    let Some(licence) = &package.licence else {
        return Some(Finding::new(place, "states no licence", remedy));
    };
    // LAX: old packages write `MIT/Apache-2.0`.
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => {
            return Some(Finding::new(place, format!("licence `{licence}`: {}", error.reason), remedy));
        }
    };
    let accepted = |requirement: &spdx::LicenseReq| allowed.contains(&requirement.to_string());
    let problem = format!("licence `{licence}` is not accepted");
    (!expression.evaluate(accepted)).then(|| Finding::new(place, problem, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(licence: Option<&str>, from_known_source: bool) -> Vec<String> {
        let tree = Tree::from([(
            POLICY,
            "[licenses]\nallow = [\"MIT\", \"Apache-2.0\", \"Apache-2.0 WITH LLVM-exception\"]\n",
        )]);
        let package =
            Package { name: "a 1.0.0".to_owned(), licence: licence.map(str::to_owned), from_known_source };
        check(&tree, &[package]).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn accepted_licences_pass() {
        for licence in
            ["MIT", "MIT OR GPL-3.0-only", "MIT/Apache-2.0", "MIT AND Apache-2.0 WITH LLVM-exception"]
        {
            assert_eq!(problems(Some(licence), true), [""; 0], "{licence}");
        }
    }

    /// Promise: Every package has an accepted licence; the check needs no network.
    #[test]
    fn other_licences_are_found() {
        for licence in
            ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Beerware 1", "Apache-2.0 WITH Classpath-exception-2.0"]
        {
            assert_eq!(problems(Some(licence), true).len(), 1, "{licence}");
        }
        assert_eq!(problems(None, true), ["states no licence"]);
    }

    /// Promise: Every package comes from a known source.
    #[test]
    fn unknown_sources_are_found() {
        assert_eq!(problems(Some("MIT"), false), ["comes from an unknown source"]);
    }

    #[test]
    fn a_policy_that_allows_nothing_is_found() {
        assert_eq!(check(&Tree::from([(POLICY, "[licenses]\n")]), &[])[0].problem, "it allows nothing");
    }
}
