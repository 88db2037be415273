//! What the RTSP door plays from: the library finds an asset, the store its image, the engine sends it.

use std::fs::File;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use wirepath_http::AssetPath;
use wirepath_media::image::Recipe;
use wirepath_streams::datapath::{SendError, path_mtu};
use wirepath_streams::{self as streams, Deferred, Engine, PlaybackOptions};

use crate::images::{HotMemory, HotSession, Image, Progress as ImageProgress, SeekResult, Store, StoreError};
use crate::library::{FindError, Library};
use crate::rtsp::player::{
    Event, Facts, Later, OnEvent, OpenError, PlayError, Playback, Player, Position, Presentation, Progress,
    Reply, RtpClock,
};

/// Assets of a library, played by an engine from a store's images.
pub(crate) struct AssetPlayer {
    pub(crate) library: Arc<Library>,
    pub(crate) store: Arc<Store>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) hot: Option<Arc<HotMemory>>,
}

struct AssetPresentation {
    name: String,
    asset: Deferred<Arc<File>>,
    image: Arc<Image>,
    store: Arc<Store>,
    engine: Arc<Engine>,
    hot: Option<Arc<HotMemory>>,
}

/// A playback of the engine that knows its image, so that it can tell where a time is.
struct ImagePlayback {
    image: Arc<Image>,
    playback: Arc<streams::Playback>,
    _hot: Option<HotSession>,
    /// Dropped to call off a request to play that waits until the image has grown to the time it asks for.
    waiting: Mutex<Option<oneshot::Sender<()>>>,
}

impl Player for AssetPlayer {
    fn open<'a>(&'a self, path: &'a [u8]) -> Later<'a, Result<Arc<dyn Presentation>, OpenError>> {
        let path = AssetPath::from_decoded(path);
        Box::pin(async move {
            let path = path.map_err(|_| OpenError::NotFound)?;
            let (library, store) = (Arc::clone(&self.library), Arc::clone(&self.store));
            let (engine, hot) = (Arc::clone(&self.engine), self.hot.clone());
            blocking(move || open(&library, store, engine, hot, &path)).await
        })
    }
}

impl Presentation for AssetPresentation {
    fn facts(&self) -> Facts {
        let summary = self.image.summary();
        let identity = self.image.plan().identity;
        let (packet, payload) = (
            u64::from(self.image.plan().recipe.packet_size()),
            self.image.plan().recipe.payload_length() as u64,
        );
        /// Bytes of IPv4 and UDP headers in front of each packet.
        const BELOW: u64 = 28;
        Facts {
            name: self.name.clone(),
            id: identity.inode,
            version: identity.mtime_ns.unsigned_abs(),
            duration_us: summary.duration_us,
            bits_per_second: summary.bits_per_second().map(|rate| rate * (packet + BELOW) / payload),
        }
    }

    fn set_up(
        &self,
        socket: UdpSocket,
        on_event: OnEvent,
    ) -> Later<'_, Result<Box<dyn Playback>, OpenError>> {
        Box::pin(async move {
            let image = self.image_for(&socket).await?;
            let options = PlaybackOptions {
                source: Arc::clone(&image) as Arc<dyn streams::TrainSource>,
                socket,
                packet_size: image.plan().recipe.packet_size(),
                burst_us: image.plan().recipe.burst_us.into(),
                on_event: Box::new(move |event| on_event(event_of(event))),
            };
            let playback = self.engine.playback(options).map_err(|error| {
                OpenError::Failed(format!("the socket for RTP could not be set up: {error}"))
            })?;
            let hot = self.hot.as_ref().and_then(|hot| hot.session(&image));
            let playback = Arc::new(playback);
            let playback = ImagePlayback { image, playback, _hot: hot, waiting: Mutex::default() };
            Ok(Box::new(playback) as Box<dyn Playback>)
        })
    }
}

impl AssetPresentation {
    /// The image whose packets fit the path that `socket` is connected over: nearly always the one that is open.
    async fn image_for(&self, socket: &UdpSocket) -> Result<Arc<Image>, OpenError> {
        let recipe = recipe_for(&self.store, socket)?;
        if recipe == self.image.plan().recipe {
            return Ok(Arc::clone(&self.image));
        }
        let (store, asset, name) = (Arc::clone(&self.store), Arc::clone(&self.asset), self.name.clone());
        blocking(move || store.image(asset, &name, recipe).map_err(open_error)).await
    }
}

impl Playback for ImagePlayback {
    fn ssrc(&self) -> u32 {
        self.image.plan().ssrc
    }

