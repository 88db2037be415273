//! Options of this runner beside those of all runners, and its counts.

use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Arguments;

/// Settings of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Seed of random cases.
    pub(crate) seed: u64,
    /// Running time of the random caller.
    pub(crate) time: Duration,
    /// Only this case of each group.
    pub(crate) case: Option<u64>,
    /// All cases, where otherwise only those are tried that show most.
    pub(crate) all: bool,
    /// True if the random caller says when it begins: who kills it wants to know.
    pub(crate) announces: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();
static COUNTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Settings {
    /// Takes its own arguments, and gives those that are left.
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<(Settings, Arguments)> {
        let mut settings =
            Settings { seed: 1, time: Duration::from_secs(5), case: None, all: false, announces: false };
        let mut left = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u64> {
                let text = arguments.next().with_context(|| format!("{argument} needs a number"))?;
                text.parse().with_context(|| format!("{argument} {text}: not a number"))
            };
            match argument.as_str() {
                "--seed" => settings.seed = number()?,
                "--seconds" => settings.time = Duration::from_secs(number()?),
                "--case" => settings.case = Some(number()?),
                "--all" => settings.all = true,
                "--announce" => settings.announces = true,
                _ => left.push(argument),
            }
        }
        Ok((settings, Arguments::from_iter(left)))
    }

    /// Makes them those of this process.
    pub(crate) fn apply(self) {
        SETTINGS.set(self).expect("set once, by main");
    }
}

/// Those of this process.
pub(crate) fn settings() -> Settings {
    *SETTINGS.get().expect("main has set them")
}

/// Runs the cases of a group, or the one that was asked for; a failure says how to repeat it.
pub(crate) fn each_case(group: &str, count: u64, mut case: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let Settings { seed, case: only, .. } = settings();
    let mut failed = Vec::new();
    for index in (0..count).filter(|index| only.is_none_or(|only| only == *index)) {
        if let Err(error) = case(index) {
            failed.push(format!("module --seed {seed} --case {index} {group}: {error:#}"));
        }
    }
    let shown = failed.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    ensure!(
        failed.is_empty(),
        "{} of {count} cases failed; these repeat the first of them:\n{shown}",
        failed.len()
    );
    Ok(())
}

/// Failures of a group that are shown.
const SHOWN: usize = 5;

/// Says what a group has done, at the end.
pub(crate) fn count(line: String) {
    COUNTS.lock().expect("nothing panics holding it").push(line);
}

/// Prints what the groups have done.
pub(crate) fn print_counts() {
    for line in COUNTS.lock().expect("nothing panics holding it").iter() {
        println!("counted: {line}");
    }
}
