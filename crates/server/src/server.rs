//! The server: library, image store, engine and both listeners, from start to the end of draining.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use wirepath_datapath::{DataPath, Lending};
use wirepath_engine::Engine;
use wirepath_net::auth::{AccessControl, AuthOptions};
use wirepath_net::handed_sockets::HandedSockets;
use wirepath_net::http::{self, Endpoint, HttpOptions};
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_net::tls::Terminator;
use wirepath_net::{DescriptorBudget, RuntimeThreads, raise_descriptor_limit};
use wirepath_playback::{Burst, Playbacks};

use crate::admission::{Admission, AdmissionPolicy};
use crate::asset_player::{AssetPlayer, SEARCHES};
use crate::burst_limits::{BurstLimits, FolderBurst};
use crate::catalog::{Catalog, CatalogOptions, CatalogPlayer, CurrentCatalog};
use crate::core::{CoreOptions, MediaCore};
use crate::heap_trim::{self, HeapTrim};
use crate::http::{AssetRates, CurrentFields, LibrarySite, LoanControl, ResponseFields, SessionEnd};
use crate::images::{HotMemorySize, ImagePolicy, Store};
use crate::library::Library;
use crate::link;
use crate::multicast::{MulticastGroups, MulticastRange};
use crate::reload::{Reloader, warn_of_idle_options, warn_of_idle_users};
use crate::rtsp::{self, RtspOptions};
use crate::session_limit;
use crate::start_error::{StartError, listen};
use crate::status;
use crate::tls::{TlsAddresses, TlsListeners, TlsOptions};

/// Time limit of draining, after which connections are cut.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Interval of log lines about the connections that a server still serves after a handover.
const LEFT_INTERVAL: Duration = Duration::from_secs(60);

/// Interval of balancing the threads' loads.
const BALANCE_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit of writing data for the next start.
const KEEP_LIMIT: Duration = Duration::from_secs(2);

/// All options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Files, archives and channels to serve.
    pub catalog: CatalogOptions,
    /// RTSP listen address.
    pub rtsp: SocketAddr,
    /// HTTP listen address.
    pub http: SocketAddr,
    /// Folder for wire images.
    pub cache: PathBuf,
    /// Most bytes of wire images.
    pub cache_bytes: u64,
    /// Assets for which wire images are made.
    pub images: ImagePolicy,
    /// Most bytes of wire images written per second in the background.
    pub image_bytes_per_second: u64,
    /// Most memory that packings hold before others wait, in bytes; none for a share of the machine's memory.
    pub packing_memory_bytes: Option<u64>,
    /// Most packings at the request of one client address, waiting or running.
    pub packings_per_address: usize,
    /// Memory for images, registered with io_uring.
    pub hot_memory: HotMemorySize,
    /// Engine threads.
    pub threads: usize,
    /// The data path to use; none for the cheapest that works.
    pub path: Option<DataPath>,
    /// File of the measured costs of data paths; it is written if it does not contain the cheapest path of
    /// this machine.
    pub calibration: PathBuf,
    /// Length of bursts.
    pub burst: Burst,
    /// Longest bursts of folders.
    pub folder_bursts: Vec<FolderBurst>,
    /// Most RTSP sessions; none for as many as open files allow, up to 10,000.
    pub max_sessions: Option<usize>,
    /// True if an address may not hold more descriptors than are left for other addresses.
    pub bounds_addresses: bool,
    /// Lateness beyond which a session over TCP skips forward because its client reads too slowly.
    pub max_lag: Duration,
    /// Rule by which sessions are admitted.
    pub admission: AdmissionPolicy,
    /// Authentication of clients; none for everyone.
    pub auth: Option<AuthOptions>,
    /// TLS; none for none.
    pub tls: Option<TlsOptions>,
    /// Options of the RTSP listener.
    pub rtsp_options: RtspOptions,
    /// Options of the HTTP listener.
    pub http_options: HttpOptions,
    /// Multicast groups that sessions may ask for; none for none.
    pub multicast: Option<MulticastRange>,
    /// Fields of HTTP responses.
    pub response_fields: ResponseFields,
    /// Rule by which trains and files are sent without a copy, until an administrator sets another one.
    pub lend: Lending,
    /// Time for which sessions continue after a handover.
    pub drain: Duration,
}

