//! `wirepath relay --listen … --cache … --origin …`: a caching HTTP proxy.

mod counts;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::Args;
use clap::error::ErrorKind;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use wirepath_engine::{BlockingPool, Engine, EngineOptions};
use wirepath_relay::Endpoint;
use wirepath_relay::cache::{Cache, CacheOptions, CacheStatus, Origin};

use super::door::Door;
use super::running::Showing;
use super::{Listening, report};
use crate::ending::Ending;
use crate::log::Log;
use crate::output::Output;
use crate::{format, number, terminal};

/// Exit code when draining did not end in time, or was cut short by a second signal.
const CUT: u8 = 3;

/// How long the end waits for files that are not kept to be removed; what is left, the next start removes.
const TIDY_LIMIT: Duration = Duration::from_secs(1);

/// What a cache is told.
#[derive(Args)]
pub(super) struct Caching {
    /// Answer HTTP clients from DIR, which is made if need be, and keep there what the origin is asked for
    #[arg(long, value_name = "DIR", requires_all = ["origin", "addresses"])]
    cache: Option<PathBuf>,

    /// Whom a cache asks: http://HOST[:PORT][/PATH]
    #[arg(long, value_name = "URL", requires = "cache")]
    origin: Option<Origin>,

    /// Most that a cache keeps; the least recently used goes first
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = number::cache_size, requires = "cache")]
    cache_size: ByteSize,

    /// How long the origin may take to begin an answer, pause within one, and take nothing of a request's body
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = number::some_time, requires = "cache")]
    origin_timeout: Duration,

    /// How long a client of a cache may take nothing of an answer, or send nothing of a body, before its connection is reset
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = number::some_time, requires = "cache")]
    client_timeout: Duration,

    /// Most clients of a cache, and most fetches, at a time [default: what the limit of open files allows, 4096 at most]
    #[arg(long, value_name = "N", value_parser = number::at_least_one, requires = "cache")]
    max_clients: Option<NonZeroUsize>,
}

impl Caching {
    pub(super) fn is_meant(&self) -> bool {
        self.cache.is_some()
    }

    /// Serves until a signal comes, then drains.
    pub(super) fn run(self, listening: &Listening, showing: &Showing) -> Result<ExitCode> {
        let addresses = &listening.addresses;
        if let Some(socket) = addresses.iter().find(|address| !address.is_tcp()) {
            // A wrong argument like any other, which the parser cannot see before it knows what it is for.
            let words = format!("--listen {socket}: a cache takes HOST:PORT or :PORT, and no Unix socket\n");
            clap::Error::raw(ErrorKind::ValueValidation, words).exit();
        }
        let output = Output::prepare(showing.json.as_deref())?;
        let log = Log::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let options =
            EngineOptions { threads: listening.threads()?, pool_threads: 4, ..EngineOptions::default() };
        let engine = Arc::new(Engine::start(options).context("starting threads")?);
        let cache = Cache::open(self.options()?, Arc::clone(&engine))?;
        let begun = Instant::now();
        let open = |address| {
            Door::open(address, Arc::clone(&engine), |metrics, status| {
                counts::register(&cache, metrics, status)
            })
        };
        let metrics = showing.metrics.map(open).transpose()?;
        if let Some(door) = &metrics {
            tracing::info!("metrics at http://{}/metrics", door.address());
        }
        let says_ready = !matches!(output, Output::Standard);
        let served = runtime.block_on(serve(&cache, addresses, listening.drain, says_ready));
        runtime.shutdown_timeout(TIDY_LIMIT);
        tidy(engine.pool());
        let status = cache.status();
        let in_time = served?;
        output.write(|| as_json(&status, begun.elapsed()))?;
        tracing::info!("{}", in_words(&status));
        log.end();
        Ok(if in_time { ExitCode::SUCCESS } else { ExitCode::from(CUT) })
    }

    fn options(self) -> Result<CacheOptions> {
        Ok(CacheOptions {
            folder: self.cache.context("--cache names the folder")?,
            budget_bytes: self.cache_size.as_u64(),
            origin: self.origin.context("--origin says whom to ask")?,
            origin_limit: self.origin_timeout,
            client_limit: self.client_timeout,
            connections: self.max_clients,
        })
    }
}

/// Serves on all addresses until told to end; answers whether all answers had ended in time.
async fn serve(cache: &Cache, addresses: &[Endpoint], limit: Duration, says_ready: bool) -> Result<bool> {
    let mut ending = Ending::watch()?;
    // A resolver may take long.
    let listeners = tokio::select! {
        listeners = listen(addresses) => listeners?,
        _ = ending.signal() => return Ok(true),
    };
    let doors = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    cache.listens_at(doors)?;
    if says_ready {
        announce(&listeners)?;
    }
    let (drain, draining) = watch::channel(false);
    let mut doors = JoinSet::new();
    for listener in listeners {
        let (cache, draining) = (cache.clone(), draining.clone());
        doors.spawn(async move { cache.serve(listener, draining).await });
    }
    ending.signal().await;
    tracing::info!("draining");
    drain.send_replace(true);
    Ok(tokio::select! {
        _ = doors.join_all() => true,
        () = tokio::time::sleep(limit) => false,
        _ = ending.signal() => false,
    })
}

/// Tells whoever started us where clients come in: the one line on standard output.
fn announce(listeners: &[TcpListener]) -> Result<()> {
    let mut line = "ready".to_owned();
    for listener in listeners {
        line += &format!(" http=http://{}/", listener.local_addr()?);
    }
    terminal::print(&format!("{line}\n"))
}

/// What it did, with the name and version of that form.
fn as_json(status: &CacheStatus, time: Duration) -> Result<String> {
    let mut written = json!({ "schema": "wirepath-relay-cache/1", "seconds": report::seconds(time) });
    if let (Value::Object(written), Value::Object(status)) = (&mut written, serde_json::to_value(status)?) {
        written.extend(status);
    }
    Ok(format!("{written:#}\n"))
}

/// What it did, in one line.
fn in_words(status: &CacheStatus) -> String {
    format!(
        "{}: {}, {}, {} shared, {} passed, {} failed; {} from the cache, {} from the origin; {}, {}",
        format::counted(status.requests, "request", "requests"),
        format::counted(status.hits + status.stale, "hit", "hits"),
        format::counted(status.misses, "miss", "misses"),
        format::count(status.shared),
        format::count(status.passed),
        format::count(status.failed),
        format::size(status.bytes_from_cache),
        format::size(status.bytes_from_origin),
        format::counted(status.entries, "entry", "entries"),
        format::size(status.bytes_kept),
    )
}

/// Listens on all addresses.
async fn listen(addresses: &[Endpoint]) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let opened = address.listen_tcp().await;
        listeners.extend(opened.with_context(|| format!("cannot listen on {address}"))?);
    }
    Ok(listeners)
}

/// Waits a little until what was not kept is removed.
fn tidy(readers: &BlockingPool) {
    let (done, is_done) = channel();
    let readers = readers.clone();
    let waiting = std::thread::Builder::new().name("tidying".to_owned()).spawn(move || {
        readers.wait_for_discarded();
        done.send(())
    });
    if waiting.is_err() || is_done.recv_timeout(TIDY_LIMIT).is_err() {
        tracing::warn!("what is not kept could not be removed in time; the next start does it");
    }
}
