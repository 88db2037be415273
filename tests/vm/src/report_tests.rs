//! Reports of guests that ended well, badly, and not at all.

use super::*;

const RUNNER: &str = "\
wirepath-vm: begin netns

running 3 tests
test a::holds ... ok
test a::does_not ... FAILED
test a::cannot ... ignored, no ffmpeg

failures:

---- a::does_not ----
three packets are missing
and one is twice there

failures:
    a::does_not

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

SKIP a::cannot: no ffmpeg
wirepath-vm: failed ended with exit status: 101
wirepath-vm: done
";

/// Promise: A guest without faults passes, with one verdict for all its tests.
#[test]
fn every_test_of_a_runner_counts() {
    let report = Report::new("6.12 netns", RUNNER, "[    1.0] fine\n", "");
    assert_eq!(report.counts(), [2, 1, 1]);
    let text = report.text();
    assert!(text.contains("test 6.12 netns netns a::holds ... ok\n"), "{text}");
    assert!(text.contains("three packets are missing\nand one is twice there"), "{text}");
    assert!(text.contains("SKIP 6.12 netns netns a::cannot: no ffmpeg\n"), "{text}");
    assert!(text.contains("test result: FAILED. 2 passed; 1 failed; 1 ignored\n"), "{text}");
}

#[test]
fn a_program_that_is_no_runner_is_a_test() {
    let reported = "wirepath-vm: begin a\nhello\nwirepath-vm: passed\nwirepath-vm: begin b\noh\n\
                    wirepath-vm: failed ended with signal: 9\nwirepath-vm: done\n";
    let report = Report::new("g", reported, "", "");
    assert_eq!(report.counts(), [2, 1, 0]);
    assert!(report.text().contains("ended with signal: 9; it printed:\noh"), "{}", report.text());
    assert_eq!(report.output, "hello\noh\n");
}

#[test]
fn what_a_program_has_counted_is_shown() {
    let reported = "wirepath-vm: begin a\nhello\ncounted: 7 calls\nwirepath-vm: passed\nwirepath-vm: done\n";
    assert_eq!(Report::new("g", reported, "", "").counted(), "counted: 7 calls\n");
}

#[test]
fn what_a_program_leaves_out_is_counted() {
    let reported = "wirepath-vm: begin a\nSKIP storage: no FUSE\nwirepath-vm: passed\nwirepath-vm: done\n";
    let report = Report::new("g", reported, "", "");
    assert_eq!(report.counts(), [2, 0, 1]);
    assert!(report.text().contains("SKIP g a storage: no FUSE\n"), "{}", report.text());
}

/// Promise: A failed test, a runner without tests or a guest that does not end fails the guest.
#[test]
fn a_runner_without_tests_fails() {
    let reported = "wirepath-vm: begin a\nrunning 0 tests\ntest result: ok. 0 passed\nwirepath-vm: passed\n\
                    wirepath-vm: done\n";
    assert_eq!(Report::new("g", reported, "", "").counts(), [1, 1, 0]);
}

#[test]
fn a_complaint_of_the_kernel_fails_a_guest_whose_tests_pass() {
    let reported = "wirepath-vm: begin a\nwirepath-vm: passed\nwirepath-vm: done\n";
    let report = Report::new("g", reported, "[    4.648476] WARNING: CPU: 0 PID: 98 at probe.c:3\n", "");
    assert_eq!(report.counts(), [1, 1, 0]);
    assert!(report.text().contains("test g kernel ... FAILED"), "{}", report.text());
}

#[test]
fn a_fault_that_the_guest_saw_fails_it() {
    let reported = "wirepath-vm: fault wirepath is still in use\nwirepath-vm: done\n";
    assert_eq!(Report::new("g", reported, "", "").counts(), [0, 1, 0]);
}

/// Promise: A failed test, a runner without tests or a guest that does not end fails the guest.
#[test]
fn a_guest_that_does_not_come_to_its_end_fails() {
    let reported = "wirepath-vm: begin a\nrunning 2 tests\ntest b ... ok\n";
    let report = Report::new("g", reported, "[    9.0] last\n", "it was still running after 1 s");
    // The test that was done, the program, the kernel.
    assert_eq!(report.counts(), [1, 2, 0]);
    assert!(report.text().contains("still running after 1 s"), "{}", report.text());
    assert_eq!(Report::new("g", "", "", "").counts(), [0, 1, 0]);
}
