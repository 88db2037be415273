//! Everything that is tested in guests: which there are, and two of them at a time.

mod by_module;
mod debug;
mod guests;
mod planted;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use wirepath_tests::kvm;

use crate::guest::{self, Guest};
use crate::kernels::{self, Kernel, Series};
use crate::qemu::Qemu;
use crate::report::Report;
use crate::workspace::Programs;

pub(crate) use by_module::COPIES;
pub use debug::{Caller, Chosen, Debugged, Ran};

/// Purpose of a guest of the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Tests in network namespaces, on the newest kernel
    Netns,
    /// Those of eBPF programs, on the other kernels
    Handlers,
    /// Those of pacing, whose qdiscs the host may lack, on the newest kernel; `netns` has them, too
    Pacing,
    /// The random caller of the module, on every kernel, which checks what is allocated
    Caller,
    /// The papers' calls through the program, on every kernel
    Paths,
    /// The module's tests, on every kernel
    Module,
    /// Those of them of files on NFS, on every kernel
    Nfs,
    /// The same with two processors, on the newest kernel
    Processors,
    /// The same on a kernel with PREEMPT_RT
    Realtime,
}

/// Everything that guests need to boot.
pub struct Suite {
    qemu: Qemu,
    cache: PathBuf,
    programs: Programs,
    /// The module, by the release that it was built for.
    modules: Mutex<BTreeMap<String, PathBuf>>,
}

/// A kernel and the number of its series.
type Numbered = (&'static str, Kernel);

/// Guests that run at a time: each takes one processor.
const SIDE_BY_SIDE: usize = 2;

impl Suite {
    /// A suite that runs `programs`, and keeps kernels and logs in `cache`.
    pub fn new(qemu: Qemu, cache: PathBuf, programs: Programs) -> Self {
        Self { qemu, cache, programs, modules: Mutex::default() }
    }

    /// Runs these parts on the kernels of `chosen` that can be had, the newest first; prints each report as
    /// it comes. Of the tests in network namespaces only those whose names contain one of `filter`, if there
    /// is any.
    ///
    /// # Errors
    /// If the module does not build or QEMU cannot be run.
    pub fn run(&mut self, chosen: &[&Series], parts: &[Part], filter: &[String]) -> Result<Vec<Report>> {
        let mut reports = Vec::new();
        let mut kernels = Vec::new();
        for series in chosen {
            match Kernel::of(series, &self.cache) {
                Ok(kernel) => kernels.push((series.number, kernel)),
                Err(error) => reports.push(shown(Report::skipped(series.number, &format!("{error:#}")))?),
            }
        }
        let Some(newest) = kernels.first() else { return Ok(reports) };
        self.use_kvm_if_it_works(newest)?;
        println!("{}; logs in {}", self.qemu.description(), guest::logs(&self.cache).display());
        let suite = &*self;
        let tasks = tasks(&kernels, parts);
        anyhow::ensure!(!tasks.is_empty(), "none of these guests runs on these kernels");
        let tasks = Mutex::new(tasks);
        let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || -> Result<Vec<Report>> {
            let mut reports = Vec::new();
            while let Some((part, kernel)) = next() {
                let start = Instant::now();
                let report = suite.report(part, kernel, filter)?;
                reports.push(shown(report)?);
                println!("{} {part:?} took {:.0} s", kernel.0, start.elapsed().as_secs_f64());
            }
            Ok(reports)
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                reports.extend(worker.join().map_err(|_| anyhow::anyhow!("booting a guest panicked"))??);
            }
            Ok(reports)
        })
    }

    /// Uses KVM if it boots a kernel: some do not, although the processor has what it takes.
    fn use_kvm_if_it_works(&mut self, kernel: &Numbered) -> Result<()> {
        if kvm::may_run_guests() {
            let mut fast = self.qemu.clone();
            fast.kvm = true;
            let guest = self.guest(kernel, "kvm")?.size(256, 1, Duration::from_secs(60));
            let report = guest.boot(&fast, &guest::logs(&self.cache))?;
            if report.counts()[1] == 0 {
                self.qemu = fast;
            } else {
                let reason = report.problems();
                println!("KVM is there but boots no guest: {}", reason.lines().next().unwrap_or_default());
            }
        }
        Ok(())
    }

    fn report(&self, part: Part, kernel: &Numbered, filter: &[String]) -> Result<Report> {
        match part {
            Part::Netns => self.netns(kernel, filter),
            Part::Handlers => self.handlers(kernel),
            Part::Pacing => self.pacing(kernel),
            Part::Caller => self.caller(kernel),
            Part::Paths => self.by_module(kernel),
            Part::Module => self.module(kernel, "module", 1),
            Part::Nfs => self.nfs(kernel),
            Part::Processors => self.module(kernel, "processors", 2),
            Part::Realtime => self.module(kernel, "module", 1),
        }
    }

    fn guest(&self, (number, kernel): &Numbered, what: &str) -> Result<Guest> {
        Guest::new(&format!("{number} {what}"), kernel, &self.programs.machine)
    }

    fn boot(&self, guest: Guest) -> Result<Report> {
        guest.boot(&self.qemu, &guest::logs(&self.cache))
    }
}

