//! Options of an RTSP listener, and the state that its connections share.

use super::counters::{Counters, Counts, RefusalReason};
use super::player::Player;
use super::ports::Ports;
use super::registry::Registry;
use super::reports::Reports;
use super::tunnels::Tunnels;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wirepath_net::auth::AccessControl;
use wirepath_net::{ClientLimits, DescriptorBudget, DescriptorPermit, Exceeded, LogLimit, Permit};

/// Value of `Server` in every response.
pub(super) const SERVER_NAME: &str = concat!("Wirepath/", env!("CARGO_PKG_VERSION"));

/// Ways of sending SRTP keys in DESCRIBE over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SrtpKeys {
    /// None: media go only over the connection.
    None,
    /// By MIKEY, for clients that request RTP/SAVP. Media of other clients go only over the connection.
    Mikey,
    /// Also by SDES, for clients that request RTP/AVP but decrypt, like ffmpeg: media of all sessions that
    /// are set up after DESCRIBE are encrypted. Not for transport streams, whose keys ffmpeg does not read.
    MikeyAndSdes,
}

/// Options of an RTSP listener.
#[derive(Clone, Debug)]
pub struct RtspOptions {
    /// Time without a sign of life of the client after which a session ends.
    pub session_timeout: Duration,
    /// Time without a request after which a connection without a session is closed.
    pub idle_timeout: Duration,
    /// Time limit of receiving a request.
    pub request_timeout: Duration,
    /// Time limit of answering a request.
    pub answer_timeout: Duration,
    /// Time between the RTCP reports of a session.
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
    /// SRTP of sessions over TLS.
    pub srtp: SrtpKeys,
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
            srtp: SrtpKeys::None,
            ports: 10_000..=32_767, // below the kernel's ephemeral ports
        }
    }
}

/// Most refused requests logged in a second.
const REFUSALS_PER_SECOND: u32 = 20;

/// Most lines in a second about sessions that begin or end.
const SESSION_LINES_PER_SECOND: u32 = 20;

/// State that connections share.
pub(super) struct Shared {
    pub(super) options: RtspOptions,
    pub(super) player: Arc<dyn Player>,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Arc<Registry>,
    pub(super) ports: Ports,
    /// RTCP that sessions send.
    pub(super) reports: Reports,
    pub(super) limits: Arc<ClientLimits>,
    pub(super) descriptors: Arc<DescriptorBudget>,
    pub(super) tunnels: Tunnels,
    /// Authentication; none if everyone may play.
    pub(super) access: Option<Arc<AccessControl>>,
    /// Rate limit of log lines about refused requests.
    refusals: LogLimit,
    /// Rate limit of log lines about sessions.
    session_lines: LogLimit,
}

impl Shared {
    pub(super) fn new(
        player: Arc<dyn Player>,
        options: RtspOptions,
        descriptors: Arc<DescriptorBudget>,
        access: Option<Arc<AccessControl>>,
    ) -> Self {
        let counters = Arc::<Counters>::default();
        Self {
            player,
            registry: Registry::new(options.sessions, options.sessions_per_address, Arc::clone(&descriptors)),
            descriptors,
            tunnels: Tunnels::default(),
            access,
            reports: Reports::new(options.report_interval),
            ports: Ports::new(&options.ports, Arc::clone(&counters)),
            counters,
            limits: ClientLimits::new(options.connections, options.connections_per_address),
            refusals: LogLimit::new(REFUSALS_PER_SECOND),
            session_lines: LogLimit::new(SESSION_LINES_PER_SECOND),
            options,
        }
    }

    /// Returns whether a refusal should be logged.
    pub(super) fn log_refusal(&self) -> bool {
        let suppressed = self.refusals.pass(Instant::now());
        if let Some(suppressed @ 1..) = suppressed {
            tracing::info!(suppressed, "further refusals were not logged");
        }
        suppressed.is_some()
    }

    /// Returns whether the start or end of a session should be logged.
    pub(super) fn log_session(&self) -> bool {
        let suppressed = self.session_lines.pass(Instant::now());
        if let Some(suppressed @ 1..) = suppressed {
            tracing::info!(suppressed, "further lines about sessions were not logged");
        }
        suppressed.is_some()
    }

    pub(super) fn counts(&self) -> Counts {
        self.counters.connections.set(self.limits.open() as u64);
        self.counters.snapshot()
    }

    /// Admits a connection of so many descriptors, or counts the reason of the refusal.
    pub(super) fn admit(&self, address: IpAddr, descriptors: usize) -> Option<(Permit, DescriptorPermit)> {
        let admit = || Ok((self.limits.admit(address)?, self.descriptors.admit(address, descriptors)?));
        let permits: Result<_, Exceeded> = admit();
        match permits {
            Ok(permits) => {
                self.counters.connections_accepted.increment();
                Some(permits)
            }
            Err(exceeded) => {
                self.counters.connections_refused.increment(RefusalReason::from(exceeded));
                None
            }
        }
    }
}
