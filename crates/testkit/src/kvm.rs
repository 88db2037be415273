//! KVM of this machine.

/// Returns whether guests may run on this machine's processors, by its clock.
///
/// The device alone says little: on x86, KVM without `vmx` or `svm` (PVM) boots no ordinary kernel, and a guest that
/// is tried says nothing until its time limit.
pub fn may_run_guests() -> bool {
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    device.is_ok() && (!cfg!(target_arch = "x86_64") || is_virtualizing(&processor))
}

/// Returns whether the flags in the text of `/proc/cpuinfo` have Intel's or AMD's virtualization.
fn is_virtualizing(processor: &str) -> bool {
    processor.split_whitespace().any(|flag| ["vmx", "svm"].contains(&flag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtualization_is_a_flag_of_the_processor() {
        assert!(is_virtualizing("model name\t: A\nflags\t\t: fpu vmx sse\n"));
        assert!(is_virtualizing("flags\t\t: fpu svm"));
        assert!(!is_virtualizing("model name\t: vmx-less\nflags\t\t: fpu hypervisor svm_lock\n"));
    }
}
