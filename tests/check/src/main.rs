//! Runs every check and every test, and counts over all runners: `cargo run -p wirepath-check`.
//!
//! Two processors are busy from the start to the end: tests wait most of their time, so they run beside each other, and what only
//! computes (guests, clippy, the fuzz corpus) runs while they wait. The last lines are the time of each step and
//! `N passed, N failed, N skipped`. A skip is never a pass: it is counted, and listed with its reason.

mod lanes;
mod length;
mod programs;
mod step;
mod tally;
mod times;

use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use lanes::Lane;
use length::Length;
use programs::Program;
use step::{Count, Done, Step, cargo, command};
use tally::Tally;
use times::Times;

fn main() -> ExitCode {
    let length = match Length::asked_for() {
        Ok(length) => length,
        Err(error) => {
            eprintln!("wirepath-check: {error}");
            return ExitCode::from(64);
        }
    };
    let mut results = Results::default();
    for step in cheap() {
        results.add(step.run());
    }
    let programs = install_and_build(&mut results);
    if results.tally.failed == 0 {
        results.add(
            cargo("lint", &["run", "--quiet", "--locked", "-p", "wirepath-lint"], Count::TestResults, 5)
                .run(),
        );
        test(&Suite { programs, length }, &mut results);
    }
    print!("{}{}", results.times.table(), results.tally.summary());
    if results.tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What came of all steps so far.
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

/// What needs nothing that is built.
fn cheap() -> Vec<Step> {
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    vec![
        cargo("format", &["fmt", "--all", "--check"], Count::ExitCode, 2),
        // A workspace of its own, which `--all` does not reach.
        cargo("format of fuzz", &fuzz, Count::ExitCode, 2),
    ]
}

/// Installs what tests need beside the build, which needs none of it.
fn install_and_build(results: &mut Results) -> Vec<Program> {
    let install = command("install", &["scripts/install.sh", "test"], Count::ExitCode, 20);
    let (installed, (built, programs)) = thread::scope(|scope| {
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
    results.add(built);
    programs
}

/// The test programs, and how long they go on.
struct Suite {
    programs: Vec<Program>,
    length: Length,
}

/// Runs all tests, and beside them what only computes.
fn test(suite: &Suite, results: &mut Results) {
    let results = Mutex::new(results);
    let add = |done| results.lock().expect("adding does not panic").add(done);
    thread::scope(|scope| {
        scope.spawn(|| lanes::run(suite.when_idle(), add));
        let mut left = Vec::new();
        lanes::run(suite.side_by_side(), |done| {
            if done.tally.is_left {
                left.push(done.name.clone());
            }
            add(done);
        });
        let alone = suite.programs.iter().filter(|program| left.contains(&program.name));
        alone.for_each(|program| add(program.alone(suite.length).run()));
        add(advisories());
    });
}

/// Boots guests; under `when_idle`.
const GUESTS: &str = "boots";

/// Test programs that wait long have lanes of their own.
const LONG: [&str; 2] = ["loopback", "netns"];

impl Suite {
    /// Tests, most of which wait.
    fn side_by_side(&self) -> Vec<Lane> {
        let lane = |wanted: &dyn Fn(&str) -> bool| -> Lane {
            let programs = self.programs.iter().filter(|program| wanted(&program.name));
            programs.map(|program| program.together(self.length)).collect()
        };
        let mut lanes: Vec<Lane> = LONG.iter().map(|long| lane(&|name| name == *long)).collect();
        lanes.push(lane(&|name| name != GUESTS && !LONG.contains(&name)));
        lanes
    }

    /// What only computes, and what measures by the clock of a guest that counts instructions.
    fn when_idle(&self) -> Vec<Lane> {
        let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
        let examples = ["test", "--workspace", "--doc", "--locked"];
        // A workspace of its own, because its targets need another compiler; replaying the corpus does not.
        let fuzz = [
            "test",
            "--manifest-path=fuzz/Cargo.toml",
            "--no-default-features",
            "--target-dir=target",
            "--locked",
        ];
        let guests = ["run", "--quiet", "--locked", "-p", "wirepath-vm", "--", "test"];
        let guests = cargo("guests", &guests, Count::TestResults, self.length.limit(40));
        let boots = self.programs.iter().filter(|program| program.name == GUESTS);
        let mut lanes = vec![
            vec![
                cargo("clippy", &clippy, Count::ExitCode, 20),
                cargo("examples", &examples, Count::TestResults, 20),
                cargo("fuzz corpus", &fuzz, Count::TestResults, 20),
            ],
            vec![self.length.tell(guests)],
            boots.map(|program| program.whole(self.length)).collect(),
        ];
        for step in lanes.iter_mut().flatten() {
            *step = step.clone().when_idle();
        }
        lanes
    }
}

/// Known vulnerabilities need a database that comes over the network, and a tool that has it.
fn advisories() -> Done {
    let tools = [("cargo-deny", ["deny", "check", "advisories"].as_slice()), ("cargo-audit", &["audit"])];
    match tools.into_iter().find(|(tool, _)| is_installed(tool)) {
        Some((_, arguments)) => cargo("advisories", arguments, Count::ExitCode, 5).run(),
        None => Done::skipped("advisories", "neither cargo-deny nor cargo-audit is installed"),
    }
}

/// Whether some folder of PATH holds `tool`.
fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
}
