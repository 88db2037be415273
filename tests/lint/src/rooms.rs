//! Arrows between rooms point down.

use std::collections::BTreeSet;

use cargo_metadata::Metadata;

use crate::finding::Finding;

/// One room: what it may use of ours, and which other packages where that is restricted.
struct Rule {
    room: &'static str,
    ours: &'static [&'static str],
    /// `None`: any package with a reason in the root manifest. Test tools are never restricted.
    others: Option<&'static [&'static str]>,
}

/// The design's table of rooms. What tests from outside may use all; what measures uses the server as a
/// process.
const RULES: &[Rule] = &[
    Rule {
        room: "wirepath-sys",
        ours: &[],
        others: Some(&["libc", "rustix", "io-uring", "bytes", "thiserror"]),
    },
    Rule { room: "wirepath-counters", ours: &[], others: Some(&[]) },
    Rule { room: "wirepath-http", ours: &[], others: None },
    Rule { room: "wirepath-media", ours: &["wirepath-http"], others: None },
    Rule { room: "wirepath-datapath", ours: &["wirepath-sys", "wirepath-media"], others: None },
    Rule { room: "wirepath-engine", ours: &["wirepath-counters"], others: None },
    Rule {
        room: "wirepath-playback",
        ours: &["wirepath-counters", "wirepath-engine", "wirepath-datapath"],
        others: None,
    },
    Rule {
        room: "wirepath-streams",
        ours: &["wirepath-engine", "wirepath-datapath", "wirepath-media"],
        others: None,
    },
    Rule {
        room: "wirepath-net",
        ours: &["wirepath-counters", "wirepath-http", "wirepath-engine", "wirepath-streams"],
        others: None,
    },
    Rule {
        room: "wirepath-server",
        ours: &[
            "wirepath-counters",
            "wirepath-http",
            "wirepath-net",
            "wirepath-engine",
            "wirepath-playback",
            "wirepath-streams",
            "wirepath-datapath",
            "wirepath-media",
        ],
        others: None,
    },
    Rule { room: "wirepath-report", ours: &[], others: None },
    Rule {
        room: "wirepath-assess",
        ours: &[
            "wirepath-report",
            "wirepath-sys",
            "wirepath-datapath",
            "wirepath-engine",
            "wirepath-streams",
            "wirepath-media",
        ],
        others: None,
    },
    Rule {
        room: "wirepath-relay",
        ours: &[
            "wirepath-counters",
            "wirepath-http",
            "wirepath-net",
            "wirepath-engine",
            "wirepath-streams",
            "wirepath-datapath",
            "wirepath-media",
        ],
        others: None,
    },
    Rule { room: "wirepath", ours: ROOMS, others: None },
    Rule { room: TESTKIT, ours: &[], others: None },
    Rule { room: "wirepath-tests", ours: ROOMS, others: None },
    Rule { room: "wirepath-bench", ours: &["wirepath-assess", "wirepath-tests"], others: None },
    // The model needs the layout of what the kernel is asked only.
    Rule { room: "wirepath-module-tests", ours: &["wirepath-sys", "wirepath-tests"], others: None },
    Rule {
        room: "wirepath-assessment-docs",
        ours: &["wirepath-assess", "wirepath-datapath", "wirepath-report"],
        others: None,
    },
    Rule { room: "wirepath-vm", ours: &["wirepath-tests"], others: None },
    Rule { room: "wirepath-lint", ours: &[], others: None },
    Rule { room: "wirepath-check", ours: &[], others: None },
];

/// Tests of every crate may use it.
const TESTKIT: &str = "wirepath-testkit";

/// The libraries of the workspace, and what their tests share.
const ROOMS: &[&str] = &[
    TESTKIT,
    "wirepath-sys",
    "wirepath-counters",
    "wirepath-http",
    "wirepath-engine",
    "wirepath-playback",
    "wirepath-media",
    "wirepath-datapath",
    "wirepath-streams",
    "wirepath-net",
    "wirepath-server",
    "wirepath-relay",
    "wirepath-report",
    "wirepath-assess",
];

/// A workspace member and what it depends on.
pub(crate) struct Room {
    /// Package name.
    pub(crate) name: String,
    /// Packages it uses in what it ships.
    pub(crate) uses: BTreeSet<String>,
    /// Packages it uses in its tests and build scripts.
    pub(crate) tests_use: BTreeSet<String>,
}

