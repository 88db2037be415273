//! Sending without being asked: channels, each a playlist that goes as one endless stream to destinations.

mod announcement;
mod destination;
mod item;
mod output;
mod port_table;
mod running_channel;
mod sequence;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use wirepath_net::raise_descriptor_limit;
use wirepath_playback::Burst;

use self::announcement::Announcer;
use self::port_table::PortTable;
use self::running_channel::RunningChannel;
use crate::core::{CoreOptions, MediaCore};
use crate::images::{HotMemorySize, ImagePolicy};
use crate::playlist::{PlaylistError, wait_until};
use crate::start_error::StartError;

pub use destination::{Destination, Form, Interface};
pub(crate) use item::Item;
pub(crate) use output::{End, Output, OutputSource};
pub use port_table::PortUse;
pub use running_channel::{ChannelStatus, OutputStatus};
pub(crate) use sequence::Sequence;

/// Between the last packet and BYE: receivers take BYE for the end at once, and drop packets not yet read.
pub(crate) const BYE_DELAY: Duration = Duration::from_millis(100);

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
    /// Bursts in which packets leave.
    pub burst: Burst,
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
    /// There is no destination.
    #[error("channel {0} has no destination: add one, such as rtp://239.1.1.1:5004")]
    NoDestination(String),
    /// A movie cannot be sent without RTP.
    #[error("cannot send {0} to {1}: plain UDP takes transport streams only; use rtp://")]
    NeedsRtp(String, String),
    /// Two streams would mix at a receiver.
    #[error("outputs overlap: {0}, {1}; give each its own ports or address")]
    Overlap(PortUse, PortUse),
    /// A destination cannot be sent to.
    #[error("cannot send to {0}: {1}")]
    Destination(String, io::Error),
    /// More files of session descriptions than destinations of RTP.
    #[error("more --sdp files than rtp:// destinations: {path} would stay empty; remove it", path = .0.display())]
    Description(PathBuf),
    /// A session description cannot be written.
    #[error("cannot write the session description {path}: {1}", path = .0.display())]
    Write(PathBuf, io::Error),
}

/// Sender of channels.
pub struct Sender {
    core: MediaCore,
    channels: Vec<RunningChannel>,
}

impl Sender {
    /// Opens everything, and writes session descriptions. Waits for storage.
    pub fn start(options: SenderOptions) -> Result<Sender, SendFailure> {
        raise_descriptor_limit();
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
            sends_stored_headers: false,
            threads: options.threads,
            path: None,
            calibration: options.calibration,
            burst: options.burst,
        })?;
        let mut ports = PortTable::default();
        let open = |channel| RunningChannel::open(channel, &core, &mut ports);
        let channels = options.channels.into_iter().map(open);
        let channels = channels.collect::<Result<Vec<_>, _>>()?;
        Ok(Sender { core, channels })
    }

    /// Sends until all channels are over or `stop` is done; answers with the errors of outputs that failed.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Vec<String> {
        let (mut outputs, mut starting) = (JoinSet::new(), JoinSet::new());
        for RunningChannel { playlist, first, not_before_s, outputs: all, .. } in &self.channels {
            if let Some(first) = first.lock().take() {
                starting.spawn(running_channel::feed(Arc::clone(playlist), first));
            }
            let (begun, not_before_s) = (all.clone(), *not_before_s);
            starting.spawn(async move {
                wait_until(not_before_s).await;
                begun.iter().for_each(|output| output.play(None, |_| {}));
            });
            for output in all {
                let output = Arc::clone(output);
                outputs.spawn(async move {
                    let end = output.report().await;
                    tokio::time::sleep(BYE_DELAY).await;
                    output.send_bye();
                    (output.destination.to_string(), end)
                });
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
        self.outputs().for_each(|output| output.stop(|_| {}));
        tokio::time::sleep(BYE_DELAY).await;
        self.outputs().for_each(|output| output.send_bye());
        self.announcers().for_each(Announcer::delete);
        failures
    }

    /// Has all playlists read again, each at its next joint.
    pub fn reload(&self) {
        self.channels.iter().for_each(|channel| channel.playlist.reload());
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
