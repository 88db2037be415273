//! One client's connection: from its header over the choice of a backend to the end of both directions.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};
use wirepath_streams::{
    Engine, Framing, Object, RunningStream, STANDSTILL_LOOKS, Standstill, StreamBuilder, StreamOptions,
    now_us,
};

use super::ProxyOptions;
use super::backend::{Backend, Flow, Place};
use super::balance::Balancer;
use super::ends::{Direction, End, Ends};
use super::link::Link;
use super::proxy_protocol::{self, MOST, Origin, Parsed};
use super::status::{Ending, Totals};
use crate::trying::is_want_of_ours;

/// How long a client may take for its PROXY protocol header, and a backend to take ours.
const HEADER_TIME: Duration = Duration::from_secs(10);

/// What all connections share.
pub(super) struct Shared {
    pub(super) options: ProxyOptions,
    pub(super) backends: Vec<Arc<Backend>>,
    pub(super) balancer: Mutex<Balancer>,
    pub(super) engine: Arc<Engine>,
    pub(super) totals: Totals,
    /// Becomes true when nothing is waited for any more.
    pub(super) cut: watch::Receiver<bool>,
}

/// Relays a client's connection until its end, whatever that is, and counts it.
pub(super) async fn attend(client: Link, shared: &Shared) {
    shared.totals.taken();
    let mut cut = shared.cut.clone();
    let ending = tokio::select! {
        ending = relay(client, shared) => ending.unwrap_or_else(|ending| ending),
        // Or its sender is gone, which is the end as well. What is dropped here is reset.
        _ = cut.wait_for(|&cut| cut) => Ending::Cut,
    };
    shared.totals.ended(ending);
}

async fn relay(mut client: Link, shared: &Shared) -> Result<Ending, Ending> {
    let mut origin = client.origin().map_err(|_| Ending::Aborted)?;
    let mut first = Vec::new();
    if shared.options.accept_proxy {
        let stated = timeout(HEADER_TIME, read_header(&mut client, &mut first)).await;
        let stated =
            stated.unwrap_or_else(|_| Err("the header does not come".to_owned())).map_err(|error| {
                tracing::debug!(?origin, %error, "a PROXY protocol header is not accepted");
                Ending::Malformed
            })?;
        origin = stated.or(origin);
    }
    let (backend, mut place) = tokio::select! {
        biased;
        // Who has only finished may wait for an answer.
        () = client.broken() => return Err(Ending::Aborted),
        reached = reach(shared, origin, &first) => reached?,
    };
    let before = first.len() as u64;
    let pair = Pair::start(client, backend, shared).map_err(|error| failed(&error))?;
    place.count(pair.flow(before));
    Ok(pair.attend(shared.options.idle_timeout).await)
}

/// Connects to a backend, and sends it what comes before anything that is relayed: our header, and what the client has sent already.
async fn reach(shared: &Shared, origin: Option<Origin>, first: &[u8]) -> Result<(Link, Place), Ending> {
    let (mut backend, place) = connect(shared, origin).await?;
    let mut bytes = Vec::new();
    if shared.options.send_proxy {
        bytes = proxy_protocol::header(origin).map_err(|_| Ending::Failed)?;
    }
    bytes.extend_from_slice(first);
    if !bytes.is_empty() {
        let written = timeout(HEADER_TIME, backend.write(&bytes)).await;
        written.map_err(|_| Ending::TimedOut)?.map_err(|_| Ending::Aborted)?;
    }
    Ok((backend, place))
}

/// Reads a client's header; what came behind it is left in `bytes`.
async fn read_header(client: &mut Link, bytes: &mut Vec<u8>) -> Result<Option<Origin>, String> {
    loop {
        if let Parsed::Header { origin, bytes: length } = proxy_protocol::parse(bytes)? {
            bytes.drain(..length);
            return Ok(origin);
        }
        bytes.reserve(MOST);
        if client.read(bytes).await.map_err(|error| error.to_string())? == 0 {
            return Err("the connection ended before its header did".to_owned());
        }
    }
}

/// Connects to the first backend that can be connected to, each being tried once.
async fn connect(shared: &Shared, origin: Option<Origin>) -> Result<(Link, Place), Ending> {
    let order = {
        let loads: Vec<_> = shared.backends.iter().map(|backend| backend.load()).collect();
        let mut balancer = shared.balancer.lock();
        balancer.order(&loads, below)
    };
    for choice in order {
        let backend = &shared.backends[choice];
        let place = Place::take(backend);
        match backend.connect(shared.options.connect_timeout).await {
            Ok(link) => return Ok((link, place)),
            Err(error) if is_want_of_ours(&error) => return Err(failed(&error)),
            Err(error) => {
                tracing::debug!(backend = backend.name(), ?origin, %error, "a backend cannot be connected to");
            }
        }
    }
    Err(Ending::Refused)
}

