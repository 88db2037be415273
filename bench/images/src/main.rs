//! Processor time of `wirepath-images` for each request, beside servers of the user level that do the same:
//! figure 11 of the KStreams paper. `make bench-images`; method in docs/images.md.

mod client;
mod user;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use client::Client;
use comfy_table::Table;
use serde_json::json;
use user::Way;

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

/// A request of figure 11.
struct Case {
    name: &'static str,
    /// File and query.
    path: &'static str,
    /// Bytes of the picture.
    bytes: u64,
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
        Command::new(ours).args(["--listen", "127.0.0.1:0"]).arg(folder.path()),
    )?];
    for way in Way::ALL {
        let mut command = Command::new(std::env::current_exe()?);
        servers.push(Server::start(way.name(), command.args(["serve", way.name()]).arg(folder.path()))?);
    }
    let wanted = |case: &&Case| options.only.as_ref().is_none_or(|words| case.name.contains(words));
    let mut results = Vec::new();
    for case in CASES.iter().filter(wanted) {
        results.push((case, run(case, &mut servers, options)?));
    }
    report(&results, options.json)
}

/// Writes a picture of slopes.
fn store(path: &Path, width: usize, height: usize) -> Result<()> {
    let mut bytes = format!("P6\n{width} {height}\n255\n").into_bytes();
    bytes.extend((0..width * height * 3).map(|place| (place / 3 + place % 3 * 80 + place / 5000) as u8));
    std::fs::write(path, bytes).with_context(|| path.display().to_string())
}

/// Processor time of a request in microseconds, for each server, round by round.
type Times = BTreeMap<&'static str, Vec<f64>>;

/// Runs all servers in turns, after their answers were compared.
fn run(case: &Case, servers: &mut [Server], options: &Options) -> Result<Times> {
    let expected = Client::connect(servers[0].address)?.body(case.path)?;
    for server in &servers[1..] {
        ensure!(
            Client::connect(server.address)?.body(case.path)? == expected,
            "{}: another answer",
            server.name
        );
    }
    let each = (options.volume << 20).div_ceil(case.bytes).div_ceil(options.connections as u64);
    let mut times = Times::new();
    for round in 0..=options.rounds {
        for server in servers.iter() {
            let time = server.measure(case.path, expected.len(), options.connections, each)?;
            // The first round warms up.
            if round > 0 {
                times.entry(server.name).or_default().push(time);
            }
        }
    }
    Ok(times)
}

/// A server, killed when dropped.
struct Server {
    name: &'static str,
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(name: &'static str, command: &mut Command) -> Result<Server> {
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| name.to_owned())?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut line)?;
        let address =
            line.trim_end().strip_prefix("ready http=http://").and_then(|line| line.strip_suffix('/'));
        let Some(address) = address else { bail!("{name} did not start: {line:?}") };
        Ok(Server { name, address: address.parse()?, child })
    }

    /// Processor time of a request in microseconds: `each` requests over each of so many connections.
    fn measure(&self, path: &str, length: usize, connections: usize, each: u64) -> Result<f64> {
        let clients = (0..connections).map(|_| Client::connect(self.address)).collect::<Result<Vec<_>>>()?;
        // Threads that serve them are there before, and behind.
        let mut clients: Vec<_> = clients;
        clients.iter_mut().try_for_each(|client| client.skip(path, length))?;
        let before = self.processor_ns()?;
        std::thread::scope(|scope| {
            let asked = clients
                .iter_mut()
                .map(|client| scope.spawn(move || (0..each).try_for_each(|_| client.skip(path, length))));
            let asked: Vec<_> = asked.collect();
            asked.into_iter().try_for_each(|asked| asked.join().expect("a client does not panic"))
        })?;
        let spent = self.processor_ns()? - before;
        Ok(spent as f64 / 1000.0 / (each * connections as u64) as f64)
    }

    /// Processor time of its threads (proc_schedstat).
    fn processor_ns(&self) -> Result<u64> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
        let mut sum = 0;
        for thread in threads {
            // A thread may just have ended.
            let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else { continue };
            sum += text.split(' ').next().unwrap_or_default().parse::<u64>().context("schedstat")?;
        }
        Ok(sum)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is ours, and nobody waits for it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Median, and half of the distance between the quartiles in percent of it.
fn median(times: &[f64]) -> (f64, f64) {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part).round() as usize];
    (at(0.5), (at(0.75) - at(0.25)) / 2.0 / at(0.5) * 100.0)
}

fn report(results: &[(&Case, Times)], is_json: bool) -> Result<()> {
    let mut table = Table::new();
    let others: Vec<_> = Way::ALL.iter().map(|way| way.name()).collect();
    let names = others.iter().flat_map(|name| [format!("{name} µs"), "ratio".to_owned()]);
    table.set_header(["case".to_owned(), "wirepath-images µs".to_owned()].into_iter().chain(names));
    let mut all = Vec::new();
    for (case, times) in results {
        let ours = &times["wirepath-images"];
        let (middle, spread) = median(ours);
        let mut row = vec![case.name.to_owned(), format!("{middle:.0} ±{spread:.0} %")];
        for name in &others {
            let (middle, spread) = median(&times[name]);
            let ratios: Vec<f64> = ours.iter().zip(&times[name]).map(|(ours, other)| ours / other).collect();
            row.extend([format!("{middle:.0} ±{spread:.0} %"), format!("{:.2}", median(&ratios).0)]);
        }
        table.add_row(row);
        all.push(json!({"case": case.name, "path": case.path, "cpu_us_per_request": times}));
    }
    if is_json {
        println!("{:#}", json!(all))
    } else {
        println!("{table}")
    }
    Ok(())
}
