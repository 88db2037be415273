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
use super::destination::{Destination, Form};
use super::item::Item;
use super::output::Output;
use super::port_table::PortTable;
use super::sequence::Sequence;
use super::{ChannelOptions, SendFailure};
use crate::core::MediaCore;
use crate::describe::describe;
use crate::images::{LimitsError, Store};
use crate::playlist::{Playlist, PlaylistWalker, RETRY, WalkOptions, formats};

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
    pub(crate) playlist: Arc<PlaylistWalker>,
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
        let ChannelOptions { assets, repeats, destinations, descriptions, is_announced, .. } = options;
        let takes_tracks = takes_tracks(&destinations);
        let options = WalkOptions { name: name.clone(), assets, repeats, takes_tracks };
        let name_of = |path: &Path| path.to_string_lossy().into_owned();
        let (playlist, image) =
            PlaylistWalker::open(options, playlist, Arc::clone(&core.store), limits, name_of)?;
        let (place, not_before_s) = playlist.first_place();
        let first = Item::of(image, playlist.unplayable(), place.entry);
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
        Ok(RunningChannel { name, playlist, first, not_before_s, outputs, announcers })
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

/// Opens each item when the one before it begins, until the list is over.
pub(super) async fn feed(playlist: Arc<PlaylistWalker>, first: Arc<Item>) {
    let (mut place, _) = playlist.first_place();
    let like = Arc::new(formats(&first.image));
    let mut item = first;
    let mut before: Option<Arc<Item>> = None;
    let mut failures = 0;
    loop {
        item.wait_for_begin().await;
        let before = before.replace(Arc::clone(&item));
        let has_failed = before.as_ref().is_some_and(|before| before.has_failed());
        failures = if has_failed { failures + 1 } else { 0 };
        if let Some(before) = before {
            before.note_end();
        }
        if failures >= playlist.length() {
            failures = 0;
            tokio::time::sleep(RETRY).await;
        }
        let Some((image, found)) = playlist.next(&like, place).await else {
            return item.follow(None);
        };
        place = found;
        let next = Item::of(image, playlist.unplayable(), place.entry.clone());
        item.follow(Some(Arc::clone(&next)));
        item = next;
    }
}

/// Returns whether all destinations take tracks: without RTP, they take transport streams only.
fn takes_tracks(destinations: &[Destination]) -> bool {
    destinations.iter().all(|destination| destination.form == Form::Rtp)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A list of movies and transport streams plays by tracks, unless a destination takes transport streams only.
    #[test]
    fn all_destinations_must_take_tracks() {
        let take = |destinations: &[&str]| {
            let destinations = destinations.iter().map(|to| to.parse().unwrap());
            takes_tracks(&destinations.collect::<Vec<Destination>>())
        };
        let (rtp, udp) = ("rtp://127.0.0.1:5004", "udp://127.0.0.1:5004");
        assert!(take(&[rtp, rtp]) && !take(&[rtp, udp]) && !take(&[udp]));
    }
}
