//! Processor time of servers of applications for each request, and the time until the answer, in interleaved rounds: what
//! the benches of the picture and the record server share.

mod client;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

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

/// Times of requests in a round, for each server, round by round.
pub type Times = BTreeMap<&'static str, Vec<Round>>;

/// Mean times of a request in a round, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Processor time of the server.
    pub cpu_us: f64,
    /// Time from the request to the end of the answer, with requests over the other connections beside it.
    pub answer_us: f64,
}

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
            let times_of_round = server.measure(case.path, body.len(), options.connections, each)?;
            // The first round warms up.
            if round > 0 {
                times.entry(server.name).or_default().push(times_of_round);
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

    /// Times of a request: `each` requests over each of so many connections.
    fn measure(&self, path: &str, length: usize, connections: usize, each: u64) -> Result<Round> {
        let clients = (0..connections).map(|_| Client::connect(self.address)).collect::<Result<Vec<_>>>()?;
        // Threads that serve them are there before, and behind.
        let mut clients: Vec<_> = clients;
        clients.iter_mut().try_for_each(|client| client.skip(path, length))?;
        let (before, begun) = (self.processor_ns()?, Instant::now());
        std::thread::scope(|scope| {
            let asked = clients
                .iter_mut()
                .map(|client| scope.spawn(move || (0..each).try_for_each(|_| client.skip(path, length))));
            let asked: Vec<_> = asked.collect();
            asked.into_iter().try_for_each(|asked| asked.join().expect("a client does not panic"))
        })?;
        let (spent, took) = (self.processor_ns()? - before, begun.elapsed());
        Ok(Round {
            cpu_us: spent as f64 / 1000.0 / (each * connections as u64) as f64,
            answer_us: took.as_secs_f64() * 1e6 / each as f64,
        })
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
    let answers = ["answer after µs".to_owned(), "ratios".to_owned()];
    table.set_header(["case".to_owned(), format!("{first} µs")].into_iter().chain(names).chain(answers));
    let cpu = |round: &Round| round.cpu_us;
    let answer = |round: &Round| round.answer_us;
    let mut all = Vec::new();
    for (case, times) in results {
        let of = |name: &str, time: fn(&Round) -> f64| times[name].iter().map(time).collect::<Vec<_>>();
        let ratio = |name: &str, time: fn(&Round) -> f64| {
            let ours = of(first, time).into_iter().zip(of(name, time));
            median(&ours.map(|(ours, other)| ours / other).collect::<Vec<_>>()).0
        };
        let shown = |(middle, spread): (f64, f64)| format!("{middle:.0} ±{spread:.0} %");
        let mut row = vec![case.name.to_owned(), shown(median(&of(first, cpu)))];
        for name in &others {
            row.extend([shown(median(&of(name, cpu))), format!("{:.2}", ratio(name, cpu))]);
        }
        let ratios: Vec<_> = others.iter().map(|name| format!("{:.2}", ratio(name, answer))).collect();
        row.extend([shown(median(&of(first, answer))), ratios.join(", ")]);
        table.add_row(row);
        let each = |time: fn(&Round) -> f64| {
            times.keys().map(|name| (*name, of(name, time))).collect::<BTreeMap<_, _>>()
        };
        all.push(json!({
            "case": case.name, "path": case.path,
            "cpu_us_per_request": each(cpu), "answer_us_per_request": each(answer),
        }));
    }
    if is_json { println!("{:#}", json!(all)) } else { println!("{table}") }
}
