//! Messages of real kernels, of 6.1 and 6.12, shortened.

use super::*;

fn lines(log: &str) -> Vec<String> {
    complaints(log).into_iter().map(|complaint| complaint.line).collect()
}

/// Promise: The log of an ordinary boot is not a complaint.
#[test]
fn an_ordinary_boot_is_no_complaint() {
    let log = "\
[    0.000000] Command line: console=ttyS0 panic=-1 oops=panic
[    0.052000] tsc: Unable to calibrate against PIT
[    0.595466] acpi PNP0A03:00: fail to add MMCONFIG information, can't access extended configuration space
[    1.048561] amd_pstate: the _CPC object is not present in SBIOS or ACPI disabled
[    1.981942] wirepath: loading out-of-tree module taints kernel.
[    1.981999] wirepath: module verification failed: signature and/or required key missing - tainting kernel
[    1.990000] DEBUG: all is well
[    1.990001] DEBUG all is well
[    2.000000] rcu: Hierarchical RCU implementation.
[    2.000001] kmemleak: Kernel memory leak detector initialized (mem pool available: 15679)
[    2.000002] x86/fpu: Enabled xstate features 0x3
";
    assert_eq!(lines(log), [""; 0]);
}

#[test]
fn a_warning_is_one_complaint_with_its_trace() {
    let log = "\
[    4.640000] ------------[ cut here ]------------
[    4.648476] WARNING: CPU: 0 PID: 98 at /tmp/probe.c:3 a+0x1c/0x1000 [probe]
[    4.650000] Modules linked in: probe(OE+) virtio_blk ifb veth dummy
[    4.661875] Call Trace:
[    4.662660]  <TASK>
[    4.662751]  do_one_initcall+0x56/0x220
[    4.664172] ---[ end trace 0000000000000000 ]---
";
    let found = complaints(log);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, "WARNING: CPU: 0 PID: 98 at /tmp/probe.c:3 a+0x1c/0x1000 [probe]");
    assert!(found[0].excerpt.contains("do_one_initcall"));
}

#[test]
fn an_oops_is_a_complaint() {
    let log = "\
[    5.999120] BUG: kernel NULL pointer dereference, address: 0000000000000008
[    6.008191] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI
[    6.026251] Kernel panic - not syncing: Fatal exception
";
    assert_eq!(lines(log), ["BUG: kernel NULL pointer dereference, address: 0000000000000008"]);
}

/// Promise: A kernel warning, oops, panic or debugging report fails the guest even if its tests pass.
#[test]
fn what_debugging_kernels_find_is_a_complaint() {
    for line in [
        "WARNING: possible circular locking dependency detected",
        "WARNING: possible recursive locking detected",
        "WARNING: suspicious RCU usage",
        "WARNING: inconsistent lock state",
        "BUG: sleeping function called from invalid context at mm/page_alloc.c:5000",
        "BUG: scheduling while atomic: test/98/0x00000002",
        "BUG: KASAN: slab-use-after-free in wp_call_end+0x12/0x40 [wirepath]",
        "BUG: KFENCE: out-of-bounds read in test+0x1/0x2",
        "BUG: Bad page state in process test  pfn:04a20",
        "BUG kmalloc-64 (Tainted: G           O      ): Poison overwritten",
        "BUG: workqueue lockup - pool cpus=0",
        "pagealloc: memory corruption",
        "UBSAN: array-index-out-of-bounds in wirepath/frames.c:12:3",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "unreferenced object 0xffff888004a20c60 (size 64):",
        "INFO: task test:98 blocked for more than 120 seconds.",
        "INFO: trying to register non-static key.",
        "rcu: INFO: rcu_preempt self-detected stall on CPU",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 22s! [test:98]",
        "refcount_t: underflow; use-after-free.",
        "unregister_netdevice: waiting for dummy0 to become free. Usage count = 2",
        "general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]",
        "list_del corruption. prev->next should be ff1100, but was dead00",
        "Out of memory: Killed process 98 (test)",
        "Kernel panic - not syncing: sysrq triggered crash",
    ] {
        assert_eq!(lines(&format!("[    1.000000] fine\n[   12.345678] {line}\n")), [line]);
    }
}

#[test]
fn complaints_apart_are_told_apart() {
    let quiet = "[    1.000000] fine\n".repeat(EXCERPT_LINES);
    let log = format!("[    1.0] WARNING: one\n{quiet}[    2.0] WARNING: two\n{quiet}");
    assert_eq!(lines(&log), ["WARNING: one", "WARNING: two"]);
}

/// Promise: A limit of memory that a test sets is no complaint; a guest without memory, and all else, is one.
#[test]
fn limits_of_memory_are_told_apart_from_a_guest_without_memory() {
    let report = |end: &str| {
        format!(
            "\
[   12.000000] smoke invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[   12.000001] CPU: 0 UID: 0 PID: 98 Comm: smoke Tainted: G           O       6.12.95 #3
[   12.000002] Hardware name: QEMU Standard PC (i440FX + PIIX, 1996), BIOS 1.16.2 04/01/2014
[   12.000003] Call Trace:
[   12.000004]  <TASK>
[   12.000005]  dump_stack_lvl+0x6b/0xa0
[   12.000006] {end}
"
        )
    };
    let of_a_group = report("Memory cgroup out of memory: Killed process 98 (smoke) total-vm:1kB");
    assert_eq!(lines(&of_a_group), [""; 0]);
    assert_eq!(
        lines(&report("Out of memory: Killed process 98 (smoke)")),
        ["Out of memory: Killed process 98 (smoke)"]
    );
    let other = "[   13.000000] Call Trace:\n";
    assert_eq!(lines(&format!("{of_a_group}{other}")), ["Call Trace:"]);
}
