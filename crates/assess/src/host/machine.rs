//! Kernel, processors and memory.

use super::read;

/// Kernel release.
pub fn kernel() -> String {
    read::printable(&rustix::system::uname().release().to_string_lossy())
}

/// Processor name from /proc/cpuinfo.
pub fn processor() -> String {
    let cpuinfo = read::text("/proc/cpuinfo").unwrap_or_default();
    // Arm kernels have no model name, and some have none of the fields.
    let name = ["model name", "Model", "Processor", "CPU part"].iter().find_map(|key| field(&cpuinfo, key));
    name.unwrap_or_else(|| format!("unknown ({})", std::env::consts::ARCH))
}

/// Returns whether the machine is a guest: by the processor flag that x86 hypervisors set, or by the firmware
/// tables.
pub(super) fn is_virtual() -> bool {
    let flagged = field(&read::text("/proc/cpuinfo").unwrap_or_default(), "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    flagged || read::line("/sys/hypervisor/type").is_some()
}

/// Number of processors that this process may use.
pub fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Memory in bytes.
pub(super) fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// Load averages.
pub fn load() -> String {
    read::line("/proc/loadavg").unwrap_or_else(|| "unknown".to_owned())
}

/// First non-empty value of a key, in lines of `key : value`.
fn field(text: &str, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = pairs.find(|(name, value)| name.trim() == key && !value.trim().is_empty())?;
    Some(read::printable(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_whatever_stands_there() {
        let text = "processor\t: 0\nmodel name\t: AMD\x1b EPYC\n\nnonsense\n::\nflags\t: fpu hypervisor\nmodel name : other";
        assert_eq!(field(text, "model name").as_deref(), Some("AMD  EPYC"));
        assert_eq!(field(text, "flags").as_deref(), Some("fpu hypervisor"));
        assert_eq!((field(text, "Model"), field("", "flags")), (None, None));
    }
}
