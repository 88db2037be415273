//! The player of RTSP sessions: the library finds an asset, the store its image, a playback sends it.

use std::fs::File;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;

use tokio::sync::Semaphore;
use wirepath_datapath::CopyLayout;
use wirepath_engine::DropOnPool;
use wirepath_http::AssetPath;
use wirepath_media::image::StreamPlan;
use wirepath_media::sdp::Description;
use wirepath_net::is_out_of_descriptors;
use wirepath_playback::{
    self as playback, Pictures, PlayError, PlayRequest, PlaybackOptions, PlaybackSink, Playbacks, Position,
    Progress, StreamProgress, StreamSink, Timestamps, TrainSource,
};

use crate::admission::Admission;
use crate::burst_limits::BurstLimits;
use crate::describe::describe;
use crate::images::{
    FolderError, Follow, HotMemory, HotSession, Image, LimitsError, Progress as ImageProgress, SeekResult,
    Store, StoreError,
};
use crate::library::{Asset, FindError, Found, Library};
use crate::multicast::{AssetMedia, MulticastGroups};
use crate::played_as::PlayedAs;
use crate::plays::Plays;
use crate::rtsp::player::{
    BoxFuture, Joined, MediaSink, OnEvent, OpenError, PlayRange, PlaybackFailure, Presentation, Reply,
    SessionPlayback, TrackSource, trailer,
};
use crate::waiting_play::WaitingPlay;

/// Most concurrent searches for names in other letter case.
pub(crate) const SEARCHES: usize = 4;

/// Assets of libraries, played from a store's images.
#[derive(Clone)]
pub(crate) struct AssetPlayer {
    pub(crate) store: Arc<Store>,
    pub(crate) playbacks: Arc<Playbacks>,
    pub(crate) hot: Option<Arc<HotMemory>>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) plays: Arc<Plays>,
    /// Permits of searches for names in other letter case, [`SEARCHES`]: clients with names that do not exist
    /// must not keep all threads busy.
    pub(crate) searches: Arc<Semaphore>,
    /// Longest bursts of folders.
    pub(crate) bursts: Arc<BurstLimits>,
    /// Lateness beyond which a client over TCP skips forward.
    pub(crate) max_lag_us: u64,
    /// Multicast groups, if there are any.
    pub(crate) groups: Option<Arc<MulticastGroups>>,
}

struct AssetPresentation {
    name: String,
    client: IpAddr,
    played_as: PlayedAs,
    asset: DropOnPool<Arc<File>>,
    image: Arc<Image>,
    player: AssetPlayer,
}

/// Bit rate limit of fast forward while the asset's bit rate is not known yet.
const USUAL_BITS_PER_SECOND: u64 = 4_000_000;

/// A playback with its image, by which times are located.
struct ImagePlayback {
    image: Arc<Image>,
    playback: Arc<playback::Playback>,
    /// All playbacks, for adding streams to this one.
    playbacks: Arc<Playbacks>,
    max_lag_us: u64,
    _hot: Option<HotSession>,
    plays: Arc<Plays>,
    /// Request to play that waits until the image has grown to the requested time.
    waiting: WaitingPlay,
}

impl AssetPlayer {
    /// Opens the presentation at a path of a library, for a client at an address.
    pub(crate) async fn open(
        &self,
        library: &Arc<Library>,
        path: &[u8],
        played_as: PlayedAs,
        client: IpAddr,
    ) -> Result<Arc<dyn Presentation>, OpenError> {
        let path = AssetPath::from_decoded(path).map_err(|_| OpenError::NotFound)?;
        let (player, files, exact) = (self.clone(), Arc::clone(library), path.clone());
        let opened = blocking(move || match files.find(&exact).map_err(find_error)? {
            Found::File(asset) if !exact.names_folder() => {
                player.open_found(&exact, asset, played_as, client)
            }
            Found::File(_) => Err(OpenError::NotFound),
            Found::Folder => Err(OpenError::Folder),
        });
        match opened.await {
            Err(OpenError::NotFound) => self.open_in_other_case(library, path, played_as, client).await,
            result => result,
        }
    }