/// Something is wanting here, which is said: it is not what the client or the backend did.
fn failed(error: &io::Error) -> Ending {
    tracing::warn!(%error, "a connection could not be relayed");
    Ending::Failed
}

/// A number less than `bound`, which is at least 1, by chance.
fn below(bound: usize) -> usize {
    // Without a source of chance each still gets its turn: the balancer goes round as well.
    getrandom::u64().map_or(0, |drawn| (drawn % bound as u64) as usize)
}

/// Two connections and the streams between them.
struct Pair {
    ends: Arc<Ends>,
    to_backend: Running,
    to_client: Running,
}

/// What shows that a connection lives.
#[derive(PartialEq)]
struct Signs {
    /// When each stream last moved anything.
    moved_us: (u64, u64),
    /// What was moved and has not come to the client and the backend: it may have long to go, to somebody who reads slowly.
    on_their_way: (u32, u32),
}

struct Running {
    stream: RunningStream,
    ended: oneshot::Receiver<End>,
    has_finished: bool,
}

impl Pair {
    fn start(client: Link, backend: Link, shared: &Shared) -> io::Result<Pair> {
        let are_tcp = (client.is_tcp(), backend.is_tcp());
        let (client, backend) = (client.into_socket()?, backend.into_socket()?);
        let ends = Arc::new(Ends::new((client.as_fd(), are_tcp.0), (backend.as_fd(), are_tcp.1))?);
        let (from_client, from_backend) = (client.try_clone()?, backend.try_clone()?);
        Ok(Pair {
            to_backend: Running::start(Direction::ToBackend, from_client, backend, &ends, &shared.engine)?,
            to_client: Running::start(Direction::ToClient, from_backend, client, &ends, &shared.engine)?,
            ends,
        })
    }

    fn flow(&self, before: u64) -> Flow {
        Flow {
            to_backend: Arc::clone(self.to_backend.stream.progress()),
            to_client: Arc::clone(self.to_client.stream.progress()),
            before,
        }
    }

    /// Waits for the end of both directions, or of one that does not end in order, or until neither has moved anything for too long.
    async fn attend(mut self, idle_timeout: Option<Duration>) -> Ending {
        let limit = idle_timeout.unwrap_or_default();
        let mut standstill = Standstill::default();
        let mut look = std::pin::pin!(sleep(Duration::ZERO));
        while !(self.to_backend.has_finished && self.to_client.has_finished) {
            let end = tokio::select! {
                end = self.to_backend.end(), if !self.to_backend.has_finished => end,
                end = self.to_client.end(), if !self.to_client.has_finished => end,
                () = &mut look, if idle_timeout.is_some() => {
                    if Duration::from_micros(standstill.of(self.signs(), now_us())) >= limit {
                        return Ending::TimedOut;
                    }
                    look.set(sleep(limit / STANDSTILL_LOOKS));
                    continue;
                }
            };
            if end == End::Aborted {
                return Ending::Aborted;
            }
        }
        self.ends.close_in_order();
        Ending::Finished
    }

    fn signs(&self) -> Signs {
        let moved_us = |running: &Running| running.stream.progress().moved_us();
        Signs {
            moved_us: (moved_us(&self.to_backend), moved_us(&self.to_client)),
            on_their_way: self.ends.on_their_way(),
        }
    }
}

impl Running {
    fn start(
        direction: Direction,
        from: OwnedFd,
        to: OwnedFd,
        ends: &Arc<Ends>,
        engine: &Engine,
    ) -> io::Result<Running> {
        let (from_name, to_name) = match direction {
            Direction::ToBackend => ("client", "backend"),
            Direction::ToClient => ("backend", "client"),
        };
        let stream = StreamBuilder::default()
            .end_with_connections()
            .input(Object::stream(from_name, from)?, Framing::Whole)
            .output(Object::stream(to_name, to)?)
            .build();
        let (tell, ended) = oneshot::channel();
        let ends = Arc::clone(ends);
        let on_end = move |end: wirepath_streams::StreamEnd| {
            if let Err(error) = &end.result {
                tracing::debug!(?direction, %error, "a stream ended early");
            }
            // Nobody waits if the connection has ended for another reason.
            _ = tell.send(ends.end(direction, end.result.is_ok()));
        };
        let options = StreamOptions { on_end: Some(Box::new(on_end)), ..StreamOptions::default() };
        Ok(Running { stream: engine.start_stream(stream, options), ended, has_finished: false })
    }

    /// Waits for its end.
    async fn end(&mut self) -> End {
        // Its thread is gone without a word only if the engine is.
        let end = (&mut self.ended).await.unwrap_or(End::Aborted);
        self.has_finished = end == End::Finished;
        end
    }
}
