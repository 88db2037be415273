//! Channels: playlists that play as one endless stream each, in which every session is at the same place: now.
//!
//! A channel has a timeline of its own on the monotonic clock, whether somebody watches or not. Each session joins
//! that at a random access point and has numbers of its own (decision 41).

mod group;
mod playback;
mod presentation;
mod source;
mod timeline;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use tokio::task::AbortHandle;
use wirepath_engine::{BlockingPool, DropOnPool};
use wirepath_media::image::{PathLimits, USUAL_BURST_US};
use wirepath_playback::PlayError;

use self::presentation::ChannelPresentation;
use self::timeline::{Place, Timeline};
use crate::asset_player::AssetPlayer;
use crate::images::{Image, Store};
use crate::playlist::{
    Playlist, PlaylistError, PlaylistWalker, RETRY as LIST_RETRY, WalkOptions, open_asset,
};
use crate::rtsp::player::{OpenError, PlaybackFailure, Presentation};

/// Time until the next attempt to find a place while none is known.
const RETRY: Duration = Duration::from_millis(50);

/// Time limit of finding a place and waiting for its packets: less than that of answering a request.
const LIMIT: Duration = Duration::from_secs(15);

/// Least MTU of paths to clients over UDP that packets of channels fit: that of usual tunnels.
const PATH_MTU: u16 = 1420;
const IPV6_HEADER: u16 = 40;

/// Reason for which a channel that was removed cannot be played, in words for clients.
const REMOVED: &str = "the channel is not served any more";

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
    List(String, Box<PlaylistError>),
    /// The server lacks the permission to open its list or an asset in it (EACCES).
    #[error("--channel {0}: cannot open {path}: {2}", path = .1.display())]
    Denied(String, PathBuf, io::Error),
}

/// Channels of a server.
#[derive(Default)]
pub(crate) struct Channels {
    slots: Vec<Arc<Slot>>,
}

/// Channel of the options, which runs once an asset of its list can be played.
pub(crate) struct Slot {
    options: LiveChannelOptions,
    running: Arc<Running>,
    /// Shared with the slot of the same channel that has another list.
    task: Arc<Task>,
}

/// State of a channel.
#[derive(Default)]
struct Running(Mutex<(Option<Arc<LiveChannel>>, IsEnded)>);

/// True once the channel was removed.
type IsEnded = bool;

impl Running {
    /// The channel, once it runs.
    fn get(&self) -> Option<Arc<LiveChannel>> {
        self.0.lock().0.clone()
    }

    /// Sets the channel, which ends at once if it was removed meanwhile.
    fn begin(&self, channel: &Arc<LiveChannel>) {
        let mut state = self.0.lock();
        state.0 = Some(Arc::clone(channel));
        if state.1 {
            channel.timeline.end();
        }
    }

    /// Ends the channel with the asset that is on.
    fn end(&self) {
        let mut state = self.0.lock();
        state.1 = true;
        if let Some(channel) = &state.0 {
            channel.timeline.end();
        }
    }
}

/// Task of a channel, which is aborted when this is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Error of a request while nothing is on a channel, for so long if that is known.
fn nothing_is_on(wait: Option<Duration>) -> PlayError {
    // Rounded up, so that a client does not come a little too early.
    let retry_after_s = wait.unwrap_or(LIST_RETRY).as_secs() + 1;
    let reason = match wait {
        Some(_) => format!("nothing is on the channel: its next asset begins in {retry_after_s} s"),
        None => "nothing is on the channel; try again later".to_owned(),
    };
    PlayError::NotYet { reason: reason.into(), retry_after_s }
}

/// Channel that runs.
pub(crate) struct LiveChannel {
    list: Arc<PlaylistWalker>,
    /// The first asset, whose tracks all have, and whose numbers those of sessions are. The last reference to
    /// it closes files, which no engine thread may wait for.
    first: DropOnPool<Arc<Image>>,
    timeline: Timeline,
}

