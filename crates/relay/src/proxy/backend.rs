//! Backend of the proxy: its addresses, health and load.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use wirepath_counters::Counter;
use wirepath_streams::StreamProgress;

use super::balance::Load;
use super::health::{Change, Health, HealthOptions};
use super::peer::PeerSocket;
use super::status::{BackendCounters, BackendStatus};
use crate::connect::{connect_to_any, is_local_exhaustion};
use crate::endpoint::{Endpoint, Target};

/// Backend of the proxy.
#[derive(Debug)]
pub(super) struct Backend {
    endpoint: Endpoint,
    name: String,
    targets: Mutex<Arc<[Target]>>,
    /// True if the last resolution found only listeners of this proxy. Logged once.
    resolves_here: AtomicBool,
    health: Mutex<Health>,
    /// Counters; their bytes are those of ended connections.
    counters: BackendCounters,
    /// Byte counts of open connections.
    traffic: Mutex<Slab<Traffic>>,
    unreachable: Notify,
}

/// Byte counts of a connection.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) to_backend: Arc<StreamProgress>,
    pub(super) to_client: Arc<StreamProgress>,
    /// Bytes sent to the backend before the streams started.
    pub(super) before: u64,
}

/// Slot of a connection at a backend, held until it is dropped.
#[derive(Debug)]
pub(super) struct BackendSlot {
    backend: Arc<Backend>,
    traffic: Option<usize>,
}

