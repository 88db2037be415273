//! Limits, kernel settings and privileges.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::netdevice::name_to_index;
use rustix::process::{Resource, Rlimit, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use wirepath_datapath::uncached_reads;
use wirepath_sys::{device, qdisc};

use super::departure::{DepartureError, Discipline, try_departure_times};
use super::{machine, read};
use crate::calls::Calls;
use crate::result::Setting;

/// Settings below /proc/sys, by sysctl's names.
const SYSCTLS: &[&str] = &[
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.core.optmem_max",
    "net.core.max_skb_frags",
    "net.core.default_qdisc",
    "net.ipv4.tcp_congestion_control",
    "kernel.io_uring_disabled",
    "kernel.perf_event_paranoid",
    "kernel.kptr_restrict",
];

/// Privileges that assessments use, by the names of capabilities(7).
const CAPABILITIES: &[(&str, CapabilitySet)] = &[
    ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
    ("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN),
    ("CAP_PERFMON", CapabilitySet::PERFMON),
    ("CAP_IPC_LOCK", CapabilitySet::IPC_LOCK),
];

/// Settings that can be read, by name.
pub(super) fn all() -> Vec<Setting> {
    let mut settings: Vec<Setting> = SYSCTLS.iter().filter_map(|name| sysctl(name)).collect();
    for (name, resource) in [("RLIMIT_MEMLOCK", Resource::Memlock), ("RLIMIT_NOFILE", Resource::Nofile)] {
        let Rlimit { current, maximum } = getrlimit(resource);
        settings.push(setting(name, format!("{} (hard {})", limit(current), limit(maximum))));
    }
    settings.extend(huge_pages());
    settings.extend(disciplines());
    settings.extend(departures());
    if let Some(governor) = read::line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        settings.push(setting("cpufreq governor", governor));
    }
    settings.push(setting("virtual machine", yes_no(machine::is_virtual())));
    settings.push(setting("root", yes_no(rustix::process::geteuid().is_root())));
    let held = capabilities(None).map(|sets| sets.effective).unwrap_or(CapabilitySet::empty());
    settings.extend(CAPABILITIES.iter().map(|(name, one)| setting(name, yes_no(held.contains(*one)))));
    settings.push(setting("counting kernel calls", counting()));
    settings.push(setting("uncached reads (RWF_DONTCACHE)", uncached()));
    settings.push(setting(IRQ_TIME, kernel_option(IRQ_TIME)));
    settings.push(setting("module wirepath", present("/sys/module/wirepath")));
    settings.push(setting("/dev/wirepath", present("/dev/wirepath")));
    settings
}

fn sysctl(name: &str) -> Option<Setting> {
    Some(setting(name, read::line(format!("/proc/sys/{}", name.replace('.', "/")))?))
}

/// Free huge pages of each available size.
fn huge_pages() -> Vec<Setting> {
    let Ok(sizes) = std::fs::read_dir("/sys/kernel/mm/hugepages") else { return Vec::new() };
    let mut found: Vec<(u64, u64)> = sizes
        .filter_map(|entry| {
            let folder = entry.ok()?;
            let kib =
                folder.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some((kib, read::number(folder.path().join("free_hugepages"))?))
        })
        .collect();
    found.sort_unstable();
    found
        .into_iter()
        .map(|(kib, free)| setting(&format!("free huge pages of {}", size(kib)), free.to_string()))
        .collect()
}

/// Queueing disciplines of the devices that are up.
fn disciplines() -> Vec<Setting> {
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0") else { return Vec::new() };
    let names = device::all().unwrap_or_default();
    let up = names.iter().filter(|name| device::is_up(socket.as_fd(), name).unwrap_or(false));
    let found = up.filter_map(|name| {
        let index = name_to_index(&socket, &name.to_string()).ok()?;
        let kinds = qdisc::of_device(index).ok().filter(|kinds| !kinds.is_empty())?;
        let name = format!("queueing discipline of {}", read::printable(&name.to_string()));
        Some(setting(&name, read::printable(&kinds.join(", "))))
    });
    found.collect()
}

/// Queueing disciplines that honour departure times, all tested at the same time.
fn departures() -> Vec<Setting> {
    let disciplines = [("fq", Discipline::Fq), ("etf", Discipline::Etf)];
    let trials = disciplines.map(|(name, discipline)| {
        (
            name,
            std::thread::spawn(move || try_departure_times(discipline).map_err(|error| reason(name, &error))),
        )
    });
    let settings = trials.into_iter().map(|(name, trial)| {
        let tried = trial.join().unwrap_or_else(|_| Err("the trial panicked".to_owned()));
        let told = |late: Duration| format!("kept, at most {:.2} ms late", late.as_secs_f64() * 1e3);
        let value = tried.map_or_else(|error| format!("no: {error}"), told);
        setting(&format!("departure times by {name} (SO_TXTIME)"), value)
    });
    settings.collect()
}

/// Reason why departure times by a queueing discipline cannot be used. `tc` prints the kernel's message.
fn reason(discipline: &str, error: &DepartureError) -> String {
    match error.to_string() {
        text if text.contains("qdisc kind is unknown") => {
            format!("this kernel has no queueing discipline {discipline} (module sch_{discipline})")
        }
        text => text,
    }
}

/// Size in the largest unit that divides it.
fn size(kib: u64) -> String {
    match kib {
        kib if kib > 0 && kib.is_multiple_of(1 << 20) => format!("{} GiB", kib >> 20),
        kib if kib > 0 && kib.is_multiple_of(1 << 10) => format!("{} MiB", kib >> 10),
        kib => format!("{kib} KiB"),
    }
}

/// Returns whether kernel calls can be counted. The test runs as in experiments: on a thread that may mount
/// tracefs for itself.
fn counting() -> String {
    let tried = std::thread::spawn(|| Calls::new().map(drop)).join();
    match tried {
        Ok(Ok(())) => "yes".to_owned(),
        Ok(Err(error)) => format!("no: {}", read::printable(&error.to_string())),
        Err(_) => "no: the trial panicked".to_owned(),
    }
}

/// Returns whether the kernel can read this program's file system without leaving pages in the page cache.
fn uncached() -> String {
    let tried = std::fs::File::open("/proc/self/exe").and_then(|file| uncached_reads(&file));
    tried.map_or_else(|error| format!("no: {}", read::printable(&error.to_string())), |()| "yes".to_owned())
}

/// Kernel option by which no process is charged for soft interrupts.
const IRQ_TIME: &str = "CONFIG_IRQ_TIME_ACCOUNTING";

/// Value of a kernel build option, if it can be read.
fn kernel_option(name: &str) -> String {
    let in_words = |config: &str| option_in(config, name).to_owned();
    kernel_config().map_or("unknown".to_owned(), |config| in_words(&config))
}

/// Configuration of the kernel: its own (CONFIG_IKCONFIG_PROC), else the file that distributions install.
fn kernel_config() -> Option<String> {
    let release = machine::kernel();
    let packed = Command::new("gzip").args(["-dc", "/proc/config.gz"]).stdin(Stdio::null()).output();
    let packed = packed.ok().filter(|output| output.status.success() && !output.stdout.is_empty());
    let packed = packed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    packed.or_else(|| std::fs::read_to_string(format!("/boot/config-{release}")).ok())
}

fn option_in<'a>(config: &'a str, name: &str) -> &'a str {
    let value = |line: &'a str| line.trim().strip_prefix(name)?.strip_prefix('=');
    config.lines().find_map(value).unwrap_or("not set")
}

