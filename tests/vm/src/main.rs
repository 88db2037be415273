//! `wirepath-vm`: kernels in machines of their own, and what is tested in them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use wirepath_vm::guest::{self, Guest};
use wirepath_vm::kernels::{self, Kernel};
use wirepath_vm::qemu::Qemu;
use wirepath_vm::report::Report;
use wirepath_vm::suite::{self, Caller, Chosen, Debugged, Part, Suite};
use wirepath_vm::{assess, cache, debug_kernel, init, module, record, workspace};

/// Boots kernels in QEMU and tests in them.
///
/// Kernels come from the distribution's packages, unpacked into target/vm (or the folder that WIREPATH_VM
/// names).
#[derive(Parser)]
#[command(name = "wirepath-vm", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Run the module's tests and those of eBPF programs on every kernel, and the tests in network namespaces on the
    /// newest
    ///
    /// WIREPATH_CALLER_SECONDS and WIREPATH_CALLER_SEED make other runs of the random caller than that of
    /// `make test`.
    Test {
        /// Only this kernel, such as 6.12
        #[arg(long, value_name = "NUMBER")]
        kernel: Option<String>,
        /// Only these guests; may be repeated
        #[arg(long = "guest", value_name = "WHICH")]
        parts: Vec<Part>,
        /// Only tests in network namespaces whose names contain one of these, and no other guest
        #[arg(conflicts_with = "parts")]
        filter: Vec<String>,
    },
    /// Build a kernel that checks itself, and run the module's tests on it; first that each of its detectors
    /// works
    TestDebug {
        /// Of its version, such as 6.12
        #[arg(long, value_name = "NUMBER")]
        kernel: Option<String>,
        /// Running time of the random caller, by the guest's clock
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        seconds: u64,
        /// Seed of random calls
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        seed: u64,
        /// Only guests whose names contain this: smoke, module, injected, caller, planted; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Folder for the result; target/vm/debug/result without
        #[arg(long, value_name = "FOLDER")]
        result: Option<PathBuf>,
    },
    /// Run the module's smoke test in a guest, or groups of it, and print each group as it ends
    Smoke {
        #[command(flatten)]
        contents: Contents,
        /// End the guest after so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
        limit: u64,
        /// Names of groups, as in `groups` of tests/smoke/main.c
        groups: Vec<String>,
    },
    /// Run one program, or one line of shell, in a guest
    Run {
        #[command(flatten)]
        contents: Contents,
        /// A line for the guest's shell, in place of a program
        #[arg(long, value_name = "LINE", conflicts_with = "program")]
        script: Option<String>,
        /// End the guest after so many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 300)]
        limit: u64,
        /// Emulate a processor on which a copy counts one instruction for eight bytes, and not one for each
        #[arg(long)]
        cheap_copies: bool,
        /// A program of this machine and its arguments
        #[arg(trailing_var_arg = true, required_unless_present = "script")]
        program: Vec<String>,
    },
    /// Measure every data path on every kernel, by instructions, and hold the module's paths to their goals
    Assess(assess::Assess),
    /// A shell in a guest, on this terminal; Ctrl-A X ends the guest
    Shell {
        #[command(flatten)]
        contents: Contents,
    },
    /// Get the kernels, if they are not there
    Fetch,
}