    /// The multicast groups; an error if there are none.
    pub(crate) fn groups(&self) -> Result<&Arc<MulticastGroups>, OpenError> {
        self.groups.as_ref().ok_or_else(|| OpenError::Failed("there are no groups".to_owned()))
    }

    /// Opens the presentation at a path that differs from this one only in letter case.
    async fn open_in_other_case(
        &self,
        library: &Arc<Library>,
        path: AssetPath,
        played_as: PlayedAs,
        client: IpAddr,
    ) -> Result<Arc<dyn Presentation>, OpenError> {
        let _search = self.searches.acquire().await;
        let (player, files) = (self.clone(), Arc::clone(library));
        blocking(move || {
            let (path, asset) = files.find_file_in_other_case(&path).map_err(find_error)?;
            player.open_found(&path, asset, played_as, client)
        })
        .await
    }

    /// Opens the presentation of an asset. May wait for storage.
    fn open_found(
        self,
        path: &AssetPath,
        asset: Asset,
        played_as: PlayedAs,
        client: IpAddr,
    ) -> Result<Arc<dyn Presentation>, OpenError> {
        let asset = Arc::new(asset.file);
        let name = String::from_utf8_lossy(path.as_bytes()).into_owned();
        let limits = self.store.usual_limits();
        let image =
            self.store.image_to_follow(client, Arc::clone(&asset), &name, limits, played_as, Follow::Growing);
        let image = image.map_err(open_error)?;
        let asset = DropOnPool::new(asset, self.playbacks.engine().pool());
        Ok(Arc::new(AssetPresentation { name, client, played_as, asset, image, player: self }))
    }
}

impl Presentation for AssetPresentation {
    fn describe(&self) -> Description {
        describe(&self.image, &self.name)
    }

    fn bits_per_second(&self) -> Option<u64> {
        self.image.summary().bits_per_second()
    }

    fn tracks(&self) -> u8 {
        streams(&self.image)
    }

    fn set_up(
        &self,
        track: u8,
        sink: MediaSink,
        most_burst_us: Option<u64>,
        on_event: OnEvent,
    ) -> BoxFuture<'_, Result<Box<dyn SessionPlayback>, OpenError>> {
        Box::pin(async move {
            let image = match &sink {
                MediaSink::Udp(socket, key) => self.image_for(socket, trailer(key.as_ref())).await?,
                MediaSink::Interleaved(..) => Arc::clone(&self.image),
            };
            // Encrypted packets are not sent from registered memory.
            let hot_layout = match &sink {
                MediaSink::Udp(_, None) => Some(CopyLayout::Packets),
                MediaSink::Interleaved(writer, channel, None) if writer.can_lend(track, *channel) => {
                    Some(CopyLayout::Frames)
                }
                MediaSink::Udp(..) | MediaSink::Interleaved(..) => None,
            };
            let AssetPlayer { playbacks, max_lag_us, bursts, hot, plays, .. } = &self.player;
            let options = PlaybackOptions {
                source: Arc::clone(&image) as Arc<dyn TrainSource>,
                streams: streams(&image),
                sink: stream_sink(&image, track, sink, *max_lag_us),
                most_burst_us: most_burst_us.unwrap_or(u64::MAX).min(bursts.most_us(&self.name)),
                on_event,
            };
            let playback = playbacks.open(options).map_err(socket_error)?;
            let playback = ImagePlayback {
                _hot: hot.as_ref().zip(hot_layout).and_then(|(hot, layout)| hot.session(&image, layout)),
                image,
                playback: Arc::new(playback),
                playbacks: Arc::clone(playbacks),
                max_lag_us: *max_lag_us,
                plays: Arc::clone(plays),
                waiting: WaitingPlay::default(),
            };
            Ok(Box::new(playback) as Box<dyn SessionPlayback>)
        })
    }

    fn join(&self, on_event: OnEvent) -> BoxFuture<'_, Result<Joined, OpenError>> {
        Box::pin(async move {
            let groups = self.player.groups()?;
            let image = self.image_for(&groups.first().connect(0).map_err(socket_error)?, 0).await?;
            groups.join(Box::new(AssetMedia(image)), self.client, on_event)
        })
    }
}

