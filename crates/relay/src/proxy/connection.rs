//! One client's connection: its header, the choice of a backend, and relaying both directions.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use wirepath_engine::{Engine, STALL_SAMPLES, StallDetector, now_us};
use wirepath_streams::{Framing, Object, RunningStream, StreamBuilder, StreamOptions};

use super::ProxyOptions;
use super::backend::{Backend, BackendSlot, Flow};
use super::balance::Balancer;
use super::peer::PeerSocket;
use super::proxy_protocol::{self, MAX_HEADER, Origin, Parsed};
use super::shutdown::{Direction, DirectionEnd, SocketPair};
use super::status::{Outcome, Totals};
use crate::connect::is_local_exhaustion;

/// Time limit of a PROXY protocol header, from a client or to a backend.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// State that all connections share.
pub(super) struct Shared {
    pub(super) options: ProxyOptions,
    pub(super) backends: Vec<Arc<Backend>>,
    pub(super) balancer: Mutex<Balancer>,
    pub(super) engine: Arc<Engine>,
    pub(super) totals: Totals,
    /// Becomes true when open connections are to be reset.
    pub(super) cut: watch::Receiver<bool>,
}

/// Relays a client's connection until its end, and counts it.
pub(super) async fn run(client: PeerSocket, shared: &Shared) {
    shared.totals.accepted();
    let mut cut = shared.cut.clone();
    let outcome = tokio::select! {
        outcome = relay(client, shared) => outcome.unwrap_or_else(|outcome| outcome),
        // Also when the sender is gone. The sockets that are dropped here are reset.
        _ = cut.wait_for(|&cut| cut) => Outcome::Cut,
    };
    shared.totals.ended(outcome);
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
        // A half-closed client may still wait for an answer.
        () = client.reset() => return Err(Outcome::Aborted),
        reached = reach(shared, origin, &first) => reached?,
    };
    let before = first.len() as u64;
    let pair = RelayedPair::start(client, backend, shared).map_err(|error| failed(&error))?;
    slot.count(pair.flow(before));
    Ok(pair.run(shared.options.idle_timeout).await)
}

/// Connects to a backend and sends what precedes the relayed bytes: the PROXY protocol header, and what was
/// read from the client behind its own.
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

/// Reads a client's header; bytes behind it stay in `bytes`.
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

/// Logs a local failure.
fn failed(error: &io::Error) -> Outcome {
    tracing::warn!(%error, "cannot relay a connection");
    Outcome::Failed
}

/// Random number below `bound`, which is at least 1.
fn below(bound: usize) -> usize {
    // Without randomness the balancer still rotates.
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
    /// Bytes that client and backend have not acknowledged: slow readers make progress, too.
    unacknowledged: (u32, u32),
}

/// Stream of one direction.
struct DirectionStream {
    stream: RunningStream,
    ended: oneshot::Receiver<DirectionEnd>,
    has_finished: bool,
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

    fn flow(&self, before: u64) -> Flow {
        Flow {
            to_backend: Arc::clone(self.to_backend.stream.progress()),
            to_client: Arc::clone(self.to_client.stream.progress()),
            before,
        }
    }

    /// Waits for the end of both directions, an abort, or a stall of both.
    async fn run(mut self, idle_timeout: Option<Duration>) -> Outcome {
        let limit = idle_timeout.unwrap_or_default();
        let mut stall_detector = StallDetector::default();
        let mut look = std::pin::pin!(sleep(Duration::ZERO));
        while !(self.to_backend.has_finished && self.to_client.has_finished) {
            let end = tokio::select! {
                end = self.to_backend.end(), if !self.to_backend.has_finished => end,
                end = self.to_client.end(), if !self.to_client.has_finished => end,
                () = &mut look, if idle_timeout.is_some() => {
                    if Duration::from_micros(stall_detector.sample(self.progress(), now_us())) >= limit {
                        return Outcome::TimedOut;
                    }
                    look.set(sleep(limit / STALL_SAMPLES));
                    continue;
                }
            };
            if end == DirectionEnd::Aborted {
                return Outcome::Aborted;
            }
        }
        self.sockets.close_gracefully();
        Outcome::Finished
    }

    fn progress(&self) -> Progress {
        let moved_us = |direction: &DirectionStream| direction.stream.progress().moved_us();
        Progress {
            moved_us: (moved_us(&self.to_backend), moved_us(&self.to_client)),
            unacknowledged: self.sockets.unacknowledged(),
        }
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
            // The receiver is gone if the connection has ended for another reason.
            _ = sender.send(sockets.end(direction, end.result.is_ok()));
        };
        let options = StreamOptions { on_end: Some(Box::new(on_end)), ..StreamOptions::default() };
        Ok(DirectionStream { stream: stream.start(engine, options), ended, has_finished: false })
    }

    /// Waits for its end.
    async fn end(&mut self) -> DirectionEnd {
        // The sender is dropped only if the engine ends.
        let end = (&mut self.ended).await.unwrap_or(DirectionEnd::Aborted);
        self.has_finished = end == DirectionEnd::Finished;
        end
    }
}