impl Channels {
    /// Opens channels, which begin now, or as soon as an asset of their lists can be played. Those that run
    /// among others go on, with the others' lists until [`succeed`](Self::succeed). Must be called on a tokio
    /// runtime; waits for storage.
    pub(crate) fn open(
        options: &[LiveChannelOptions],
        others: &Channels,
        is_taken: impl Fn(&[u8]) -> bool,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Channels, ChannelError> {
        let same_name =
            |options: &LiveChannelOptions| others.slots.iter().find(|slot| slot.options.name == options.name);
        let mut new = Vec::new();
        for (index, channel) in options.iter().enumerate() {
            let is_double = |other: &LiveChannelOptions| other.name.eq_ignore_ascii_case(&channel.name);
            if is_taken(channel.name.as_bytes()) || options[..index].iter().any(is_double) {
                return Err(ChannelError::Taken(channel.name.clone()));
            }
            let is_same = same_name(channel).is_some_and(|slot| slot.options == *channel);
            let playlist = (!is_same)
                .then(|| channel.playlist())
                .transpose()
                .map_err(|error| ChannelError::List(channel.name.clone(), Box::new(error)))?;
            new.push((channel, playlist));
        }
        // Channels begin when all of them are valid.
        let slots = new.into_iter().filter_map(|(options, playlist)| {
            let same = same_name(options);
            let Some(playlist) = playlist else { return same.cloned() };
            // A channel that waits for its first asset has nothing to go on with: it begins anew.
            Some(Arc::new(match same.filter(|slot| slot.has_begun()) {
                Some(running) => running.with(options.clone()),
                None => Slot::open(options.clone(), playlist, store, pool),
            }))
        });
        Ok(Channels { slots: slots.collect() })
    }

    /// Ensures that the server may open the lists, and the assets in them, of channels that others do not
    /// have. A confined server may open only files in certain folders. Waits for storage.
    pub(crate) fn ensure_permitted(
        options: &[LiveChannelOptions],
        others: &Channels,
    ) -> Result<(), ChannelError> {
        let is_new =
            |options: &&LiveChannelOptions| !others.slots.iter().any(|slot| slot.options == **options);
        for options in options.iter().filter(is_new) {
            for path in options.files() {
                if let Err(error) = open_asset(&path)
                    && error.kind() == io::ErrorKind::PermissionDenied
                {
                    return Err(ChannelError::Denied(options.name.clone(), path, error));
                }
            }
        }
        Ok(())
    }

    /// The channels that others have, too.
    pub(crate) fn common(&self, others: &Channels) -> Channels {
        let is_common = |slot: &&Arc<Slot>| others.slots.iter().any(|other| other.is_same(slot));
        Channels { slots: self.slots.iter().filter(is_common).cloned().collect() }
    }

    /// Takes the place of others: channels that only they have end with the asset that is on, and channels
    /// whose list differs go on with the new one.
    pub(crate) fn succeed(&self, others: &Channels) {
        for slot in &others.slots {
            match self.slots.iter().find(|other| other.is_same(slot)) {
                None => slot.end(),
                Some(new) if new.options != slot.options => {
                    let running = new.running.get();
                    running.inspect(|channel| channel.list.replace(vec![new.options.playlist.clone()]));
                }
                Some(_) => {}
            }
        }
    }

    /// The channel of this path in URLs, decoded, in whatever letter case.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Slot> {
        let mut slots = self.slots.iter().map(|slot| &**slot);
        slots.find(|slot| slot.options.name.as_bytes().eq_ignore_ascii_case(path))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Has all lists read again, each before its next asset is opened.
    pub(crate) fn reload(&self) {
        self.slots.iter().filter_map(|slot| slot.running.get()).for_each(|channel| channel.list.reload());
    }

    /// The channels for `/api/status`.
    pub(crate) fn json(&self) -> Json {
        self.slots.iter().map(|slot| slot.json()).collect()
    }
}

impl Slot {
    /// A channel that begins now, or as soon as an asset of its list can be played.
    fn open(
        options: LiveChannelOptions,
        playlist: Playlist,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Slot {
        let opening = Opening { options: options.clone(), running: Arc::default() };
        let running = Arc::clone(&opening.running);
        let mut logged = String::new();
        let opened = LiveChannel::open(options.clone(), playlist, store, pool);
        let opened = opened.inspect_err(|error| opening.log_once(error, &mut logged)).ok();
        if let Some(opened) = &opened {
            running.begin(opened);
        }
        let task = tokio::spawn(opening.run(opened, logged, Arc::clone(store), pool.clone()));
        Slot { options, running, task: Arc::new(Task(task.abort_handle())) }
    }

    /// The same channel with other options.
    fn with(&self, options: LiveChannelOptions) -> Slot {
        Slot { options, running: Arc::clone(&self.running), task: Arc::clone(&self.task) }
    }

    fn is_same(&self, other: &Slot) -> bool {
        Arc::ptr_eq(&self.running, &other.running)
    }

    /// Ends the channel with the asset that is on.
    fn end(&self) {
        self.task.0.abort();
        self.running.end();
    }

    /// Opens the channel for a client.
    pub(crate) fn presentation(
        &self,
        player: AssetPlayer,
        client: IpAddr,
    ) -> Result<Arc<dyn Presentation>, OpenError> {
        match self.channel() {
            Some(channel) => Ok(Arc::new(ChannelPresentation { player, channel, client })),
            None => {
                let why = "no asset of this channel can be played at present; try again later";
                Err(OpenError::NotYet(why.to_owned()))
            }
        }
    }

    /// The channel, if it runs.
    fn channel(&self) -> Option<Arc<LiveChannel>> {
        self.running.get()
    }

    /// Returns whether an asset of the channel is on or next.
    fn has_begun(&self) -> bool {
        self.running.get().is_some_and(|channel| channel.timeline.has_begun())
    }

    /// The channel for `/api/status`.
    fn json(&self) -> Json {
        let channel = self.running.get();
        let channel = channel.as_ref();
        json!({
            "name": self.options.name,
            "asset": channel.and_then(|channel| channel.timeline.asset()),
            "entries": channel.map(|channel| channel.list.length()),
            "entries_left_out": channel.map(|channel| channel.list.unplayable().left_out()),
            "position_s": channel.map(|channel| channel.timeline.now_us() as f64 / 1e6),
        })
    }
}

/// Channel until it runs.
struct Opening {
    options: LiveChannelOptions,
    running: Arc<Running>,
}

impl Opening {
    /// Logs why the channel has nothing to play, unless that was logged.
    fn log_once(&self, error: &PlaylistError, logged: &mut String) {
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
        self,
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
            let (options, store, pool) = (self.options.clone(), Arc::clone(&store), pool.clone());
            let attempt = tokio::task::spawn_blocking(move || {
                let playlist = options.playlist()?;
                LiveChannel::open(options, playlist, &store, &pool)
            });
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
        self.running.begin(&channel);
        timeline::run(channel).await;
    }
}

impl LiveChannel {
    fn open(
        options: LiveChannelOptions,
        playlist: Playlist,
        store: &Arc<Store>,
        pool: &BlockingPool,
    ) -> Result<Arc<LiveChannel>, PlaylistError> {
        let assets = vec![options.playlist];
        let options = WalkOptions { name: options.name, assets, repeats: true, takes_tracks: true };
        let limits = PathLimits::for_mtu(PATH_MTU, IPV6_HEADER, USUAL_BURST_US);
        let limits = limits.unwrap_or(store.usual_limits());
        // Clients see names of assets, which must not tell folders of this machine.
        let name_of =
            |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (list, first) = PlaylistWalker::open(options, playlist, Arc::clone(store), limits, name_of)?;
        let first = DropOnPool::new(first, pool);
        Ok(Arc::new(LiveChannel { list, first, timeline: Timeline::new(pool) }))
    }

