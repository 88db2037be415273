//! `wirepath relay --listen … --to …`: a TCP proxy.

mod counts;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use wirepath_relay::{Balance, Endpoint, HealthOptions, ProxyOptions, ProxyStatus};

use super::door::Door;
use super::running::Showing;
use super::{Listening, refuse, said_once};
use crate::ending::Ending;
use crate::log::Log;
use crate::output::Output;
use crate::{format, number, terminal};

/// Exit code when connections were cut, as of `wirepath serve`.
const CUT: u8 = 3;

/// Where connections come in and go to, and what holds for them.
#[derive(Args)]
pub(super) struct Proxy {
    /// Connect them to this backend: HOST:PORT or unix:PATH; may be given more than once
    #[arg(long, value_name = "BACKEND", value_parser = said_once(Endpoint::to_connect), requires = "addresses")]
    to: Vec<Endpoint>,

    /// Which of several backends gets a connection: roundrobin, leastconn (fewest connections), random [default: roundrobin]
    #[arg(long, value_name = "BALANCE", requires = "to")]
    balance: Option<Balance>,

    /// How long to wait for a backend before the next is tried
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = number::some_time, requires = "to")]
    connect_timeout: Duration,

    /// End a connection when nothing has moved either way for so long; 0s for never
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = humantime::parse_duration, requires = "to")]
    idle_timeout: Duration,

    /// Connections at a time; more wait to be taken [default: what the limit of open files allows, 20000 at most]
    #[arg(long, value_name = "N", value_parser = number::at_least_one, requires = "to")]
    max_connections: Option<NonZeroUsize>,

    /// Time between two checks of a backend [default: 2s, and no checks of one that is alone]
    #[arg(long, value_name = "TIME", value_parser = number::some_time, requires = "to")]
    health_interval: Option<Duration>,

    /// Connections in a row, checks and clients' alike, that bring a backend back that is checked [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "to")]
    rise: Option<u32>,

    /// Connections in a row, checks and clients' alike, that have to fail before a backend that is checked counts as down [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), requires = "to")]
    fall: Option<u32>,

    /// Tell backends who the client is: PROXY protocol, version 2
    #[arg(long, requires = "to")]
    send_proxy: bool,

    /// Have clients say who they are: PROXY protocol, version 1 or 2
    #[arg(long, requires = "to")]
    accept_proxy: bool,
}

impl Proxy {
    /// Whether this is what is asked for.
    pub(super) fn is_meant(&self) -> bool {
        !self.to.is_empty()
    }

    /// Relays connections until a signal comes and they have ended.
    pub(super) fn run(self, listening: &Listening, showing: &Showing) -> Result<ExitCode> {
        let options = self.options(listening)?;
        let output = Output::prepare(showing.json.as_deref())?;
        let log = Log::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let says_ready = !matches!(output, Output::Standard);
        let relayed = runtime.block_on(relay(options, showing.metrics, says_ready, &log));
        // A resolver that does not answer is not waited for.
        runtime.shutdown_background();
        let code = relayed.and_then(|relayed| {
            let Some((status, in_time)) = relayed else {
                tracing::info!("stopped before it listened");
                return Ok(ExitCode::SUCCESS);
            };
            tracing::info!("{}", in_words(&status));
            output.write(|| Ok(format!("{}\n", serde_json::to_string_pretty(&status)?)))?;
            Ok(if in_time { ExitCode::SUCCESS } else { ExitCode::from(CUT) })
        });
        log.end();
        code
    }

    fn options(self, listening: &Listening) -> Result<ProxyOptions> {
        let is_known = |place: usize| self.to[..place].contains(&self.to[place]);
        if let Some(place) = (0..self.to.len()).find(|place| is_known(*place)) {
            refuse(&format!(
                "the backend {} is there twice; give each once, for each is counted by its name",
                self.to[place]
            ));
        }
        // A check changes nothing where there is no choice, and some who listen take one connection only.
        let is_alone = self.to.len() == 1;
        let interval = self.health_interval.or((!is_alone).then_some(Duration::from_secs(2)));
        if is_alone && self.balance.is_some() {
            refuse("--balance chooses between backends, and there is one");
        }
        if interval.is_none() && self.rise.or(self.fall).is_some() {
            refuse(
                "--rise and --fall count where backends are checked; one that is alone is with --health-interval",
            );
        }
        let (rise, fall) = (self.rise.unwrap_or(2), self.fall.unwrap_or(3));
        Ok(ProxyOptions {
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

/// Relays until told to end; answers what was done, and whether all connections ended before. None if it ended before it listened.
async fn relay(
    options: ProxyOptions,
    metrics: Option<SocketAddr>,
    says_ready: bool,
    log: &Log,
) -> Result<Option<(ProxyStatus, bool)>> {
    let mut ending = Ending::watch()?;
    // A resolver may take long.
    let proxy = tokio::select! {
        proxy = wirepath_relay::Proxy::start(options) => proxy?,
        _ = ending.signal() => return Ok(None),
    };
    let _metrics = match metrics {
        Some(address) => Some(open_metrics(address, &proxy).await?),
        None => None,
    };
    if says_ready {
        let doors: Vec<String> = proxy.listening().iter().map(|door| format!(" listen={door}")).collect();
        terminal::print(&format!("ready{}\n", doors.concat()))?;
    }
    let losses = tokio::spawn(log.losses().tell());
    let view = proxy.view();
    let (told, tell) = tokio::sync::oneshot::channel::<()>();
    let drained = proxy.run(async move { _ = tell.await });
    tokio::pin!(drained);
    let mut told = Some(told);
    let in_time = loop {
        tokio::select! {
            in_time = &mut drained => break in_time,
            _ = ending.signal() => match told.take() {
                Some(first) => {
                    let open = view.status().connections.open;
                    tracing::info!("draining: {}", format::counted(open, "connection is open", "connections are open"));
                    drop(first);
                }
                None => break false, // the second
            },
        }
    };
    losses.abort();
    Ok(Some((view.status().at_its_end(), in_time)))
}

/// Opens the door for `--metrics`, which has a runtime of its own.
async fn open_metrics(address: SocketAddr, proxy: &wirepath_relay::Proxy) -> Result<Door> {
    let (engine, view) = (Arc::clone(proxy.engine()), proxy.view());
    let open =
        move || Door::open(address, engine, |metrics, status| counts::register(&view, metrics, status));
    let door = tokio::task::spawn_blocking(open).await??;
    tracing::info!("metrics at http://{}/metrics", door.address());
    Ok(door)
}

/// One line.
fn in_words(status: &ProxyStatus) -> String {
    let connections = &status.connections;
    let mut words = format!(
        "{}, {} to backends, {} to clients in {}",
        format::counted(connections.total, "connection", "connections"),
        format::size(status.bytes_to_backends),
        format::size(status.bytes_to_clients),
        format::clock(status.seconds)
    );
    for (count, what) in [
        (connections.aborted, "aborted"),
        (connections.timed_out, "timed out"),
        (connections.refused, "refused"),
        (connections.malformed, "malformed"),
        (connections.failed, "failed"),
        (connections.cut, "cut"),
    ] {
        if count > 0 {
            words += &format!(", {} {what}", format::count(count));
        }
    }
    words
}
