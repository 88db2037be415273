//! `wirepath relay --listen … --to …`: the TCP proxy.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wirepath_net::program::{Log, Signals};
use wirepath_relay::{Balance, Endpoint, HealthOptions, Proxy, ProxyStatus};

use super::{Listening, Showing, refuse, without_address};
use crate::exit;
use crate::output::Output;
use crate::{format, terminal, values};

/// Options of the TCP proxy.
#[derive(Args)]
pub(super) struct ProxyOptions {
    /// Backend to connect clients to: HOST:PORT or unix:PATH; may be repeated
    #[arg(long, value_name = "BACKEND", value_parser = without_address(Endpoint::to_connect), requires = "addresses")]
    to: Vec<Endpoint>,

    /// Choice between several backends: roundrobin, leastconn (fewest connections), random [default:
    /// roundrobin]
    #[arg(long, value_name = "BALANCE", requires = "to")]
    balance: Option<Balance>,

    /// Time limit for connecting to a backend, before the next one is tried
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = values::positive_time, requires = "to")]
    connect_timeout: Duration,

    /// End connections without progress in either direction after this time; 0s: never
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration, requires = "to")]
    idle_timeout: Duration,

    /// Maximum number of connections; further ones wait [default: up to 20000, as far as the limit of open
    /// files allows]
    #[arg(long, value_name = "N", value_parser = values::positive_count, requires = "to")]
    max_connections: Option<NonZeroUsize>,

    /// Interval of health checks [default: 2s; disabled with a single backend]
    #[arg(long, value_name = "TIME", value_parser = values::positive_time, requires = "to")]
    health_interval: Option<Duration>,

    /// Consecutive successful connections (checks or clients) until a backend is up [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "to")]
    rise: Option<u32>,

    /// Consecutive failed connections (checks or clients) until a backend is down [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "to")]
    fall: Option<u32>,

    /// Send the client's address to backends (PROXY protocol, version 2)
    #[arg(long, requires = "to")]
    send_proxy: bool,

    /// Expect the client's address from clients (PROXY protocol, version 1 or 2)
    #[arg(long, requires = "to")]
    accept_proxy: bool,
}

impl ProxyOptions {
    pub(super) fn is_selected(&self) -> bool {
        !self.to.is_empty()
    }

    /// Relays connections until a signal, then drains.
    pub(super) fn run(self, listening: &Listening, showing: &Showing) -> Result<ExitCode> {
        let options = self.options(listening)?;
        let output = Output::prepare(showing.json.as_deref())?;
        let log = Log::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let says_ready = !matches!(output, Output::Standard);
        let relayed = runtime.block_on(relay(options, showing.metrics, says_ready, &log));
        // Does not wait for a running resolver.
        runtime.shutdown_background();
        let code = relayed.and_then(|relayed| {
            let Some((status, in_time)) = relayed else {
                tracing::info!("stopped before listening");
                return Ok(ExitCode::SUCCESS);
            };
            tracing::info!("{}", summary(&status));
            output.write(|| Ok(format!("{:#}\n", status.json())))?;
            Ok(if in_time { ExitCode::SUCCESS } else { ExitCode::from(exit::INCOMPLETE) })
        });
        log.end();
        code
    }

    fn options(self, listening: &Listening) -> Result<wirepath_relay::ProxyOptions> {
        let mut earlier = HashSet::new();
        if let Some(duplicate) = self.to.iter().find(|backend| !earlier.insert(backend.to_string())) {
            refuse(&format!("duplicate backend {duplicate}; name each backend once"));
        }
        // With a single backend, checks change nothing, and some servers accept only a single connection.
        let is_alone = self.to.len() == 1;
        let interval = self.health_interval.or((!is_alone).then_some(Duration::from_secs(2)));
        if is_alone && self.balance.is_some() {
            refuse("--balance needs several backends");
        }
        if interval.is_none() && self.rise.or(self.fall).is_some() {
            refuse("--rise and --fall need health checks; with a single backend, add --health-interval");
        }
        let (rise, fall) = (self.rise.unwrap_or(2), self.fall.unwrap_or(3));
        Ok(wirepath_relay::ProxyOptions {
            listen: listening.addresses.clone(),
            backends: self.to,
            balance: self.balance.unwrap_or_default(),
            threads: listening.threads()?,
            connect_timeout: self.connect_timeout,
            idle_timeout: Some(self.idle_timeout).filter(|limit| !limit.is_zero()),
            max_connections: self.max_connections.map(NonZeroUsize::get),
            health: HealthOptions { interval, rise, fall },
            send_proxy: self.send_proxy,
            accept_proxy: self.accept_proxy,
            drain: listening.drain,
        })
    }
}

/// Relays until a signal, and then drains. Returns the status and whether all connections ended in time; None
/// if a signal was received before listening.
async fn relay(
    options: wirepath_relay::ProxyOptions,
    metrics: Option<SocketAddr>,
    says_ready: bool,
    log: &Log,
) -> Result<Option<(ProxyStatus, bool)>> {
    let mut signals = Signals::watch()?;
    // Resolving may take long, so a signal can interrupt it.
    let proxy = tokio::select! {
        proxy = Proxy::start(options) => proxy?,
        _ = signals.next() => return Ok(None),
    };
    let _endpoint = metrics.map(|address| proxy.open_metrics(address)).transpose()?;
    if says_ready {
        let addresses: Vec<String> =
            proxy.listening().iter().map(|address| format!(" listen={address}")).collect();
        terminal::print(&format!("ready{}\n", addresses.concat()))?;
    }
    let losses = tokio::spawn(log.losses().report());
    let view = proxy.view();
    let on_signal = || {
        let open = view.status().counts.connections;
        tracing::info!("draining {}", format::counted(open, "connection", "connections"));
    };
    let run = |stopped| proxy.run(async { drop(stopped.await) });
    let in_time = signals.run_until_drained(run, on_signal).await == Some(true);
    losses.abort();
    Ok(Some((view.status().at_end(), in_time)))
}

fn summary(status: &ProxyStatus) -> String {
    let (to_backends, to_clients) = status.bytes();
    let mut words = format!(
        "{}, {} to backends, {} to clients in {}",
        format::counted(status.counts.accepted, "connection", "connections"),
        format::size(to_backends),
        format::size(to_clients),
        format::clock(status.seconds)
    );
    for (outcome, count) in status.counts.ended.named() {
        match outcome {
            _ if count == 0 => {}
            "finished" => {}
            "cut" => words += &format!(", {} reset at the end", format::count(count)),
            _ => words += &format!(", {} {}", format::count(count), outcome.replace('_', " ")),
        }
    }
    words
}
