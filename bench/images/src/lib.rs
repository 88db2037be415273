//! Processor time of servers of applications for each request, in interleaved rounds: what the benches of the picture
//! and the record server share.

mod client;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
pub use client::Client;
use comfy_table::Table;
use serde_json::json;

/// A request.
pub struct Case {
    /// Its name in the table.
    pub name: &'static str,
    /// File and query.
    pub path: &'static str,
    /// Bytes of the file.
    pub bytes: u64,
}

/// How rounds are run.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Interleaved rounds.
    pub rounds: usize,
    /// Bytes of files, about, that each server is asked about in a round.
    pub volume: u64,
    /// Connections.
    pub connections: usize,
}

/// Processor time of a request in microseconds, for each server, round by round.
pub type Times = BTreeMap<&'static str, Vec<f64>>;

/// Runs all servers in turns, after their answers were compared: `is_same` compares two.
///
/// # Errors
/// Another answer, or a failure of a server or of the system.
pub fn run(
    case: &Case,
    servers: &[Server],
    options: &Rounds,
    is_same: impl Fn(&[u8], &[u8]) -> Result<bool>,
) -> Result<Times> {
    let bodies = servers.iter().map(|server| Client::connect(server.address)?.body(case.path));
    let bodies = bodies.collect::<Result<Vec<_>>>()?;
    for (server, body) in servers.iter().zip(&bodies).skip(1) {
        ensure!(is_same(&bodies[0], body)?, "{}: another answer to {}", server.name, case.path);
    }
    let each = options.volume.div_ceil(case.bytes).div_ceil(options.connections as u64);
    let mut times = Times::new();
    for round in 0..=options.rounds {
        for (server, body) in servers.iter().zip(&bodies) {
            let time = server.measure(case.path, body.len(), options.connections, each)?;
            // The first round warms up.
            if round > 0 {
                times.entry(server.name).or_default().push(time);
            }
        }
    }
    Ok(times)
}

/// A server, killed when dropped.
pub struct Server {
    name: &'static str,
    child: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts it, and waits until it says that it is ready.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Server> {
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

/// Prints a table, or JSON: the first server beside the others.
pub fn report(results: &[(&Case, Times)], servers: &[Server], is_json: bool) {
    let mut table = Table::new();
    let first = servers[0].name;
    let others: Vec<_> = servers[1..].iter().map(|server| server.name).collect();
    let names = others.iter().flat_map(|name| [format!("{name} µs"), "ratio".to_owned()]);
    table.set_header(["case".to_owned(), format!("{first} µs")].into_iter().chain(names));
    let mut all = Vec::new();
    for (case, times) in results {
        let ours = &times[first];
        let (middle, spread) = median(ours);
        let mut row = vec![case.name.to_owned(), format!("{middle:.0} ±{spread:.0} %")];
        for name in &others {
            let (middle, spread) = median(&times[*name]);
            let ratios: Vec<f64> = ours.iter().zip(&times[*name]).map(|(ours, other)| ours / other).collect();
            row.extend([format!("{middle:.0} ±{spread:.0} %"), format!("{:.2}", median(&ratios).0)]);
        }
        table.add_row(row);
        all.push(json!({"case": case.name, "path": case.path, "cpu_us_per_request": times}));
    }
    if is_json { println!("{:#}", json!(all)) } else { println!("{table}") }
}