impl AssetPresentation {
    /// Image whose packets, each with a trailer of so many bytes, fit the path that `socket` is connected
    /// over. It is nearly always the image that is already open.
    async fn image_for(&self, socket: &UdpSocket, trailer: u32) -> Result<Arc<Image>, OpenError> {
        let limits = self.player.store.limits_of(socket, trailer).map_err(limits_error)?;
        if limits.recipe_like(self.image.plan().recipe) == self.image.plan().recipe {
            return Ok(Arc::clone(&self.image));
        }
        let (store, asset, name, client) =
            (Arc::clone(&self.player.store), Arc::clone(&self.asset), self.name.clone(), self.client);
        let played_as = self.played_as;
        blocking(move || {
            let image = store.image_to_follow(client, asset, &name, limits, played_as, Follow::Growing);
            image.map_err(open_error)
        })
        .await
    }
}

impl SessionPlayback for ImagePlayback {
    fn tracks(&self) -> u8 {
        streams(&self.image)
    }

    fn add(&self, track: u8, sink: MediaSink) -> Result<(), OpenError> {
        let sink = stream_sink(&self.image, track, sink, self.max_lag_us);
        self.playbacks.add(&self.playback, sink).map_err(socket_error)
    }

    fn scanned_track(&self) -> Option<u8> {
        self.image.scanned_track()
    }

    fn newest_us(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(self.image.newest_us())
    }

    fn source(&self, track: u8) -> TrackSource {
        let StreamPlan { ssrc, clock_hz, .. } = stream_plan(&self.image, track);
        TrackSource { ssrc, clock_hz }
    }

    fn play(&self, range: PlayRange, reply: Reply<Position>) {
        self.waiting.cancel();
        let PlayRange { from_us, until_us, speed, scale, .. } = range;
        let pictures = self.scanned_track().filter(|_| !scale.is_normal()).map(|stream| Pictures {
            scale,
            stream,
            bits_per_second: self.image.summary().bits_per_second().unwrap_or(USUAL_BITS_PER_SECOND),
        });
        let request = PlayRequest { until_us, speed, pictures, ..PlayRequest::default() };
        let Some(from_us) = from_us else {
            return self.playback.play_as(request, reply);
        };
        match self.image.locate(from_us) {
            SeekResult::At(cursor) => {
                self.playback.play_as(PlayRequest { from: Some(cursor), ..request }, reply);
            }
            SeekResult::BeyondEnd => reply(Err(PlayError::BeyondEnd)),
            SeekResult::NotYet => {
                let (image, playback) = (Arc::clone(&self.image), Arc::clone(&self.playback));
                let search = async move { image.place_at(from_us).await };
                self.waiting.start_at(search, move |place| match place {
                    Ok(cursor) => playback.play_as(PlayRequest { from: Some(cursor), ..request }, reply),
                    Err(error) => reply(Err(error)),
                });
            }
        }
    }

    fn release(&self) {
        self.playback.release();
    }

    fn pause(&self, reply: Reply<u64>) {
        self.waiting.cancel();
        self.playback.pause(reply);
    }

    fn stop(&self, reply: Reply<u64>) {
        self.waiting.cancel();
        self.playback.stop(reply);
    }

    fn progress(&self) -> Progress {
        self.playback.progress()
    }

    fn track_progress(&self, track: u8) -> StreamProgress {
        self.playback.stream_progress(track)
    }

    fn failure(&self) -> Option<PlaybackFailure> {
        match &*self.image.progress().borrow() {
            ImageProgress::Failed(failure) => {
                Some(PlaybackFailure { reason: failure.public.to_string(), is_asset: failure.is_asset })
            }
            ImageProgress::Growing { .. } | ImageProgress::Complete => None,
        }
    }

