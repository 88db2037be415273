//! Everything that is tested on the kernel that checks itself: first that it does, then the module.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::guests::{CALLER, MODEL, add, of_long_groups};
use super::planted::{FAULTS, Fault};
use super::{Numbered, SIDE_BY_SIDE, Suite, shown};
use crate::debug_kernel;
use crate::guest::Guest;
use crate::kernels::Series;
use crate::module;
use crate::report::Report;

/// Settings of the random caller.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Of its calls.
    pub seed: u64,
    /// Of the guest's time.
    pub seconds: u64,
}

/// Results of a guest.
pub struct Ran {
    /// Its name.
    pub name: String,
    /// Its tests.
    pub report: Report,
    /// The kernel's complaint, if there was one.
    pub complaint: String,
    /// From its start to its end.
    pub seconds: u64,
}

/// Parts of a run on the kernel that checks itself.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The random caller's.
    pub caller: Caller,
    /// Only guests whose names contain one of these, if there is any.
    pub only: Vec<String>,
}

/// Results of guests, with kernel and machine.
pub struct Debugged {
    /// The kernel's release.
    pub release: String,
    /// Its whole configuration.
    pub configuration: PathBuf,
    /// Description of the machine.
    pub machine: String,
    /// From the first guest's start to the last one's end.
    pub seconds: u64,
    /// In the order of their ends.
    pub guests: Vec<Ran>,
    /// Guests that have not ended.
    pub left: usize,
}

impl Debugged {
    /// Tests that passed, failed and were skipped.
    pub fn counts(&self) -> [usize; 3] {
        let counts = self.guests.iter().map(|ran| ran.report.counts());
        counts.fold([0; 3], |sum, count| std::array::from_fn(|at| sum[at] + count[at]))
    }

    /// Returns whether all guests have ended, nothing failed, and something ran.
    pub fn passed(&self) -> bool {
        let [passed, failed, _] = self.counts();
        passed > 0 && failed == 0 && self.left == 0
    }

    /// The same in a word.
    pub fn verdict(&self) -> &'static str {
        match self.counts() {
            [passed, 0, _] if passed > 0 && self.left == 0 => "passed",
            [_, 0, _] if self.left > 0 => "unfinished",
            _ => "FAILED",
        }
    }
}

/// Tests in which allocations fail: they have a guest of their own, as the random caller has.
const INJECTED: &str = "injected::";

/// MiB: KASAN has an eighth of it for itself, and keeps what was freed for a while.
const MEMORY: u32 = 1536;
/// A fault needs none; what there is takes time to fill with poison, and to look through.
const MEMORY_OF_FAULTS: u32 = 512;
/// Of one task, another one preempts it anywhere; of several, they race.
const PROCESSORS: u32 = 2;
/// Everything takes ten times as long as on other kernels, and others want the host's processors, too.
const LIMIT: Duration = Duration::from_secs(2 * 60 * 60);

/// A guest, and the fault that is planted in it.
struct Planned {
    name: String,
    guest: Guest,
    fault: Option<&'static Fault>,
}

impl Suite {
    /// Runs guests on the kernel that checks itself, two at a time; prints each test as it ends, and calls
    /// `keep` with the results so far whenever a guest has ended, so that a run that is stopped keeps them.
    ///
    /// # Errors
    /// If the kernel or the module does not build, QEMU cannot be run, or `keep` fails.
    pub fn debug(
        &mut self,
        series: &Series,
        chosen: &Chosen,
        keep: impl Fn(&Debugged) -> Result<()> + Sync,
    ) -> Result<Debugged> {
        let kernel = ("debug", debug_kernel::of(series, &self.cache)?);
        self.use_kvm_if_it_works(&kernel)?;
        println!("{}; logs in {}", self.qemu.description(), crate::guest::logs(&self.cache).display());
        let mut planned = self.of_the_module(&kernel, chosen.caller)?;
        planned.extend(self.of_faults(&kernel)?);
        let names: Vec<String> = planned.iter().map(|guest| guest.name.clone()).collect();
        let is_chosen = |name: &str| chosen.only.iter().any(|part| name.contains(part.as_str()));
        planned.retain(|guest| chosen.only.is_empty() || is_chosen(&guest.name));
        ensure!(!planned.is_empty(), "no guest is called so: there are {}", names.join(", "));
        let debugged = Debugged {
            release: kernel.1.release.clone(),
            configuration: kernel.1.configuration(),
            machine: self.qemu.description(),
            seconds: 0,
            guests: Vec::new(),
            left: planned.len(),
        };
        self.boot_all(planned, debugged, keep)
    }

