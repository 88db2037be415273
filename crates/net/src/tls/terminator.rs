//! TLS handshakes, and threads for handshakes and encryption.

use std::io;
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use serde_json::json;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::{TlsError, TlsFiles, load};
use super::counters::{Counters, Counts, Failure};
use super::forward::forward;
use super::socket_pair::connected_pair;
use crate::keepalive::expect_acknowledgements;
use crate::listener::drained;
use crate::log_limit::LogLimit;
use crate::metrics::Metrics;
use crate::runtime_threads::RuntimeThreads;
use crate::status::Status;

/// Descriptors of a TLS connection: the client's, and a loopback pair.
pub const DESCRIPTORS: usize = 3;

/// Time limit of a handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Limit of unsent bytes in a client's connection, so that a late client is detected.
const UNSENT_BYTES: u32 = 128 * 1024;

/// Log lines per second about failed handshakes.
const LINES_PER_SECOND: u32 = 1;

/// TLS termination for a server's clients.
pub struct Terminator {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
    /// Locked from reading the files to replacing the certificate, so that an older reading does not come
    /// last.
    reload: Mutex<()>,
    threads: RuntimeThreads,
    /// Time limit for a client that acknowledges nothing.
    silence_limit: Duration,
    counters: Counters,
    log: LogLimit,
}

/// Failed handshake: counter label, and error.
type Failed = (Failure, io::Error);

impl Terminator {
    /// Reads certificate and key, and starts the threads. A client that acknowledges nothing for
    /// `silence_limit` is disconnected.
    pub fn open(files: TlsFiles, threads: usize, silence_limit: Duration) -> Result<Arc<Self>, TlsError> {
        let certificate = load(&files)?;
        let counters = Counters::default();
        counters.certificate_expires_seconds.set(certificate.expires_s);
        Ok(Arc::new(Self {
            files,
            config: RwLock::new(certificate.config),
            reload: Mutex::default(),
            threads: RuntimeThreads::start("tls", threads).map_err(TlsError::Threads)?,
            silence_limit,
            counters,
            log: LogLimit::new(LINES_PER_SECOND),
        }))
    }

    /// Reads certificate and key again, for future handshakes; unusable files leave the old ones in use.
    /// Waits for storage.
    pub fn reload(&self) {
        let _alone = self.reload.lock();
        match load(&self.files) {
            Ok(certificate) => {
                *self.config.write() = certificate.config;
                self.counters.certificate_expires_seconds.set(certificate.expires_s);
                self.counters.certificate_reloads.increment();
                let file = self.files.certificate.display();
                tracing::info!(%file, expires_s = certificate.expires_s, "TLS certificate is read again");
            }
            Err(error) => {
                self.counters.certificate_reloads_failed.increment();
                tracing::error!(%error, "the TLS certificate is unchanged; correct the file and send SIGHUP");
            }
        }
    }

    /// Adds counters and the certificate to metrics and status. Without TLS all counters are 0.
    pub fn register(terminator: Option<&Arc<Self>>, metrics: &mut Metrics, status: &mut Status) {
        let counted = terminator.cloned();
        metrics.register("tls", Counts::METRICS, move || {
            counted.as_ref().map_or_else(Counts::default, |terminator| terminator.counters.snapshot())
        });
        if let Some(terminator) = terminator.cloned() {
            status.add("tls", move || {
                json!({
                    "connections": terminator.counters.connections.value(),
                    "certificate_expires_s": terminator.counters.certificate_expires_seconds.value(),
                })
            });
        }
    }

    /// Serves a client: performs the handshake, runs `serve` on the decrypted connection, and waits until the
    /// client has received everything. A handshake in progress when `drain` becomes true is aborted.
    pub async fn serve<S: Future<Output = ()>>(
        self: Arc<Self>,
        client: TcpStream,
        peer: SocketAddr,
        mut drain: watch::Receiver<bool>,
        serve: impl FnOnce(TcpStream) -> S,
    ) {
        let client = match client.into_std() {
            Ok(client) => client,
            Err(error) => return tracing::debug!(%peer, %error, "TLS connection failed"),
        };
        let (ready, service) = oneshot::channel();
        let runtime = self.threads.next().clone();
        let forwarding = runtime.spawn(self.terminate(client, peer, ready));
        let service = tokio::select! {
            service = service => service,
            () = drained(&mut drain) => return,
        };
        // Without a service the handshake has failed, which is already counted and logged.
        match service.map(TcpStream::from_std) {
            Ok(Ok(service)) => serve(service).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS connection failed"),
            Err(_) => {}
        }
        if let Err(error) = forwarding.await {
            tracing::error!(%peer, %error, "TLS task failed");
        }
    }

    /// Runs a client's connection from handshake to end.
    async fn terminate(
        self: Arc<Self>,
        client: BlockingStream,
        peer: SocketAddr,
        mut ready: oneshot::Sender<BlockingStream>,
    ) {
        self.counters.handshakes_pending.increment();
        let opened = tokio::select! {
            opened = timeout(HANDSHAKE_LIMIT, self.open_both(client)) => opened.unwrap_or_else(|_| {
                Err((Failure::Timeout, io::Error::other("not complete after 10 s")))
            }),
            () = ready.closed() => Err((Failure::Closed, io::Error::other("the server drains"))),
        };
        self.counters.handshakes_pending.decrement();
        let (client, near, far) = match opened {
            Ok(opened) => opened,
            Err(failed) => return self.note_failure(failed, peer),
        };
        self.counters.handshakes.increment();
        if ready.send(far).is_err() {
            return; // the server drains
        }
        self.counters.connections.increment();
        if let Err(error) = forward(client, near).await {
            self.counters.connections_cut.increment();
            tracing::debug!(%peer, %error, "TLS connection is cut");
        }
        self.counters.connections.decrement();
    }

    /// Performs the handshake, and creates the pair behind it.
    async fn open_both(
        &self,
        client: BlockingStream,
    ) -> Result<(TlsStream<TcpStream>, TcpStream, BlockingStream), Failed> {
        let system = |error| (Failure::System, error);
        let client = TcpStream::from_std(client).map_err(system)?;
        expect_acknowledgements(&client, self.silence_limit).map_err(system)?;
        SockRef::from(&client).set_tcp_notsent_lowat(UNSENT_BYTES).map_err(system)?;
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.read()));
        // The buffer is bounded by the size of single writes.
        let handshake = acceptor.accept_with(client, |connection| connection.set_buffer_limit(None));
        let client = handshake.await.map_err(|error| (reason(&error), error))?;
        let (near, far) = connected_pair().await.map_err(system)?;
        let far = far.into_std().map_err(system)?;
        Ok((client, near, far))
    }

    fn note_failure(&self, (failure, error): Failed, peer: SocketAddr) {
        self.counters.handshakes_failed.increment(failure);
        // Failures by scanners and by clients that do not trust the certificate are normal; a lack of
        // descriptors is not.
        if failure != Failure::System {
            return tracing::debug!(%peer, %error, "TLS handshake failed");
        }
        if let Some(suppressed) = self.log.pass(Instant::now()) {
            tracing::warn!(%peer, %error, suppressed, "TLS handshake failed");
        }
    }
}

/// Reason of a failed handshake.
fn reason(error: &io::Error) -> Failure {
    use rustls::Error as Tls;
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()) {
        Some(Tls::AlertReceived(_)) => Failure::Alert,
        Some(Tls::PeerIncompatible(_) | Tls::NoApplicationProtocol) => Failure::Incompatible,
        Some(_) => Failure::Malformed,
        None => Failure::Closed,
    }
}
