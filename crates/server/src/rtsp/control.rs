//! A session's RTCP (RFC 3550 section 6): reports at intervals, what the client says, BYE at the end.

use super::record::{Record, Stage, ntp_now};
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use wirepath_media::rtcp;

/// Between the last packet and BYE: players take BYE for the end at once, and forget what they have not read.
const BYE_DELAY: Duration = Duration::from_millis(100);

/// Longest datagram that is read; compound packets keep to the path's MTU (RFC 3550 section 6.1).
const DATAGRAM_LIMIT: usize = 1500;

/// Serves a session's RTCP until the task is aborted.
pub(super) async fn serve(record: Arc<Record>, interval: Duration) {
    let mut stages = record.stage.subscribe();
    let mut wake = None;
    let mut datagram = [0; DATAGRAM_LIMIT];
    loop {
        tokio::select! {
            received = record.socket.recv(&mut datagram) => take(&record, received.map(|length| &datagram[..length])),
            changed = stages.changed() => {
                if changed.is_err() {
                    return;
                }
                wake = first_wake(*stages.borrow_and_update());
            }
            () = sleep_maybe(wake) => wake = act(&record, interval),
        }
    }
}

fn first_wake(stage: Stage) -> Option<Instant> {
    match stage {
        Stage::Resting => None,
        Stage::Playing => Some(Instant::now()),
        Stage::Ended => Some(Instant::now() + BYE_DELAY),
    }
}

/// Does what is due and says when to come again.
fn act(record: &Record, interval: Duration) -> Option<Instant> {
    let stage = *record.stage.borrow();
    match stage {
        Stage::Resting => None,
        Stage::Playing => {
            record.report();
            Some(Instant::now() + interval)
        }
        Stage::Ended => {
            record.send_bye();
            None
        }
    }
}

async fn sleep_maybe(wake: Option<Instant>) {
    match wake {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// The socket is connected, so this comes from the client. That its RTCP port is closed is no reason to end:
/// some receivers have none.
fn take(record: &Record, received: io::Result<&[u8]>) {
    let datagram = match received {
        Ok(datagram) => datagram,
        Err(error) => return tracing::debug!(peer = %record.peer, %error, "RTCP was not received"),
    };
    record.counters.rtcp_received.increment();
    match rtcp::read(datagram, record.ssrc) {
        Ok(received) => {
            record.heard.again();
            record.counters.reception_reports.add(received.receptions.len() as u64);
            if let Some(&last) = received.receptions.last() {
                *record.reception.lock() = Some((last, last.round_trip(ntp_now())));
            }
        }
        Err(error) => {
            record.counters.rtcp_malformed.increment();
            tracing::debug!(peer = %record.peer, %error, "a datagram was dropped");
        }
    }
}
