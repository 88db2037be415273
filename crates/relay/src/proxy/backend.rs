//! One backend: where it is, whether it is there, and what it has to do.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use slab::Slab;
use tokio::sync::Notify;
use wirepath_streams::StreamProgress;

use super::balance::Load;
use super::door::Door;
use super::endpoint::{Endpoint, Target};
use super::health::{Change, Health, HealthOptions};
use super::link::Link;
use super::status::BackendStatus;
use crate::trying::{connect_to_any, is_want_of_ours};

/// A backend.
#[derive(Debug)]
pub(super) struct Backend {
    endpoint: Endpoint,
    name: String,
    targets: Mutex<Arc<[Target]>>,
    /// The resolver's last answer was nothing but doors of ours, which is told once.
    leads_here: AtomicBool,
    health: Mutex<Health>,
    open: AtomicU64,
    total: AtomicU64,
    failures: AtomicU64,
    checks_passed: AtomicU64,
    checks_failed: AtomicU64,
    traffic: Mutex<Traffic>,
    misled: Notify,
}

/// Bytes each way: of connections that have ended, and of those that are open.
#[derive(Debug, Default)]
struct Traffic {
    ended: (u64, u64),
    open: Slab<Flow>,
}

/// What a connection moves.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) to_backend: Arc<StreamProgress>,
    pub(super) to_client: Arc<StreamProgress>,
    /// Bytes that went to the backend before there were streams.
    pub(super) before: u64,
}

/// A connection's place at a backend, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    backend: Arc<Backend>,
    flow: Option<usize>,
}