    fn name(&self) -> &str {
        self.list.name()
    }

    /// Reason why the channel cannot be played from now on.
    fn failure(&self) -> Option<PlaybackFailure> {
        let reason = REMOVED.to_owned();
        self.timeline.is_ending().then_some(PlaybackFailure { reason, is_asset: false })
    }

    /// Waits for the next place where a decoder can begin, until its packets are due.
    async fn wait_for_place(self: Arc<Self>) -> Result<Place, PlayError> {
        let end = tokio::time::Instant::now() + LIMIT;
        let is_late = |wait: Duration| wait > end.saturating_duration_since(tokio::time::Instant::now());
        let place = async {
            loop {
                match self.timeline.next_place() {
                    Some(place) => return Ok(place),
                    // Nothing follows the asset that is on.
                    None if self.timeline.is_ending() => return Err(PlayError::Source(REMOVED.into())),
                    None => match self.list.time_to_next() {
                        Some(wait) if is_late(wait) => return Err(nothing_is_on(Some(wait))),
                        _ => tokio::time::sleep(RETRY).await,
                    },
                }
            }
        };
        let place = tokio::time::timeout_at(end, place).await;
        let place = place.map_err(|_| nothing_is_on(self.list.time_to_next()))??;
        let wait = Duration::from_micros(place.at_us.saturating_sub(self.timeline.now_us()));
        if is_late(wait) {
            return Err(nothing_is_on(Some(wait)));
        }
        tokio::time::sleep(wait).await;
        match self.timeline.is_beyond_end(&place.piece) {
            true => Err(PlayError::Source(REMOVED.into())),
            false => Ok(place),
        }
    }
}
