//! `wirepath send`.

mod channels;
mod live;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sd_notify::NotifyState;
use serde_json::json;
use wirepath_net::program::{Log, Signals, announce};
use wirepath_server::{ChannelOptions, Destination, Interface, Sender, SenderOptions};

use crate::image_options::{CALIBRATION, ImageOptions};
use crate::output::Output;
use crate::server_options::burst;
use crate::values::{self, BurstOption};
use live::Live;

/// Interval of updating the status line.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Default length of bursts. It is short, since a receiver that did not request the media may have a small
/// buffer.
const BURST: Duration = Duration::from_millis(20);

/// Arguments of `wirepath send`.
#[derive(Args)]
#[command(after_help = "\
Send:     wirepath send clip.ts --loop --to rtp://239.1.1.1:5004?ttl=4 --sdp clip.sdp
Receive:  ffplay -protocol_whitelist file,udp,rtp clip.sdp; a transport stream also vlc rtp://@239.1.1.1:5004
Plain TS: wirepath send clip.ts --to udp://239.1.1.1:1234; ffplay udp://239.1.1.1:1234, vlc udp://@239.1.1.1:1234

A playlist plays as one endless stream. It is an .m3u file (a path in each line, # for comments) or
a .toml file (assets = [\"a.ts\", { path = \"b.ts\", at = 2026-11-26T20:00:00Z }], loop = true), with
paths relative to the playlist. SIGHUP reads playlists again; if the next asset is already open, it
is sent before the new list applies.

When all channels send, one line goes to standard output: ready, and the destinations.
Ctrl-C or SIGTERM ends the streams with an RTCP BYE.")]
pub(crate) struct Send {
    /// Transport streams, movies (MP4, Matroska, WebM) and playlists to send one after another
    #[arg(value_name = "ASSET", required_unless_present = "config")]
    assets: Vec<PathBuf>,

    /// Destination: rtp://HOST:PORT, with an even port; each track takes two ports, for RTP and RTCP. Or
    /// udp://HOST:PORT for a transport stream without RTP. ?ttl=N sets the time to live [default of a group:
    /// 1], ?interface=NAME the interface. May be repeated
    #[arg(long, value_name = "URL", required_unless_present = "config")]
    to: Vec<Destination>,

    /// Start again after the last asset
    #[arg(long = "loop")]
    repeats: bool,

    /// Write the session description for receivers to this file; with several rtp:// destinations, give a
    /// file for each, in order
    #[arg(long, value_name = "FILE")]
    sdp: Vec<PathBuf>,

    /// Announce the RTP groups by SAP, so that players list them
    #[arg(long)]
    sap: bool,

    /// Interface for sending, by name or IPv4 address [default: by the route]
    #[arg(long, value_name = "NAME")]
    interface: Option<Interface>,

    /// Send the channels of a TOML file: one table per channel with assets, to, loop, sdp, sap and interface
    #[arg(long, value_name = "FILE", conflicts_with_all = ["assets", "to", "repeats", "sdp", "sap", "interface"])]
    config: Option<PathBuf>,

    #[command(flatten)]
    images: ImageOptions,

    /// Duration of media sent in one burst, from 1ms to 500ms; longer bursts cost less processor time and
    /// need more buffer in receivers; auto: 10ms for few destinations, growing with their number up to
    /// --burst-max [default: 20ms]
    #[arg(long, value_name = "TIME", value_parser = values::burst)]
    burst: Option<BurstOption>,

    /// Longest burst of --burst auto, from 1ms to 500ms [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = values::burst_time)]
    burst_max: Option<Duration>,

    /// Number of engine threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    threads: Option<std::num::NonZeroUsize>,

    /// Write the sent counts as JSON to FILE at the end; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Send {
    pub(crate) fn run(self) -> Result<ExitCode> {
        let output = Output::prepare(self.json.as_deref())?;
        let options = self.options()?;
        let log = Log::start();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let failures = runtime.block_on(send(options, &log, &output))?;
        let code = if failures.is_empty() { 0 } else { 1 };
        for failure in failures {
            // If standard error is closed, only the exit code reports the failure.
            drop(writeln!(std::io::stderr(), "wirepath: {failure}"));
        }
        log.end();
        // Dropping the engine and the runtime would wait for threads that are waiting for storage.
        std::process::exit(code)
    }

    fn options(&self) -> Result<SenderOptions> {
        let channels = match &self.config {
            Some(file) => channels::read(file)?,
            None => vec![self.channel()?],
        };
        let cache = self.images.cache_folder()?;
        let threads = match self.threads {
            Some(threads) => threads.get(),
            None => available_parallelism().context("cannot find the number of cores; use --threads")?.get(),
        };
        Ok(SenderOptions {
            channels,
            calibration: cache.join(CALIBRATION),
            cache,
            cache_bytes: self.images.cache_bytes(),
            threads,
            burst: burst(self.burst.unwrap_or(BurstOption::Time(BURST)), self.burst_max)?,
        })
    }

    fn channel(&self) -> Result<ChannelOptions> {
        let Some(first) = self.assets.first() else { bail!("nothing to send: name at least one asset") };
        let name = first.file_name().unwrap_or(first.as_os_str());
        let options = ChannelOptions {
            name: name.to_string_lossy().into_owned(),
            assets: self.assets.clone(),
            repeats: self.repeats,
            destinations: self.to.clone(),
            is_announced: self.sap,
            descriptions: self.sdp.clone(),
        };
        Ok(leaving_by(options, self.interface.as_ref()))
    }
}

/// Sets the interface of all destinations that have none.
fn leaving_by(mut channel: ChannelOptions, interface: Option<&Interface>) -> ChannelOptions {
    for destination in &mut channel.destinations {
        destination.interface = destination.interface.take().or_else(|| interface.cloned());
    }
    channel
}

/// Sends until a signal, or to the end. Returns the failures of outputs.
async fn send(options: SenderOptions, log: &Log, output: &Output) -> Result<Vec<String>> {
    let mut signals = Signals::watch()?;
    let begun = Instant::now();
    let destinations = options.channels.iter().flat_map(|channel| &channel.destinations);
    let destinations: Vec<String> = destinations.map(ToString::to_string).collect();
    ensure!(!options.channels.is_empty(), "nothing to send: the configuration has no channel");
    let sender = Arc::new(Sender::start(options)?);
    let reloaded = Arc::clone(&sender);
    signals.reload_on_hang_up(move || reloaded.reload());
    if !output.is_standard() {
        announce(&destinations.join(" "))?;
    }
    notify(NotifyState::Ready);
    tokio::spawn(log.losses().report());
    let shown = Arc::clone(&sender);
    let showing = std::io::stderr().is_terminal().then(|| tokio::spawn(show(shown, begun)));
    let run = |stopped: tokio::sync::oneshot::Receiver<()>| {
        let sender = Arc::clone(&sender);
        async move { sender.run(async { drop(stopped.await) }).await }
    };
    let failures = signals.run_until_drained(run, || notify(NotifyState::Stopping)).await;
    if let Some(showing) = showing {
        showing.abort();
        drop(showing.await); // dropping it clears the line
    }
    output.write(|| {
        let status = json!({
            "schema": "wirepath-send/1",
            "seconds": begun.elapsed().as_secs_f64(),
            "channels": sender.status(),
            "failures": failures.as_deref().unwrap_or_default(),
        });
        Ok(format!("{status:#}\n"))
    })?;
    Ok(failures.unwrap_or_default())
}

/// Shows the state on the terminal until the task is aborted.
async fn show(sender: Arc<Sender>, begun: Instant) {
    let mut live = Live::new();
    loop {
        tokio::time::sleep(STATUS_INTERVAL).await;
        live.draw(begun.elapsed(), &sender.status());
    }
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "sd_notify failed");
    }
}
