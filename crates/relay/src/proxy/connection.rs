//! Connection of a client: its PROXY protocol header, the choice of a backend, and relaying in both
//! directions.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use wirepath_engine::{Engine, STALL_SAMPLES, StallDetector, now_us};
use wirepath_streams::{Framing, Object, RunningStream, StreamBuilder, StreamOptions};

use super::ProxyOptions;
use super::backend::{Backend, BackendSlot, Traffic};
use super::balance::Balancer;
use super::peer::PeerSocket;
use super::proxy_protocol::{self, MAX_HEADER, Origin, Parsed};
use super::shutdown::{Direction, DirectionEnd, SocketPair};
use super::status::{Outcome, ProxyCounters};
use crate::connect::is_local_exhaustion;

/// Time limit for receiving a PROXY protocol header from a client, and for sending one to a backend.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// State shared by all connections.
pub(super) struct Shared {
    pub(super) options: ProxyOptions,
    pub(super) backends: Vec<Arc<Backend>>,
    pub(super) balancer: Mutex<Balancer>,
    pub(super) engine: Arc<Engine>,
    pub(super) counters: ProxyCounters,
    /// Becomes true when open connections must be reset.
    pub(super) cut: watch::Receiver<bool>,
    pub(super) listening: Vec<String>,
    pub(super) begun: Instant,
}

/// Relays a client's connection until it ends, and counts its outcome.
pub(super) async fn run(client: PeerSocket, shared: &Shared) {
    shared.counters.accepted.increment();
    let mut cut = shared.cut.clone();
    let outcome = tokio::select! {
        outcome = relay(client, shared) => outcome.unwrap_or_else(|outcome| outcome),
        // Also taken when the sender is gone. Dropping the sockets here resets them.
        _ = cut.wait_for(|&cut| cut) => Outcome::Cut,
    };
    shared.counters.ended.increment(outcome);
}

async fn relay(mut client: PeerSocket, shared: &Shared) -> Result<Outcome, Outcome> {
    let mut origin = client.origin().map_err(|_| Outcome::Aborted)?;
    let mut first = Vec::new();
    if shared.options.accept_proxy {
        let stated = timeout(HEADER_TIMEOUT, read_header(&mut client, &mut first)).await;
        let stated = stated.unwrap_or_else(|_| Err("timed out".to_owned())).map_err(|error| {
            tracing::debug!(?origin, %error, "invalid PROXY protocol header");
            Outcome::Malformed
        })?;
        origin = stated.or(origin);
    }
    let (backend, mut slot) = tokio::select! {
        biased;
        // A half-closed client may still wait for a response, so only a reset aborts the connection.
        () = client.reset() => return Err(Outcome::Aborted),
        reached = reach(shared, origin, &first) => reached?,
    };
    let before = first.len() as u64;
    let pair = RelayedPair::start(client, backend, shared).map_err(|error| failed(&error))?;
    slot.count(pair.traffic(before));
    Ok(pair.run(shared.options.idle_timeout).await)
}

/// Connects to a backend and sends the bytes that precede the relayed bytes: the PROXY protocol header, and
/// the bytes read from the client after its own header.
async fn reach(
    shared: &Shared,
    origin: Option<Origin>,
    first: &[u8],
) -> Result<(PeerSocket, BackendSlot), Outcome> {
    let (mut backend, slot) = connect(shared, origin).await?;
    let mut bytes = Vec::new();
    if shared.options.send_proxy {
        bytes = proxy_protocol::header(origin).map_err(|_| Outcome::Failed)?;
    }
    bytes.extend_from_slice(first);
    if !bytes.is_empty() {
        let written = timeout(HEADER_TIMEOUT, backend.write(&bytes)).await;
        written.map_err(|_| Outcome::TimedOut)?.map_err(|_| Outcome::Aborted)?;
    }
    Ok((backend, slot))
}

/// Reads a client's PROXY protocol header. Bytes after the header stay in `bytes`.
async fn read_header(client: &mut PeerSocket, bytes: &mut Vec<u8>) -> Result<Option<Origin>, String> {
    loop {
        if let Parsed::Header { origin, bytes: length } = proxy_protocol::parse(bytes)? {
            bytes.drain(..length);
            return Ok(origin);
        }
        bytes.reserve(MAX_HEADER);
        if client.read(bytes).await.map_err(|error| error.to_string())? == 0 {
            return Err("connection closed within the header".to_owned());
        }
    }
}

/// Connects to the first backend that accepts, trying each once.
async fn connect(shared: &Shared, origin: Option<Origin>) -> Result<(PeerSocket, BackendSlot), Outcome> {
    let order = {
        let loads: Vec<_> = shared.backends.iter().map(|backend| backend.load()).collect();
        let mut balancer = shared.balancer.lock();
        balancer.order(&loads, below)
    };
    for choice in order {
        let backend = &shared.backends[choice];
        let slot = BackendSlot::take(backend);
        match backend.connect(shared.options.connect_timeout).await {
            Ok(socket) => return Ok((socket, slot)),
            Err(error) if is_local_exhaustion(&error) => return Err(failed(&error)),
            Err(error) => {
                tracing::debug!(backend = backend.name(), ?origin, %error, "cannot connect to a backend");
            }
        }
    }
    Err(Outcome::Refused)
}