/// Server that listens.
pub struct Server {
    rtsp: (rtsp::Listener, TcpListener),
    http: (http::Listener, TcpListener),
    tls: Option<TlsListeners>,
    site: LibrarySite,
    engine: Arc<Engine>,
    store: Arc<Store>,
    reloader: Reloader,
    /// Becomes true when no more connections are to be accepted.
    closing: watch::Sender<bool>,
    drain: Duration,
}

impl Server {
    /// Opens everything; must be called on a tokio runtime, like `run`. Opens the listening sockets that were
    /// not passed in.
    pub fn start(options: ServerOptions, mut handed: HandedSockets) -> Result<Server, StartError> {
        let open_files = raise_descriptor_limit();
        let library = open_library(&options)?;
        let access = options.auth.as_ref().map(AccessControl::open).transpose()?;
        let MediaCore { engine, playbacks, hot, store, plays } = MediaCore::start(&core_options(&options))?;
        playbacks.lending().set(options.lend);

        let rtsp_listener = listen("RTSP", options.rtsp, &mut handed)?;
        let http_listener = listen("HTTP", options.http, &mut handed)?;
        let policy = with_link(options.admission, options.rtsp);
        let admission = Arc::new(Admission::new(Arc::clone(&playbacks), policy));
        tokio::spawn(balance(Arc::downgrade(&playbacks), Arc::downgrade(&admission)));
        let bursts = Arc::new(BurstLimits::new(options.folder_bursts));
        let fields = CurrentFields::new(options.response_fields);
        let descriptors = DescriptorBudget::new(open_files, options.bounds_addresses);
        if let Some(range) = &options.multicast {
            range.check_interface().map_err(StartError::Multicast)?;
        }
        let groups = options.multicast.map(|range| {
            let (playbacks, plays) = (Arc::clone(&playbacks), Arc::clone(&plays));
            Arc::new(MulticastGroups::new(range, playbacks, plays, Arc::clone(&descriptors)))
        });
        let catalog = Catalog::open(options.catalog, library, &store, engine.pool());
        let catalog = CurrentCatalog::new(catalog.map_err(|error| StartError::Catalog(Box::new(error)))?);
        let assets = AssetPlayer {
            store: Arc::clone(&store),
            playbacks: Arc::clone(&playbacks),
            hot: hot.clone(),
            bursts: Arc::clone(&bursts),
            max_lag_us: options.max_lag.as_micros() as u64,
            admission: Arc::clone(&admission),
            plays: Arc::clone(&plays),
            searches: Arc::new(Semaphore::new(SEARCHES)),
            groups,
        };
        let player = CatalogPlayer::new(assets, Arc::clone(&catalog));
        let silence_limit = options.rtsp_options.session_timeout;
        let tls = options.tls.map(|tls| TlsListeners::open(tls, options.threads, silence_limit, &mut handed));
        let tls = tls.transpose()?;
        // The descriptors of the runtimes are counted among those that the process holds for itself.
        let http_threads = RuntimeThreads::start("http", options.threads)?;
        let sessions = session_limit::sessions(options.max_sessions, open_files, &descriptors)?;
        let rtsp_options = RtspOptions { sessions, ..options.rtsp_options };
        let rtsp_service =
            rtsp::Listener::new(Arc::new(player), rtsp_options, Arc::clone(&descriptors), access.clone());
        let closing = watch::Sender::new(false);
        let http_service = http::Listener::new(options.http_options).within(descriptors).on(http_threads);
        let http_service = http_service.closing_on(closing.subscribe()).lending(playbacks.lending().clone());

        let (mut metrics, mut status) = (Metrics::of_process(), Status::new(Instant::now()));
        rtsp_service.register(&mut metrics, &mut status);
        http_service.register(&mut metrics, &mut status);
        AccessControl::register(access.as_ref(), &mut metrics, &mut status);
        Terminator::register(tls.as_ref().map(|tls| &tls.terminator), &mut metrics, &mut status);
        add_status(&mut status, &catalog, &admission, access.clone(), closing.subscribe());
        catalog.look_up_plays(&plays);
        status::register(&playbacks, &store, hot, Arc::clone(&plays), &mut metrics, &mut status);
        let endpoint = Endpoint::new(metrics, status);
        let terminator = tls.as_ref().map(|tls| Arc::clone(&tls.terminator));
        let reloader = Reloader {
            catalog: Arc::clone(&catalog),
            store: Arc::clone(&store),
            pool: engine.pool().clone(),
            access: access.clone(),
            terminator,
            fields: Arc::clone(&fields),
            bursts,
            plays,
        };
        let site = LibrarySite::of(catalog, endpoint, rtsp_listener.local_addr()?.port(), open_files);
        let session_end = SessionEnd::new(rtsp_service.session_control());
        let site = site.yielding_to(admission).for_users(access).with_session_end(session_end);
        let site = site.with_asset_rates(AssetRates::new(Arc::clone(&store)));
        let site = site.with_loans(LoanControl::new(playbacks));
        let site = site.with_tunnels(rtsp_service.tunnel_entrance()).with_fields(fields);
        let (rtsp, http) = ((rtsp_service, rtsp_listener), (http_service, http_listener));
        Ok(Server { rtsp, http, tls, site, engine, store, reloader, closing, drain: options.drain })
    }

