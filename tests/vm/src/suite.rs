//! Everything that is tested in guests.

mod by_module;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use wirepath_tests::clips;
use wirepath_tests::trial::Skip;

use crate::guest::{self, Guest};
use crate::kernels::{self, Kernel, Series};
use crate::module;
use crate::qemu::Qemu;
use crate::report::Report;
use crate::workspace::Programs;
pub(crate) use by_module::COPIES;

/// What is needed to boot guests.
pub struct Suite {
    qemu: Qemu,
    cache: PathBuf,
    programs: Programs,
}

/// A kernel and the number of its series.
type Numbered = (&'static str, Kernel);

/// Tools that the tests in network namespaces call.
const TOOLS: &[&str] =
    &["tc", "ethtool", "mke2fs", "losetup", "mount", "umount", "setpriv", "nft", "ping", "timeout"];

/// More modules that they want.
const DRIVERS: &[&str] =
    &["sch_tbf", "sch_netem", "sch_fq", "cls_bpf", "act_mirred", "cls_matchall", "sch_ingress"];

/// Runs the module's smoke test with a file of each kind of file system that a guest has.
const SMOKE: &str = "for folder in /disk /tmp; do head -c 2097152 /dev/urandom > $folder/data || exit 1; done
exec /smoke /disk/data /tmp/data";

/// Tests in network namespaces that are not run in guests, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("assess::", "figures of an emulated processor say nothing, and measuring them takes long"),
    ("assess_relay::", "as above"),
    ("crowd::", "five hundred sessions are more than an emulated processor carries"),
];

impl Suite {
    /// A suite that runs `programs`, and keeps kernels and logs in `cache`.
    pub fn new(qemu: Qemu, cache: PathBuf, programs: Programs) -> Self {
        Self { qemu, cache, programs }
    }

    /// Runs everything on the kernels of `chosen` that can be had, the newest first, two guests at a time; prints each report
    /// as it comes.
    ///
    /// # Errors
    /// If the module does not build or QEMU cannot be run.
    pub fn run(&mut self, chosen: &[&Series], filter: &[String]) -> Result<Vec<Report>> {
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
        std::thread::scope(|scope| {
            let netns = scope.spawn(|| shown(suite.netns(newest, filter)?));
            if filter.is_empty() {
                println!(
                    "left out of guests: tests/module (faults that it found are not mended yet: docs/module.md)"
                );
                for kernel in &kernels {
                    reports.push(shown(suite.module(kernel)?)?);
                    reports.push(shown(suite.by_module(kernel)?)?);
                }
            }
            let netns = netns.join().map_err(|_| anyhow::anyhow!("booting a guest panicked"))?;
            reports.push(netns?);
            Ok(reports)
        })
    }

    /// A device of that name says little: some run no ordinary kernel. So one is booted.
    fn use_kvm_if_it_works(&mut self, kernel: &Numbered) -> Result<()> {
        let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
        if device.is_ok() {
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

    /// The tests of the module on one kernel.
    fn module(&self, kernel: &Numbered) -> Result<Report> {
        let sources = crate::workspace::folder().join("kernel/module");
        if !sources.exists() {
            return Ok(Report::skipped(&format!("{} module", kernel.0), "there is no kernel/module"));
        }
        let module = module::build(&sources, &kernel.1, &self.cache.join("build"))?;
        let smoke = module::smoke_test(&sources, &self.cache.join("build"))?;
        let mut guest = self.guest(kernel, "module")?.module(&module, "")?.tools(TOOLS)?;
        guest = guest.file(&smoke, Path::new("/smoke"))?.script("smoke", SMOKE)?;
        if let Some(program) = &self.programs.module {
            guest = guest.program("module", program, Path::new("/project/target/debug/deps/module"), &[])?;
        }
        self.boot(guest)
    }

    /// The tests in network namespaces on one kernel.
    fn netns(&self, kernel: &Numbered, filter: &[String]) -> Result<Report> {
        for (name, why) in LEFT_OUT {
            println!("left out of guests: {name} ({why})");
        }
        let skipped = LEFT_OUT.iter().flat_map(|(name, _)| ["--skip".to_owned(), (*name).to_owned()]);
        let arguments: Vec<String> = skipped.chain(filter.iter().cloned()).collect();
        let folder = Path::new("/project/target/debug");
        let mut guest = self
            .guest(kernel, "netns")?
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

    fn guest(&self, (number, kernel): &Numbered, what: &str) -> Result<Guest> {
        Guest::new(&format!("{number} {what}"), kernel, &self.programs.machine)
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

/// Seconds of the clips that the tests in network namespaces play.
const CLIP_SECONDS: &[u32] = &[2, 6, 8, 60];

/// Media for those tests and what is known of it: there is nothing in a guest that makes it. Where there is nothing
/// here either, the tests say so.
fn clips() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for seconds in CLIP_SECONDS {
        match clips::constant(*seconds).and_then(|clip| clips::pictures(&clip).map(|_| clip)) {
            Ok(clip) => files.extend([clip.with_extension("pictures"), clip]),
            Err(error) if error.is::<Skip>() => eprintln!("no clip of {seconds} s for guests: {error}"),
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}