fn limit(value: Option<u64>) -> String {
    value.map_or("unlimited".to_owned(), |value| value.to_string())
}

fn present(path: &str) -> String {
    if Path::new(path).exists() { "present" } else { "absent" }.to_owned()
}

fn yes_no(whether: bool) -> String {
    if whether { "yes" } else { "no" }.to_owned()
}

fn setting(name: &str, value: String) -> Setting {
    Setting { name: name.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_some_settings_and_none_is_empty() {
        let settings = all();
        assert!(
            settings.iter().all(|setting| !setting.value.is_empty() && !setting.name.is_empty()),
            "{settings:?}"
        );
        for name in [
            "net.ipv4.tcp_congestion_control",
            "RLIMIT_MEMLOCK",
            "root",
            "CAP_NET_ADMIN",
            "/dev/wirepath",
            "uncached reads (RWF_DONTCACHE)",
            "queueing discipline of lo",
            "departure times by fq (SO_TXTIME)",
        ] {
            assert!(settings.iter().any(|setting| setting.name == name), "{name}: {settings:?}");
        }
        assert_eq!(sysctl("kernel.no_such_setting"), None);
    }

    /// Promise: `assess host` tries to count system calls, and gives advice only if that fails.
    #[test]
    fn options_of_the_kernel_are_found_in_its_configuration() {
        let config = "# CONFIG_A is not set\nCONFIG_AB=m\nCONFIG_B=y\n";
        assert_eq!(
            ["CONFIG_A", "CONFIG_AB", "CONFIG_B"].map(|name| option_in(config, name)),
            ["not set", "m", "y"]
        );
        assert!(["y", "not set", "unknown"].contains(&kernel_option(IRQ_TIME).as_str()));
    }

    #[test]
    fn a_queueing_discipline_that_the_kernel_lacks_is_named() {
        let of_tc = |text: &str| reason("fq", &DepartureError::Untried(text.to_owned()));
        let unknown = of_tc("Error: Specified qdisc kind is unknown.");
        assert_eq!(unknown, "this kernel has no queueing discipline fq (module sch_fq)");
        assert_eq!(of_tc("tc: not found"), "tc: not found");
    }

    #[test]
    fn sizes_of_pages_are_read_as_people_write_them() {
        assert_eq!([64, 2048, 1 << 20, 0].map(size), ["64 KiB", "2 MiB", "1 GiB", "0 KiB"]);
    }
}
