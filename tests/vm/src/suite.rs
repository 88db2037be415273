//! Everything that is tested in guests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::guest::{self, Guest};
use crate::kernels::{self, Kernel, Series};
use crate::module;
use crate::qemu::Qemu;
use crate::report::Report;
use crate::workspace::Programs;

/// What is needed to boot guests.
pub struct Suite {
    /// The emulator.
    pub qemu: Qemu,
    /// Kernels and logs.
    pub cache: PathBuf,
    /// What runs in guests.
    pub programs: Programs,
}

/// Tools that the tests in network namespaces call.
const TOOLS: &[&str] =
    &["ip", "tc", "ethtool", "mke2fs", "losetup", "mount", "umount", "setpriv", "nft", "ping", "timeout"];

/// More modules that they want.
const DRIVERS: &[&str] =
    &["sch_tbf", "sch_netem", "sch_fq", "cls_bpf", "act_mirred", "cls_matchall", "sch_ingress"];

/// Tests in network namespaces that are not run in guests, and why.
const LEFT_OUT: &[(&str, &str)] = &[];

impl Suite {
    /// Runs everything on `kernels`, the newest first, two guests at a time; prints each report as it comes.
    ///
    /// # Errors
    /// If a kernel cannot be had or QEMU cannot be run.
    pub fn run(&self, kernels: &[&Series], filter: &[String]) -> Result<Vec<Report>> {
        let newest = kernels.first().context("no kernel")?;
        let sources = crate::workspace::folder().join("kernel/module");
        std::thread::scope(|scope| {
            let netns = scope.spawn(|| shown(self.netns(newest, filter)?));
            let mut reports = Vec::new();
            if sources.exists() && filter.is_empty() {
                for series in kernels {
                    reports.push(shown(self.module(series, &sources)?)?);
                }
            }
            let netns = netns.join().map_err(|_| anyhow::anyhow!("booting a guest panicked"))?;
            reports.push(netns?);
            Ok(reports)
        })
    }

    /// The tests of the module on one kernel.
    ///
    /// # Errors
    /// If the kernel cannot be had or QEMU cannot be run.
    pub fn module(&self, series: &Series, sources: &Path) -> Result<Report> {
        let kernel = Kernel::of(series, &self.cache)?;
        let module = module::build(sources, &kernel, &self.cache.join("build"))?;
        let mut guest = self.guest(series, "module", &kernel)?.module(&module, "")?.tools(TOOLS)?;
        for program in &self.programs.module {
            guest = guest.program("module", program, Path::new("/project/target/debug/deps/module"), &[])?;
        }
        self.boot(guest)
    }

    /// The tests in network namespaces on one kernel.
    ///
    /// # Errors
    /// If the kernel cannot be had or QEMU cannot be run.
    pub fn netns(&self, series: &Series, filter: &[String]) -> Result<Report> {
        let kernel = Kernel::of(series, &self.cache)?;
        let skipped = LEFT_OUT.iter().flat_map(|(name, _)| ["--skip".to_owned(), (*name).to_owned()]);
        let arguments: Vec<String> = skipped.chain(filter.iter().cloned()).collect();
        let folder = Path::new("/project/target/debug");
        let mut guest = self
            .guest(series, "netns", &kernel)?
            .tools(TOOLS)?
            .drivers(DRIVERS)?
            .file(&self.programs.wirepath, &folder.join("wirepath"))?
            .program("netns", &self.programs.netns, &folder.join("deps/netns"), &arguments)?
            .size(1536, 1, Duration::from_secs(1200));
        for clip in clips()? {
            let name = clip.file_name().context("a clip without a name")?.to_owned();
            guest = guest.file(&clip, &Path::new("/project/target/clips").join(name))?;
        }
        self.boot(guest)
    }

    fn guest(&self, series: &Series, what: &str, kernel: &Kernel) -> Result<Guest> {
        Guest::new(&format!("{} {what}", series.number), kernel, &self.programs.init)
    }

    fn boot(&self, guest: Guest) -> Result<Report> {
        guest.boot(&self.qemu, &guest::logs(&self.cache))
    }
}

fn shown(report: Report) -> Result<Report> {
    // Whole, even while another guest's report comes.
    std::io::stdout().lock().write_all(report.text().as_bytes()).context("printing a report")?;
    Ok(report)
}

/// The kernels of this machine's distribution whose number begins as asked for; all without.
///
/// # Errors
/// If there is none.
pub fn chosen(number: Option<&str>) -> Result<Vec<&'static Series>> {
    let all = kernels::series()?;
    let chosen: Vec<_> =
        all.iter().filter(|series| number.is_none_or(|number| series.number == number)).collect();
    let names: Vec<_> = all.iter().map(|series| series.number).collect();
    anyhow::ensure!(!chosen.is_empty(), "there is no kernel {number:?} here, but {}", names.join(" and "));
    Ok(chosen)
}

/// Media that the tests made before.
fn clips() -> Result<Vec<PathBuf>> {
    let folder = crate::workspace::folder().join("target/clips");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    std::fs::read_dir(&folder).context("listing clips")?.map(|entry| Ok(entry?.path())).collect()
}
