//! Sending without being asked: channels, each a playlist that goes as one endless stream to destinations.

mod announcement;
mod channel;
mod destination;
mod item;
mod output;
mod playlist;
mod sequence;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;
use wirepath_datapath::DataPath;
use wirepath_media::image::PathLimits;
use wirepath_playback::Burst;

use self::announcement::Announcer;
use self::channel::{Channel, wait_until};
use self::item::Item;
use self::output::{End, Output};
use self::playlist::Playlist;
use crate::core::{CoreOptions, MediaCore};
use crate::describe::describe;
use crate::images::{HotMemorySize, ImagePolicy, LimitsError, Store};
use crate::start_error::StartError;

pub use destination::{Destination, Form, Interface};
pub use playlist::PlaylistError;

/// Between the last packet and BYE: receivers take BYE for the end at once, and drop packets not yet read.
const BYE_DELAY: Duration = Duration::from_millis(100);

/// Interval of balancing the threads' loads.
const BALANCE_INTERVAL: Duration = Duration::from_secs(1);

/// Options of a sender.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// The channels.
    pub channels: Vec<ChannelOptions>,
    /// Folder for indexes and wire images.
    pub cache: PathBuf,
    /// Most bytes of wire images.
    pub cache_bytes: u64,
    /// File of the measured costs of data paths.
    pub calibration: PathBuf,
    /// Engine threads.
    pub threads: usize,
}

/// Options of a channel.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// Its name, in session descriptions and messages.
    pub name: String,
    /// Assets and playlists, in order.
    pub assets: Vec<PathBuf>,
    /// True if the first asset follows the last, whatever a list says.
    pub repeats: bool,
    /// Destinations.
    pub destinations: Vec<Destination>,
    /// True if destinations of RTP that are groups are announced by SAP.
    pub is_announced: bool,
    /// Files of session descriptions, one for each destination of RTP, in order; there may be fewer.
    pub descriptions: Vec<PathBuf>,
}

/// A channel cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendFailure {
    /// The engine or the cache cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A list or an asset cannot be sent.
    #[error(transparent)]
    Playlist(#[from] PlaylistError),
    /// There is no asset.
    #[error("nothing to send: name at least one asset")]
    Nothing,
    /// There is no destination.
    #[error("channel {0} has no destination: add one, such as rtp://239.1.1.1:5004")]
    NoDestination(String),
    /// A movie cannot be sent without RTP.
    #[error("cannot send {0} to {1}: plain UDP takes transport streams only; use rtp://")]
    NeedsRtp(String, String),
    /// A destination cannot be sent to.
    #[error("cannot send to {0}: {1}")]
    Destination(String, io::Error),
    /// More files of session descriptions than destinations of RTP.
    #[error("more session descriptions than destinations of RTP: {path} would stay empty", path = .0.display())]
    Description(PathBuf),
    /// A session description cannot be written.
    #[error("cannot write the session description {path}: {1}", path = .0.display())]
    Write(PathBuf, io::Error),
}

/// State of a channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelStatus {
    /// Its name.
    pub channel: String,
    /// Its outputs.
    pub outputs: Vec<OutputStatus>,
}

/// State of an output.
#[derive(Clone, Debug, Serialize)]
pub struct OutputStatus {
    /// The destination.
    pub to: String,
    /// The asset that is being sent.
    pub asset: String,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent, without headers.
    pub bytes: u64,
    /// Packets that the network did not take.
    pub packets_lost: u64,
    /// Time sent since the beginning, in seconds.
    pub position_s: f64,
    /// Data path of the last packets.
    pub path: Option<String>,
}

/// Sender of channels.
pub struct Sender {
    core: MediaCore,
    channels: Vec<RunningChannel>,
}

struct RunningChannel {
    name: String,
    channel: Arc<Channel>,
    first: Arc<Item>,
    /// Earliest time of the first asset, in seconds since 1970.
    not_before_s: Option<u64>,
    outputs: Vec<Arc<Output>>,
    announcers: Vec<Announcer>,
}

