//! Session: set up like a player or downloader, and then played until it ends.

mod http;
mod rtsp;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::failure::Failure;
use crate::options::Options;
use crate::record::{Ending, SessionRecord};
use crate::shared_pairs::SharedPairs;
use crate::target::Scheme;
use crate::totals::Totals;

use http::Playlists;

/// Playing time within which media need not have been received.
const SHORT_US: i64 = 1_000_000;

/// Maximum number of bytes read at once.
const READ: usize = 256 << 10;

/// Maximum number of bytes discarded at once.
const DISCARD: usize = 4 << 20;

/// Number of bytes that must have been received before a session that discards them is woken.
const DISCARD_WATERMARK: u32 = 128 << 10;

/// Maximum memory of all playlists and of texts that are being read, since a server may send each session a
/// different playlist.
pub(crate) const PLAYLIST_MEMORY: usize = 512 << 20;

const USER_AGENT: &str = concat!("wirepath-load/", env!("CARGO_PKG_VERSION"));

/// State shared by all sessions.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    /// Time of the end of the run. Sessions then end one after another, and do not read any more.
    pub(crate) stopped_us: AtomicI64,
    pub(crate) totals: Totals,
    pub(crate) pairs: SharedPairs,
    /// Playlists of HTTP sessions.
    pub(crate) playlists: Playlists,
    /// Number of silently vanished sessions whose sockets are kept.
    pub(crate) silent: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Shared {
        Shared {
            options,
            clock: Clock::start(),
            stopped_us: AtomicI64::new(i64::MAX),
            totals: Totals::default(),
            pairs: SharedPairs::default(),
            playlists: Playlists::default(),
            silent: AtomicUsize::new(0),
        }
    }

    /// Current time, but at most the time of the end of the run.
    fn until_stop_us(&self) -> i64 {
        self.clock.now_us().min(self.stopped_us.load(Relaxed))
    }

    /// Reserves a place among the silently vanished sessions. Returns whether there was a free place.
    fn keeps_silent(&self) -> bool {
        let most = self.options.most_silent();
        self.silent.fetch_update(Relaxed, Relaxed, |silent| (silent < most).then_some(silent + 1)).is_ok()
    }

    /// Connects to the server of a session. The local addresses are used in turn.
    async fn connect(&self, plan: Plan) -> Result<TcpStream, Failure> {
        let options = &self.options;
        let is_apart = plan.judged && !options.sample_from.is_empty();
        let addresses = if is_apart { &options.sample_from } else { &options.from };
        let from = match addresses.len() {
            0 => None,
            length => Some(addresses[(plan.number % length as u64) as usize]),
        };
        let opening = open(options.targets[plan.target].address, from);
        match tokio::time::timeout(options.timeout, opening).await {
            Ok(opened) => opened.map_err(Failure::Connect),
            Err(_) => Err(Failure::Timeout("the connection")),
        }
    }
}

async fn open(server: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if server.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(from) = from {
        socket.bind((from, 0).into())?;
    }
    let stream = socket.connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Session to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) number: u64,
    /// Index of the asset.
    pub(crate) target: usize,
    pub(crate) judged: bool,
    pub(crate) seed: u64,
}

/// Finished session. `silent` has the sockets of a silently vanished session.
pub(crate) struct Finished {
    pub(crate) record: SessionRecord,
    pub(crate) silent: Option<Box<dyn Send>>,
}

/// Plays a session from its beginning to its end.
pub(crate) async fn play(shared: Arc<Shared>, plan: Plan, stop: watch::Receiver<bool>) -> Finished {
    shared.totals.started.fetch_add(1, Relaxed);
    match shared.options.targets[plan.target].scheme {
        Scheme::Rtsp => rtsp::play(shared, plan, stop).await,
        Scheme::Http => http::play(shared, plan, stop).await,
    }
}

/// Sets up sessions on a single connection, at this rate, until a request fails.
pub(crate) async fn storm(shared: &Shared, number: u64, rate: f64) -> Failure {
    rtsp::storm(shared, number, rate).await
}

impl SessionRecord {
    pub(super) fn new(shared: &Shared, plan: Plan, started_us: i64) -> SessionRecord {
        SessionRecord {
            number: plan.number,
            url: shared.options.targets[plan.target].url.clone(),
            judged: plan.judged,
            started_s: started_us as f64 / 1e6,
            played_s: 0.0,
            never_played: false,
            ending: Ending::Failed,
            failure: None,
            setup_ms: None,
            seeks: 0,
            receiver_reports: None,
            sender_reports: None,
            media: None,
            http: None,
            dropped_buffers: 0,
            discarded_bytes: 0,
        }
    }
}
