//! Listener: accepts connections within limits.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wirepath_engine::Engine;
use wirepath_streams::LendingSwitch;

use super::connection::reject;
use super::counters::{Counters, Counts};
use super::exchange::{Exchanges, Shared, Site};
use super::options::HttpOptions;
use crate::descriptors::{DescriptorBudget, DescriptorPermit};
use crate::limits::{ClientLimits, Exceeded, Permit};
use crate::listener::Addresses;
use crate::metrics::Metrics;
use crate::reserved_listener::ReservedListener;
use crate::runtime_threads::{RuntimeThreads, move_here};
use crate::status::Status;
use crate::tls::{self, Terminator};

/// HTTP listener that is not started yet.
pub struct Listener {
    options: HttpOptions,
    counters: Arc<Counters>,
    limits: Arc<ClientLimits>,
    descriptors: Arc<DescriptorBudget>,
    threads: Option<RuntimeThreads>,
    /// Second listening socket, for TLS.
    secure: Option<(TcpListener, Arc<Terminator>)>,
    /// True when no more connections may be accepted, while open connections stay.
    closing: Option<watch::Receiver<bool>>,
    /// Rule of sending files.
    lending: Option<LendingSwitch>,
}

impl Listener {
    /// Listener with these limits.
    pub fn new(options: HttpOptions) -> Self {
        let limits = ClientLimits::new(options.max_connections, options.max_connections_per_address);
        let descriptors = DescriptorBudget::unlimited();
        let counters = Arc::default();
        let (threads, secure, closing, lending) = (None, None, None, None);
        Self { options, counters, limits, descriptors, threads, secure, closing, lending }
    }

    /// Uses this budget for the descriptors of clients.
    pub fn within(self, descriptors: Arc<DescriptorBudget>) -> Self {
        Self { descriptors, ..self }
    }

    /// Serves connections on these threads instead of the accepting thread.
    pub fn on(self, threads: RuntimeThreads) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Also listens on this socket, for TLS.
    pub fn securely(self, listener: TcpListener, terminator: Arc<Terminator>) -> Self {
        Self { secure: Some((listener, terminator)), ..self }
    }

    /// Stops accepting once `closing` is true. Open connections are then served until their clients close
    /// them, or end with the next response.
    pub fn closing_on(self, closing: watch::Receiver<bool>) -> Self {
        Self { closing: Some(closing), ..self }
    }

    /// Logs the queries of requests in the access log, as by [`HttpOptions::logs_queries`].
    pub fn with_queries_in_log(mut self) -> Self {
        self.options.logs_queries = true;
        self
    }

    /// Lets the rule of this switch decide whether files are sent without a copy, and counts that there; without
    /// one they always are.
    pub fn lending(self, switch: LendingSwitch) -> Self {
        Self { lending: Some(switch), ..self }
    }

    /// Adds the listener's counters and limits to metrics and status.
    pub fn register(&self, metrics: &mut Metrics, status: &mut Status) {
        let (counters, limits) = (Arc::clone(&self.counters), Arc::clone(&self.limits));
        metrics.register("http", Counts::METRICS, move || {
            counters.connections.set(limits.open() as u64);
            counters.snapshot()
        });
        let (limits, options) = (Arc::clone(&self.limits), self.options.clone());
        status.add("http", move || {
            json!({
                "connections": limits.open(),
                "limits": {
                    "connections": options.max_connections,
                    "connections_per_address": options.max_connections_per_address,
                },
            })
        });
    }

    /// Serves a site until `drain` becomes true or its sender is dropped; then stops accepting, completes the
    /// responses that have begun, and returns when the last connection is closed. The thread that serves a
    /// connection sends bodies of up to 2 MiB that are in the page cache, and the engine sends all others.
    /// Dropping the future requests the end of all connections.
    pub async fn serve(
        self,
        listener: TcpListener,
        site: impl Site,
        engine: Arc<Engine>,
        drain: watch::Receiver<bool>,
    ) {
        let Self { options, counters, limits, descriptors, threads, secure, closing, lending } = self;
        let closing = closing.unwrap_or_else(|| drain.clone());
        let shared = Arc::new(Shared { options, counters, site, engine, descriptors, closing, lending });
        let serving = Serving { shared, limits, threads, drain };
        match secure {
            None => serving.serve(listener, None).await,
            Some((secure, terminator)) => {
                tokio::join!(serving.serve(listener, None), serving.serve(secure, Some(terminator)));
            }
        }
    }
}

/// Service of one or two listening sockets.
struct Serving<S> {
    shared: Arc<Shared<S>>,
    limits: Arc<ClientLimits>,
    threads: Option<RuntimeThreads>,
    drain: watch::Receiver<bool>,
}

impl<S: Site> Serving<S> {
    async fn serve(&self, listener: TcpListener, terminator: Option<Arc<Terminator>>) {
        let (threads, closing) = (self.threads.as_ref(), self.shared.closing.clone());
        let (name, descriptors) =
            if terminator.is_some() { ("HTTPS", tls::DESCRIPTORS) } else { ("HTTP", 1) };
        crate::serve(name, ReservedListener::new(listener), closing, threads, |(stream, peer)| {
            let Ok(permits) = self.admit(peer.ip(), descriptors) else {
                self.shared.counters.connections_refused.increment();
                if terminator.is_none() {
                    reject(&stream);
                }
                return None;
            };
            let (shared, drain, moves) = (Arc::clone(&self.shared), self.drain.clone(), threads.is_some());
            let terminator = terminator.clone();
            Some(async move {
                let served = match terminator {
                    None => serve_plainly((stream, peer), shared, permits, drain, moves).await,
                    // Boxed, so that a connection without TLS does not become larger.
                    Some(terminator) => {
                        Box::pin(serve_securely(terminator, (stream, peer), shared, permits, drain)).await
                    }
                };
                if let Err(error) = served {
                    tracing::debug!(%peer, %error, "HTTP connection failed");
                }
            })
        })
        .await;
    }

    fn admit(&self, address: IpAddr, descriptors: usize) -> Result<(Permit, DescriptorPermit), Exceeded> {
        Ok((self.limits.admit(address)?, self.shared.descriptors.admit(address, descriptors)?))
    }
}

async fn serve_plainly<S: Site>(
    (stream, peer): (TcpStream, SocketAddr),
    shared: Arc<Shared<S>>,
    permits: (Permit, DescriptorPermit),
    drain: watch::Receiver<bool>,
    moves: bool,
) -> io::Result<()> {
    let stream = if moves { move_here(stream).await? } else { stream };
    let addresses = Addresses::of(&stream, peer, false)?;
    Exchanges::new(stream, addresses, shared, drain).run().await;
    drop(permits);
    Ok(())
}

async fn serve_securely<S: Site>(
    terminator: Arc<Terminator>,
    (stream, peer): (TcpStream, SocketAddr),
    shared: Arc<Shared<S>>,
    permits: (Permit, DescriptorPermit),
    drain: watch::Receiver<bool>,
) -> io::Result<()> {
    let addresses = Addresses::of(&stream, peer, true)?;
    let serve = |stream| Exchanges::new(stream, addresses, shared, drain.clone()).run();
    terminator.serve(stream, peer, drain.clone(), serve).await;
    drop(permits);
    Ok(())
}
