//! RTSP sessions: OPTIONS, DESCRIBE, SETUP and PLAY, with media over UDP or interleaved on the connection.

mod agenda;
mod connection;
mod description;
mod dialogue;
mod ending;
mod storm;
mod track;
mod transport;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use wirepath_media::random::Random;
use wirepath_media::rtsp::{ServerItem, ServerResponse};

use super::{Finished, Plan, Shared};
use crate::distribution::Distribution;
use crate::failure::Failure;
use crate::judge::Judge;
use crate::record::{Ending, SessionRecord};
use connection::Connection;
use description::Description;
pub(super) use storm::storm;
use track::{Sink, Track};

/// RTSP session.
struct Session {
    shared: Arc<Shared>,
    plan: Plan,
    random: Random,
    stop: watch::Receiver<bool>,
    connection: Connection,
    description: Description,
    tracks: Vec<Track>,
    /// Identifier from the server's `Session` header.
    id: Option<String>,
    keep_alive: Duration,
    keep_alive_method: &'static str,
    sleep: Pin<Box<Sleep>>,
    waiting: Distribution,
    /// True if the session is over and only has to be ended.
    leaves: bool,
    discards: bool,
    discarded: u64,
    seeks: u64,
    /// Expected end of the media that are playing.
    media_end_us: Option<i64>,
    /// Time of the response to the first PLAY.
    playing_since_us: Option<i64>,
    played_us: i64,
    setup_us: Option<i64>,
}

/// Event that a session waits for.
enum Event {
    Response(ServerResponse),
    /// Media or reports were received.
    Received,
    Deadline,
    Stop,
}

/// Plays a session from its beginning to its end.
pub(super) async fn play(shared: Arc<Shared>, plan: Plan, stop: watch::Receiver<bool>) -> Finished {
    let started_us = shared.clock.now_us();
    let mut session = match Session::connect(&shared, plan, stop).await {
        Ok(session) => session,
        Err(Failure::Stopped) => {
            let record = SessionRecord::unconnected(&shared, plan, started_us);
            return Finished { record, silent: None };
        }
        Err(failure) => {
            shared.totals.failed.fetch_add(1, Relaxed);
            let record = SessionRecord::failed(&shared, plan, started_us, &failure);
            return Finished { record, silent: None };
        }
    };
    let result = match session.live(started_us).await {
        Err(Failure::Stopped) => Ok(Ending::RunOver),
        result => result,
    };
    session.finish(started_us, result).await
}

impl Session {
    async fn connect(
        shared: &Arc<Shared>,
        plan: Plan,
        mut stop: watch::Receiver<bool>,
    ) -> Result<Session, Failure> {
        let target = &shared.options.targets[plan.target];
        let connection = tokio::select! {
            opened = shared.connect(plan) => Connection::new(opened?),
            _ = stop.wait_for(|stop| *stop) => return Err(Failure::Stopped),
        };
        Ok(Session {
            shared: Arc::clone(shared),
            plan,
            random: Random::new(plan.seed),
            stop,
            connection,
            description: Description { url: target.url.clone(), ..Description::default() },
            tracks: Vec::new(),
            id: None,
            keep_alive: Duration::from_secs(60),
            keep_alive_method: "OPTIONS",
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            waiting: Distribution::default(),
            leaves: false,
            discards: false,
            discarded: 0,
            seeks: 0,
            media_end_us: None,
            playing_since_us: None,
            played_us: 0,
            setup_us: None,
        })
    }

    /// Sets up the session and plays until it ends.
    async fn live(&mut self, started_us: i64) -> Result<Ending, Failure> {
        self.set_up().await?;
        self.setup_us = Some(self.shared.clock.now_us() - started_us);
        self.start(0).await?;
        self.shared.totals.playing.fetch_add(1, Relaxed);
        let result = self.run().await;
        self.shared.totals.playing.fetch_sub(1, Relaxed);
        result
    }

    async fn run(&mut self) -> Result<Ending, Failure> {
        let mut agenda = self.agenda();
        loop {
            match self.event(agenda.next()).await {
                Ok(Event::Response(_) | Event::Received) => {}
                Ok(Event::Stop) => return Ok(Ending::RunOver),
                Ok(Event::Deadline) => {
                    if let Some(ending) = self.keep_agenda(&mut agenda).await? {
                        return Ok(ending);
                    }
                }
                // A server may close the connection at the end of the media.
                Err(Failure::Closed) if self.is_near_end(&agenda) => return Ok(Ending::MediaOver),
                Err(failure) => return Err(failure),
            }
            if !self.tracks.is_empty() && self.tracks.iter().all(|track| track.has_ended) {
                return Ok(Ending::MediaOver);
            }
        }
    }

    fn judges(&self) -> impl Iterator<Item = &Judge> {
        self.tracks.iter().filter_map(|track| track.judge.as_ref())
    }

    /// Waits for the next event, at most until the deadline.
    async fn event(&mut self, deadline: Instant) -> Result<Event, Failure> {
        if let Some(response) = self.take_items()? {
            return Ok(Event::Response(response));
        }
        if self.sleep.deadline() != deadline {
            self.sleep.as_mut().reset(deadline);
        }
        let Session { shared, stop, connection, tracks, sleep, waiting, leaves, .. } = self;
        let mut sink = Sink { clock: shared.clock, totals: &shared.totals, waiting };
        let receiving = std::future::poll_fn(|context| {
            let mut result = Poll::Pending;
            for track in tracks.iter_mut() {
                if let Poll::Ready(received) = track.poll_receive(context, &mut sink) {
                    result = Poll::Ready(received);
                }
            }
            result
        });
        let discarded = tokio::select! {
            biased; // due work must not wait for endless media
            () = sleep.as_mut() => return Ok(Event::Deadline),
            _ = stop.wait_for(|stop| *stop), if !*leaves => return Ok(Event::Stop),
            received = receiving => return received.map(|()| Event::Received).map_err(Failure::Receive),
            filled = connection.fill() => filled? as u64,
        };
        self.discarded += discarded;
        self.shared.totals.discarded.fetch_add(discarded, Relaxed);
        Ok(self.take_items()?.map_or(Event::Received, Event::Response))
    }

    /// Handles frames and requests that were read, up to the next response.
    fn take_items(&mut self) -> Result<Option<ServerResponse>, Failure> {
        let now_us = self.shared.clock.now_us();
        loop {
            let request = match self.connection.next_item()? {
                None => return Ok(None),
                Some(ServerItem::Response(response)) => return Ok(Some(response)),
                Some(ServerItem::Frame { channel, data }) => {
                    for track in &mut self.tracks {
                        track.frame(channel, data, now_us, &self.shared.totals);
                    }
                    continue;
                }
                Some(ServerItem::Request(request)) => request,
            };
            let known = ["OPTIONS", "GET_PARAMETER", "SET_PARAMETER", "ANNOUNCE"];
            let status =
                if known.contains(&request.method.as_str()) { "200 OK" } else { "501 Not Implemented" };
            let cseq = request.headers.first("CSeq").unwrap_or("0").to_owned();
            self.connection.respond(status, &cseq)?;
        }
    }
}
