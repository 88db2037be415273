//! Looks after a backend: whether it is there, and where.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};

use super::backend::Backend;
use super::proxy_protocol;

/// Time between two questions for the addresses of a backend that cannot be connected to.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Checks it each `every`, if that is wanted, and asks for its addresses, of which none is to be one of `doors`, when they lead nowhere.
/// Runs until it is dropped.
pub(super) async fn look_after(
    backend: Arc<Backend>,
    every: Option<Duration>,
    limit: Duration,
    with_header: bool,
    doors: Arc<[SocketAddr]>,
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
    let questions = async {
        loop {
            backend.misled().await;
            backend.resolve_again(&doors).await;
            sleep(ASK_AGAIN).await;
        }
    };
    tokio::join!(checks, questions);
}

/// Connects and hangs up. Where a header is expected, one says that this is for nobody (LOCAL).
async fn check(backend: &Backend, limit: Duration, with_header: bool) {
    let result = async {
        let words = if with_header { proxy_protocol::header(None)? } else { Vec::new() };
        backend.check(limit, &words).await
    };
    if let Err(error) = result.await {
        tracing::debug!(backend = backend.name(), %error, "a check failed");
    }
}
