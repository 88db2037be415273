//! Records of runs that went well and that did not.

use super::*;
use crate::report::Report;
use crate::suite::Caller;

const WELL: &str = "wirepath-vm: begin a\ncounted: 7 calls\nwirepath-vm: passed\nwirepath-vm: done\n";

fn ran(name: &str, log: &str) -> Ran {
    let report = Report::new(name, WELL, log, "");
    Ran { name: name.to_owned(), complaint: report.problems(), report, seconds: 12 }
}

fn chosen(seed: u64, seconds: u64) -> Chosen {
    Chosen { caller: Caller { seed, seconds }, only: Vec::new() }
}

fn debugged(folder: &Path, log: &str) -> Debugged {
    let configuration = folder.join("config");
    std::fs::write(&configuration, "CONFIG_KASAN=y\n").unwrap();
    Debugged {
        release: "6.12.95-wirepath-debug".to_owned(),
        configuration,
        machine: "QEMU 7.2".to_owned(),
        seconds: 60,
        guests: vec![ran("debug module", ""), ran("debug caller", log)],
        left: 0,
    }
}

/// Promise: A run on a debugging kernel is recorded: tests, kernel, and the kernel's complaints.
#[test]
fn a_record_says_what_was_run_and_what_came_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let result = folder.path().join("a/result");
    write(&result, &debugged(folder.path(), ""), &chosen(5, 600)).unwrap();
    let read = |name: &str| std::fs::read_to_string(result.join(name)).unwrap();
    let text = read("README.md");
    for said in ["6.12.95-wirepath-debug", "QEMU 7.2", "--seconds 600 --seed 5", "4 tests passed, 0 failed"] {
        assert!(text.contains(said), "no {said:?} in {text}");
    }
    assert!(text.contains("| debug caller | 2 | 0 | 0 | 12 | none |"), "{text}");
    assert_eq!(read("kernel.config"), "CONFIG_KASAN=y\n");
    assert!(read("tests.txt").contains("counted: 7 calls"));
}

/// Promise: A run on a debugging kernel that is stopped keeps the results of the guests that have ended.
#[test]
fn a_record_of_a_run_that_goes_on_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let unfinished = Debugged { left: 3, ..debugged(folder.path(), "") };
    assert!(!unfinished.passed());
    let only = vec!["smoke".to_owned(), "planted leak".to_owned()];
    write(folder.path(), &unfinished, &Chosen { only, ..chosen(1, 1) }).unwrap();
    let text = std::fs::read_to_string(folder.path().join("README.md")).unwrap();
    for said in [": unfinished\n", "--only \"smoke\" --only \"planted leak\"", "3 guests have not ended"] {
        assert!(text.contains(said), "no {said:?} in {text}");
    }
}

/// Promise: A run on a debugging kernel is recorded: tests, kernel, and the kernel's complaints.
#[test]
fn a_record_keeps_what_kernels_complained_about() {
    let folder = tempfile::tempdir().unwrap();
    let log = "[    9.5] BUG: KASAN: slab-use-after-free in a|b\n[    9.6] Read of size 1\n";
    let debugged = debugged(folder.path(), log);
    assert_eq!((debugged.passed(), debugged.counts()), (false, [3, 1, 0]));
    write(folder.path(), &debugged, &chosen(1, 1)).unwrap();
    let text = std::fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(text.contains("| 1 | 1 | 0 | 12 | BUG: KASAN: slab-use-after-free in a\\|b |"), "{text}");
    let kept = std::fs::read_to_string(folder.path().join("complaints.txt")).unwrap();
    assert!(kept.contains("=== debug module\nnothing\n") && kept.contains("Read of size 1"), "{kept}");
}

/// Promise: A run on a debugging kernel is recorded: tests, kernel, and the kernel's complaints.
#[test]
fn a_record_names_no_folder_of_the_machine() {
    let path = crate::cache().join("build/planted.c");
    assert_eq!(without_paths(&format!("at {}:3", path.display())), "at target/vm/build/planted.c:3");
    let path = workspace::folder().join("kernel/module/send.c");
    assert_eq!(without_paths(&format!("at {}:3", path.display())), "at kernel/module/send.c:3");
}