impl Backend {
    /// Asks for its addresses.
    ///
    /// # Errors
    /// If it has none.
    pub(super) async fn new(endpoint: Endpoint, health: HealthOptions) -> io::Result<Backend> {
        let targets = endpoint.resolve().await?;
        Ok(Backend {
            name: endpoint.to_string(),
            endpoint,
            targets: Mutex::new(targets.into()),
            leads_here: AtomicBool::new(false),
            health: Mutex::new(Health::new(health, Instant::now())),
            open: AtomicU64::new(0),
            total: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            checks_passed: AtomicU64::new(0),
            checks_failed: AtomicU64::new(0),
            traffic: Mutex::default(),
            misled: Notify::new(),
        })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether whoever connects to one of its addresses comes in at this door.
    pub(super) fn is_at(&self, door: &Door) -> bool {
        self.targets.lock().iter().any(|target| door.is_reached_at(target))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn load(&self) -> Load {
        Load { up: self.health.lock().is_up(), open: self.open.load(Relaxed) as usize }
    }

    /// Connects for a client, by any of its addresses, within `limit`.
    ///
    /// # Errors
    /// What the last address said, or that it took too long.
    pub(super) async fn connect(&self, limit: Duration) -> io::Result<Link> {
        let connected = self.try_targets(limit).await;
        self.count(&connected, &self.total, &self.failures);
        connected
    }

    /// Connects to see whether it is there, says `words` and hangs up.
    ///
    /// # Errors
    /// As [`Backend::connect`], or why the words were not taken.
    pub(super) async fn check(&self, limit: Duration, words: &[u8]) -> io::Result<()> {
        let said = async { self.try_targets(limit).await?.write(words).await };
        let said = said.await;
        self.count(&said, &self.checks_passed, &self.checks_failed);
        said
    }

    /// Counts what came of connecting, unless that is our own fault: then it says nothing of the backend.
    fn count<T>(&self, result: &io::Result<T>, successes: &AtomicU64, failures: &AtomicU64) {
        match result {
            Ok(_) => _ = successes.fetch_add(1, Relaxed),
            Err(error) if is_want_of_ours(error) => return,
            Err(_) => _ = failures.fetch_add(1, Relaxed),
        }
        self.note(result.as_ref().map(|_| ()));
    }

    async fn try_targets(&self, limit: Duration) -> io::Result<Link> {
        let targets = Arc::clone(&self.targets.lock());
        connect_to_any(&targets, limit, |target| async move { Link::connect(&target).await }).await
    }

    /// What came of connecting counts for its health; a change is said once.
    fn note(&self, connected: Result<(), &io::Error>) {
        if connected.is_err() && self.endpoint.known().is_none() {
            self.misled.notify_one();
        }
        let change = self.health.lock().note(connected.is_ok(), Instant::now());
        match (change, connected) {
            (Some(Change::Up), _) => tracing::info!(backend = %self.name, "the backend is up"),
            (Some(Change::Down), Err(error)) => {
                tracing::warn!(backend = %self.name, %error, "the backend is down");
            }
            (Some(Change::Recovers), _) => {
                tracing::info!(backend = %self.name, "the backend takes connections")
            }
            (Some(Change::Fails), Err(error)) => {
                tracing::warn!(backend = %self.name, %error, "the backend takes no connection");
            }
            _ => {}
        }
    }

    /// Waits until it cannot be connected to under a name, which may stand for other addresses by now.
    pub(super) async fn misled(&self) {
        self.misled.notified().await;
    }

    /// Asks for its addresses again, of which none of these doors of ours is one. If there is none, those that are known remain.
    pub(super) async fn resolve_again(&self, doors: &[SocketAddr]) {
        match self.endpoint.resolve().await {
            Ok(mut targets) => {
                targets.retain(|target| !target.is_one_of(doors));
                let leads_here = targets.is_empty();
                let led_here = self.leads_here.swap(leads_here, Relaxed);
                if !leads_here {
                    *self.targets.lock() = targets.into();
                } else if !led_here {
                    tracing::warn!(backend = %self.name, "the name leads to the proxy itself, and is not followed");
                }
            }
            Err(error) => tracing::debug!(backend = %self.name, %error, "no answer from the resolver"),
        }
    }

    pub(super) fn status(&self) -> BackendStatus {
        let (up, lasted) = {
            let health = self.health.lock();
            (health.is_up(), health.lasted(Instant::now()))
        };
        let (bytes_to_backend, bytes_to_client) = self.traffic.lock().bytes();
        BackendStatus {
            name: self.name.clone(),
            up,
            since_seconds: lasted.as_secs(),
            open: self.open.load(Relaxed),
            total: self.total.load(Relaxed),
            bytes_to_backend,
            bytes_to_client,
            failures: self.failures.load(Relaxed),
            checks_passed: self.checks_passed.load(Relaxed),
            checks_failed: self.checks_failed.load(Relaxed),
        }
    }
}

impl Place {
    /// Takes a place, so that others see that it has more to do before there is a connection.
    pub(super) fn take(backend: &Arc<Backend>) -> Place {
        backend.open.fetch_add(1, Relaxed);
        Place { backend: Arc::clone(backend), flow: None }
    }

    /// Has what is moved counted.
    pub(super) fn count(&mut self, flow: Flow) {
        self.flow = Some(self.backend.traffic.lock().open.insert(flow));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.backend.open.fetch_sub(1, Relaxed);
        let mut traffic = self.backend.traffic.lock();
        if let Some(flow) = self.flow.and_then(|flow| traffic.open.try_remove(flow)) {
            let (to_backend, to_client) = flow.bytes();
            traffic.ended.0 += to_backend;
            traffic.ended.1 += to_client;
        }
    }
}

impl Traffic {
    fn bytes(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), more: (u64, u64)| (sum.0 + more.0, sum.1 + more.1);
        self.open.iter().map(|(_, flow)| flow.bytes()).fold(self.ended, add)
    }
}

impl Flow {
    fn bytes(&self) -> (u64, u64) {
        (self.before + self.to_backend.bytes_out(), self.to_client.bytes_out())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A proxy or cache in front of itself is refused; own addresses of a backend's name are
    /// skipped.
    #[test]
    fn a_name_is_not_followed_to_the_proxy_itself() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = HealthOptions { interval: None, rise: 1, fall: 1 };
        let before: Arc<[Target]> = [Target::Tcp("192.0.2.1:80".parse().unwrap())].into();
        let after = |doors: &[&str]| {
            let doors: Vec<SocketAddr> = doors.iter().map(|door| door.parse().unwrap()).collect();
            runtime.block_on(async {
                let endpoint = Endpoint::to_connect("localhost:80").unwrap();
                let backend = Backend::new(endpoint, options).await.unwrap();
                let found = std::mem::replace(&mut *backend.targets.lock(), Arc::clone(&before));
                backend.resolve_again(&doors).await;
                (found, Arc::clone(&backend.targets.lock()))
            })
        };
        let (found, followed) = after(&["127.0.0.1:81"]);
        assert_eq!(found, followed);
        let (_, remained) = after(&["127.0.0.1:81", "[::]:80"]);
        assert_eq!(remained, before);
    }
}