    /// The module's tests, in parts.
    fn of_the_module(&self, kernel: &Numbered, caller: Caller) -> Result<Vec<Planned>> {
        let (seed, seconds) = (caller.seed.to_string(), caller.seconds.to_string());
        let model = [
            ("module", vec!["--skip", CALLER, "--skip", INJECTED]),
            ("injected", vec![INJECTED]),
            ("caller", vec!["--seconds", &seconds, CALLER]),
        ];
        let planned = |what: &str, guest: Guest| Planned {
            name: format!("debug {what}"),
            guest: guest.size(MEMORY, PROCESSORS, LIMIT).printing_progress(),
            fault: None,
        };
        let mut guests = Vec::new();
        for (what, option) in [("smoke", "--skip"), ("long smoke", "--only")] {
            guests.push(planned(what, self.with_smoke_test(kernel, what, &of_long_groups(option))?));
        }
        for (what, arguments) in &model {
            let mut guest = self.with_module(kernel, what)?;
            for tests in &self.programs.module {
                let is_model = tests.package == MODEL;
                let arguments = [&["--seed", &seed], &arguments[..]].concat();
                if is_model || *what == "module" {
                    guest = add(guest, tests, if is_model { &arguments } else { &[] })?;
                }
            }
            guests.push(planned(what, guest));
        }
        Ok(guests)
    }

    /// A guest for each fault, since after one report lockdep looks no more.
    fn of_faults(&self, kernel: &Numbered) -> Result<Vec<Planned>> {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let sources = crate::workspace::folder().join("tests/vm/debug/planted");
        let file = module::build(&sources, &kernel.1, folder.path())?;
        let plan = |fault: &'static Fault| {
            let what = format!("planted {}", fault.name);
            let guest = self.guest(kernel, &what)?.module(&file, "")?;
            let guest = guest.script(fault.name, &fault.script())?.size(MEMORY_OF_FAULTS, 1, LIMIT);
            Ok(Planned { name: format!("debug {what}"), guest, fault: Some(fault) })
        };
        FAULTS.iter().map(plan).collect()
    }

    fn boot_all(
        &self,
        planned: Vec<Planned>,
        debugged: Debugged,
        keep: impl Fn(&Debugged) -> Result<()> + Sync,
    ) -> Result<Debugged> {
        let start = Instant::now();
        let planned = Mutex::new(VecDeque::from(planned));
        let next = || planned.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let debugged = Mutex::new(debugged);
        let work = || -> Result<()> {
            while let Some(next) = next() {
                let ran = self.boot_one(next)?;
                let mut debugged = debugged.lock().unwrap_or_else(PoisonError::into_inner);
                debugged.guests.push(ran);
                debugged.left -= 1;
                debugged.seconds = start.elapsed().as_secs();
                keep(&debugged)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| -> Result<()> {
            let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                worker.join().map_err(|_| anyhow::anyhow!("booting a guest panicked"))??;
            }
            Ok(())
        })?;
        Ok(debugged.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn boot_one(&self, planned: Planned) -> Result<Ran> {
        let start = Instant::now();
        let report = self.boot(planned.guest)?;
        let complaint = report.problems();
        let report = match planned.fault {
            Some(fault) => fault.verdict(report),
            None => report,
        };
        let (report, seconds) = (shown(report)?, start.elapsed().as_secs());
        println!("{} took {seconds} s", planned.name);
        Ok(Ran { name: planned.name, report, complaint, seconds })
    }
}