    fn play(&self, from_us: Option<u64>, until_us: Option<u64>, reply: Reply<Position>) {
        self.stop_waiting();
        let Some(from_us) = from_us else {
            return start(&self.playback, None, until_us, reply);
        };
        match self.image.locate(from_us) {
            SeekResult::At { cursor, .. } => start(&self.playback, Some(cursor), until_us, reply),
            SeekResult::BeyondEnd => reply(Err(PlayError::BeyondEnd)),
            SeekResult::NotYet => {
                let (image, playback) = (Arc::clone(&self.image), Arc::clone(&self.playback));
                let (waiting, called_off) = oneshot::channel::<()>();
                *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(waiting);
                tokio::spawn(async move {
                    let located = tokio::select! {
                        biased; // What was called off before must not start, though its place is there now.
                        _ = called_off => Err(PlayError::Failed("another request came first".to_owned())),
                        located = located(&image, from_us) => located,
                    };
                    match located {
                        Ok(cursor) => start(&playback, Some(cursor), until_us, reply),
                        Err(error) => reply(Err(error)),
                    }
                });
            }
        }
    }

    fn pause(&self, reply: Reply<u64>) {
        self.stop_waiting();
        self.playback.pause(move |result| reply(result.map_err(play_error)));
    }

    fn progress(&self) -> Progress {
        let progress = self.playback.progress();
        Progress {
            packets: progress.packets(),
            octets: progress.octets(),
            packets_lost: progress.packets_lost(),
            position_us: progress.position_us(),
            clock: progress.clock().map(|clock| RtpClock { at_us: clock.at_us, timestamp: clock.timestamp }),
            path: progress.path().name(),
        }
    }

    fn reason(&self) -> &str {
        self.playback.reason()
    }
}

impl ImagePlayback {
    fn stop_waiting(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Where a time is, once the image has grown so far.
async fn located(image: &Image, at_us: u64) -> Result<streams::Cursor, PlayError> {
    let mut progress = image.progress();
    loop {
        let now = progress.borrow_and_update().clone();
        match (image.locate(at_us), now) {
            (SeekResult::At { cursor, .. }, _) => return Ok(cursor),
            (SeekResult::BeyondEnd, _) => return Err(PlayError::BeyondEnd),
            (SeekResult::NotYet, ImageProgress::Failed(failure)) => {
                return Err(PlayError::Failed(failure.reason.to_string()));
            }
            (SeekResult::NotYet, _) => {}
        }
        if progress.changed().await.is_err() {
            return Err(PlayError::Failed("the image is gone".to_owned()));
        }
    }
}

fn start(
    playback: &streams::Playback,
    from: Option<streams::Cursor>,
    until_us: Option<u64>,
    reply: Reply<Position>,
) {
    playback.play(from, until_us, move |result| {
        let position = |position: streams::Position| Position {
            sequence: position.sequence,
            timestamp: position.timestamp,
            at_us: position.at_us,
        };
        reply(result.map(position).map_err(play_error));
    });
}

fn open(
    library: &Library,
    store: Arc<Store>,
    engine: Arc<Engine>,
    hot: Option<Arc<HotMemory>>,
    path: &AssetPath,
) -> Result<Arc<dyn Presentation>, OpenError> {
    let asset = library.find_file(path).map_err(find_error)?;
    let name = String::from_utf8_lossy(path.as_bytes()).into_owned();
    let asset = Arc::new(asset.file);
    let recipe = store.usual_recipe();
    let image = store.image(Arc::clone(&asset), &name, recipe).map_err(open_error)?;
    let asset = Deferred::new(asset, engine.readers());
    Ok(Arc::new(AssetPresentation { name, asset, image, store, engine, hot }))
}

/// The recipe for the path that a socket is connected over.
fn recipe_for(store: &Store, socket: &UdpSocket) -> Result<Recipe, OpenError> {
    let failed = |error| OpenError::Failed(format!("the path's MTU is not known: {error}"));
    let ip_header = if socket.local_addr().map_err(failed)?.is_ipv4() { 20 } else { 40 };
    store.recipe(path_mtu(socket).map_err(failed)?, ip_header).map_err(open_error)
}

async fn blocking<T: Send + 'static>(
    job: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    match tokio::task::spawn_blocking(job).await {
        Ok(result) => result,
        Err(error) => Err(OpenError::Failed(format!("opening the asset failed: {error}"))),
    }
}

fn find_error(error: FindError) -> OpenError {
    match error {
        FindError::NotFound => OpenError::NotFound,
        FindError::Exhausted => OpenError::Busy(error.to_string()),
        FindError::Forbidden | FindError::Io(_) => OpenError::Failed(error.to_string()),
    }
}

fn open_error(error: StoreError) -> OpenError {
    match error {
        StoreError::NotPlayable(reason) => OpenError::NotPlayable(reason),
        StoreError::Busy | StoreError::Stopped | StoreError::Cache(_) => OpenError::Busy(error.to_string()),
        StoreError::Io { .. } | StoreError::Mtu(_) => OpenError::Failed(error.to_string()),
    }
}

fn play_error(error: streams::PlayError) -> PlayError {
    match error {
        streams::PlayError::BeyondEnd => PlayError::BeyondEnd,
        error => PlayError::Failed(error.to_string()),
    }
}

fn event_of(event: streams::Event) -> Event {
    match event {
        streams::Event::Finished => Event::Finished,
        streams::Event::Failed(streams::PlayError::Send(SendError::Refused { .. })) => Event::Unreachable,
        streams::Event::Failed(error) => Event::Failed(error.to_string()),
    }
}
