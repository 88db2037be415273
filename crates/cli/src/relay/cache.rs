//! `wirepath relay --listen … --cache … --origin …`: the caching HTTP proxy.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::Args;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use wirepath_engine::{BlockingPool, Engine, EngineOptions};
use wirepath_net::program::{Log, Signals, end_after_panic};
use wirepath_relay::Endpoint;
use wirepath_relay::cache::{self, Cache, CacheStatus, Origin};

use super::{Listening, Showing, refuse_value};
use crate::exit;
use crate::output::Output;
use crate::{format, terminal, values};

/// Time limit for removing temporary files at the end. The next start removes the rest.
const CLEANUP_LIMIT: Duration = Duration::from_secs(1);

/// Options of the HTTP cache.
#[derive(Args)]
pub(super) struct CacheOptions {
    /// Cache folder, created if needed
    #[arg(long, value_name = "DIR", requires_all = ["origin", "addresses"])]
    cache: Option<PathBuf>,

    /// Origin server: http://HOST[:PORT][/PATH]
    #[arg(long, value_name = "URL", requires = "cache")]
    origin: Option<Origin>,

    /// Maximum size of the cache; the least recently used entries are evicted
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = values::cache_size, requires = "cache")]
    cache_size: ByteSize,

    /// Time limit for the origin to begin a response, to continue it, and to read a request's body
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::positive_time, requires = "cache")]
    origin_timeout: Duration,

    /// Reset a client's connection after this time without progress of a response or a request's body
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::positive_time, requires = "cache")]
    client_timeout: Duration,

    /// Maximum number of clients, and of fetches [default: up to 4096, as far as the limit of open files
    /// allows]
    #[arg(long, value_name = "N", value_parser = values::positive_count, requires = "cache")]
    max_clients: Option<NonZeroUsize>,
}

impl CacheOptions {
    pub(super) fn is_selected(&self) -> bool {
        self.cache.is_some()
    }

    /// Serves until a signal, then drains.
    pub(super) fn run(self, listening: &Listening, showing: &Showing) -> Result<ExitCode> {
        let addresses = &listening.addresses;
        if let Some(socket) = addresses.iter().find(|address| !address.is_tcp()) {
            refuse_value(&format!("--listen {socket}: a cache needs HOST:PORT or :PORT, not a Unix socket"));
        }
        let output = Output::prepare(showing.json.as_deref())?;
        let log = Log::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let options = EngineOptions {
            threads: listening.threads()?,
            pool_threads: 4,
            on_panic: Some(end_after_panic),
            ..EngineOptions::default()
        };
        let engine = Arc::new(Engine::start(options).context("cannot start the engine")?);
        let cache = Cache::open(self.options()?, Arc::clone(&engine))?;
        let begun = Instant::now();
        let _endpoint = showing.metrics.map(|address| cache.open_metrics(address)).transpose()?;
        let says_ready = !matches!(output, Output::Standard);
        let served = runtime.block_on(serve(&cache, addresses, listening.drain, says_ready));
        runtime.shutdown_timeout(CLEANUP_LIMIT);
        clean_up(engine.pool());
        let status = cache.status();
        let in_time = served?;
        output.write(|| Ok(format!("{:#}\n", report(&status, begun.elapsed()))))?;
        tracing::info!("{}", summary(&status));
        log.end();
        Ok(if in_time { ExitCode::SUCCESS } else { ExitCode::from(exit::INCOMPLETE) })
    }

    fn options(self) -> Result<cache::CacheOptions> {
        Ok(cache::CacheOptions {
            folder: self.cache.context("missing --cache")?,
            budget_bytes: self.cache_size.as_u64(),
            origin: self.origin.context("missing --origin")?,
            origin_limit: self.origin_timeout,
            client_limit: self.client_timeout,
            connections: self.max_clients,
        })
    }
}

/// Serves on all addresses until a signal, and then drains. Returns whether all responses ended in time.
async fn serve(cache: &Cache, addresses: &[Endpoint], limit: Duration, says_ready: bool) -> Result<bool> {
    let mut signals = Signals::watch()?;
    // Resolving may take long, so a signal can interrupt it.
    let listeners = tokio::select! {
        listeners = listen(addresses) => listeners?,
        _ = signals.next() => return Ok(true),
    };
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    cache.set_listeners(addresses)?;
    if says_ready {
        announce(&listeners)?;
    }
    let (drain, draining) = watch::channel(false);
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (cache, draining) = (cache.clone(), draining.clone());
        serving.spawn(async move { cache.serve(listener, draining).await });
    }
    let run = async |stopped: oneshot::Receiver<()>| {
        drop(stopped.await);
        drain.send_replace(true);
        timeout(limit, serving.join_all()).await.is_ok()
    };
    Ok(signals.run_until_drained(run, || tracing::info!("draining")).await == Some(true))
}

/// Prints the addresses of the listeners, the one line on standard output.
fn announce(listeners: &[TcpListener]) -> Result<()> {
    let mut line = "ready".to_owned();
    for listener in listeners {
        line += &format!(" http=http://{}/", listener.local_addr()?);
    }
    terminal::print(&format!("{line}\n"))
}

fn report(status: &CacheStatus, time: Duration) -> Value {
    let mut report = json!(status);
    report["schema"] = json!("wirepath-relay-cache/1");
    report["seconds"] = json!(time.as_secs_f64());
    report
}

fn summary(status: &CacheStatus) -> String {
    format!(
        "{}: {}, {}, {} shared, {} passed, {} failed; {} from the cache, {} from the origin; {}, {}",
        format::counted(status.requests, "request", "requests"),
        format::counted(status.hits + status.stale, "hit", "hits"),
        format::counted(status.misses, "miss", "misses"),
        format::count(status.shared),
        format::count(status.passed),
        format::count(status.failed),
        format::size(status.from_cache_bytes),
        format::size(status.from_origin_bytes),
        format::counted(status.entries, "entry", "entries"),
        format::size(status.kept_bytes),
    )
}

async fn listen(addresses: &[Endpoint]) -> Result<Vec<TcpListener>> {
    let mut listeners = Vec::new();
    for address in addresses {
        let opened = address.listen_tcp().await;
        listeners.extend(opened.with_context(|| format!("cannot listen on {address}"))?);
    }
    Ok(listeners)
}

/// Waits until temporary files are removed, within a limit.
fn clean_up(pool: &BlockingPool) {
    let (done, is_done) = channel();
    let pool = pool.clone();
    let waiting = std::thread::Builder::new().name("cleanup".to_owned()).spawn(move || {
        pool.wait_for_discarded();
        done.send(())
    });
    if waiting.is_err() || is_done.recv_timeout(CLEANUP_LIMIT).is_err() {
        tracing::warn!("cannot remove all temporary files in time; the next start removes them");
    }
}
