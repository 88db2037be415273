//! The guests of each part.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result};
use wirepath_tests::trial::Skip;
use wirepath_tests::{bpf, clips};

use super::{Numbered, Suite};
use crate::guest::Guest;
use crate::kernels::Kernel;
use crate::report::Report;
use crate::workspace::Tests;
use crate::{module, workspace};

/// Folder of the project's programs in a guest.
const PROJECT: &str = "/project/target/debug";

/// Folder of eBPF objects in a guest.
const OBJECTS: &str = "/project/target/bpf";

/// More modules that tests in network namespaces want.
const DRIVERS: &[&str] = &[
    "sch_tbf",
    "sch_netem",
    "sch_fq",
    "sch_etf",
    "cls_bpf",
    "act_mirred",
    "cls_matchall",
    "sch_ingress",
    "tun",
];

/// Drivers that tests of the module send through: devices, queues, classifiers, packet filters and IPsec, none of which
/// a guest can load later.
const STACKS: &[&str] = &[
    "8021q",
    "bonding",
    "bridge",
    "vxlan",
    "macvlan",
    "tun",
    "sch_fq",
    "sch_fq_codel",
    "sch_tbf",
    "sch_netem",
    "sch_cake",
    "sch_prio",
    "sch_ingress",
    "cls_bpf",
    "act_pedit",
    "act_csum",
    "nf_tables",
    "nft_chain_nat",
    "nft_nat",
    "nft_masq",
    "nft_ct",
    "xfrm_user",
    "esp4",
    "aes_generic",
    "gcm",
    "ctr",
    "ghash_generic",
    "seqiv",
];

/// Tests in network namespaces that are not run in guests, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("assess::", "figures of an emulated processor say nothing, and measuring them takes long"),
    ("assess_relay::", "as above"),
    (BY_MODULE, "they have guests of their own, with the module"),
    ("crowd::", "five hundred sessions are more than an emulated processor carries"),
];

/// The package whose tests compare the module with its model; the random caller is one of them, and has
/// guests of its own.
pub(super) const MODEL: &str = "wirepath-module-tests";
pub(super) const CALLER: &str = "caller::";

/// Those of files on NFS have guests of their own, too: caches of client and server, which stay, would count as leaks
/// where nothing of NFS was used before.
const NFS: &str = "nfs::";

/// The kernel's NFS server and client.
const NFS_DRIVERS: &[&str] = &["nfsd", "nfsv4"];

/// Of the guest's clock. Emulated, that is about two minutes.
const CALLER_SECONDS: u64 = 24;

/// Tests in network namespaces that want the module.
pub(super) const BY_MODULE: &str = "by_the_module::";

/// Tests in network namespaces of eBPF programs, which kernels check and run each in its own way.
const HANDLERS: &[&str] = &["kernel_equality::", "kernel_handler::", "kernel_select::", "sockmap::"];

/// Tests in network namespaces of pacing, by qdiscs that many kernels lack.
const PACING: &str = "pacing::";

/// Groups of the smoke test that take longest: half of its time. They have a guest of their own, or are left to the
/// guest of the module.
const LONG_GROUPS: [&str; 3] = ["wakeups", "limits", "routers"];

/// Objects are poisoned when they are freed, have zones around them, and say who allocated them.
const CHECKED_SLABS: &str = "slub_debug=FZPU";

impl Suite {
    /// The tests of the module on one kernel, in a guest called `what` with so many processors.
    pub(super) fn module(&self, kernel: &Numbered, what: &str, processors: u32) -> Result<Report> {
        let mut guest = self.with_smoke_test(kernel, what, &[])?.rehearse();
        for tests in &self.programs.module {
            let arguments: &[&str] =
                if tests.package == MODEL { &["--skip", CALLER, "--skip", NFS] } else { &[] };
            guest = add(guest, tests, arguments)?;
        }
        // Threads of two processors take turns on the one that emulates both.
        let limit = Duration::from_secs(1200 * u64::from(processors));
        self.boot(guest.size(512, processors, limit))
    }

    /// The tests of the module with files on NFS on one kernel; the same tests are the rehearsal.
    pub(super) fn nfs(&self, kernel: &Numbered) -> Result<Report> {
        let module = self.built(&kernel.1)?;
        let guest = self.guest(kernel, "nfs")?.for_tests()?.drivers_if_there(NFS_DRIVERS)?;
        let guest = add(guest.module(&module, "")?, self.model()?, &[NFS])?.rehearse();
        let guest = add(guest, self.model()?, &[NFS])?;
        self.boot(guest.size(512, 1, Duration::from_secs(1200)))
    }

    /// The tests that compare the module with its model.
    fn model(&self) -> Result<&Tests> {
        let tests = self.programs.module.iter().find(|tests| tests.package == MODEL);
        tests.with_context(|| format!("{MODEL} has no tests"))
    }

    /// The random caller, where the kernel checks each object.
    pub(super) fn caller(&self, kernel: &Numbered) -> Result<Report> {
        let seconds = setting("WIREPATH_CALLER_SECONDS", CALLER_SECONDS)?;
        let seed = setting("WIREPATH_CALLER_SEED", 1)?;
        let (seconds_text, seed) = (seconds.to_string(), seed.to_string());
        let arguments = ["--seconds", &seconds_text, "--seed", &seed, CALLER];
        let guest = self.with_smoke_test(kernel, "caller", &of_long_groups("--skip"))?.rehearse();
        let guest = add(guest, self.model()?, &arguments)?;
        // A second of an emulated guest may take half a minute of a loaded machine.
        let limit = Duration::from_secs(1200 + 30 * seconds);
        // Emulated, Linux 6.1 does not always find a second processor.
        self.boot(guest.options(CHECKED_SLABS).size(768, 1, limit))
    }

