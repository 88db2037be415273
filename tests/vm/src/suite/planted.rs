//! Faults that a kernel must find that checks itself (`debug/planted/planted.c`), and what it must say.

use crate::report::{Outcome, Report, Test};

/// One fault.
pub(super) struct Fault {
    /// As the module calls it.
    pub(super) name: &'static str,
    /// Kernel setting that makes the detector look sooner.
    hurry: &'static str,
    /// Expected complaint of the kernel; if none, the guest must pass.
    complaint: Option<&'static str>,
}

const fn found(name: &'static str, complaint: &'static str) -> Fault {
    Fault { name, hurry: "true", complaint: Some(complaint) }
}

/// For each detector that `debug/kernel.config` asks for, a fault that it finds; first the control.
pub(super) const FAULTS: &[Fault] = &[
    Fault { name: "nothing", hurry: "true", complaint: None },
    found("use_after_free", "BUG: KASAN: slab-use-after-free in planted_"),
    found("out_of_bounds", "BUG: KASAN: vmalloc-out-of-bounds in planted_"),
    found("freed_page", "pagealloc: memory corruption"),
    found("list", "list_del corruption"),
    found("armed_timer", "ODEBUG: free active"),
    found("shift", "UBSAN: shift-out-of-bounds in "),
    found("lock_cycle", "WARNING: possible circular locking dependency detected"),
    found("atomic_sleep", "BUG: sleeping function called from invalid context at "),
    found("leak", "memory leaks: kmemleak found "),
    Fault {
        name: "block",
        hurry: "echo 10 > /proc/sys/kernel/hung_task_timeout_secs",
        complaint: Some("blocked for more than 10 seconds"),
    },
    Fault {
        name: "stall",
        hurry: "echo 3 > /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout",
        complaint: Some("rcu: INFO: rcu_preempt "),
    },
];

impl Fault {
    /// Script that plants it; it succeeds, since it is the kernel that must complain.
    pub(super) fn script(&self) -> String {
        format!("{} && echo {} > /sys/module/planted/parameters/fault", self.hurry, self.name)
    }

    /// Verdict on a kernel from this report.
    pub(super) fn verdict(&self, report: Report) -> Report {
        let Some(complaint) = self.complaint else { return report };
        let problems = report.problems();
        let outcome = if report.counts() == [1, 1, 0] && problems.contains(complaint) {
            Outcome::Passed
        } else {
            Outcome::Failed(format!(
                "its kernel did not say {complaint:?}; this came of it:\n{}",
                report.text()
            ))
        };
        let name = format!("debug planted {} is found", self.name);
        Report { tests: vec![Test { name, outcome }], output: report.output }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: &str = "wirepath-vm: begin shift\nwirepath-vm: passed\nwirepath-vm: done\n";
    const SHIFT: Fault = found("shift", "UBSAN: shift-out-of-bounds in ");

    /// Promise: Each detector of a debugging kernel finds a planted fault, and nothing without a fault.
    #[test]
    fn a_fault_that_is_found_passes() {
        let log = "[    9.0] UBSAN: shift-out-of-bounds in planted.c:130:9\n";
        assert_eq!(SHIFT.verdict(Report::new("g", DONE, log, "")).counts(), [1, 0, 0]);
    }

    /// Promise: Each detector of a debugging kernel finds a planted fault, and nothing without a fault.
    #[test]
    fn a_detector_that_says_nothing_or_something_else_fails() {
        for log in ["", "[    9.0] WARNING: something else\n"] {
            let report = SHIFT.verdict(Report::new("g", DONE, log, ""));
            assert_eq!(report.counts(), [0, 1, 0], "{log}");
            assert!(report.text().contains("did not say"), "{}", report.text());
        }
    }

    /// Promise: Each detector of a debugging kernel finds a planted fault, and nothing without a fault.
    #[test]
    fn a_fault_that_was_not_planted_fails() {
        let failed = "wirepath-vm: begin shift\nwirepath-vm: failed ended with 1\nwirepath-vm: done\n";
        let log = "[    9.0] UBSAN: shift-out-of-bounds in elsewhere.c:1:1\n";
        assert_eq!(SHIFT.verdict(Report::new("g", failed, log, "")).counts(), [0, 1, 0]);
    }

    /// Promise: Each detector of a debugging kernel finds a planted fault, and nothing without a fault.
    #[test]
    fn the_control_must_pass() {
        let log = "[    9.0] WARNING: something\n";
        assert_eq!(FAULTS[0].verdict(Report::new("g", DONE, "", "")).counts(), [2, 0, 0]);
        assert_eq!(FAULTS[0].verdict(Report::new("g", DONE, log, "")).counts(), [1, 1, 0]);
    }

    /// Promise: Each detector of a debugging kernel finds a planted fault, and nothing without a fault.
    #[test]
    fn the_module_knows_each_fault() {
        let source = include_str!("../../debug/planted/planted.c");
        for fault in FAULTS {
            assert!(source.contains(&format!("{{ \"{}\", planted_", fault.name)), "{}", fault.name);
        }
    }
}