    /// Handle to the options that can be changed while the server runs.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// Addresses that listen for TLS.
    pub fn tls_addresses(&self) -> TlsAddresses {
        self.tls.as_ref().map(|tls| tls.addresses).unwrap_or_default()
    }

    /// Address that RTSP listens on.
    pub fn rtsp_address(&self) -> io::Result<SocketAddr> {
        self.rtsp.1.local_addr()
    }

    /// Address that HTTP listens on.
    pub fn http_address(&self) -> io::Result<SocketAddr> {
        self.http.1.local_addr()
    }

    /// The listening sockets by name, for a successor.
    ///
    /// # Errors
    /// Too many open files.
    pub fn sockets(&self) -> io::Result<Vec<(&'static str, OwnedFd)>> {
        let mut sockets = vec![("rtsp", owned(&self.rtsp.1)?), ("http", owned(&self.http.1)?)];
        if let Some(tls) = &self.tls {
            if let Some(rtsps) = &tls.rtsps {
                sockets.push(("rtsps", owned(rtsps)?));
            }
            if let Some(https) = &tls.https {
                sockets.push(("https", owned(https)?));
            }
        }
        Ok(sockets)
    }

    /// Keeper of the popularity of assets, for the next run.
    pub fn popularity(&self) -> PopularityKeeper {
        PopularityKeeper(Arc::clone(&self.store))
    }

    /// Serves until `stop` is done, then drains: sessions end with a BYE, responses are finished, for ten
    /// seconds at most. Returns whether all were done by then.
    ///
    /// When `handed_over` is done another server has the listening sockets: this server accepts no more,
    /// serves its connections until they end, and drains when [`drain`](ServerOptions::drain) has passed.
    pub async fn run(self, stop: impl Future<Output = ()>, handed_over: impl Future<Output = ()>) -> bool {
        let Server { rtsp: (rtsp_service, rtsp_listener), http: (http_service, http_listener), .. } = self;
        let (site, engine, closing, popularity) =
            (self.site, self.engine, self.closing, PopularityKeeper(self.store));
        let (drain, draining) = watch::channel(false);
        let mut tls = self.tls;
        let http_service = match tls.as_mut().and_then(|tls| Some((tls.https.take()?, &tls.terminator))) {
            Some((listener, terminator)) => http_service.securely(listener, Arc::clone(terminator)),
            None => http_service,
        };
        let secure = async {
            if let Some(TlsListeners { terminator, rtsps: Some(listener), .. }) = tls {
                rtsp_service
                    .serve_securely(listener, terminator, closing.subscribe(), draining.clone())
                    .await;
            }
        };
        let services = async {
            tokio::join!(
                rtsp_service.serve(rtsp_listener, closing.subscribe(), draining.clone()),
                secure,
                http_service.serve(http_listener, site, engine, draining.clone()),
            )
        };
        let (mut services, mut stop) = (pin!(services), pin!(stop));
        let is_successor_there = tokio::select! {
            _ = &mut services => return true, // they end only when told to, or when they cannot go on
            () = &mut stop => false,
            () = handed_over => true,
        };
        closing.send_replace(true);
        if is_successor_there {
            tokio::select! {
                _ = &mut services => {
                    tracing::info!("the last connection has ended after the handover");
                    return true;
                }
                () = stop => {}
                () = tokio::time::sleep(self.drain) => {}
                () = report_left(&rtsp_service) => {}
            }
        }
        tracing::info!("draining");
        drain.send_replace(true);
        let in_time = timeout(DRAIN_LIMIT, services).await.is_ok();
        if !is_successor_there {
            popularity.keep().await; // else it is the successor's
        }
        in_time
    }
}

