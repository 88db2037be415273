//! Processors: one for the measuring thread, the others for the receiver.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Doing, Error};

/// Processors that may be used.
#[derive(Clone, Debug)]
pub(super) struct Processors {
    all: Vec<usize>,
    measuring: usize,
}

impl Processors {
    /// Processors of the calling thread; `wanted`, or else the last of them, is for measuring.
    pub(super) fn of_thread(wanted: Option<u32>) -> Result<Processors, Error> {
        let set = sched_getaffinity(None).doing("asking which processors may be used")?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
        let wanted = wanted.map(|cpu| cpu as usize);
        match wanted.or(all.last().copied()) {
            Some(measuring) if all.contains(&measuring) => Ok(Processors { all, measuring }),
            _ => Err(Error::Input(format!(
                "processor {} may not be used; these may: {}",
                wanted.unwrap_or_default(),
                all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            ))),
        }
    }

    /// Number of all processors.
    pub(super) fn number(&self) -> usize {
        self.all.len()
    }

    /// Number of processors that are not for measuring.
    pub(super) fn others(&self) -> usize {
        self.all.len() - 1
    }

    pub(super) fn measuring(&self) -> u32 {
        self.measuring as u32
    }

    /// Moves the calling thread, and processes that it starts from now on, to all other processors; without
    /// other processors the thread stays.
    pub(super) fn pin_to_others(&self) -> Result<(), Error> {
        let others: Vec<usize> = self.all.iter().copied().filter(|cpu| *cpu != self.measuring).collect();
        if others.is_empty() { Ok(()) } else { pin_to(&others) }
    }

    /// Lets the calling thread, and processes that it starts from now on, use all processors.
    pub(super) fn pin_to_all(&self) -> Result<(), Error> {
        pin_to(&self.all)
    }

    /// Moves the calling thread to the measuring processor.
    pub(super) fn pin_to_measuring(&self) -> Result<(), Error> {
        pin_to(&[self.measuring])
    }
}

fn pin_to(processors: &[usize]) -> Result<(), Error> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set).doing("keeping to a processor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_processor_is_kept_to() {
        std::thread::spawn(|| {
            let processors = Processors::of_thread(None).unwrap();
            processors.pin_to_others().unwrap();
            processors.pin_to_measuring().unwrap();
            assert_eq!(rustix::thread::sched_getcpu(), processors.all[processors.all.len() - 1]);
        })
        .join()
        .unwrap();
    }
}