    fn duration_us(&self) -> Option<u64> {
        self.image.duration_us()
    }

    fn reason(&self) -> &str {
        self.playback.reason()
    }

    fn asset(&self) -> Option<&str> {
        Some(self.image.name())
    }

    fn count_play(&self) {
        self.plays.count(self.image.name());
    }
}

/// Number of streams of an image; each stream is a track.
fn streams(image: &Image) -> u8 {
    image.plan().streams.len() as u8 // 16 at most
}

/// Plan of the stream of a track; the plan of the first stream for a track that the image does not have.
pub(crate) fn stream_plan(image: &Image, track: u8) -> StreamPlan {
    let streams = &image.plan().streams;
    streams.get(usize::from(track)).copied().unwrap_or(streams[0])
}

/// A track's stream of an image, and its receiver.
pub(crate) fn stream_sink(image: &Image, track: u8, sink: MediaSink, max_lag_us: u64) -> StreamSink {
    let (sink, key) = match sink {
        MediaSink::Udp(socket, key) => {
            (PlaybackSink::Udp { socket, packet_size: image.plan().recipe.packet_size() }, key)
        }
        MediaSink::Interleaved(writer, channel, key) => {
            (PlaybackSink::Interleaved { writer, channel, max_lag_us }, key)
        }
    };
    let timestamps = match image.plan().recipe.is_transport_stream() {
        true => Timestamps::Departure,
        false => {
            let StreamPlan { timestamp, clock_hz, .. } = stream_plan(image, track);
            Timestamps::Presentation { first: timestamp, clock_hz }
        }
    };
    StreamSink { stream: track, timestamps, sink, key, replay: None }
}

pub(crate) fn socket_error(error: io::Error) -> OpenError {
    OpenError::Failed(format!("cannot set up the socket for RTP: {error}"))
}

pub(crate) async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    match tokio::task::spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => Err(OpenError::Failed(format!("opening the asset failed: {error}"))),
    }
}

pub(crate) fn find_error(error: FindError) -> OpenError {
    match error {
        FindError::NotFound => OpenError::NotFound,
        FindError::Exhausted => OpenError::Exhausted(error.to_string()),
        FindError::Unread => OpenError::NotYet(error.to_string()),
        FindError::Forbidden => OpenError::Forbidden(error.to_string()),
        FindError::Io(_) => OpenError::Failed(error.to_string()),
    }
}

pub(crate) fn limits_error(error: LimitsError) -> OpenError {
    match error {
        LimitsError::Mtu(error) => OpenError::Failed(format!("cannot determine the path MTU: {error}")),
        LimitsError::Store(error) => open_error(error),
    }
}

pub(crate) fn open_error(error: StoreError) -> OpenError {
    if let StoreError::Io(_, source) | StoreError::Folder(FolderError::Io(_, source)) = &error
        && is_out_of_descriptors(source)
    {
        return OpenError::Exhausted(error.to_string());
    }
    match error {
        StoreError::Folder(FolderError::Budget { .. } | FolderError::DiskFull(..)) => {
            OpenError::NoSpace(error.public())
        }
        StoreError::NotPlayable(reason) => OpenError::NotPlayable(reason),
        StoreError::AddressBusy => OpenError::AtLimit(error.to_string()),
        StoreError::Busy | StoreError::Stopped => OpenError::Busy(error.to_string()),
        StoreError::Folder(FolderError::Io(..))
        | StoreError::Io(..)
        | StoreError::Mtu(_)
        | StoreError::Panicked => OpenError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_to_try_later_only_where_that_may_help() {
        let denied = || Arc::new(io::Error::from(io::ErrorKind::PermissionDenied));
        let folder = StoreError::Folder(FolderError::Io("cache".into(), denied()));
        assert!(matches!(open_error(folder), OpenError::Failed(_)));
        assert!(matches!(open_error(StoreError::Io("reading", denied())), OpenError::Failed(_)));
        assert!(matches!(open_error(StoreError::Busy), OpenError::Busy(_)));
    }
}
