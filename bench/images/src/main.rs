//! Processor time of `wirepath-images` for each request, beside servers of the user level that do the same:
//! figure 11 of the KStreams paper. `make bench-images`; method in docs/images.md.

mod user;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use user::Way;
use wirepath_bench_images::{Case, Rounds, Server, report, run};

/// Measures processor time for each request of the image server, beside servers of the user level.
#[derive(Parser)]
#[command(name = "wirepath-bench-images")]
struct Options {
    #[command(subcommand)]
    command: Option<Serve>,
    /// Interleaved rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Mebibytes that each server reads or answers with in a round, about
    #[arg(long, default_value_t = 100)]
    volume: u64,
    /// Connections
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Words that names of cases hold
    #[arg(long)]
    only: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum Serve {
    /// Be a server of the user level
    #[command(hide = true)]
    Serve { way: Way, folder: PathBuf },
}

/// The paper's picture has 900 KB, and answers a third of that; down-sampling I, a fourth.
const CASES: &[Case] = &[
    Case { name: "crop", path: "/small.ppm?crop=135,101,370,277", bytes: 921_600 },
    Case { name: "gray", path: "/small.ppm?gray", bytes: 921_600 },
    Case { name: "down-sample I", path: "/small.ppm?scale=1/2&method=integral", bytes: 921_600 },
    Case { name: "down-sample II", path: "/small.ppm?scale=4/7&method=middle", bytes: 921_600 },
    Case { name: "down-sample III", path: "/small.ppm?scale=4/7&method=linear", bytes: 921_600 },
    Case { name: "crop, 72 MB", path: "/large.ppm?crop=1268,845,3464,2309", bytes: 72_000_000 },
    Case { name: "crop, 72 MB, long rows", path: "/large.ppm?crop=100,1300,5800,1380", bytes: 72_000_000 },
    Case { name: "gray, 72 MB", path: "/large.ppm?gray", bytes: 72_000_000 },
    Case { name: "down-sample I, 72 MB", path: "/large.ppm?scale=1/2&method=integral", bytes: 72_000_000 },
    Case { name: "down-sample II, 72 MB", path: "/large.ppm?scale=4/7&method=middle", bytes: 72_000_000 },
    Case { name: "down-sample III, 72 MB", path: "/large.ppm?scale=4/7&method=linear", bytes: 72_000_000 },
];

fn main() -> Result<()> {
    let options = Options::parse();
    match &options.command {
        Some(Serve::Serve { way, folder }) => user::serve(*way, folder),
        None => measure(&options),
    }
}

fn measure(options: &Options) -> Result<()> {
    let folder = tempfile::tempdir()?;
    store(&folder.path().join("small.ppm"), 640, 480)?;
    store(&folder.path().join("large.ppm"), 6000, 4000)?;
    let ours = std::env::current_exe()?.with_file_name("wirepath-images");
    ensure!(ours.exists(), "{} is not built; run: make bench-images", ours.display());
    let mut servers = vec![Server::start(
        "wirepath-images",
        Command::new(ours).args(["--http", "127.0.0.1:0"]).arg(folder.path()),
    )?];
    for way in Way::ALL {
        let mut command = Command::new(std::env::current_exe()?);
        servers.push(Server::start(way.name(), command.args(["serve", way.name()]).arg(folder.path()))?);
    }
    let wanted = |case: &&Case| options.only.as_ref().is_none_or(|words| case.name.contains(words));
    let Options { rounds, volume, connections, .. } = *options;
    let rounds = Rounds { rounds, volume: volume << 20, connections };
    let mut results = Vec::new();
    for case in CASES.iter().filter(wanted) {
        results.push((case, run(case, &servers, &rounds, |ours, other| Ok(ours == other))?));
    }
    report(&results, &servers, options.json);
    Ok(())
}

/// Writes a picture of slopes.
fn store(path: &Path, width: usize, height: usize) -> Result<()> {
    let mut bytes = format!("P6\n{width} {height}\n255\n").into_bytes();
    bytes.extend((0..width * height * 3).map(|place| (place / 3 + place % 3 * 80 + place / 5000) as u8));
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}
