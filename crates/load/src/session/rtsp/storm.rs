//! Connection of a storm: sends SETUP requests at a rate, without waiting for responses. Each session that is
//! set up is torn down at once.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use wirepath_media::rtsp::{ServerItem, ServerResponse};

use super::connection::Connection;
use super::description::Description;
use crate::failure::Failure;
use crate::session::{Plan, Shared};

/// Interval of sending. The requests that are due in an interval are sent together.
const TICK: Duration = Duration::from_millis(10);

/// Maximum number of requests without a response. A slower server limits the rate.
const MOST_OPEN: usize = 100;

/// Client ports that no player uses: the sessions of a storm never reach PLAY.
const CLIENT_PORTS: &str = "RTP/AVP;unicast;client_port=5004-5005";

/// Sets up sessions of the first asset, at this rate, until a request fails.
pub(in crate::session) async fn storm(shared: &Shared, number: u64, rate: f64) -> Failure {
    let plan = Plan { number, target: 0, judged: false, seed: 0 };
    match storm_on(shared, plan, rate).await {
        Ok(()) => Failure::Closed,
        Err(failure) => failure,
    }
}

async fn storm_on(shared: &Shared, plan: Plan, rate: f64) -> Result<(), Failure> {
    let mut connection = Connection::new(shared.connect(plan).await?);
    let url = track_url(&mut connection, &shared.options.targets[plan.target].url).await?;
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut requested, mut open) = (0_u64, HashMap::new());
    loop {
        tokio::select! {
            filled = connection.fill() => {
                filled?;
                answers(shared, &mut connection, &url, &mut open)?;
            }
            _ = ticks.tick() => {
                let due = (begin.elapsed().as_secs_f64() * rate) as u64;
                while requested < due && open.len() < MOST_OPEN {
                    let cseq = connection.request("SETUP", &url, &[("Transport", CLIENT_PORTS)])?;
                    open.insert(cseq.to_string(), Instant::now());
                    requested += 1;
                    shared.totals.storm.counts.lock().requested += 1;
                }
                // Requests that could not be sent in time are not sent later.
                requested = requested.max(due.saturating_sub(MOST_OPEN as u64));
            }
        }
    }
}

/// Handles the received responses.
fn answers(
    shared: &Shared,
    connection: &mut Connection,
    url: &str,
    open: &mut HashMap<String, Instant>,
) -> Result<(), Failure> {
    while let Some(response) = next_response(connection)? {
        let cseq = response.headers.first("CSeq").unwrap_or_default();
        // Responses to TEARDOWN are ignored.
        let Some(asked) = open.remove(cseq) else { continue };
        let session = response.headers.first("Session").and_then(|value| value.split(';').next());
        let mut counts = shared.totals.storm.counts.lock();
        match (response.status, session) {
            (200..300, Some(session)) => {
                counts.set_up += 1;
                counts.answers.add(i64::try_from(asked.elapsed().as_micros()).unwrap_or(i64::MAX));
                drop(counts);
                connection.request("TEARDOWN", url, &[("Session", session.trim())])?;
            }
            (status, _) => {
                counts.refused += 1;
                counts.reason = Some(Failure::refused("SETUP", status, &response.reason).to_string());
            }
        }
    }
    Ok(())
}

/// URL of the first track of an asset.
async fn track_url(connection: &mut Connection, url: &str) -> Result<String, Failure> {
    connection.request("DESCRIBE", url, &[("Accept", "application/sdp")])?;
    let response = loop {
        if let Some(response) = next_response(connection)? {
            break response;
        }
        connection.fill().await?;
    };
    if !(200..300).contains(&response.status) {
        return Err(Failure::refused("DESCRIBE", response.status, &response.reason));
    }
    let base = response.headers.first("Content-Base").or(response.headers.first("Content-Location"));
    let description = Description::read(&String::from_utf8_lossy(&response.body), url, base);
    description.tracks.into_iter().next().map(|track| track.url).ok_or(Failure::NoTrack)
}

/// Returns the next response of the items read. Other items are ignored.
fn next_response(connection: &mut Connection) -> Result<Option<ServerResponse>, Failure> {
    loop {
        match connection.next_item()? {
            None => return Ok(None),
            Some(ServerItem::Response(response)) => return Ok(Some(response)),
            Some(ServerItem::Frame { .. } | ServerItem::Request(_)) => {}
        }
    }
}