/// Keeps the popularity of assets for the next server of the cache folder.
#[derive(Clone)]
pub struct PopularityKeeper(Arc<Store>);

impl PopularityKeeper {
    /// Writes the popularity; waits for storage for two seconds at most.
    pub async fn keep(&self) {
        let store = Arc::clone(&self.0);
        let kept = tokio::task::spawn_blocking(move || store.keep_popularity());
        if timeout(KEEP_LIMIT, kept).await.is_err() {
            tracing::warn!("the popularity of assets is not stored: the cache folder does not answer");
        }
    }
}

fn open_library(options: &ServerOptions) -> Result<Arc<Library>, StartError> {
    let library = Library::open(&options.catalog.paths);
    let library = library.map_err(|error| StartError::Catalog(Box::new(error)))?;
    if let Some(auth) = &options.auth {
        warn_of_idle_users(&library, &auth.folders);
    }
    warn_of_idle_options(&library, &options.response_fields, &options.folder_bursts);
    Ok(Arc::new(library))
}

fn core_options(options: &ServerOptions) -> CoreOptions {
    CoreOptions {
        cache: options.cache.clone(),
        cache_bytes: options.cache_bytes,
        images: options.images,
        image_bytes_per_second: options.image_bytes_per_second,
        packing_memory_bytes: options.packing_memory_bytes,
        packings_per_address: options.packings_per_address,
        keeps_popularity: true,
        hot_memory: options.hot_memory,
        sends_stored_headers: true,
        threads: options.threads,
        path: options.path,
        calibration: options.calibration.clone(),
        burst: options.burst,
    }
}

/// Adds the state of draining, administration, archives, channels and admission to the status.
fn add_status(
    status: &mut Status,
    catalog: &Arc<CurrentCatalog>,
    admission: &Arc<Admission>,
    access: Option<Arc<AccessControl>>,
    draining: watch::Receiver<bool>,
) {
    status.add("draining", move || (*draining.borrow()).into());
    status.add("ends_sessions", move || {
        access.as_ref().is_some_and(|access| access.has_administrators()).into()
    });
    let listed = Arc::clone(catalog);
    status.add("archives", move || {
        listed.get().archives.folders().iter().map(|folder| folder.json()).collect()
    });
    let listed = Arc::clone(catalog);
    status.add("channels", move || listed.get().channels.json());
    let shown = Arc::clone(admission);
    status.add("capacity", move || shown.json());
}

/// The admission policy with the speed of the links, unless it has a rate or clients can only be local.
fn with_link(policy: AdmissionPolicy, rtsp: SocketAddr) -> AdmissionPolicy {
    match policy {
        AdmissionPolicy::Measured { reserve, max_rate: None } if !rtsp.ip().is_loopback() => {
            AdmissionPolicy::Measured { reserve, max_rate: link::bits_per_second() }
        }
        policy => policy,
    }
}

fn owned(listener: &TcpListener) -> io::Result<OwnedFd> {
    listener.as_fd().try_clone_to_owned()
}

/// Logs repeatedly how many connections are left. Never returns.
async fn report_left(rtsp: &rtsp::Listener) {
    loop {
        let (connections, sessions) = rtsp.open();
        tracing::info!(connections, sessions, "handed over; serving the remaining RTSP connections");
        tokio::time::sleep(LEFT_INTERVAL).await;
    }
}

/// While there are playbacks: balances the threads' loads, measures them for admission, and returns memory of
/// ended sessions.
async fn balance(playbacks: Weak<Playbacks>, admission: Weak<Admission>) {
    let mut heap_trim = HeapTrim::default();
    while let (Some(playbacks), Some(admission)) = (playbacks.upgrade(), admission.upgrade()) {
        playbacks.balance();
        admission.measure();
        if heap_trim.note(playbacks.number()) {
            heap_trim::trim();
        }
        drop((playbacks, admission));
        tokio::time::sleep(BALANCE_INTERVAL).await;
    }
}