    /// The tests in network namespaces on one kernel.
    pub(super) fn netns(&self, kernel: &Numbered, filter: &[String]) -> Result<Report> {
        for (name, why) in LEFT_OUT {
            println!("left out of guests: {name} ({why})");
        }
        self.boot_netns(kernel, "netns", filter)
    }

    /// The tests of eBPF programs on one kernel.
    pub(super) fn handlers(&self, kernel: &Numbered) -> Result<Report> {
        let filter: Vec<String> = HANDLERS.iter().map(ToString::to_string).collect();
        self.boot_netns(kernel, "handlers", &filter)
    }

    /// The tests of pacing on one kernel.
    pub(super) fn pacing(&self, kernel: &Numbered) -> Result<Report> {
        self.boot_netns(kernel, "pacing", &[PACING.to_owned()])
    }

    /// Tests in network namespaces whose names contain one of `filter`, or all.
    fn boot_netns(&self, kernel: &Numbered, what: &str, filter: &[String]) -> Result<Report> {
        let skipped = LEFT_OUT.iter().flat_map(|(name, _)| ["--skip".to_owned(), (*name).to_owned()]);
        // Many side by side gain nothing where a clock passes over idle time.
        let threads = ["--test-threads".to_owned(), "6".to_owned()];
        let arguments: Vec<String> = threads.into_iter().chain(skipped).collect();
        // The program takes one filter.
        let mut runs: Vec<Vec<String>> =
            filter.iter().map(|one| [&arguments[..], std::slice::from_ref(one)].concat()).collect();
        if runs.is_empty() {
            runs.push(arguments);
        }
        let guest = self.guest(kernel, what)?.for_tests()?.drivers(DRIVERS)?;
        self.boot(self.add_netns(guest, &runs)?.size(1536, 1, Duration::from_secs(1200)))
    }

    /// The tests in network namespaces, once with each of these arguments, with what they run, play and load.
    pub(super) fn add_netns(&self, guest: Guest, runs: &[Vec<String>]) -> Result<Guest> {
        let folder = Path::new(PROJECT);
        let mut guest = guest.file(&self.programs.wirepath, &folder.join("wirepath"))?;
        for arguments in runs {
            guest = guest.program("netns", &self.programs.netns, &folder.join("deps/netns"), arguments)?;
        }
        for clip in clips()? {
            let name = clip.file_name().context("a clip without a name")?.to_owned();
            guest = guest.file(&clip, &Path::new("/project/target/clips").join(name))?;
        }
        add_objects(guest)
    }

    /// A guest with the module.
    pub(super) fn with_module(&self, kernel: &Numbered, what: &str) -> Result<Guest> {
        let module = self.built(&kernel.1)?;
        let guest = self.guest(kernel, what)?.for_tests()?.drivers_if_there(STACKS)?;
        add_objects(guest.module(&module, "")?)
    }

    /// The same, and its smoke test planned, with these arguments.
    pub(super) fn with_smoke_test(&self, kernel: &Numbered, what: &str, arguments: &[&str]) -> Result<Guest> {
        module::plan_smoke_test(self.with_module(kernel, what)?, &sources(), arguments)
    }

    /// The module, which one guest builds while others wait for it.
    pub(super) fn built(&self, kernel: &Kernel) -> Result<PathBuf> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&kernel.release) {
            return Ok(module.clone());
        }
        let module = module::build(&sources(), kernel, &self.cache.join("build"))?;
        modules.insert(kernel.release.clone(), module.clone());
        Ok(module)
    }
}

/// An option of the smoke test, for each of its long groups.
pub(super) fn of_long_groups(option: &str) -> Vec<&str> {
    LONG_GROUPS.iter().flat_map(|name| [option, *name]).collect()
}

/// The module's sources.
fn sources() -> PathBuf {
    workspace::folder().join("kernel/module")
}

pub(super) fn add(guest: Guest, tests: &Tests, arguments: &[&str]) -> Result<Guest> {
    let name = tests.file.file_name().context("a program without a name")?;
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    guest.program(&tests.package, &tests.file, &Path::new(PROJECT).join("deps").join(name), &arguments)
}

/// A number from the environment of this program.
fn setting(name: &str, usual: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text} is no number")),
        Err(std::env::VarError::NotPresent) => Ok(usual),
        Err(error) => Err(error).context(name.to_owned()),
    }
}

/// Adds the eBPF objects that tests load: there is no compiler in a guest. Where there is none here either, the
/// tests say so.
fn add_objects(mut guest: Guest) -> Result<Guest> {
    let folder = tempfile::tempdir().context("making a temporary folder")?;
    let objects = match bpf::all(folder.path()) {
        Ok(objects) => objects,
        Err(error) if error.is::<Skip>() => {
            eprintln!("no eBPF objects for guests: {error}");
            return Ok(guest);
        }
        Err(error) => return Err(error),
    };
    for object in objects {
        let name = object.file_name().context("an object without a name")?.to_owned();
        guest = guest.file(&object, &Path::new(OBJECTS).join(name))?;
    }
    Ok(guest.variable(bpf::FOLDER, OBJECTS))
}

/// Seconds of the clips that the tests in network namespaces play.
const CLIP_SECONDS: &[u32] = &[2, 6, 8, 60];

/// Media for those tests and what is known of it: there is nothing in a guest that makes it. Where there is
/// nothing here either, the tests say so.
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