impl Sender {
    /// Opens everything, and writes session descriptions. Waits for storage.
    pub fn start(options: SenderOptions) -> Result<Sender, SendFailure> {
        let core = MediaCore::start(&CoreOptions {
            cache: options.cache,
            cache_bytes: options.cache_bytes,
            // Headers are made for each channel, which stored ones do not help.
            images: ImagePolicy::None,
            image_bytes_per_second: 0,
            packing_memory_bytes: None,
            packings_per_address: usize::MAX,
            keeps_popularity: false,
            hot_memory: HotMemorySize::Off,
            threads: options.threads,
            path: None,
            calibration: options.calibration,
            burst: Burst::Fixed(20_000),
        })?;
        let channels = options.channels.into_iter().map(|channel| RunningChannel::open(channel, &core));
        let channels = channels.collect::<Result<Vec<_>, _>>()?;
        Ok(Sender { core, channels })
    }

    /// Sends until all channels are over or `stop` is done; answers with the errors of outputs that failed.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Vec<String> {
        let (mut outputs, mut starting) = (JoinSet::new(), JoinSet::new());
        for RunningChannel { channel, first, not_before_s, outputs: all, .. } in &self.channels {
            starting.spawn(Arc::clone(channel).feed(Arc::clone(first)));
            let (begun, not_before_s) = (all.clone(), *not_before_s);
            starting.spawn(async move {
                wait_until(not_before_s).await;
                begun.iter().for_each(|output| output.play());
            });
            for output in all {
                let output = Arc::clone(output);
                outputs.spawn(async move { (output.destination.to_string(), output.report().await) });
            }
        }
        let mut failures = Vec::new();
        tokio::select! {
            () = stop => {}
            () = balance(&self.core) => {}
            () = self.announce() => {}
            () = all_ended(&mut outputs, &mut failures) => {}
        }
        starting.shutdown().await; // nothing begins from here on
        outputs.abort_all();
        self.outputs().for_each(|output| output.stop());
        tokio::time::sleep(BYE_DELAY).await;
        self.outputs().for_each(|output| output.send_bye());
        self.announcers().for_each(Announcer::delete);
        failures
    }

    /// Has all playlists read again, each at its next joint.
    pub fn reload(&self) {
        self.channels.iter().for_each(|channel| channel.channel.reload());
    }

    /// State of all channels.
    pub fn status(&self) -> Vec<ChannelStatus> {
        self.channels.iter().map(RunningChannel::status).collect()
    }

    /// Announces the channels at intervals; never ends.
    async fn announce(&self) {
        loop {
            self.announcers().for_each(Announcer::announce);
            tokio::time::sleep(announcement::INTERVAL).await;
        }
    }

    fn announcers(&self) -> impl Iterator<Item = &Announcer> {
        self.channels.iter().flat_map(|channel| &channel.announcers)
    }

    fn outputs(&self) -> impl Iterator<Item = &Arc<Output>> {
        self.channels.iter().flat_map(|channel| &channel.outputs)
    }
}

impl RunningChannel {
    fn open(options: ChannelOptions, core: &MediaCore) -> Result<RunningChannel, SendFailure> {
        let name = options.name.clone();
        let playlist = Playlist::load(&options.assets, options.repeats)?;
        let limits = common_limits(&options, &core.store)?;
        let not_before_s = playlist.entries.first().and_then(|entry| entry.not_before_s);
        let ChannelOptions { destinations, descriptions, is_announced, .. } = options.clone();
        let (channel, first) = Channel::open(options, playlist, Arc::clone(&core.store), limits)?;
        let is_movie = !first.image.plan().recipe.is_transport_stream();
        let mut outputs = Vec::new();
        for destination in &destinations {
            if is_movie && destination.form == Form::PlainUdp {
                let asset = first.image.name().to_owned();
                return Err(SendFailure::NeedsRtp(asset, destination.to_string()));
            }
            let output = Output::open(destination, &first, &core.playbacks);
            let output = output.map_err(|error| SendFailure::Destination(destination.to_string(), error))?;
            outputs.push(Arc::new(output));
        }
        let described = described(&name, &first, &destinations)?;
        write_descriptions(&described, descriptions)?;
        let groups = described.iter().filter(|(to, _)| is_announced && to.is_multicast());
        let announcers = groups.map(|(destination, text)| {
            let announcer = Announcer::open(destination, text);
            announcer.map_err(|error| SendFailure::Destination(destination.to_string(), error))
        });
        let announcers = announcers.collect::<Result<_, _>>()?;
        Ok(RunningChannel { name, channel, first, not_before_s, outputs, announcers })
    }

