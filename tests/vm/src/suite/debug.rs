//! Everything that is tested on the kernel that checks itself: first that it does, then the module.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::planted::{FAULTS, Fault};
use super::{Numbered, SMOKE, Suite, TOOLS, shown};
use crate::debug_kernel;
use crate::guest::Guest;
use crate::kernels::Series;
use crate::module;
use crate::report::Report;

/// What the random caller is to do.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Of its calls.
    pub seed: u64,
    /// Of the guest's time.
    pub seconds: u64,
}

/// What came of one guest.
pub struct Ran {
    /// Its name.
    pub name: String,
    /// Its tests.
    pub report: Report,
    /// What its kernel said, if it complained.
    pub complaint: String,
    /// From its start to its end.
    pub seconds: u64,
}

/// What ran, and on what.
pub struct Debugged {
    /// The kernel's release.
    pub release: String,
    /// Its whole configuration.
    pub configuration: PathBuf,
    /// What runs guests.
    pub machine: String,
    /// From the first guest's start to the last one's end.
    pub seconds: u64,
    /// In the order in which they ended.
    pub guests: Vec<Ran>,
}

impl Debugged {
    /// Tests that passed, failed and were skipped.
    pub fn counts(&self) -> [usize; 3] {
        let counts = self.guests.iter().map(|ran| ran.report.counts());
        counts.fold([0; 3], |sum, count| std::array::from_fn(|at| sum[at] + count[at]))
    }

    /// Whether nothing failed, and something ran.
    pub fn passed(&self) -> bool {
        let [passed, failed, _] = self.counts();
        passed > 0 && failed == 0
    }

    /// The same in a word.
    pub fn verdict(&self) -> &'static str {
        if self.passed() { "passed" } else { "FAILED" }
    }
}

/// Programs of the module's tests, in guests of their own: which of their tests, and for how long at most.
const PARTS: &[(&str, &[&str])] = &[
    ("module", &["--skip", "caller::", "--skip", "injected::"]),
    ("injected", &["injected::"]),
    ("caller", &["caller::"]),
];

/// MiB: KASAN has an eighth of it for itself, and keeps what was freed for a while.
const MEMORY: u32 = 1536;
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
    /// Runs everything on the kernel that checks itself, two guests at a time; prints each report as it comes.
    ///
    /// # Errors
    /// If the kernel or the module does not build, or QEMU cannot be run.
    pub fn debug(&mut self, series: &Series, caller: Caller) -> Result<Debugged> {
        let kernel = ("debug", debug_kernel::of(series, &self.cache)?);
        self.use_kvm_if_it_works(&kernel)?;
        println!("{}; logs in {}", self.qemu.description(), crate::guest::logs(&self.cache).display());
        let start = Instant::now();
        let mut planned = self.of_the_module(&kernel, caller)?;
        planned.extend(self.of_faults(&kernel)?);
        let guests = self.boot_all(planned)?;
        Ok(Debugged {
            release: kernel.1.release.clone(),
            configuration: kernel.1.configuration(),
            machine: self.qemu.description(),
            seconds: start.elapsed().as_secs(),
            guests,
        })
    }

    /// The module's tests, in parts.
    fn of_the_module(&self, kernel: &Numbered, caller: Caller) -> Result<VecDeque<Planned>> {
        let sources = crate::workspace::folder().join("kernel/module");
        let build = self.cache.join("build");
        let file = module::build(&sources, &kernel.1, &build)?;
        let smoke = module::smoke_test(&sources, &build)?;
        let mut planned = VecDeque::new();
        for (part, arguments) in PARTS {
            let mut guest =
                self.guest(kernel, part)?.module(&file, "")?.tools(TOOLS)?.tools(&["mkfs.xfs"])?;
            guest = guest.size(MEMORY, PROCESSORS, LIMIT);
            if *part == "module" {
                guest = guest.file(&smoke, Path::new("/smoke"))?.script("smoke", SMOKE)?;
            }
            let numbers = [("--seed", caller.seed), ("--seconds", caller.seconds)];
            let numbers = numbers.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).chain(numbers).collect();
            for (number, program) in self.programs.module.iter().enumerate() {
                // Others than the first have no such parts.
                let path = format!("/project/target/debug/deps/module-{number}");
                guest = guest.program(part, program, Path::new(&path), &arguments)?;
            }
            planned.push_back(Planned { name: format!("debug {part}"), guest, fault: None });
        }
        Ok(planned)
    }

    /// A guest for each fault, since after one report lockdep looks no more.
    fn of_faults(&self, kernel: &Numbered) -> Result<Vec<Planned>> {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let sources = crate::workspace::folder().join("tests/vm/debug/planted");
        let file = module::build(&sources, &kernel.1, folder.path())?;
        let plan = |fault: &'static Fault| {
            let what = format!("planted {}", fault.name);
            let guest = self.guest(kernel, &what)?.module(&file, "")?;
            let guest = guest.script(fault.name, &fault.script())?.size(MEMORY, 1, LIMIT);
            Ok(Planned { name: format!("debug {what}"), guest, fault: Some(fault) })
        };
        FAULTS.iter().map(plan).collect()
    }

    fn boot_all(&self, planned: VecDeque<Planned>) -> Result<Vec<Ran>> {
        let planned = Mutex::new(planned);
        let ran = Mutex::new(Vec::new());
        let work = || -> Result<()> {
            let next = || planned.lock().expect("nothing panics holding it").pop_front();
            while let Some(next) = next() {
                let done = self.boot_one(next)?;
                ran.lock().expect("nothing panics holding it").push(done);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(work);
            let own = work();
            own.and(other.join().map_err(|_| anyhow::anyhow!("booting a guest panicked"))?)
        })?;
        Ok(ran.into_inner().expect("nothing panics holding it"))
    }

    fn boot_one(&self, planned: Planned) -> Result<Ran> {
        let start = Instant::now();
        let report = self.boot(planned.guest)?;
        let complaint = report.problems();
        let report = match planned.fault {
            Some(fault) => fault.verdict(report),
            None => report,
        };
        Ok(Ran { name: planned.name, report: shown(report)?, complaint, seconds: start.elapsed().as_secs() })
    }
}
