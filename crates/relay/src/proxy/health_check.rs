//! Health checks of a backend, and periodic resolution of its name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::backend::Backend;
use super::proxy_protocol;

/// Interval between resolutions of a backend to which connecting fails.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(1);

/// Checks a backend every `every`, if set, and resolves its name again when connecting fails; addresses of
/// `listeners` are skipped. Runs until it is dropped.
pub(super) async fn run(
    backend: Arc<Backend>,
    every: Option<Duration>,
    limit: Duration,
    with_header: bool,
    listeners: Arc<[SocketAddr]>,
) {
    let checks = async {
        let Some(every) = every else { return };
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            check(&backend, limit, with_header).await;
        }
    };
    let resolutions = async {
        loop {
            backend.unreachable().await;
            backend.resolve_again(&listeners).await;
            sleep(RESOLVE_INTERVAL).await;
        }
    };
    tokio::join!(checks, resolutions);
}

/// Connects and closes. If the backend expects a PROXY protocol header, the header says that this is a
/// connection of the proxy itself (LOCAL).
async fn check(backend: &Backend, limit: Duration, with_header: bool) {
    let result = async {
        let header = if with_header { proxy_protocol::header(None)? } else { Vec::new() };
        backend.check(limit, &header).await
    };
    if let Err(error) = result.await {
        tracing::debug!(backend = backend.name(), %error, "health check failed");
    }
}