fn failed(error: &io::Error) -> Outcome {
    tracing::warn!(%error, "cannot relay a connection");
    Outcome::Failed
}

/// Random number below `bound`, which is at least 1.
fn below(bound: usize) -> usize {
    // Without random numbers, the balancer still rotates.
    getrandom::u64().map_or(0, |drawn| (drawn % bound as u64) as usize)
}

/// Two connections and the streams between them.
struct RelayedPair {
    sockets: Arc<SocketPair>,
    to_backend: DirectionStream,
    to_client: DirectionStream,
}

/// Progress of a connection, compared to detect a stall.
#[derive(PartialEq)]
struct Progress {
    /// Time of the last bytes of each stream.
    moved_us: (u64, u64),
    /// Bytes that client and backend have not acknowledged. Acknowledgements count as progress, so that slow
    /// readers do not time out.
    unacknowledged: (u32, u32),
}

struct DirectionStream {
    stream: RunningStream,
    ended: oneshot::Receiver<DirectionEnd>,
}

impl RelayedPair {
    fn start(client: PeerSocket, backend: PeerSocket, shared: &Shared) -> io::Result<RelayedPair> {
        let are_tcp = (client.is_tcp(), backend.is_tcp());
        let (client, backend) = (client.into_socket()?, backend.into_socket()?);
        let sockets = Arc::new(SocketPair::new((client.as_fd(), are_tcp.0), (backend.as_fd(), are_tcp.1))?);
        let (from_client, from_backend) = (client.try_clone()?, backend.try_clone()?);
        let start =
            |direction, from, to| DirectionStream::start(direction, from, to, &sockets, &shared.engine);
        Ok(RelayedPair {
            to_backend: start(Direction::ToBackend, from_client, backend)?,
            to_client: start(Direction::ToClient, from_backend, client)?,
            sockets: Arc::clone(&sockets),
        })
    }

    fn traffic(&self, before: u64) -> Traffic {
        Traffic {
            to_backend: Arc::clone(self.to_backend.stream.progress()),
            to_client: Arc::clone(self.to_client.stream.progress()),
            before,
        }
    }

    /// Waits until both directions have ended, the connection is aborted, or both directions stall.
    async fn run(self, idle_timeout: Option<Duration>) -> Outcome {
        let RelayedPair { sockets, to_backend, to_client } = self;
        let streams = (to_backend.stream, to_client.stream);
        let progress = || Progress {
            moved_us: (streams.0.progress().moved_us(), streams.1.progress().moved_us()),
            unacknowledged: sockets.unacknowledged(),
        };
        let ends = async { tokio::try_join!(finished(to_backend.ended), finished(to_client.ended)) };
        tokio::select! {
            ended = ends => match ended {
                Ok(_) => {
                    sockets.close_gracefully();
                    Outcome::Finished
                }
                Err(outcome) => outcome,
            },
            () = stalled(idle_timeout, progress) => Outcome::TimedOut,
        }
    }
}

/// Waits for the graceful end of a direction.
async fn finished(ended: oneshot::Receiver<DirectionEnd>) -> Result<(), Outcome> {
    // The sender is dropped only when the engine ends.
    match ended.await {
        Ok(DirectionEnd::Finished) => Ok(()),
        Ok(DirectionEnd::Aborted) | Err(_) => Err(Outcome::Aborted),
    }
}

/// Completes when there was no progress for the time `limit`; never without a limit.
async fn stalled(limit: Option<Duration>, progress: impl Fn() -> Progress) {
    let Some(limit) = limit else { return std::future::pending().await };
    let mut stall_detector = StallDetector::default();
    while Duration::from_micros(stall_detector.sample(progress(), now_us())) < limit {
        sleep(limit / STALL_SAMPLES).await;
    }
}

impl DirectionStream {
    fn start(
        direction: Direction,
        from: OwnedFd,
        to: OwnedFd,
        sockets: &Arc<SocketPair>,
        engine: &Engine,
    ) -> io::Result<DirectionStream> {
        let (from_name, to_name) = match direction {
            Direction::ToBackend => ("client", "backend"),
            Direction::ToClient => ("backend", "client"),
        };
        let stream = StreamBuilder::default()
            .end_with_connections()
            .input(Object::stream(from_name, from)?, Framing::Whole)
            .output(Object::stream(to_name, to)?)
            .build();
        let (sender, ended) = oneshot::channel();
        let sockets = Arc::clone(sockets);
        let on_end = move |end: wirepath_streams::StreamEnd| {
            if let Err(error) = &end.result {
                tracing::debug!(?direction, %error, "stream failed");
            }
            // The receiver is gone if the connection ended for another reason.
            _ = sender.send(sockets.end(direction, end.result.is_ok()));
        };
        let options = StreamOptions { on_end: Some(Box::new(on_end)), ..StreamOptions::default() };
        Ok(DirectionStream { stream: stream.start(engine, options), ended })
    }
}
