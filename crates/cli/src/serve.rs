//! `wirepath serve`.

use std::convert::Infallible;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use parking_lot::Mutex;
use sd_notify::NotifyState;
use wirepath_engine::Priority;
use wirepath_net::handed_sockets::HandedSockets;
use wirepath_net::handover::{Offer, Takeover};
use wirepath_net::program::{ListenAddress, Log, Signals};
use wirepath_server::{PopularityKeeper, Reloader, Server, ServerOptions, TlsAddresses};

use crate::confine::confine_server;
use crate::exit;
use crate::privileges::become_user;
use crate::serve_options::{FileOptions, ServeOptions};
use crate::serve_reload::Configuration;
use crate::serve_sockets::{ServeSockets, with_advice};
use crate::server_options::{ensure_module, server_options};

/// Arguments of `wirepath serve`.
#[derive(Args)]
#[command(after_help = "\
Play:      ffplay -rtsp_transport udp rtsp://HOST:8554/folder/clip.ts
Download:  curl -O http://HOST:8080/folder/clip.ts
Watch:     http://HOST:8080/status in a browser (JSON: /api/status, Prometheus: /metrics)

The log goes to standard error; RUST_LOG sets its level (default: info).
When all listeners are open, one line goes to standard output:
ready rtsp=rtsp://HOST:PORT/ http=http://HOST:PORT/, with --rtsps and --https also
rtsps=rtsps://HOST:PORT/ https=https://HOST:PORT/
SIGTERM, SIGINT or SIGHUP drains for at most 10 s; a second signal ends at once.
With --config, --users, --url-key, --auth-url, --tls-certificate or --channel, SIGHUP reads these
files again instead, and clears the cached responses of --auth-url. The SIGHUP of a closed terminal
always drains. A reload applies the configuration keys paths, archive, archive-zone, archive-gaps,
channel, folder-users, status-users, admin-users, cors, folder-cache-control,
folder-content-disposition and folder-burst-max. The log names other changed keys; they need a
restart.

Handover: a server with --handover SOCKET is replaced, without refused connections or lost sessions,
by a new server with the same options and --takeover. If the new server cannot start, it says why,
and the old server continues. The old server exits with 0 after its last session has ended, or after
--drain.
Sockets from systemd (LISTEN_FDS) are served if their FileDescriptorName= is rtsp, http, rtsps or
https.

Exit code: 0 if all sessions and downloads ended in time, 3 if some were reset.")]
pub(crate) struct Serve {
    /// Configuration file (TOML); flags take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Take the listening sockets from the running server with the same --handover; the old server keeps its
    /// sessions until they end
    #[arg(long)]
    takeover: bool,

    #[command(flatten)]
    options: ServeOptions,
}

