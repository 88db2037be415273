//! `wirepath-records`: serves Arrow records, each client in the format that it asks for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytesize::ByteSize;
use clap::Parser;
use tokio::sync::watch;
use wirepath_net::ClientLimits;
use wirepath_net::folder::Folder;
use wirepath_net::program::{self, Service, ServiceOptions, announce, bind_option, listen_address};
use wirepath_records::{Budget, LineListener, RecordSite, Records};

/// Serves Arrow records, to each client in the format that it requests
#[derive(Parser)]
#[command(
    name = "wirepath-records",
    version = env!("WIREPATH_VERSION"), // with the commit, from the build script
    max_term_width = 100,
    mut_arg("access_log", |log| {
        log.help("Log each HTTP request: method, path, query, status, bytes, time and agent [default: no access log]")
    }),
    mut_arg("http", |http| http.required(false).default_value("0.0.0.0:8091")),
    after_help = "\
Records are files and streams of Arrow IPC (.arrow, .feather, .arrows).

Whole:    curl -O http://HOST:8091/folder/flights.arrow
Columns:  .../flights.arrow?select=carrier,origin
Computed: .../flights.arrow?select=carrier,meals=passengers+crew
Filtered: .../flights.arrow?select=carrier&where=origin='FRA'
Form:     .../flights.arrow?select=carrier&form=stream   (or file)
Format:   POST a description in XML or JSON
Lines:    with --tcp: echo 'flights.arrow?select=carrier' | nc HOST PORT
Schema:   .../flights.arrow?schema                       (JSON)
State:    /api/status, /metrics

The log goes to standard error; RUST_LOG sets its level (default: info).
When all listeners are open, one line goes to standard output: ready http=http://HOST:PORT/ [tcp=HOST:PORT]
SIGTERM, SIGINT or SIGHUP drains for at most 10 s; a second signal ends at once.

Exit codes: 0 success; 1 failure, standard error has the reason; 2 invalid
arguments; 3 connections were reset when the drain timed out"
)]
struct Arguments {
    /// Folder of the records; write ./NAME if its name is that of a command
    folder: PathBuf,

    /// Listen address for clients that send a line PATH?QUERY and get an Arrow stream
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address)]
    tcp: Option<SocketAddr>,

    /// Budget for the unsent parts of all answers, in memory (1 MiB of each) and in temporary files
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    answer_room: ByteSize,

    /// Time limit for computing an answer
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = answer_time)]
    answer_time: Duration,

    #[command(flatten)]
    service: ServiceOptions,
}

/// Longest time limit: more is none.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses a time limit of answers.
fn answer_time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok();
    time.filter(|time| !time.is_zero() && *time <= MAX_ANSWER_TIME)
        .ok_or_else(|| "expected a time with its unit, such as 500ms or 60s, from 1ns to 1day".to_owned())
}

fn main() {
    let arguments = wirepath_manual::parse::<Arguments>();
    program::run("wirepath-records", |draining| serve(arguments, draining))
}

async fn serve(arguments: Arguments, draining: watch::Receiver<bool>) -> Result<()> {
    let folder = Folder::open(&arguments.folder)?;
    let Service { threads, engine, descriptors, listener, socket, endpoint } = arguments.service.start()?;
    let budget = Budget::new(arguments.answer_room.as_u64());
    let records = Records::new(folder, threads, budget, arguments.answer_time);
    let lines = arguments.tcp.map(|address| bind_option("--tcp", address)).transpose()?;
    let mut addresses = format!("http=http://{}/", socket.local_addr()?);
    if let Some(lines) = &lines {
        addresses += &format!(" tcp={}", lines.local_addr()?);
    }
    announce(&addresses)?;
    let limits = &arguments.service;
    let limits = ClientLimits::new(limits.max_connections, limits.max_connections_per_address);
    let lines = lines.map(|socket| {
        let lines = LineListener { socket, limits, descriptors };
        lines.serve(records.clone(), Arc::clone(&engine), draining.clone())
    });
    let http = listener.with_queries_in_log().serve(
        socket,
        RecordSite::new(records.clone(), endpoint),
        engine,
        draining,
    );
    match lines {
        Some(lines) => drop(tokio::join!(http, lines)),
        None => http.await,
    }
    Ok(())
}
