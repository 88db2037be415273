//! The listening side: who may come in.

use super::connection;
use super::counters::{Counters, Counts};
use super::player::Player;
use super::ports::Ports;
use super::record::{Registry, SessionStatus};

use serde_json::json;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use wirepath_net::metrics::Metrics;
use wirepath_net::status::Status;
use wirepath_net::{ClientLimits, LogLimit, Permit};

/// Value of `Server` in every response.
pub(super) const SERVER_NAME: &str = concat!("Wirepath/", env!("CARGO_PKG_VERSION"));

/// Options of an RTSP listener.
#[derive(Clone, Debug)]
pub struct RtspOptions {
    /// A session ends when nothing was heard of its client for so long.
    pub session_timeout: Duration,
    /// A connection without a session is closed when it sent nothing for so long.
    pub idle_timeout: Duration,
    /// A request that has begun must have come to its end within this time.
    pub request_timeout: Duration,
    /// Storage and engine must have led to an answer within this time.
    pub answer_timeout: Duration,
    /// Between the RTCP reports of a session.
    pub report_interval: Duration,
    /// Most connections.
    pub connections: usize,
    /// Most connections from one address.
    pub connections_per_address: usize,
    /// Most sessions.
    pub sessions: usize,
    /// Most sessions of one address.
    pub sessions_per_address: usize,
    /// Most sessions of one connection.
    pub sessions_per_connection: usize,
    /// UDP ports for RTP and RTCP.
    pub ports: RangeInclusive<u16>,
}

impl Default for RtspOptions {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(30),
            request_timeout: Duration::from_secs(10),
            answer_timeout: Duration::from_secs(30),
            report_interval: Duration::from_secs(5),
            connections: 10_000,
            connections_per_address: 2_000,
            sessions: 10_000,
            sessions_per_address: 1_000,
            sessions_per_connection: 64,
            ports: 10_000..=32_767, // below what the kernel hands out by itself
        }
    }
}

/// The RTSP door.
pub struct Listener(Arc<Shared>);

/// State that connections share.
pub(super) struct Shared {
    pub(super) options: RtspOptions,
    pub(super) player: Arc<dyn Player>,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry>,
    pub(super) ports: Ports,
    limits: Arc<ClientLimits>,
    /// Of lines about refused requests.
    pub(super) refusals: LogLimit,
}

/// Refused requests that the log tells of in a second.
const REFUSALS_PER_SECOND: u32 = 20;

impl Listener {
    /// A door to what `player` has.
    pub fn new(player: Arc<dyn Player>, options: RtspOptions) -> Self {
        Self(Arc::new(Shared {
            player,
            counters: Arc::default(),
            registry: Registry::new(options.sessions, options.sessions_per_address),
            ports: Ports::new(&options.ports),
            limits: ClientLimits::new(options.connections, options.connections_per_address),
            refusals: LogLimit::new(REFUSALS_PER_SECOND),
            options,
        }))
    }

    /// Adds what the door counts, its limits and its sessions to what is shown.
    pub fn register(&self, metrics: &mut Metrics, status: &mut Status) {
        let shared = Arc::clone(&self.0);
        metrics.register("rtsp", Counts::METRICS, move || shared.counters.snapshot());
        let shared = Arc::clone(&self.0);
        status.add("rtsp", move || {
            json!({
                "connections": shared.counters.connections.value(),
                "limits": {
                    "connections": shared.options.connections,
                    "connections_per_address": shared.options.connections_per_address,
                    "sessions": shared.options.sessions,
                    "sessions_per_address": shared.options.sessions_per_address,
                    "sessions_per_connection": shared.options.sessions_per_connection,
                },
            })
        });
        let shared = Arc::clone(&self.0);
        status.add("sessions", move || shared.registry.statuses().iter().map(SessionStatus::json).collect());
    }

    /// Counters of the listener.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.0.counters
    }

    /// The sessions there are now, in no order.
    pub fn sessions(&self) -> Vec<SessionStatus> {
        self.0.registry.statuses()
    }

    /// Serves until `shutdown` holds true (or its sender is dropped); then ends every session with a BYE and
    /// returns when the last response is written. The caller decides how long it waits for that.
    pub async fn serve(&self, listener: TcpListener, shutdown: watch::Receiver<bool>) {
        let told = shutdown.clone();
        wirepath_net::serve("RTSP", listener, shutdown, |(stream, peer)| {
            // Dropping the stream closes it: who comes in numbers gets no answer that costs something.
            let pass = self.0.enter(peer.ip())?;
            let (shared, told) = (Arc::clone(&self.0), told.clone());
            Some(async move {
                connection::serve(stream, shared, told).await;
                drop(pass);
            })
        })
        .await;
    }
}

impl Shared {
    /// Lets a connection in, or counts why not.
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Pass> {
        let counters = &self.counters;
        match self.limits.admit(address) {
            Ok(permit) => {
                counters.connections.increment();
                counters.connections_accepted.increment();
                Some(Pass { shared: Arc::clone(self), _permit: permit })
            }
            Err(exceeded) => {
                counters.connections_refused.increment(exceeded.into());
                None
            }
        }
    }
}

/// A connection's right to be there, given back when it is dropped.
struct Pass {
    shared: Arc<Shared>,
    _permit: Permit,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.shared.counters.connections.decrement();
    }
}
