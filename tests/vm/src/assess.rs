//! `wirepath assess` in guests: every data path on every kernel, by instructions.
//!
//! An emulated processor counts one instruction for each byte of a copy (`rep movsb`), or, without the
//! features `erms` and `fsrm`, one for eight. A real one is between. So each kernel is booted with both, and
//! what holds in both is a result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::command::{Command, output};
use crate::guest::{self, Guest};
use crate::kernels::{Kernel, Series};
use crate::qemu::Qemu;
use crate::report::Report;
use crate::suite::{self, COPIES};
use crate::{module, workspace};

/// The settings of the processor: names, and what it is without.
const PROCESSORS: [(&str, &str); 2] = [("default", ""), ("without-erms-fsrm", CHEAP_COPIES)];

/// Features that the second processor lacks.
pub const CHEAP_COPIES: &str = ",-erms,-fsrm";

/// Experiments made in each guest, in this order.
const EXPERIMENTS: [&str; 3] = ["count", "stream", "download"];

/// Experiment that goals are about.
const STREAM: &str = "stream";

/// MiB of memory of a guest: what is sent is in it several times.
const MEMORY: u32 = 2048;

/// Arguments of `wirepath-vm assess`.
#[derive(Args)]
pub struct Assess {
    /// Folder for the results; it is made
    #[arg(value_name = "FOLDER")]
    results: PathBuf,
    /// The program to measure with; built with optimisations if none is named
    #[arg(long, value_name = "PROGRAM")]
    wirepath: Option<PathBuf>,
    /// Only this kernel, such as 6.12
    #[arg(long, value_name = "NUMBER")]
    kernel: Option<String>,
    /// Only this experiment of count, stream and download; may be repeated
    #[arg(long = "experiment", value_name = "NAME", value_parser = EXPERIMENTS)]
    experiments: Vec<String>,
    /// Payload of each run: what is counted repeats, so little is enough
    #[arg(long, value_name = "SIZE", default_value = "8MiB")]
    volume: String,
    /// Runs of each measurement
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    runs: u32,
    /// End a guest after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 7200)]
    limit: u64,
}

impl Assess {
    /// Boots all guests, writes their results, and what they say together; answers whether nothing failed.
    ///
    /// # Errors
    /// If something cannot be built, run or written.
    pub fn run(&self, qemu: &Qemu, cache: &Path) -> Result<bool> {
        fs::create_dir_all(&self.results).with_context(|| self.results.display().to_string())?;
        let wirepath = self.wirepath.clone().map_or_else(built, Ok)?;
        let kernels = suite::chosen(self.kernel.as_deref())?;
        let mut sound = true;
        for series in &kernels {
            let kernel = Kernel::of(series, cache)?;
            for (processor, without) in PROCESSORS {
                let qemu = qemu.without(without);
                let guest = self.guest(series, &kernel, processor, &wirepath, cache)?;
                let report = guest.boot(&qemu, &guest::logs(cache))?;
                print!("{}", report.text());
                sound &= report.counts()[1] == 0;
                self.keep(&report, &format!("{}-{processor}", series.number))?;
            }
        }
        self.say(&wirepath)?;
        Ok(sound)
    }