impl Serve {
    pub(crate) fn run(self) -> Result<ExitCode> {
        // Taken before any other descriptor is opened that stays open.
        let handed =
            HandedSockets::of_systemd().context("cannot take the sockets of systemd (LISTEN_FDS)")?;
        // All arguments after `serve`. They were already parsed once.
        let flags = || std::env::args_os().skip(2).collect();
        let read = |file: &Path, flags| FileOptions::read::<Serve>(file, flags);
        let configuration = self.config.map(|file| Configuration::read(file, flags(), read)).transpose()?;
        let mut options = configuration.as_ref().map_or(self.options, Configuration::options);
        if let Some(cpus) = &options.cpus {
            cpus.set_affinity()?; // before the first thread is started, since threads inherit the affinity
        }
        // Opened before any thread is started, and before the server is confined.
        let mut sockets = ServeSockets::open(handed, &mut options, self.takeover)?;
        let (choice, user) = (options.confine.unwrap_or_default(), options.user.take());
        let options = server_options(options, ListenAddress::resolve)?;
        let file = configuration.as_ref().map(Configuration::file);
        // Before the log thread is started, since threads inherit capabilities and confinement.
        let became = user.map(|user| become_user(&user, &options, file, &mut sockets)).transpose()?;
        ensure_module(options.path)?;
        let confined = confine_server(choice, &options, file)?;
        let log = Log::start();
        for line in became.iter().chain([&confined]) {
            tracing::info!("{line}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match runtime.block_on(serve(options, sockets, configuration, log))? {}
    }
}

/// Serves until a signal and then ends the process. Returns only if the server cannot start.
async fn serve(
    options: ServerOptions,
    sockets: ServeSockets,
    configuration: Option<Configuration>,
    log: Log,
) -> Result<Infallible> {
    let ServeSockets { handed, successors, takeover } = sockets;
    let mut signals = Signals::watch()?;
    let server = Server::start(options, handed).map_err(with_advice)?;
    // Sessions that play go before requests. The server's own threads have started, and keep their priorities.
    Priority::Low.apply();
    reload_on_hang_up(&mut signals, configuration, server.reloader());
    let offer = successors.map(|listener| anyhow::Ok(Offer::new(listener, server.sockets()?))).transpose()?;
    let handed_over = hand_over(offer, server.popularity());
    // The old server continues if this server cannot announce that it is ready.
    announce(&server)?;
    if let Some(server) = takeover {
        complete(server);
    }
    tokio::spawn(log.losses().report());
    let run = |stopped| server.run(async { drop(stopped.await) }, handed_over);
    let in_time = signals.run_until_drained(run, || notify(&[NotifyState::Stopping])).await == Some(true);
    leave(log, if in_time { 0 } else { exit::INCOMPLETE })
}

/// Waits until a successor has taken over the sockets; without an offer, forever. This process notifies
/// systemd of the new main process, since systemd accepts messages from this process.
async fn hand_over(offer: Option<Offer>, popularity: PopularityKeeper) {
    let failed = match offer {
        None => None,
        Some(offer) => match offer.accept(|| popularity.keep()).await {
            Ok(process) => {
                tracing::info!(process, "listening sockets handed over");
                return notify_main(process);
            }
            Err(error) => Some(error),
        },
    };
    if let Some(error) = failed {
        tracing::error!(%error, "cannot listen on the handover socket: there will be no handover");
    }
    std::future::pending().await
}

/// Notifies systemd of its new main process.
fn notify_main(process: Option<u32>) {
    match process {
        Some(process) => notify(&[NotifyState::MainPid(process)]),
        None => tracing::warn!("the new server is in another PID namespace: systemd cannot be told its PID"),
    }
}

/// Tells the old server that this server accepts connections.
fn complete(server: Takeover) {
    match server.complete() {
        Ok(()) => tracing::info!("listening sockets taken over"),
        Err(error) => tracing::warn!(%error, "listening sockets taken over; the old server has ended"),
    }
}

/// Makes SIGHUP read the files and the configuration again, if there are any.
fn reload_on_hang_up(signals: &mut Signals, configuration: Option<Configuration>, reloader: Reloader) {
    if configuration.is_none() && !reloader.has_files() {
        return;
    }
    let reload = Arc::new(Mutex::new((configuration, reloader)));
    signals.reload_on_hang_up(move || {
        let reload = Arc::clone(&reload);
        // Each part logs its own result. Reloads run one at a time, so that an older version of a file cannot
        // be applied last.
        drop(tokio::task::spawn_blocking(move || {
            let mut reload = reload.lock();
            let (configuration, reloader) = &mut *reload;
            // First, since the files that are read again may be those of the new configuration.
            if let Some(configuration) = configuration {
                configuration.reload(reloader);
            }
            reloader.read_files();
        }));
    });
}

/// Ends the process at once. Dropping the server and the runtime would wait for threads that are waiting for
/// storage, possibly for minutes. The next start removes unfinished files in the cache.
fn leave(log: Log, code: u8) -> ! {
    log.end();
    std::process::exit(code.into())
}

/// Announces that all listeners are open: prints the one line on standard output, and notifies systemd.
fn announce(server: &Server) -> Result<()> {
    let mut line =
        format!("ready rtsp=rtsp://{}/ http=http://{}/", server.rtsp_address()?, server.http_address()?);
    let TlsAddresses { rtsps, https } = server.tls_addresses();
    for (protocol, address) in [("rtsps", rtsps), ("https", https)] {
        if let Some(address) = address {
            line += &format!(" {protocol}={protocol}://{address}/");
        }
    }
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).context("cannot write to standard output")?;
    notify(&[NotifyState::Ready]);
    Ok(())
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "sd_notify failed");
    }
}