    fn status(&self) -> ChannelStatus {
        let outputs = self.outputs.iter().map(|output| {
            let progress = output.progress();
            OutputStatus {
                to: output.destination.to_string(),
                asset: output.asset(),
                packets: progress.packets,
                bytes: progress.payload_bytes,
                packets_lost: progress.packets_lost,
                position_s: progress.position_us as f64 / 1e6,
                path: progress.path.map(DataPath::name).map(str::to_owned),
            }
        });
        ChannelStatus { channel: self.name.clone(), outputs: outputs.collect() }
    }
}

/// Limits of packets that fit the paths to all destinations.
fn common_limits(options: &ChannelOptions, store: &Store) -> Result<PathLimits, SendFailure> {
    let mut common: Option<PathLimits> = None;
    for destination in &options.destinations {
        let fail = |error| SendFailure::Destination(destination.to_string(), error);
        let socket = destination.connect(0).map_err(fail)?;
        let limits = store.limits_of(&socket).map_err(|error| match error {
            LimitsError::Mtu(error) => fail(error),
            LimitsError::Store(error) => fail(io::Error::other(error)),
        })?;
        common = Some(common.filter(|common| common.payload <= limits.payload).unwrap_or(limits));
    }
    common.ok_or_else(|| SendFailure::NoDestination(options.name.clone()))
}

/// Session descriptions of the destinations of RTP.
fn described<'a>(
    name: &str,
    first: &Item,
    destinations: &'a [Destination],
) -> Result<Vec<(&'a Destination, Vec<u8>)>, SendFailure> {
    let description = describe(&first.image, name);
    let with_rtp = destinations.iter().filter(|destination| destination.form == Form::Rtp);
    let described = with_rtp.map(|destination| {
        let local = destination.connect(0).and_then(|socket| socket.local_addr());
        let local = local.map_err(|error| SendFailure::Destination(destination.to_string(), error))?;
        Ok((destination, description.sent_to(local.ip(), destination.address, destination.group_ttl())))
    });
    described.collect()
}

/// Writes session descriptions, as far as there are files for them.
fn write_descriptions(described: &[(&Destination, Vec<u8>)], files: Vec<PathBuf>) -> Result<(), SendFailure> {
    if let Some(file) = files.get(described.len()) {
        return Err(SendFailure::Description(file.clone()));
    }
    for ((_, text), file) in described.iter().zip(files) {
        fs::write(&file, text).map_err(|error| SendFailure::Write(file, error))?;
    }
    Ok(())
}

/// Waits until all outputs have ended; notes the errors of those that failed.
async fn all_ended(outputs: &mut JoinSet<(String, End)>, failures: &mut Vec<String>) {
    while let Some(ended) = outputs.join_next().await {
        if let Ok((destination, Err(error))) = ended {
            tracing::error!(to = destination, error, "an output has failed");
            failures.push(format!("sending to {destination} failed: {error}"));
        }
    }
}

/// Balances the threads' loads; never ends.
async fn balance(core: &MediaCore) {
    loop {
        tokio::time::sleep(BALANCE_INTERVAL).await;
        core.playbacks.balance();
    }
}

#[cfg(test)]
mod tests;