    fn experiments(&self) -> impl Iterator<Item = &'static str> {
        let is_wanted =
            |name: &&str| self.experiments.is_empty() || self.experiments.iter().any(|one| one == name);
        EXPERIMENTS.into_iter().filter(is_wanted)
    }

    fn guest(
        &self,
        series: &Series,
        kernel: &Kernel,
        processor: &str,
        wirepath: &Path,
        cache: &Path,
    ) -> Result<Guest> {
        let sources = workspace::folder().join("kernel");
        let module = module::build(&sources.join("module"), kernel, &cache.join("build"))?;
        let copies = module::build(&sources.join("copies"), kernel, &cache.join("build-copies"))?;
        let init = std::env::current_exe().context("finding this program")?;
        let mut guest = Guest::new(&format!("{} assess {processor}", series.number), kernel, &init)?
            .module(&module, "")?
            .file(&copies, Path::new(COPIES))?
            .script("copies", &format!("insmod {COPIES}"))?
            .size(MEMORY, 1, Duration::from_secs(self.limit));
        for experiment in self.experiments() {
            let mut arguments =
                vec!["assess", experiment, "--json", "-", "--sink", "drop", "--scratch", "/disk"];
            arguments.extend(["--calibration", "/tmp/calibration.json"]);
            let runs = self.runs.to_string();
            if experiment != "count" {
                arguments.extend(["--volume", &self.volume, "--runs", &runs]);
            }
            let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            guest = guest.program(experiment, wirepath, Path::new("/wirepath"), &arguments)?;
        }
        Ok(guest)
    }

    /// Writes the results that a guest printed.
    fn keep(&self, report: &Report, name: &str) -> Result<()> {
        let results = documents(&report.output)?;
        for result in &results {
            let experiment = &result["settings"]["experiments"][0];
            let experiment = experiment.as_str().context("a result without an experiment")?;
            let file = self.results.join(format!("{name}.{experiment}.json"));
            let text = serde_json::to_string_pretty(result).context("writing a result")? + "\n";
            fs::write(&file, text).with_context(|| file.display().to_string())?;
            println!("{}", file.display());
        }
        let wanted = self.experiments().count();
        ensure!(results.len() == wanted, "{} results of {name}, not {wanted}", results.len());
        Ok(())
    }

    /// Writes what the results in the folder say together, those of earlier runs among them: whether goals
    /// are met, and kernel against kernel.
    fn say(&self, wirepath: &Path) -> Result<()> {
        let kernels = suite::chosen(None)?;
        let wirepath = wirepath.canonicalize().with_context(|| wirepath.display().to_string())?;
        let of = |series: &Series, processor: &str, experiment: &str| {
            let name = format!("{}-{processor}.{experiment}.json", series.number);
            self.results.join(&name).exists().then_some(name)
        };
        let of_all = |series: &&Series| PROCESSORS.map(|(processor, _)| of(series, processor, STREAM));
        let streams: Vec<String> = kernels.iter().flat_map(of_all).flatten().collect();
        if !streams.is_empty() {
            let mut goals = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            goals.args(["run", "--quiet", "--locked", "-p", "wirepath-assessment-docs", "--manifest-path"]);
            goals.arg(workspace::folder().join("Cargo.toml")).args(["--", "goals"]).args(&streams);
            self.tell(&mut goals, "goals.txt")?;
        }
        let (Some(newest), Some(oldest)) = (kernels.first(), kernels.last()) else { return Ok(()) };
        for experiment in [STREAM, "download"] {
            for (processor, _) in PROCESSORS {
                let pair = [oldest, newest].map(|series| of(series, processor, experiment));
                if let [Some(before), Some(after)] = pair
                    && before != after
                {
                    let name = format!("kernels-{processor}.{experiment}.txt");
                    let mut compare = Command::new(&wirepath);
                    compare.args(["assess", "compare"]).args([before, after]);
                    compare.env("LC_ALL", "C.UTF-8").env("COLUMNS", "160");
                    self.tell(&mut compare, &name)?;
                }
            }
        }
        Ok(())
    }

    /// Keeps what a program says of results in the folder.
    fn tell(&self, program: &mut Command, name: &str) -> Result<()> {
        let file = self.results.join(name);
        let said = output(program.current_dir(&self.results))?;
        fs::write(&file, said).with_context(|| file.display().to_string())?;
        println!("{}", file.display());
        Ok(())
    }
}

/// `wirepath` with optimisations.
fn built() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--locked", "-p", "wirepath"]).current_dir(workspace::folder());
    let status = command.stdin(Stdio::null()).status().context("cannot run cargo")?;
    ensure!(status.success(), "wirepath does not build");
    Ok(workspace::folder().join("target/release/wirepath"))
}

/// The JSON documents in what a guest printed, each of which begins with a line `{` and ends with a line `}`.
fn documents(output: &str) -> Result<Vec<serde_json::Value>> {
    let mut documents = Vec::new();
    let mut rest = format!("\n{output}");
    while let Some((_, text)) = rest.split_once("\n{\n") {
        let (document, after) = text.split_once("\n}\n").context("a result without an end")?;
        documents.push(serde_json::from_str(&format!("{{{document}}}")).context("reading a result")?);
        rest = format!("\n{after}");
    }
    Ok(documents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_among_other_lines() {
        let text = "wirepath: 10 %\n{\n  \"a\": {\n    \"b\": 1\n  }\n}\nother\n{\n  \"a\": 2\n}\n";
        let found = documents(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0]["a"]["b"].as_u64(), found[1]["a"].as_u64()), (Some(1), Some(2)));
        assert!(documents("{\n  \"a\": 1").is_err(), "it was cut");
        assert!(documents("nothing").unwrap().is_empty());
    }
}
