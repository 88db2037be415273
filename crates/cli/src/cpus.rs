//! Processors that the process runs on: `--cpus`.

use std::collections::BTreeSet;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

const EXPECTED: &str = "expected processors by number, such as 2 or 0-3,8";

/// Processors by number, in the notation of the kernel in `/proc/interrupts` and `/sys`: `0-3,8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus(BTreeSet<usize>);

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpus, String> {
        let number = |text: &str| {
            let number = text.trim().parse::<usize>().map_err(|_| EXPECTED.to_owned())?;
            let most = CpuSet::MAX_CPU - 1;
            if number > most { Err(format!("processor {number} is above {most}")) } else { Ok(number) }
        };
        let mut cpus = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(format!("{first} is greater than {last}: {EXPECTED}"));
            }
            cpus.extend(first..=last);
        }
        Ok(Cpus(cpus))
    }
}

impl Cpus {
    /// Makes the calling thread, and all threads that it starts from now on, run only on these processors.
    pub(crate) fn set_affinity(&self) -> Result<()> {
        let allowed = sched_getaffinity(None).context("cannot ask which processors may be used")?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            // The kernel would ignore the missing processor silently.
            ensure!(
                allowed.contains(cpu),
                "--cpus: processor {cpu} is not in the affinity mask of this process, which has {}; name others",
                allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            );
            set.set(*cpu);
        }
        sched_setaffinity(None, &set).context("--cpus: cannot keep to these processors")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let read = |text: &str| text.parse::<Cpus>().map(|cpus| cpus.0.into_iter().collect::<Vec<_>>());
        assert_eq!(read("3"), Ok(vec![3]));
        assert_eq!(read("8,0-2,1"), Ok(vec![0, 1, 2, 8]));
        for (text, error) in [
            ("", EXPECTED),
            ("all", EXPECTED),
            ("1,", EXPECTED),
            ("-1", EXPECTED),
            ("3-1", "3 is greater than 1"),
            ("0-99999999", "processor 99999999 is above 1023"),
        ] {
            assert!(read(text).unwrap_err().starts_with(error), "{text}");
        }
    }

    #[test]
    fn a_thread_keeps_to_its_processors_and_others_are_refused() {
        let kept = std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|cpu| allowed.is_set(*cpu)).unwrap();
            Cpus([last].into()).set_affinity().unwrap();
            assert_eq!(rustix::thread::sched_getcpu(), last);
            let error = Cpus([last, last + 1].into()).set_affinity().unwrap_err().to_string();
            assert!(error.ends_with(&format!("which has {last}; name others")), "{error}");
            std::thread::available_parallelism().unwrap().get()
        });
        assert_eq!(kept.join().unwrap(), 1);
    }
}
