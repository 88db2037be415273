//! Processor time of the server for each client, through each data path, beside bare C loops: `make bench`.
//!
//! Method and reasons: README.md in this folder.

mod bare;
mod crowd;
mod machine;
mod report;
mod server;
mod test_bed;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use report::{BareRun, Report, ServerRun};
use server::Load;
use test_bed::TestBed;

/// Measures user and system CPU time for each client at 4 Mb/s, for each data path, beside bare C.
#[derive(Parser, Debug)]
#[command(name = "wirepath-bench")]
struct Options {
    /// Data paths to measure
    #[arg(long, value_delimiter = ',', default_values = bare::PATHS)]
    paths: Vec<String>,
    /// Numbers of sessions to measure with
    #[arg(long, value_delimiter = ',', default_values_t = [10, 100, 500, 1000])]
    sessions: Vec<usize>,
    /// The server's --burst
    #[arg(long, default_value = "auto")]
    burst: String,
    /// Sessions to measure with once more in bursts so long that trains are full; 0 for none
    #[arg(long, default_value_t = 500)]
    full_trains: usize,
    /// Interleaved repetitions of everything
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds that each measurement lasts
    #[arg(long, default_value_t = 10.0)]
    window: f64,
    /// Seconds of playing before it
    #[arg(long, default_value_t = 3.0)]
    warm_up: f64,
    /// Payload bytes that a bare loop sends
    #[arg(long, default_value_t = 1 << 30)]
    bytes: u64,
    /// Further arguments for the server, for example --server=--threads --server=1
    #[arg(long = "server", allow_hyphen_values = true)]
    server_arguments: Vec<String>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Folder below which the results are stored
    #[arg(long, default_value = "results")]
    results: PathBuf,
}

/// Seconds that a bare loop with pauses lasts.
const PACED_SECONDS: f64 = 4.0;

/// At 4 Mb/s 48 packets of 1,316 bytes leave in 126 ms.
const FULL_BURST: &str = "120ms";

impl Options {
    /// Everything that each path has to carry.
    fn loads(&self) -> Vec<Load> {
        let load = |sessions: usize, burst: &str| Load { sessions, burst: burst.to_owned() };
        let usual = self.sessions.iter().map(|sessions| load(*sessions, &self.burst));
        let full = (self.full_trains > 0).then(|| load(self.full_trains, FULL_BURST));
        usual.chain(full).collect()
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(wirepath_tests::process::is_root(), "network namespaces need root; run: sudo make bench");
    ensure!(options.rounds > 0 && options.window > 0.0, "there must be something to measure");
    let bed = TestBed::new().context("setting up the test bed")?;
    let loops = bare::Loops::build()?;
    let mut report = Report::new(machine::Machine::describe()?, &options);
    for round in 1..=options.rounds {
        for path in &options.paths {
            eprintln!("round {round} of {}: {path}", options.rounds);
            measure(&options, &bed, &loops, path, &mut report)?;
        }
    }
    let folder = report.store(&options.results)?;
    if options.json {
        println!("{}", report.json()?);
    } else {
        print!("{}", report.text());
    }
    eprintln!("stored in {}", folder.display());
    Ok(())
}

/// One path in one round: the server under each load, and right after it the bare loop with the same number
/// of sockets and packets in a train: once without a pause, and once with those of the server.
fn measure(
    options: &Options,
    bed: &TestBed,
    loops: &bare::Loops,
    path: &str,
    report: &mut Report,
) -> Result<()> {
    let full = bare::Setting { packets_per_train: bare::MOST_PACKETS, sockets: 1, pauses: None };
    let seconds = loops.run(bed, path, options.bytes, full).context("a bare loop")?;
    report.bare.push(BareRun { path: path.to_owned(), setting: full, seconds_per_gib: seconds });
    for load in options.loads() {
        let context = || format!("{path}, {load}");
        let run = server::run(bed, path, &load, options).with_context(context)?;
        let packets_per_train = run.packets_per_train.round() as usize;
        let mut bare = |pauses, bytes| {
            let setting = bare::Setting { packets_per_train, sockets: load.sessions, pauses };
            let seconds = loops.run(bed, path, bytes, setting).with_context(context)?;
            report.bare.push(BareRun { path: path.to_owned(), setting, seconds_per_gib: seconds });
            Ok::<_, anyhow::Error>(seconds)
        };
        let bare_seconds_per_gib = bare(None, options.bytes)?;
        let paced_seconds_per_gib = bare(Some(run.pauses()), load.bytes_in(PACED_SECONDS))?;
        report.servers.push(ServerRun { bare_seconds_per_gib, paced_seconds_per_gib, ..run });
    }
    Ok(())
}