/// The workspace's members.
pub(crate) fn rooms(metadata: &Metadata) -> Vec<Room> {
    let room = |package: &cargo_metadata::Package| {
        let normal = |dependency: &&cargo_metadata::Dependency| {
            dependency.kind == cargo_metadata::DependencyKind::Normal
        };
        let (uses, tests_use): (Vec<_>, Vec<_>) = package.dependencies.iter().partition(normal);
        Room { name: package.name.to_string(), uses: names(&uses), tests_use: names(&tests_use) }
    };
    metadata.workspace_packages().into_iter().map(room).collect()
}

fn names(dependencies: &[&cargo_metadata::Dependency]) -> BTreeSet<String> {
    dependencies.iter().map(|dependency| dependency.name.clone()).collect()
}

/// Finds rooms without a rule and dependencies that the rules do not allow.
pub(crate) fn check(rooms: &[Room]) -> Vec<Finding> {
    let members: BTreeSet<&str> = rooms.iter().map(|room| room.name.as_str()).collect();
    rooms.iter().flat_map(|room| check_room(room, &members)).collect()
}

fn check_room(room: &Room, members: &BTreeSet<&str>) -> Vec<Finding> {
    let place = format!("package {}", room.name);
    let Some(rule) = RULES.iter().find(|rule| rule.room == room.name) else {
        let remedy = "add it to RULES in tests/lint/src/rooms.rs with what it may use";
        return vec![Finding::new(place, "the room has no rule", remedy)];
    };
    let upward = |name: &&String| members.contains(name.as_str()) && !rule.ours.contains(&name.as_str());
    let foreign = |name: &&String| {
        !members.contains(name.as_str())
            && rule.others.is_some_and(|allowed| !allowed.contains(&name.as_str()))
    };
    let is_testkit_of_tests = |name: &String| name == TESTKIT && !room.uses.contains(name);
    let all = room.uses.union(&room.tests_use).filter(|name| !is_testkit_of_tests(name));
    let arrows = all.filter(upward).map(|name| {
        let remedy = "move what it needs to a room below both, or hand it in from above";
        Finding::new(&place, format!("uses {name}, which its row of the design does not allow"), remedy)
    });
    let strangers = room.uses.iter().filter(foreign).map(|name| {
        let remedy = "this room takes libc-level packages only; use the dependency in the room above";
        Finding::new(&place, format!("uses {name}"), remedy)
    });
    arrows.chain(strangers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str, uses: &[&str], tests_use: &[&str]) -> Room {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Room { name: name.to_owned(), uses: set(uses), tests_use: set(tests_use) }
    }

    fn problems(rooms: &[Room]) -> Vec<String> {
        check(rooms).into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn arrows_down_are_allowed() {
        let rooms = [
            room("wirepath-sys", &["libc"], &["proptest"]),
            room("wirepath-media", &["rtsp-types"], &[]),
            room("wirepath-datapath", &["wirepath-sys", "wirepath-media", "rustix"], &[]),
        ];
        assert_eq!(problems(&rooms), [""; 0]);
    }

    /// Promise: Arrows between crates point down, in tests too.
    #[test]
    fn arrows_up_are_found_in_tests_too() {
        let rooms = [
            room("wirepath-media", &["wirepath-sys"], &["wirepath-server"]),
            room("wirepath-sys", &[], &[]),
            room("wirepath-server", &["wirepath-streams"], &[]),
            room("wirepath-streams", &[], &[]),
        ];
        let problems = problems(&rooms);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("wirepath-server") && problems[1].contains("wirepath-sys"));
    }

    #[test]
    fn streams_know_nothing_of_sessions() {
        let rooms = [room("wirepath-streams", &["wirepath-server"], &[]), room("wirepath-server", &[], &[])];
        assert_eq!(problems(&rooms).len(), 1);
    }

    #[test]
    fn sys_takes_no_runtime() {
        assert_eq!(problems(&[room("wirepath-sys", &["tokio"], &[])]), ["uses tokio"]);
    }

    /// Promise: A crate without a rule for its dependencies is an error.
    #[test]
    fn a_room_without_a_rule_is_found() {
        assert_eq!(problems(&[room("wirepath-attic", &[], &[])]), ["the room has no rule"]);
    }
}
