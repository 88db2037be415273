//! A channel that is sent: its outputs, session descriptions and announcements.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use wirepath_datapath::DataPath;
use wirepath_media::image::PathLimits;

use super::announcement::Announcer;
use super::channel::Channel;
use super::destination::{Destination, Form};
use super::item::Item;
use super::output::Output;
use super::playlist::Playlist;
use super::port_table::PortTable;
use super::sequence::Sequence;
use super::{ChannelOptions, SendFailure};
use crate::core::MediaCore;
use crate::describe::describe;
use crate::images::{LimitsError, Store};

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

/// A channel that is sent.
pub(crate) struct RunningChannel {
    name: String,
    pub(crate) channel: Arc<Channel>,
    /// The first item, until it begins: an item has those behind it.
    pub(crate) first: Mutex<Option<Arc<Item>>>,
    /// Earliest time of the first asset, in seconds since 1970.
    pub(crate) not_before_s: Option<u64>,
    pub(crate) outputs: Vec<Arc<Output>>,
    pub(crate) announcers: Vec<Announcer>,
}

impl RunningChannel {
    /// Opens a channel, and writes its session descriptions. `ports` has the ports of the channels before. Waits for
    /// storage.
    pub(crate) fn open(
        options: ChannelOptions,
        core: &MediaCore,
        ports: &mut PortTable,
    ) -> Result<RunningChannel, SendFailure> {
        let name = options.name.clone();
        let playlist = Playlist::load(&options.assets, options.repeats)?;
        let limits = common_limits(&options, &core.store)?;
        let ChannelOptions { destinations, descriptions, is_announced, .. } = options.clone();
        let name_of = |path: &Path| path.to_string_lossy().into_owned();
        let (channel, image) = Channel::open(options, playlist, Arc::clone(&core.store), limits, name_of)?;
        let (place, not_before_s) = channel.first_place();
        let first = Item::of(image, channel.unplayable(), place.entry);
        let is_movie = !first.image.plan().recipe.is_transport_stream();
        let mut outputs = Vec::new();
        for destination in &destinations {
            if is_movie && destination.form == Form::PlainUdp {
                let asset = first.image.name().to_owned();
                return Err(SendFailure::NeedsRtp(asset, destination.to_string()));
            }
            ports.add(&name, destination, first.image.plan().streams.len())?;
            // Bursts are those that the sender was told.
            let output =
                Output::open(destination, first.image.plan(), &core.playbacks, u64::MAX, |streams| {
                    Arc::new(Sequence::new(Arc::clone(&first), streams, core.playbacks.engine().pool()))
                });
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
        let first = Mutex::new(Some(first));
        Ok(RunningChannel { name, channel, first, not_before_s, outputs, announcers })
    }

    /// Its state.
    pub(crate) fn status(&self) -> ChannelStatus {
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
        let limits = store.limits_of(&socket, 0).map_err(|error| match error {
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
