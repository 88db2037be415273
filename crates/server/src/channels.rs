//! Channels: playlists that play as one endless stream each, in which every session is at the same place: now.
//!
//! A channel has a timeline of its own on the monotonic clock, whether somebody watches or not. Each session joins
//! that at a random access point and has numbers of its own (decision 41).

mod group;
mod playback;
mod player;
mod presentation;
mod source;
mod timeline;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::task::JoinSet;
use wirepath_engine::BlockingPool;
use wirepath_http::AssetPath;
use wirepath_media::image::{PathLimits, USUAL_BURST_US};
use wirepath_playback::PlayError;

use self::timeline::{Place, Timeline};
use crate::images::{Image, Store};
use crate::library::Library;
use crate::sending::{Channel, ChannelOptions, Playlist, PlaylistError, RETRY as LIST_RETRY, SendFailure};

pub(crate) use self::player::ChannelPlayer;

/// Time until the next attempt to find a place while none is known.
const RETRY: Duration = Duration::from_millis(50);

/// Time limit of finding a place and waiting for its packets: less than that of answering a request.
const LIMIT: Duration = Duration::from_secs(15);

/// Least MTU of paths to clients over UDP that packets of channels fit: that of usual tunnels.
const PATH_MTU: u16 = 1420;
const IPV6_HEADER: u16 = 40;

/// Channel of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveChannelOptions {
    /// Its path in URLs, not encoded, without slashes at its ends.
    pub name: String,
    /// File of its list, or an asset.
    pub playlist: PathBuf,
}

impl LiveChannelOptions {
    /// Reads the list. Waits for storage.
    fn playlist(&self) -> Result<Playlist, PlaylistError> {
        Playlist::load(std::slice::from_ref(&self.playlist), true)
    }

    /// Its list, and the assets in it as far as the list can be read. Waits for storage.
    pub fn files(&self) -> Vec<PathBuf> {
        let playlist = self.playlist().unwrap_or_default();
        let assets = playlist.entries.into_iter().map(|entry| entry.path);
        std::iter::once(self.playlist.clone()).chain(assets).collect()
    }
}

/// A channel cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// Its name is in use.
    #[error(
        "--channel {0}: a folder, file, archive or channel of this name is served already; choose another name"
    )]
    Taken(String),
    /// Its list cannot be read.
    #[error("--channel {0}: {1}")]
    List(String, Box<SendFailure>),
}

/// Channels of a server.
#[derive(Default)]
pub(crate) struct Channels {
    channels: Vec<Arc<Slot>>,
    /// Tasks of the channels. Aborted when dropped.
    tasks: JoinSet<()>,
}

/// Channel of the options, which runs once an asset of its list can be played.
pub(crate) struct Slot {
    options: LiveChannelOptions,
    channel: OnceLock<Arc<LiveChannel>>,
}

/// Channel that runs.
pub(crate) struct LiveChannel {
    list: Arc<Channel>,
    /// The first asset, whose tracks all have, and whose numbers those of sessions are.
    first: Arc<Image>,
    timeline: Timeline,
}

impl Channels {
    /// Opens channels, which begin now, or as soon as an asset of their lists can be played. Must be called
    /// on a tokio runtime; waits for storage.
    pub(crate) fn open(
        options: Vec<LiveChannelOptions>,
        library: &Library,
        is_archive: impl Fn(&[u8]) -> bool,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Channels, ChannelError> {
        let mut all = Channels::default();
        for options in options {
            let name = options.name.as_bytes();
            let is_served = AssetPath::from_decoded(name).is_ok_and(|path| library.has(&path));
            if is_served || is_archive(name) || all.find(name).is_some() {
                return Err(ChannelError::Taken(options.name));
            }
            let playlist = options.playlist().map_err(|error| {
                ChannelError::List(options.name.clone(), Box::new(SendFailure::Playlist(error)))
            })?;
            let slot = Arc::new(Slot { options, channel: OnceLock::new() });
            let mut logged = String::new();
            let opened = slot.open(playlist, store, pool);
            let opened = opened.inspect_err(|error| slot.log_once(error, &mut logged)).ok();
            if let Some(channel) = &opened {
                slot.channel.get_or_init(|| Arc::clone(channel));
            }
            all.tasks.spawn(Arc::clone(&slot).run(opened, logged, Arc::clone(store), pool.clone()));
            all.channels.push(slot);
        }
        Ok(all)
    }

    /// The channel of this path in URLs, decoded, in whatever letter case.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Slot> {
        let mut slots = self.channels.iter().map(|slot| &**slot);
        slots.find(|slot| slot.options.name.as_bytes().eq_ignore_ascii_case(path))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Has all lists read again, each before its next asset is opened.
    pub(crate) fn reload(&self) {
        self.channels.iter().filter_map(|slot| slot.channel.get()).for_each(|channel| channel.list.reload());
    }

    /// The channels for `/api/status`.
    pub(crate) fn json(&self) -> Json {
        self.channels.iter().map(|slot| slot.json()).collect()
    }
}

impl Slot {
    /// The channel, if it runs.
    pub(crate) fn channel(&self) -> Option<Arc<LiveChannel>> {
        self.channel.get().cloned()
    }