/// Contents of a guest.
#[derive(Args)]
struct Contents {
    /// The kernel, such as 6.12, or `debug` for the one that checks itself; the newest without
    #[arg(long, value_name = "NUMBER")]
    kernel: Option<String>,
    /// A module to load before: its file, or the folder of its Kbuild
    #[arg(long, value_name = "PATH")]
    module: Option<PathBuf>,
    /// The module's parameters
    #[arg(long, value_name = "NAME=VALUE", default_value = "")]
    parameters: String,
    /// One more module of the kernel's own; may be repeated
    #[arg(long = "driver", value_name = "NAME")]
    drivers: Vec<String>,
    /// Kernel command line options beside those of all guests, such as slub_debug=FZPU
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    append: String,
    /// One more file of this machine, below /files; may be repeated
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// MiB of memory
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    memory: u32,
    /// Processors
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    processors: u32,
}

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| name == init::NAME) {
        let error = init::main().err().map(|error| format!("{error:#}")).unwrap_or_default();
        eprintln!("wirepath-vm: the guest's first process ends: {error}");
        return ExitCode::FAILURE;
    }
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("wirepath-vm: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(job: Job) -> Result<ExitCode> {
    match job {
        Job::Test { kernel, filter, .. } if !filter.is_empty() => {
            test(kernel.as_deref(), &[Part::Netns], &filter)
        }
        Job::Test { kernel, parts, .. } => test(kernel.as_deref(), &parts, &[]),
        Job::TestDebug { kernel, seconds, seed, only, result } => {
            let chosen = Chosen { caller: Caller { seed, seconds }, only };
            test_debug(kernel.as_deref(), &chosen, result)
        }
        Job::Smoke { contents, limit, groups } => smoke(contents, limit, &groups),
        Job::Run { contents, script, limit, cheap_copies, program } => {
            let qemu = if cheap_copies { qemu()?.without(assess::CHEAP_COPIES) } else { qemu()? };
            let guest = contents.guest()?;
            let guest = match (script, program.split_first()) {
                (Some(line), _) => guest.script("script", &line)?,
                (None, Some((program, arguments))) => add_program(guest, program, arguments)?,
                (None, None) => anyhow::bail!("nothing to run"),
            };
            let size = (contents.memory, contents.processors, Duration::from_secs(limit));
            let report = guest.size(size.0, size.1, size.2).boot(&qemu, &guest::logs(&cache()))?;
            print!("{}{}", report.output, report.text());
            Ok(if report.counts()[1] == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Job::Assess(assess) => {
            let sound = assess.run(&qemu()?, &cache())?;
            Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Job::Shell { contents } => {
            let day = Duration::from_secs(24 * 60 * 60);
            contents.guest()?.size(contents.memory, contents.processors, day).shell(&qemu()?)?;
            Ok(ExitCode::SUCCESS)
        }
        Job::Fetch => {
            for series in suite::tested(None)? {
                println!("{}", Kernel::of(series, &cache())?.release);
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn qemu() -> Result<Qemu> {
    Qemu::find()?.context("QEMU is not installed (package qemu-system-x86)")
}

impl Contents {
    fn guest(&self) -> Result<Guest> {
        let (name, kernel) = match self.kernel.as_deref() {
            Some("debug") => ("debug", debug_kernel::of(suite::chosen(None)?[0], &cache())?),
            number => {
                let series = suite::chosen(number)?[0];
                (series.number, Kernel::of(series, &cache())?)
            }
        };
        let drivers: Vec<&str> = self.drivers.iter().map(String::as_str).collect();
        let init = std::env::current_exe().context("finding this program")?;
        let guest = Guest::new(&format!("{name} run"), &kernel, &init)?;
        let mut guest = guest.for_tests()?.drivers(&drivers)?.options(&self.append);
        if let Some(path) = &self.module {
            let built = if path.is_dir() {
                module::build(path, &kernel, &cache().join("build"))?
            } else {
                path.clone()
            };
            guest = guest.module(&built, &self.parameters)?;
        }
        for file in &self.files {
            let name = file.file_name().context("a file without a name")?;
            guest = guest.file(file, &Path::new("/files").join(name))?;
        }
        Ok(guest)
    }
}

fn add_program(guest: Guest, program: &str, arguments: &[String]) -> Result<Guest> {
    let file = wirepath_vm::command::find(program).unwrap_or_else(|| PathBuf::from(program));
    let name = file.file_name().context("a program without a name")?.to_string_lossy().into_owned();
    guest.program(&name, &file, &Path::new("/project/target/debug/deps").join(&name), arguments)
}

/// Every guest of the suite. What cannot run here is said and counted as skipped.
fn test(kernel: Option<&str>, parts: &[Part], filter: &[String]) -> Result<ExitCode> {
    let programs = workspace::build()?;
    let reports = match (Qemu::find()?, kernels::series()) {
        (Some(qemu), Ok(_)) => {
            Suite::new(qemu, cache(), programs).run(&suite::tested(kernel)?, parts, filter)?
        }
        (None, _) => skipped("QEMU is not installed (package qemu-system-x86)"),
        (_, Err(error)) => skipped(&format!("{error:#}")),
    };
    let failed: usize = reports.iter().map(|report| report.counts()[1]).sum();
    println!("guests: {}", if failed == 0 { "passed" } else { "FAILED" });
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the smoke test of the module, or some of its groups.
fn smoke(mut contents: Contents, limit: u64, groups: &[String]) -> Result<ExitCode> {
    let sources = workspace::folder().join("kernel/module");
    contents.module.get_or_insert_with(|| sources.clone());
    let options: Vec<&str> = groups.iter().flat_map(|name| ["--only", name]).collect();
    let guest = contents.guest()?.drivers_if_there(&["tun"])?;
    // First uses of eBPF and of control groups fill caches of the kernel, which stay.
    let guest = module::plan_smoke_test(guest, &sources, &options)?.rehearse().printing_progress();
    let guest = guest.size(contents.memory, contents.processors, Duration::from_secs(limit));
    let report = guest.boot(&qemu()?, &guest::logs(&cache()))?;
    print!("{}{}", report.counted(), report.text());
    Ok(if report.counts()[1] == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the module on the debug kernel; keeps the results, also of a run that is stopped.
fn test_debug(kernel: Option<&str>, chosen: &Chosen, result: Option<PathBuf>) -> Result<ExitCode> {
    let series = suite::chosen(kernel)?[0];
    let programs = workspace::build()?;
    let folder = result.unwrap_or_else(|| cache().join("debug/result"));
    let keep = |debugged: &Debugged| record::write(&folder, debugged, chosen);
    let debugged = Suite::new(qemu()?, cache(), programs).debug(series, chosen, keep)?;
    println!("debug kernel: {}; the result is in {}", debugged.verdict(), folder.display());
    Ok(if debugged.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn skipped(why: &str) -> Vec<Report> {
    let report = Report::skipped("guests", why);
    print!("{}", report.text());
    vec![report]
}
