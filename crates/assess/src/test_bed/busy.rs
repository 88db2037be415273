//! Time in which processors are not idle: the cost of something that runs partly in soft interrupts and kernel
//! threads, which is charged to other processes or to none.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::processors::Processors;
use crate::error::{Doing, Error};

/// Idle times in nanoseconds, for root only; and in ticks.
const TIMERS: &str = "/proc/timer_list";
const TICKS: &str = "/proc/stat";

/// Time so far in which the processors were not idle, stolen time included. Only differences mean something.
pub(super) fn busy(processors: &Processors) -> Result<Duration, Error> {
    // The kernel adds an idle time when it ends.
    processors.after_visiting(|| {
        let doing = "reading how long processors were idle";
        let now = clock_gettime(ClockId::Monotonic);
        let now = Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32);
        let all = processors.all();
        let idle = match std::fs::read_to_string(TIMERS).ok().and_then(|table| of_timers(&table, all)) {
            Some(idle) => idle,
            None => {
                let table = std::fs::read_to_string(TICKS).doing(doing)?;
                let unknown = || Error::Unable(format!("no idle times of the processors in {TICKS}"));
                of_ticks(&table, all).ok_or_else(unknown)?
            }
        };
        // Both are counted from boot.
        Ok((now * all.len() as u32).saturating_sub(idle))
    })
}

/// Sum of the idle times of these processors in `/proc/timer_list`; `None` if one is missing.
fn of_timers(table: &str, processors: &[usize]) -> Option<Duration> {
    let (mut sum, mut found, mut is_wanted) = (0, 0, false);
    for line in table.lines() {
        if let Some(processor) = line.strip_prefix("cpu: ") {
            is_wanted = processor.parse().is_ok_and(|processor| processors.contains(&processor));
        }
        let Some((name, value)) = line.split_once(':').filter(|_| is_wanted) else { continue };
        if matches!(name.trim(), ".idle_sleeptime" | ".iowait_sleeptime") {
            sum += value.split_whitespace().next()?.parse::<u64>().ok()?;
            found += 1;
        }
    }
    (found == 2 * processors.len()).then(|| Duration::from_nanos(sum))
}

/// Sum of the idle times of these processors in `/proc/stat` (proc_stat(5)); `None` if one is missing.
fn of_ticks(table: &str, processors: &[usize]) -> Option<Duration> {
    let ticks = |processor: &usize| {
        let row = table.lines().find_map(|line| line.strip_prefix(&format!("cpu{processor} ")))?;
        let fields: Vec<u64> = row.split_whitespace().map_while(|field| field.parse().ok()).collect();
        Some(fields.get(3)? + fields.get(4)?)
    };
    let sum = processors.iter().map(ticks).sum::<Option<u64>>()?;
    Some(Duration::from_secs_f64(sum as f64 / rustix::param::clock_ticks_per_second() as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn idle_times_are_those_of_the_processors() {
        let timers = "now at 5 nsecs\n\ncpu: 0\n  .idle_sleeptime : 100 nsecs\n  .iowait_sleeptime: 20 nsecs\n\
                      cpu: 1\n  .idle_sleeptime : 7000 nsecs\n  .iowait_sleeptime: 300 nsecs\n";
        assert_eq!(of_timers(timers, &[0, 1]), Some(Duration::from_nanos(7420)));
        assert_eq!(of_timers(timers, &[1]), Some(Duration::from_nanos(7300)));
        assert_eq!(of_timers(timers, &[2]), None);
        let ticks = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 50 6 7 8 0 0\ncpu1 1 2 3 200 0 6 7 8 0 0\n";
        let second = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(of_ticks(ticks, &[0, 1]), Some(Duration::from_secs_f64(350.0 / second)));
        assert_eq!(of_ticks(ticks, &[2]), None);
    }

    /// Promise: The time of the whole machine includes work of all processes.
    #[test]
    fn a_busy_processor_is_counted() {
        let processors = Processors::of_thread(None).unwrap();
        let (before, begin) = (busy(&processors).unwrap(), Instant::now());
        while begin.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        let used = busy(&processors).unwrap() - before;
        assert!(used >= Duration::from_millis(150), "{used:?}");
    }
}