/// Each part with each of its kernels, what takes longest first, so that nothing long is left for the end.
fn tasks<'a>(kernels: &'a [Numbered], parts: &[Part]) -> VecDeque<(Part, &'a Numbered)> {
    let (realtime, usual): (Vec<_>, Vec<_>) = kernels.iter().partition(|kernel| kernel.1.is_realtime());
    let (newest, others) = usual.split_at(usual.len().min(1));
    let mut tasks = VecDeque::new();
    for part in Part::value_variants().iter().filter(|part| parts.is_empty() || parts.contains(part)) {
        let kernels: &[&Numbered] = match part {
            Part::Pacing if parts.is_empty() => continue,
            Part::Netns | Part::Pacing | Part::Processors => newest,
            // On the newest they are among all tests in network namespaces.
            Part::Handlers if parts.is_empty() => others,
            Part::Realtime => &realtime,
            _ => &usual,
        };
        tasks.extend(kernels.iter().map(|kernel| (*part, *kernel)));
    }
    tasks
}

fn shown(report: Report) -> Result<Report> {
    // Whole, even while another guest's report comes.
    let text = format!("{}{}", report.counted(), report.text());
    std::io::stdout().lock().write_all(text.as_bytes()).context("printing a report")?;
    Ok(report)
}

/// The kernels to test: as chosen, and without a number also the one with `PREEMPT_RT`, unless only the
/// newest is wanted.
///
/// # Errors
/// If there is none.
pub fn tested(number: Option<&str>) -> Result<Vec<&'static Series>> {
    let mut kernels = chosen(number)?;
    if number.is_none() && !is_newest_only() {
        kernels.extend(kernels::realtime()?);
    }
    Ok(kernels)
}

/// The kernels of this machine's distribution: the one of this number; without a number all but the one with
/// `PREEMPT_RT`, or only the newest where `WIREPATH_KERNELS` is `newest`, as in `make test`.
///
/// # Errors
/// If there is none.
pub fn chosen(number: Option<&str>) -> Result<Vec<&'static Series>> {
    if let Some(realtime) = kernels::realtime()?.filter(|series| Some(series.number) == number) {
        return Ok(vec![realtime]);
    }
    let mut all = kernels::series()?;
    if number.is_none() && is_newest_only() {
        all = &all[..1];
    }
    let chosen: Vec<_> =
        all.iter().filter(|series| number.is_none_or(|number| series.number == number)).collect();
    let names: Vec<_> = all.iter().map(|series| series.number).collect();
    anyhow::ensure!(!chosen.is_empty(), "there is no kernel {number:?} here, but {}", names.join(" and "));
    Ok(chosen)
}

fn is_newest_only() -> bool {
    std::env::var_os("WIREPATH_KERNELS").is_some_and(|kernels| kernels == "newest")
}
