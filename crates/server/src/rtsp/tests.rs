//! The listener end to end over loopback, with a player without media: each test controls its replies and
//! events.

mod client;
mod fake;
mod interleaved;
mod methods;
mod rtcp;
mod survival;
mod tracks;

use super::Listener;
use super::counters::Counts;
use super::shared::RtspOptions;

use client::Client;
use fake::FakePlayer;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wirepath_counters::Value;
use wirepath_net::DescriptorBudget;

/// Longer than anything in these tests takes on the slowest machine; a longer wait fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running listener.
struct Open {
    address: SocketAddr,
    listener: Arc<Listener>,
    player: Arc<FakePlayer>,
    shutdown: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Open {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut RtspOptions)) -> Self {
        Self::within(DescriptorBudget::unlimited(), change).await
    }

    async fn within(descriptors: Arc<DescriptorBudget>, change: impl FnOnce(&mut RtspOptions)) -> Self {
        let mut options = RtspOptions { ports: ports(), ..RtspOptions::default() };
        change(&mut options);
        let player = Arc::new(FakePlayer::default());
        let listener = Arc::new(Listener::new(Arc::clone(&player) as Arc<_>, options, descriptors, None));
        let socket = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = socket.local_addr().expect("bound");
        let (shutdown, told) = watch::channel(false);
        let served = Arc::clone(&listener);
        let task = tokio::spawn(async move { served.serve(socket, told.clone(), told).await });
        Self { address, listener, player, shutdown, task }
    }

    async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    fn sessions(&self) -> Vec<serde_json::Value> {
        self.listener.0.registry.json()
    }

    fn counter(&self, name: &str) -> u64 {
        counter(&self.listener, name)
    }
}

/// A counter by its name, or a counter of a family by its name and the label's value:
/// `sessions_ended/timeout`.
fn counter(listener: &Listener, name: &str) -> u64 {
    let (name, label) = name.split_once('/').unwrap_or((name, ""));
    let metric = Counts::METRICS.iter().find(|metric| metric.name == name);
    match (metric.unwrap_or_else(|| panic!("no counter {name}")).read)(&listener.0.counts()) {
        Value::Counter(value) | Value::Gauge(value) => value,
        Value::Counters(_, counts) => {
            let count = counts.iter().find(|(value, _)| *value == label);
            count.unwrap_or_else(|| panic!("no label {label} of {name}")).1
        }
        other => panic!("{name} is {other:?}"),
    }
}

/// Tests run side by side: each has UDP ports of its own.
fn ports() -> RangeInclusive<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let first = NEXT.fetch_add(40, Relaxed);
    first..=first + 39
}

/// Waits for something that must happen.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not happen"))
}
