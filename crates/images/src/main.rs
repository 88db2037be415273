//! `wirepath-images`: serves stored pictures, parts of them, gray or smaller ones.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;
use wirepath_engine::{Engine, EngineOptions};
use wirepath_images::PictureSite;
use wirepath_net::folder::Folder;
use wirepath_net::http::{AccessLog, Endpoint, HttpOptions, Listener};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_net::{DescriptorBudget, RuntimeThreads, bind, raise_descriptor_limit};

/// Time limit of draining, after which connections are cut.
const DRAIN: Duration = Duration::from_secs(10);

/// Exit code if connections were cut.
const INCOMPLETE: u8 = 3;

/// Serves stored pictures, parts of them, gray or smaller ones
#[derive(Parser)]
#[command(
    name = "wirepath-images",
    version,
    max_term_width = 100,
    after_help = "\
Pictures are binary PPM and PGM files of 8 or 16 bits per sample, and
uncompressed TIFF and BigTIFF (COG) files of 8 bits, in strips or tiles.
Parts and what is computed are answered as PPM or PGM.

Whole:   curl -O http://HOST:8090/folder/picture.ppm
Part:    .../picture.ppm?crop=X,Y,WIDTH,HEIGHT
Gray:    .../picture.ppm?gray
Smaller: .../picture.ppm?scale=1/3&method=integral   (means of squares)
         .../picture.ppm?scale=4/7&method=middle     (middle pixels)
         .../picture.ppm?scale=4/7&method=linear     (linear interpolation)
All of them together are done in this order: crop, gray, scale.
Size:    .../picture.ppm?info                        (JSON)
Look:    .../picture.ppm?view, or a folder, in a browser
State:   /api/status, /metrics

The log goes to standard error; RUST_LOG sets its level (default: info).
When it listens, one line goes to standard output: ready http=http://HOST:PORT/
SIGTERM or SIGINT drains for at most 10 s; a second signal ends at once.

Exit codes: 0 success; 1 failure, standard error has the reason; 2 invalid
arguments; 3 connections were cut when the drain timed out"
)]
struct Arguments {
    /// Folder whose pictures are served
    folder: PathBuf,

    /// Address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:8090")]
    listen: SocketAddr,

    /// Threads that serve connections, and as many engine threads [default: the number of cores]
    #[arg(long, value_name = "NUMBER")]
    threads: Option<std::num::NonZeroUsize>,

    /// Most connections
    #[arg(long, value_name = "NUMBER", default_value_t = 4096)]
    max_connections: usize,

    /// Most connections from one address (of IPv6: from one /64 network)
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    max_connections_per_address: usize,

    /// Log each request
    #[arg(long)]
    access_log: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // If standard error is closed, the exit code has to do.
            drop(writeln!(io::stderr(), "wirepath-images: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<u8> {
    // A reader of the log that stops reading must not block the threads that serve.
    let (writer, _writing) = tracing_appender::non_blocking(io::stderr());
    let filter = EnvFilter::try_from_default_env();
    let invalid = std::env::var_os(EnvFilter::DEFAULT_ENV).is_some() && filter.is_err();
    tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|_| EnvFilter::new("info")))
        .with_writer(writer)
        .with_ansi(io::stderr().is_terminal())
        .init();
    if invalid {
        tracing::warn!("invalid RUST_LOG; using info");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(serve(arguments));
    // A thread may wait for storage.
    runtime.shutdown_background();
    code
}

/// Serves until a signal; returns the exit code.
async fn serve(arguments: Arguments) -> Result<u8> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let folder = Folder::open(&arguments.folder)?;
    let threads = match arguments.threads {
        Some(threads) => threads.get(),
        None => available_parallelism().context("cannot find the number of cores; use --threads")?.get(),
    };
    let engine = Arc::new(Engine::start(EngineOptions { threads, ..EngineOptions::default() })?);
    let descriptors = DescriptorBudget::new(raise_descriptor_limit(), false);
    let listener =
        Listener::new(options(&arguments)).within(descriptors).on(RuntimeThreads::start("http", threads)?);
    let (mut metrics, mut status) = (Metrics::default(), Status::new(Instant::now()));
    listener.register(&mut metrics, &mut status);
    let site = PictureSite::new(folder, Endpoint::new(metrics, status));
    let listen = arguments.listen;
    let socket =
        bind(listen).with_context(|| format!("cannot listen on {listen}; choose another with --listen"))?;
    announce(socket.local_addr()?)?;
    let (drain, draining) = watch::channel(false);
    let serving = listener.serve(socket, site, engine, draining);
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => return Ok(0),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("draining");
    drain.send_replace(true);
    let in_time = tokio::select! {
        drained = tokio::time::timeout(DRAIN, serving) => drained.is_ok(),
        _ = terminate.recv() => false,
        _ = interrupt.recv() => false,
    };
    Ok(if in_time { 0 } else { INCOMPLETE })
}

fn options(arguments: &Arguments) -> HttpOptions {
    HttpOptions {
        max_connections: arguments.max_connections,
        max_connections_per_address: arguments.max_connections_per_address,
        access_log: arguments.access_log.then_some(AccessLog::Text),
        ..HttpOptions::default()
    }
}

/// Announces that it listens: the one line on standard output.
fn announce(address: SocketAddr) -> Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "ready http=http://{address}/")
        .and_then(|()| output.flush())
        .context("cannot write to standard output")
}
