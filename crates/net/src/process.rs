//! Metrics of the process itself, under the names that Prometheus clients give them.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use wirepath_counters::{Metric, Value};

/// The process at one time.
pub(crate) struct Process {
    start: SystemTime,
    cpu: Duration,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_files: u64,
    threads: u64,
}

pub(crate) const PROCESS: &[Metric<Process>] = &[
    Metric::new("cpu_seconds", "User and system processor time.", |process| {
        Value::Sum(process.cpu.as_secs_f64())
    }),
    Metric::new("start_time_seconds", "Start of the process in seconds since 1970.", |process| {
        Value::Gauge(process.start.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }),
    Metric::new("resident_memory_bytes", "Resident memory.", |process| Value::Gauge(process.resident_bytes)),
    Metric::new("virtual_memory_bytes", "Virtual memory.", |process| Value::Gauge(process.virtual_bytes)),
    Metric::new("open_fds", "Open file descriptors.", |process| Value::Gauge(process.open_files)),
    Metric::new("max_fds", "Limit of open file descriptors.", |_| {
        Value::Gauge(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
    }),
    Metric::new("threads", "Threads.", |process| Value::Gauge(process.threads)),
];

impl Process {
    /// Reads the kernel's figures of this process, which began at `start`; unknown ones are 0.
    pub(crate) fn read(start: SystemTime) -> Process {
        let count = |folder: &str| fs::read_dir(folder).map_or(0, |entries| entries.count() as u64);
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut bytes = pages.split(' ').map(|pages| pages.parse::<u64>().unwrap_or(0) * page_size() as u64);
        let (virtual_bytes, resident_bytes) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Process {
            start,
            cpu: Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32),
            resident_bytes,
            virtual_bytes,
            open_files: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
    }
}
