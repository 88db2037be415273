//! Metrics of the process, under the names of Prometheus clients, and of its threads.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use wirepath_counters::{Metric, Value};

/// Measurements of the process at one time.
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
    /// Reads the kernel's measurements of this process, which began at `start`; unknown values are 0.
    pub(crate) fn read(start: SystemTime) -> Process {
        let count = |folder: &str| fs::read_dir(folder).map_or(0, |entries| entries.count() as u64);
        // Since Linux 6.2 the size of the folder is the number of its entries, so that thousands need not be
        // listed.
        let size = fs::metadata("/proc/self/fd").map_or(0, |folder| folder.len());
        let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let mut bytes = pages.split(' ').map(|pages| pages.parse::<u64>().unwrap_or(0) * page_size() as u64);
        let (virtual_bytes, resident_bytes) = (bytes.next().unwrap_or(0), bytes.next().unwrap_or(0));
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Process {
            start,
            cpu: Duration::new(cpu.tv_sec.unsigned_abs(), cpu.tv_nsec as u32),
            resident_bytes,
            virtual_bytes,
            open_files: if size > 0 { size } else { count("/proc/self/fd") },
            threads: count("/proc/self/task"),
        }
    }
}

/// Thread of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Thread id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// User and system time, with a resolution of a clock tick (10 ms).
    pub cpu: Duration,
}

/// Threads of this process, ordered by id; empty if the kernel does not report them.
pub fn threads() -> Vec<Thread> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // A thread may end between the two calls.
    let mut threads: Vec<Thread> =
        tasks.filter_map(|task| read_thread(&fs::read(task.path().join("stat")).ok()?)).collect();
    threads.sort_by_key(|thread| thread.id);
    threads
}

/// Parses `/proc/PID/task/TID/stat` (proc_pid_stat(5)): id, name in parentheses, then fields.
fn read_thread(stat: &[u8]) -> Option<Thread> {
    /// Indexes of user and system time after the name.
    const TIMES: [usize; 2] = [11, 12];
    let text = String::from_utf8_lossy(stat);
    let (id, rest) = text.split_once(" (")?;
    let (name, fields) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let times = TIMES.map(|place| fields.get(place)?.parse::<u64>().ok());
    let ticks = times[0]? + times[1]?;
    let cpu = Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64);
    Some(Thread { id: id.parse().ok()?, name: name.to_owned(), cpu })
}

/// Metrics of a group of threads.
pub(crate) const THREADS: &[Metric<Duration>] = &[Metric::new(
    "cpu_seconds",
    "User and system processor time of an engine, HTTP or TLS thread.",
    |cpu| Value::Sum(cpu.as_secs_f64()),
)];

/// Processor time of engine, HTTP and TLS threads by name. Other threads come and go, which is not allowed
/// for a counter.
pub(crate) fn lasting_threads() -> BTreeMap<String, Duration> {
    let mut times = BTreeMap::new();
    let lasts =
        |thread: &Thread| ["engine-", "http-", "tls-"].iter().any(|name| thread.name.starts_with(name));
    for thread in threads().into_iter().filter(lasts) {
        *times.entry(thread.name).or_default() += thread.cpu;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_whatever_their_names() {
        let stat = b"42 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 100 0 0\n";
        let thread = read_thread(stat).unwrap();
        assert_eq!((thread.id, thread.name.as_str()), (42, "a) b"));
        let ticks = clock_ticks_per_second() as f64;
        assert!((thread.cpu.as_secs_f64() - 200.0 / ticks).abs() < 1e-6, "{thread:?}");
        assert_eq!(read_thread(b"42 (a) S 1"), None);
        assert_eq!(read_thread(b""), None);
    }

    #[test]
    fn this_thread_is_there() {
        for name in ["engine-7", "http-7", "tls-7"] {
            let named = std::thread::Builder::new().name(name.to_owned());
            let seen = named.spawn(|| (threads(), lasting_threads())).unwrap().join().unwrap();
            assert!(seen.0.iter().any(|thread| thread.name == name), "{seen:?}");
            assert!(seen.1.contains_key(name) && seen.1.len() < seen.0.len(), "{seen:?}");
        }
    }
}
