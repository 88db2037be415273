//! Dependencies between crates point down.

use std::collections::BTreeSet;

use cargo_metadata::Metadata;

use crate::finding::Finding;

/// Allowed dependencies of a package: ours, and others where that is restricted.
struct Rule {
    package: &'static str,
    ours: &'static [&'static str],
    /// `None`: any package with a reason in the root manifest. Test tools are never restricted.
    others: Option<&'static [&'static str]>,
}

/// The table of docs/architecture.md. Tests from outside may use all crates; benchmarks use the server as a
/// process.
const RULES: &[Rule] = &[
    Rule {
        package: "wirepath-sys",
        ours: &[],
        others: Some(&["libc", "rustix", "io-uring", "bytes", "thiserror"]),
    },
    Rule { package: "wirepath-counters", ours: &[], others: Some(&[]) },
    Rule { package: "wirepath-http", ours: &[], others: None },
    Rule { package: "wirepath-auth", ours: &["wirepath-http"], others: None },
    Rule { package: "wirepath-media", ours: &["wirepath-http"], others: None },
    Rule { package: "wirepath-datapath", ours: &["wirepath-sys", "wirepath-media"], others: None },
    Rule { package: "wirepath-engine", ours: &["wirepath-counters"], others: None },
    Rule {
        package: "wirepath-playback",
        ours: &["wirepath-counters", "wirepath-engine", "wirepath-datapath"],
        others: None,
    },
    Rule {
        package: "wirepath-streams",
        ours: &["wirepath-engine", "wirepath-datapath", "wirepath-media"],
        others: None,
    },
    // Bindings have what any user of the library has.
    Rule { package: "wirepath-capi", ours: &["wirepath-streams"], others: None },
    // Loaded into other programs, so as small as can be.
    Rule { package: "wirepath-loan", ours: &["wirepath-sys"], others: Some(&["libc", "rustix"]) },
    Rule { package: "wirepath-python", ours: &["wirepath-streams"], others: None },
    Rule { package: "wirepath-bpf", ours: &["wirepath-streams", "wirepath-sys"], others: None },
    Rule {
        package: "wirepath-net",
        ours: &[
            "wirepath-counters",
            "wirepath-http",
            "wirepath-auth",
            "wirepath-engine",
            "wirepath-streams",
            "wirepath-sys",
        ],
        others: None,
    },
    Rule {
        package: "wirepath-server",
        ours: &[
            "wirepath-counters",
            "wirepath-http",
            "wirepath-auth",
            "wirepath-net",
            "wirepath-engine",
            "wirepath-playback",
            "wirepath-streams",
            "wirepath-datapath",
            "wirepath-media",
        ],
        others: None,
    },
    Rule { package: "wirepath-manual", ours: &[], others: None },
    Rule { package: "wirepath-report", ours: &[], others: None },
    Rule {
        package: "wirepath-load",
        ours: &["wirepath-report", "wirepath-sys", "wirepath-http", "wirepath-media"],
        others: None,
    },
    Rule {
        package: "wirepath-assess",
        ours: &[
            "wirepath-report",
            "wirepath-load",
            "wirepath-sys",
            "wirepath-datapath",
            "wirepath-engine",
            "wirepath-streams",
            "wirepath-bpf",
            "wirepath-media",
        ],
        others: None,
    },
    Rule {
        package: "wirepath-relay",
        ours: &[
            "wirepath-counters",
            "wirepath-http",
            "wirepath-net",
            "wirepath-engine",
            "wirepath-streams",
            "wirepath-bpf",
            "wirepath-datapath",
            "wirepath-media",
        ],
        others: None,
    },
    Rule { package: "wirepath-images", ours: APPLICATION, others: None },
    Rule { package: "wirepath-records", ours: APPLICATION, others: None },
    Rule { package: "wirepath", ours: LIBRARIES, others: None },
    Rule { package: TESTKIT, ours: &[], others: None },
    Rule { package: "wirepath-tests", ours: LIBRARIES, others: None },
    Rule {
        package: "wirepath-bench",
        ours: &["wirepath-assess", "wirepath-load", "wirepath-tests"],
        others: None,
    },
    // Servers of the user level compute with the same functions.
    Rule { package: "wirepath-bench-images", ours: &["wirepath-images", "wirepath-streams"], others: None },
    Rule { package: "wirepath-bench-records", ours: &["wirepath-bench-images"], others: None },
    // The model needs the layout of what the kernel is asked only; its tests attach handlers of runs.
    Rule {
        package: "wirepath-module-tests",
        ours: &["wirepath-sys", "wirepath-bpf", "wirepath-tests"],
        others: None,
    },
    Rule {
        package: "wirepath-assessment-docs",
        ours: &["wirepath-assess", "wirepath-datapath", "wirepath-report", "wirepath-tests"],
        others: None,
    },
    Rule {
        package: "wirepath-fuzz",
        ours: &[
            "wirepath-auth",
            "wirepath-bpf",
            "wirepath-http",
            "wirepath-images",
            "wirepath-media",
            "wirepath-records",
            "wirepath-server",
            "wirepath-streams",
        ],
        others: None,
    },
    Rule { package: "wirepath-vm", ours: &["wirepath-tests"], others: None },
    Rule { package: "wirepath-interop", ours: &["wirepath-tests"], others: None },
    Rule { package: "wirepath-lint", ours: &[], others: None },
    // It asks whether guests keep time, as `wirepath-vm` does.
    Rule { package: "wirepath-check", ours: &[TESTKIT], others: None },
];

