//! Runs every check and every test, and counts over all runners: `cargo run -p wirepath-check`.
//!
//! Two processors are busy from the start to the end: tests wait most of their time, so they run beside each
//! other, and what only computes (guests, clippy, examples) runs while they wait. The last lines are
//! the time of each step and `N passed, N failed, N skipped`. A skip is never a pass: it is counted, and
//! listed with its reason.
//!
//! Up to three tests that failed are tried again alone at the end. One that passes then is unstable: it is counted as
//! such, and listed with the reason of its failure, to be mended. It does not fail the check: this tells a fault of
//! what was changed from a test that a busy machine upsets.

mod lanes;
mod length;
mod programs;
mod step;
mod tally;
mod times;

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use anyhow::Result;
use lanes::Lane;
use length::Length;
use programs::{Built, Program};
use step::{Count, Done, Step, cargo, command};
use tally::Tally;
use times::Times;
use wirepath_testkit::kvm::may_run_guests;

fn main() -> ExitCode {
    match Length::asked_for().and_then(run) {
        Ok(results) => {
            print!("{}{}", results.times.table(), results.tally.summary());
            if results.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("wirepath-check: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(length: Length) -> Result<Results> {
    let mut results = Results::default();
    for step in cheap() {
        results.add(step.run());
    }
    let built = install_and_build(&mut results);
    if results.tally.failed == 0 {
        results.add(command("lint", &[built.command("wirepath-lint")?], Count::TestResults, 5).run());
        test(&Suite::new(built, length)?, &mut results);
    }
    Ok(results)
}

/// Results of all steps so far.
#[derive(Default)]
struct Results {
    tally: Tally,
    times: Times,
}

impl Results {
    fn add(&mut self, done: Done) {
        println!("=== {} took {:.0} s", done.name, done.took.as_secs_f64());
        self.times.add(&done);
        self.tally.add(done.tally);
    }
}

/// Steps that need nothing built.
fn cheap() -> Vec<Step> {
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    vec![
        cargo("format", &["fmt", "--all", "--check"], Count::ExitCode, 2),
        // A workspace of its own, which `--all` does not reach.
        cargo("format of fuzz", &fuzz, Count::ExitCode, 2),
        cargo(
            "lock of fuzz",
            &["fetch", "--locked", "--manifest-path", "fuzz/Cargo.toml"],
            Count::ExitCode,
            5,
        ),
    ]
}

/// Installs what tests need beside the build, which needs none of it.
fn install_and_build(results: &mut Results) -> Built {
    let install = command("install", &["scripts/install.sh", "test"], Count::ExitCode, 20);
    let (installed, (done, built)) = thread::scope(|scope| {
        let installed = scope.spawn(|| {
            let done = install.run_quietly();
            if done.tally.failed > 0 {
                // Its output says what to do; there is no use in building before that.
                std::process::exit(69);
            }
            done
        });
        let built = programs::build();
        (installed.join().expect("it does not panic"), built)
    });
    results.add(installed);
    results.add(done);
    built
}

/// Most failed tests that are tried again: more of them are no chance.
const TRIED_AGAIN: usize = 3;

/// Runs all tests, and beside them what only computes.
fn test(suite: &Suite, results: &mut Results) {
    let results = Mutex::new(results);
    let failed = Mutex::new(Vec::new());
    let add = |done: Done| {
        let tests = done.tally.failed_tests.iter().filter_map(|test| Some((suite.program_of(&done)?, test)));
        failed
            .lock()
            .expect("adding does not panic")
            .extend(tests.map(|(program, test)| (program, test.clone())));
        results.lock().expect("adding does not panic").add(done);
    };
    thread::scope(|scope| {
        scope.spawn(|| lanes::run(suite.when_idle(), add));
        let mut left = Vec::new();
        lanes::run(suite.side_by_side(), |done| {
            if done.tally.is_left {
                left.push(done.name.clone());
            }
            add(done);
        });
        let alone = suite.tests.iter().filter(|program| left.contains(&program.name));
        alone.for_each(|program| add(program.alone(suite.length).run()));
        add(advisories());
    });
    let failed = failed.into_inner().expect("adding does not panic");
    let results = results.into_inner().expect("adding does not panic");
    if failed.len() <= TRIED_AGAIN {
        try_again(&failed, suite.length, results);
    }
}

/// Runs failed tests alone, one after another.
fn try_again(failed: &[(&Program, String)], length: Length, results: &mut Results) {
    for (program, test) in failed {
        let done = program.again(test, length).run();
        if (done.tally.passed, done.tally.failed) == (1, 0) {
            results.tally.passed_again(test);
        }
        results.times.add(&done);
    }
}

/// All steps that need what was built.
struct Suite {
    tests: Vec<Program>,
    /// Tests in guests.
    guests: Step,
    length: Length,
}

/// A test program that boots guests in which no time is measured.
const BOOTS: &str = "boots";

/// Guests of `make test`; the long test has all. Tests in network namespaces run on the host, which may lack the qdiscs
/// of those that pace.
const GUESTS: [&str; 4] = ["pacing", "caller", "paths", "module"];

/// Test programs that wait long have lanes of their own.
const LONG: [&str; 2] = ["loopback", "netns"];

impl Suite {
    fn new(built: Built, length: Length) -> Result<Self> {
        let mut guests = vec![built.command("wirepath-vm")?, "test"];
        if !length.is_long() {
            guests.extend(GUESTS.iter().flat_map(|part| ["--guest", part]));
        }
        let guests = command("guests", &guests, Count::TestResults, length.limit(40));
        let artifacts = built.messages()?.display().to_string();
        let guests = length.tell(guests.with("WIREPATH_ARTIFACTS", &artifacts));
        Ok(Self { tests: built.tests, guests, length })
    }

    /// The test program of a step.
    fn program_of(&self, step: &Done) -> Option<&Program> {
        let name = step.name.strip_suffix(", alone").unwrap_or(&step.name);
        self.tests.iter().find(|program| program.name == name)
    }

    /// Tests, most of which wait.
    fn side_by_side(&self) -> Vec<Lane> {
        let lane = |wanted: &dyn Fn(&str) -> bool| -> Lane {
            let programs = self.tests.iter().filter(|program| wanted(&program.name));
            programs.map(|program| program.together(self.length)).collect()
        };
        let mut lanes: Vec<Lane> = LONG.iter().map(|long| lane(&|name| name == *long)).collect();
        lanes.push(lane(&|name| name != BOOTS && !LONG.contains(&name)));
        if may_run_guests() {
            // They keep time by this machine's clock.
            lanes.push(vec![self.guests.clone()]);
        }
        lanes
    }

    /// Steps that only compute.
    fn when_idle(&self) -> Vec<Lane> {
        let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        let documentation = ["doc", "--no-deps", "--workspace", "--locked"];
        let examples = ["test", "--workspace", "--doc", "--locked"];
        let python = command("python", &["scripts/python.sh", "test"], Count::TestResults, 20).when_idle();
        let python = python.with("WIREPATH_BUILT", "1");
        let boots = self.tests.iter().filter(|program| program.name == BOOTS);
        let mut lanes = vec![
            vec![
                cargo("clippy", &clippy, Count::ExitCode, 20).when_idle(),
                // Needs the same metadata of dependencies as clippy.
                cargo("documentation", &documentation, Count::ExitCode, 20)
                    .with("RUSTDOCFLAGS", "-D warnings")
                    .when_idle(),
                cargo("examples", &examples, Count::TestResults, 20).when_idle(),
                packages(self.length).when_idle(),
                python,
            ],
            boots.map(|program| program.whole(self.length).behind_others()).collect(),
        ];
        if !may_run_guests() {
            // Emulated processors count instructions: it does not matter when they run.
            lanes.push(vec![self.guests.clone().behind_others()]);
        }
        lanes
    }
}

/// Packs all crates that are published, as `cargo publish` does: none needs one that is not. The long test
/// also builds each from its package and the packages of the others.
fn packages(length: Length) -> Step {
    let (how, minutes) = if length.is_long() { ("--offline", 40) } else { ("--no-verify", 5) };
    let published = PUBLISHED.iter().flat_map(|name| ["--package", name]);
    let arguments = ["package", how, "--allow-dirty", "--locked", "--quiet"].into_iter().chain(published);
    cargo("packages", &arguments.collect::<Vec<_>>(), Count::ExitCode, minutes)
}

/// `wirepath-streams` and `wirepath-net`, and what they use.
const PUBLISHED: [&str; 9] = [
    "wirepath-sys",
    "wirepath-counters",
    "wirepath-http",
    "wirepath-media",
    "wirepath-datapath",
    "wirepath-engine",
    "wirepath-streams",
    "wirepath-auth",
    "wirepath-net",
];

/// Known vulnerabilities need a database that comes over the network, and a tool that has it.
fn advisories() -> Done {
    let tools = [("cargo-deny", ["deny", "check", "advisories"].as_slice()), ("cargo-audit", &["audit"])];
    match tools.into_iter().find(|(tool, _)| is_installed(tool)) {
        Some((_, arguments)) => cargo("advisories", arguments, Count::ExitCode, 5).run(),
        None => Done::skipped("advisories", "neither cargo-deny nor cargo-audit is installed"),
    }
}

/// Returns whether some folder of PATH holds `tool`.
fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}