impl Backend {
    pub(super) async fn new(endpoint: Endpoint, health: HealthOptions) -> io::Result<Backend> {
        let targets = endpoint.resolve().await?;
        Ok(Backend {
            name: endpoint.to_string(),
            endpoint,
            targets: Mutex::new(targets.into()),
            resolves_here: AtomicBool::new(false),
            health: Mutex::new(Health::new(health, Instant::now())),
            counters: BackendCounters::default(),
            traffic: Mutex::default(),
            unreachable: Notify::new(),
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns whether `is_it` holds for an address of the backend.
    pub(super) fn has_target(&self, is_it: impl Fn(&Target) -> bool) -> bool {
        self.targets.lock().iter().any(is_it)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn load(&self) -> Load {
        Load { up: self.health.lock().is_up(), open: self.counters.connections.value() as usize }
    }

    /// Connects to any of the backend's addresses within `limit`, for a client.
    pub(super) async fn connect(&self, limit: Duration) -> io::Result<PeerSocket> {
        let connected = self.try_targets(limit).await;
        self.count(&connected, &self.counters.connected, &self.counters.failures);
        connected
    }

    pub(super) async fn check(&self, limit: Duration, header: &[u8]) -> io::Result<()> {
        let check = async { self.try_targets(limit).await?.write(header).await };
        let result = check.await;
        self.count(&result, &self.counters.checks_passed, &self.counters.checks_failed);
        result
    }

    /// Counts an attempt to connect, unless the failure was local.
    fn count<T>(&self, result: &io::Result<T>, successes: &Counter, failures: &Counter) {
        match result {
            Ok(_) => successes.increment(),
            Err(error) if is_local_exhaustion(error) => return,
            Err(_) => failures.increment(),
        }
        self.note(result.as_ref().map(|_| ()));
    }

    async fn try_targets(&self, limit: Duration) -> io::Result<PeerSocket> {
        let targets = Arc::clone(&self.targets.lock());
        connect_to_any(&targets, limit, |target| async move { PeerSocket::connect(&target).await }).await
    }

    fn note(&self, connected: Result<(), &io::Error>) {
        if connected.is_err() && self.endpoint.known().is_none() {
            self.unreachable.notify_one();
        }
        let change = self.health.lock().note(connected.is_ok(), Instant::now());
        match (change, connected) {
            (Some(Change::Up), _) => tracing::info!(backend = %self.name, "backend is up"),
            (Some(Change::Down), Err(error)) => {
                tracing::warn!(backend = %self.name, %error, "backend is down");
            }
            (Some(Change::Recovers), _) => {
                tracing::info!(backend = %self.name, "backend accepts connections again")
            }
            (Some(Change::Fails), Err(error)) => {
                tracing::warn!(backend = %self.name, %error, "backend refuses connections");
            }
            _ => {}
        }
    }

    /// Waits until connecting to the host name fails. The name may then have other addresses.
    pub(super) async fn unreachable(&self) {
        self.unreachable.notified().await;
    }

    /// Resolves the backend again, and skips addresses of these listeners. If no address is left, the known
    /// addresses remain.
    pub(super) async fn resolve_again(&self, listeners: &[SocketAddr]) {
        match self.endpoint.resolve().await {
            Ok(mut targets) => {
                targets.retain(|target| !target.is_one_of(listeners));
                let resolves_here = targets.is_empty();
                let resolved_here = self.resolves_here.swap(resolves_here, Relaxed);
                if !resolves_here {
                    *self.targets.lock() = targets.into();
                } else if !resolved_here {
                    tracing::warn!(backend = %self.name, "backend resolves to the proxy itself; keeping its previous addresses");
                }
            }
            Err(error) => tracing::debug!(backend = %self.name, %error, "cannot resolve the backend"),
        }
    }

    pub(super) fn status(&self) -> BackendStatus {
        let (up, lasted) = {
            let health = self.health.lock();
            (health.is_up(), health.lasted(Instant::now()))
        };
        self.counters.up.set(up.into());
        let traffic = self.traffic.lock();
        let mut counts = self.counters.snapshot();
        for (_, open) in traffic.iter() {
            counts.to_backend_bytes += open.bytes().0;
            counts.to_client_bytes += open.bytes().1;
        }
        BackendStatus { name: self.name.clone(), since_seconds: lasted.as_secs(), counts }
    }
}

impl BackendSlot {
    /// Takes a slot before connecting, so that the backend's load counts the connection at once.
    pub(super) fn take(backend: &Arc<Backend>) -> BackendSlot {
        backend.counters.connections.increment();
        BackendSlot { backend: Arc::clone(backend), traffic: None }
    }

    pub(super) fn count(&mut self, traffic: Traffic) {
        self.traffic = Some(self.backend.traffic.lock().insert(traffic));
    }
}

impl Drop for BackendSlot {
    fn drop(&mut self) {
        let counters = &self.backend.counters;
        counters.connections.decrement();
        let mut traffic = self.backend.traffic.lock();
        if let Some(ended) = self.traffic.and_then(|index| traffic.try_remove(index)) {
            counters.to_backend_bytes.add(ended.bytes().0);
            counters.to_client_bytes.add(ended.bytes().1);
        }
    }
}

impl Traffic {
    /// Bytes sent to the backend and to the client.
    fn bytes(&self) -> (u64, u64) {
        (self.before + self.to_backend.bytes_out(), self.to_client.bytes_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A proxy or cache that would connect to itself is refused; own addresses of a backend's name
    /// are skipped.
    #[test]
    fn a_name_that_resolves_to_the_proxy_is_ignored() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = HealthOptions { interval: None, rise: 1, fall: 1 };
        let before: Arc<[Target]> = [Target::Tcp("192.0.2.1:80".parse().unwrap())].into();
        let after = |listeners: &[&str]| {
            let listeners: Vec<SocketAddr> =
                listeners.iter().map(|listener| listener.parse().unwrap()).collect();
            runtime.block_on(async {
                let endpoint = Endpoint::to_connect("localhost:80").unwrap();
                let backend = Backend::new(endpoint, options).await.unwrap();
                let found = std::mem::replace(&mut *backend.targets.lock(), Arc::clone(&before));
                backend.resolve_again(&listeners).await;
                (found, Arc::clone(&backend.targets.lock()))
            })
        };
        let (found, followed) = after(&["127.0.0.1:81"]);
        assert_eq!(found, followed);
        let (_, remained) = after(&["127.0.0.1:81", "[::]:80"]);
        assert_eq!(remained, before);
    }
}