/// Tests of every crate may use it.
const TESTKIT: &str = "wirepath-testkit";

/// Crates that applications use: those that any user of the libraries has. Their tests need those of the whole server.
const APPLICATION: &[&str] = &[
    "wirepath-http",
    "wirepath-manual",
    "wirepath-net",
    "wirepath-engine",
    "wirepath-streams",
    "wirepath-tests",
];

/// The libraries of the workspace, and what their tests share.
const LIBRARIES: &[&str] = &[
    TESTKIT,
    "wirepath-sys",
    "wirepath-counters",
    "wirepath-http",
    "wirepath-auth",
    "wirepath-engine",
    "wirepath-playback",
    "wirepath-media",
    "wirepath-datapath",
    "wirepath-streams",
    "wirepath-bpf",
    "wirepath-net",
    "wirepath-server",
    "wirepath-relay",
    "wirepath-manual",
    "wirepath-report",
    "wirepath-load",
    "wirepath-assess",
];

/// A workspace member and what it depends on.
pub(crate) struct Member {
    /// Package name.
    pub(crate) name: String,
    /// Packages it uses in what it ships.
    pub(crate) uses: BTreeSet<String>,
    /// Packages it uses in its tests and build scripts.
    pub(crate) tests_use: BTreeSet<String>,
}

/// The workspace's members.
pub(crate) fn members(metadata: &Metadata) -> Vec<Member> {
    let member = |package: &cargo_metadata::Package| {
        let normal = |dependency: &&cargo_metadata::Dependency| {
            dependency.kind == cargo_metadata::DependencyKind::Normal
        };
        let (uses, tests_use): (Vec<_>, Vec<_>) = package.dependencies.iter().partition(normal);
        Member { name: package.name.to_string(), uses: names(&uses), tests_use: names(&tests_use) }
    };
    metadata.workspace_packages().into_iter().map(member).collect()
}

fn names(dependencies: &[&cargo_metadata::Dependency]) -> BTreeSet<String> {
    dependencies.iter().map(|dependency| dependency.name.clone()).collect()
}

/// Finds crates without a rule and dependencies that the rules do not allow.
pub(crate) fn check(members: &[Member]) -> Vec<Finding> {
    let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    members.iter().flat_map(|member| check_member(member, &names)).collect()
}

fn check_member(member: &Member, ours: &BTreeSet<&str>) -> Vec<Finding> {
    let place = format!("package {}", member.name);
    let Some(rule) = RULES.iter().find(|rule| rule.package == member.name) else {
        let remedy = "add it to RULES in tests/lint/src/crates.rs with what it may use";
        return vec![Finding::new(place, "the crate has no rule", remedy)];
    };
    let upward = |name: &&String| ours.contains(name.as_str()) && !rule.ours.contains(&name.as_str());
    let foreign = |name: &&String| {
        !ours.contains(name.as_str()) && rule.others.is_some_and(|allowed| !allowed.contains(&name.as_str()))
    };
    let is_testkit_of_tests = |name: &String| name == TESTKIT && !member.uses.contains(name);
    let all = member.uses.union(&member.tests_use).filter(|name| !is_testkit_of_tests(name));
    let arrows = all.filter(upward).map(|name| {
        let remedy = "move what it needs to a crate below both, or hand it in from above";
        Finding::new(&place, format!("uses {name}, which its row of the table does not allow"), remedy)
    });
    let strangers = member.uses.iter().filter(foreign).map(|name| {
        let remedy = "this crate takes libc-level packages only; use the dependency in the crate above";
        Finding::new(&place, format!("uses {name}"), remedy)
    });
    arrows.chain(strangers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, uses: &[&str], tests_use: &[&str]) -> Member {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Member { name: name.to_owned(), uses: set(uses), tests_use: set(tests_use) }
    }

    fn problems(members: &[Member]) -> Vec<String> {
        check(members).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn arrows_down_are_allowed() {
        let members = [
            member("wirepath-sys", &["libc"], &["proptest"]),
            member("wirepath-media", &["rtsp-types"], &[]),
            member("wirepath-datapath", &["wirepath-sys", "wirepath-media", "rustix"], &[]),
        ];
        assert_eq!(problems(&members), [""; 0]);
    }

    /// Promise: Dependencies between crates point only down the layers, in tests too.
    #[test]
    fn arrows_up_are_found_in_tests_too() {
        let members = [
            member("wirepath-media", &["wirepath-sys"], &["wirepath-server"]),
            member("wirepath-sys", &[], &[]),
            member("wirepath-server", &["wirepath-streams"], &[]),
            member("wirepath-streams", &[], &[]),
        ];
        let problems = problems(&members);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("wirepath-server") && problems[1].contains("wirepath-sys"));
    }

    #[test]
    fn streams_know_nothing_of_sessions() {
        let members =
            [member("wirepath-streams", &["wirepath-server"], &[]), member("wirepath-server", &[], &[])];
        assert_eq!(problems(&members).len(), 1);
    }

    #[test]
    fn sys_takes_no_runtime() {
        assert_eq!(problems(&[member("wirepath-sys", &["tokio"], &[])]), ["uses tokio"]);
    }

    /// Promise: A crate without a rule for its dependencies is an error.
    #[test]
    fn a_crate_without_a_rule_is_found() {
        assert_eq!(problems(&[member("wirepath-attic", &[], &[])]), ["the crate has no rule"]);
    }
}