    /// Opens the channel. Waits for storage.
    fn open(
        &self,
        playlist: Playlist,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Arc<LiveChannel>, SendFailure> {
        LiveChannel::open(self.options.clone(), playlist, store, pool)
    }

    /// Logs why the channel has nothing to play, unless that was logged.
    fn log_once(&self, error: &SendFailure, logged: &mut String) {
        let error = error.to_string();
        if error != *logged {
            let channel = &self.options.name;
            tracing::warn!(channel, error, "a channel has nothing to play: it waits for an asset");
            *logged = error;
        }
    }

    /// Runs the channel; tries again to open it until that succeeds. `logged`: the error that was logged. Never
    /// ends.
    async fn run(
        self: Arc<Self>,
        mut opened: Option<Arc<LiveChannel>>,
        mut logged: String,
        store: Arc<Store>,
        pool: BlockingPool,
    ) {
        let channel = loop {
            if let Some(channel) = opened {
                break channel;
            }
            tokio::time::sleep(LIST_RETRY).await;
            let (slot, store, pool) = (Arc::clone(&self), Arc::clone(&store), pool.clone());
            let attempt =
                tokio::task::spawn_blocking(move || slot.open(slot.options.playlist()?, &store, &pool));
            match attempt.await {
                Ok(result) => opened = result.inspect_err(|error| self.log_once(error, &mut logged)).ok(),
                Err(error) if error.is_panic() => tracing::error!(
                    channel = self.options.name,
                    "opening a channel panicked, which is a bug: report it with the panic's message; it is tried again"
                ),
                Err(_) => return, // the runtime ends
            }
        };
        if !logged.is_empty() {
            tracing::info!(channel = self.options.name, "a channel begins");
        }
        self.channel.get_or_init(|| Arc::clone(&channel));
        timeline::run(channel).await;
    }

    /// The channel for `/api/status`.
    fn json(&self) -> Json {
        let channel = self.channel.get();
        json!({
            "name": self.options.name,
            "asset": channel.and_then(|channel| channel.timeline.asset()),
            "entries": channel.map(|channel| channel.list.length()),
            "position_s": channel.map(|channel| channel.timeline.now_us() as f64 / 1e6),
        })
    }
}

impl LiveChannel {
    fn open(
        options: LiveChannelOptions,
        playlist: Playlist,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Arc<LiveChannel>, SendFailure> {
        let assets = vec![options.playlist];
        let options = ChannelOptions {
            name: options.name,
            assets,
            repeats: true,
            destinations: Vec::new(),
            is_announced: false,
            descriptions: Vec::new(),
        };
        let limits = PathLimits::for_mtu(PATH_MTU, IPV6_HEADER, USUAL_BURST_US);
        let limits = limits.unwrap_or(store.usual_limits());
        // Clients see names of assets, which must not tell folders of this machine.
        let name_of =
            |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (list, first) = Channel::open(options, playlist, Arc::clone(store), limits, name_of)?;
        Ok(Arc::new(LiveChannel { list, first, timeline: Timeline::new(pool) }))
    }

    fn name(&self) -> &str {
        self.list.name()
    }

    /// Waits for the next place where a decoder can begin, until its packets are due.
    async fn wait_for_place(self: Arc<Self>) -> Result<Place, PlayError> {
        let end = tokio::time::Instant::now() + LIMIT;
        let place = async {
            loop {
                match self.timeline.next_place() {
                    Some(place) => return place,
                    None => tokio::time::sleep(RETRY).await,
                }
            }
        };
        let nothing_is_on = || PlayError::Source("nothing is on the channel; try again later".into());
        let place = tokio::time::timeout_at(end, place).await.map_err(|_| nothing_is_on())?;
        let wait = Duration::from_micros(place.at_us.saturating_sub(self.timeline.now_us()));
        if tokio::time::Instant::now() + wait > end {
            return Err(nothing_is_on());
        }
        tokio::time::sleep(wait).await;
        Ok(place)
    }
}
