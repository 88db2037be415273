//! Processors: one for the measuring thread, the others for the receiver.

use std::io::ErrorKind;

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

    /// All processors.
    pub(super) fn all(&self) -> &[usize] {
        &self.all
    }

    /// Calls `act` on a new thread that has been on each processor.
    pub(super) fn after_visiting<T: Send>(
        &self,
        act: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        super::on_a_thread(|| {
            self.all.iter().try_for_each(|cpu| pin_to(&[*cpu]))?;
            act()
        })
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
        let others = self.all_others();
        if others.is_empty() { Ok(()) } else { pin_to(&others) }
    }

    fn all_others(&self) -> Vec<usize> {
        self.all.iter().copied().filter(|cpu| *cpu != self.measuring).collect()
    }

    /// Sets RPS to the measuring processor for devices created later in the calling thread's namespace.
    pub(super) fn receive_on_measuring(&self) -> Result<(), Error> {
        receive_on(&[self.measuring])
    }

    /// Sets RPS to all other processors for devices created later in the calling thread's namespace, if there are
    /// others.
    pub(super) fn receive_on_others(&self) -> Result<(), Error> {
        let others = self.all_others();
        if others.is_empty() { Ok(()) } else { receive_on(&others) }
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

/// Sets receive packet steering (RPS) for new devices of this namespace (since Linux 6.3). Without it, the
/// sender's processor receives what is sent over a veth pair. The kernel refuses a mask of isolated processors
/// only (EINVAL).
fn receive_on(processors: &[usize]) -> Result<(), Error> {
    match std::fs::write("/proc/sys/net/core/rps_default_mask", mask(processors)) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => Ok(()),
        written => written.doing("choosing the processors that receive (net.core.rps_default_mask)"),
    }
}

/// Mask of processors as the kernel's files take it: hexadecimal words of 32 bits, the highest first.
fn mask(processors: &[usize]) -> String {
    let words = processors.iter().max().map_or(1, |most| most / 32 + 1);
    let word = |word: usize| {
        let bits = processors.iter().filter(|cpu| *cpu / 32 == word).map(|cpu| 1u32 << (cpu % 32));
        format!("{:08x}", bits.fold(0, |mask, bit| mask | bit))
    };
    (0..words).rev().map(word).collect::<Vec<_>>().join(",")
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
    fn masks_have_words_of_32_processors() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[1, 4, 31]), "80000012");
        assert_eq!(mask(&[2, 64]), "00000001,00000000,00000004");
    }

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
