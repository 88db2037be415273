//! RFC 2326 section 10: the methods.

use std::time::Duration;

use super::counters::EndReason;
use super::handler::{Answer, Described, RequestHandler, refuse, resource};
use super::player::{OpenError, PlayRange};
use super::replay::AskedReplay;
use super::session_events::EventKind;
use super::session_state::{Pace, Phase, PlayStep};
use super::track;
use tokio::time::timeout;
use wirepath_media::rtsp::{
    ClockRange, ClockTime, Npt, NptRange, Refusal, Request, Resource, Response, StatusCode, TimeRange,
    header_names,
};
use wirepath_playback::{Scale, Speed};

/// Longest time in which the newest part of a recording is searched. A long recording is packed up to there
/// first; its beginning is played if that takes longer.
const NEWEST_LIMIT: Duration = Duration::from_secs(8);

impl RequestHandler {
    /// RFC 2326 section 10.2.
    pub(super) async fn describe(&mut self, request: &Request) -> Answer {
        let resource = resource(request)?;
        if !request.accepts("application/sdp") {
            let why = "Accept: presentations are described in application/sdp";
            return Err(refuse(StatusCode::NotAcceptable, why));
        }
        let (path, query) = (resource.path().to_vec(), resource.query().to_owned());
        self.described = (!query.is_empty()).then(|| Box::new(Described { path, query }));
        let description = match self.open(resource).await {
            Ok(presentation) => {
                let presentation = self.check_replay(request, &*presentation)?.unwrap_or(presentation);
                self.described_for_client(resource.path(), &presentation.describe())?
            }
            Err(error) => return Err(self.explain_missing(resource, error).await),
        };
        let base = format!("{}/", resource.url(&self.origin()));
        let response = self.ok(request).header(header_names::CONTENT_BASE, &base);
        Ok(response.body("application/sdp", description))
    }

    /// A track cannot be described: the status is 460 (RFC 2326 section 11.3.11) if its presentation exists.
    async fn explain_missing(&self, resource: &Resource, error: OpenError) -> Refusal {
        // An archive may have a folder of a track's name.
        let is_no_presentation = matches!(error, OpenError::NotFound | OpenError::Folder);
        if let Some((presentation, number)) = resource.split_track().filter(|_| is_no_presentation)
            && let Ok(opened) = self.open(&presentation).await
            && (1..=track::number(opened.tracks() - 1)).contains(&number)
        {
            let url = presentation.url(&self.origin());
            return refuse(
                StatusCode::OnlyAggregateOperationAllowed,
                format!("this is a track; DESCRIBE {url}"),
            );
        }
        self.open_refusal(error)
    }

    /// RFC 2326 section 10.5.
    pub(super) async fn play(&mut self, request: &Request) -> Answer {
        let session = self.named_session(request)?;
        // A session cannot change a sender that others watch: the response has its position and speed.
        let is_shared = session.playback.is_shared();
        let is_live = session.playback.is_live();
        let replay = AskedReplay::of(request, session)?;
        let asked_speed = speed(request)?.map(|speed| if is_shared { Speed::NORMAL } else { speed });
        let speed = replay.speed(asked_speed);
        let scale = request.scale()?.map(|scale| session.nearest_scale(scale));
        let origin_us = session.playback.clock_origin_us();
        let range = TimeRange::of(request)?;
        let shown_from_us = origin_us.filter(|_| matches!(range, Some(TimeRange::Clock(_))));
        let range = range.map(|range| normal(range, origin_us)).transpose()?.filter(|_| !is_shared);
        let plays_to_end = matches!(session.state.phase(), Phase::Playing { until_us: None });
        let range = match range {
            // A session that plays to the end goes on: clients send such a PLAY to keep alive.
            Some(NptRange { start: Some(Npt::Now), end }) if !plays_to_end => {
                let newest_us = timeout(NEWEST_LIMIT, session.playback.newest_us()).await.unwrap_or(None);
                Some(NptRange { start: Some(newest_us.map_or(Npt::Now, Npt::At)), end })
            }
            range => range,
        };
        let duration_us = session.playback.duration_us();
        let position_us = session.playback.progress().position_us;
        let active = (session.state.speed(), session.state.scale());
        let id = session.id.clone();
        if scale.unwrap_or_default().is_normal() {
            self.admit_speed(active.0, speed.unwrap_or_default())?;
        }
        let pace = Pace {
            speed,
            scale,
            replay: replay.play,
            asks_replay: replay.has_fields(),
            is_immediate: replay.is_immediate,
        };
        let step = self.session(&id)?.state.play(range, pace, duration_us, position_us)?;
        let until = |until_us: Option<u64>, scale: Scale| match scale.is_backward() {
            true => Some(Npt::At(until_us.unwrap_or(0))),
            false => until_us.or(duration_us).map(Npt::At),
        };
        let mut response = self.ok(request);
        let chosen = match step {
            PlayStep::Start(stretch) => {
                let position = self.start(&id, stretch).await?;
                let infos = self.session(&id)?.rtp_info(&position);
                let range = NptRange {
                    start: Some(if is_live { Npt::Now } else { Npt::At(position.at_us) }),
                    end: until(stretch.until_us, stretch.scale),
                };
                response = with_range(response, range, shown_from_us).rtp_info(&infos);
                (stretch.speed, stretch.scale)
            }
            // The first packet is not known yet, so there is no RTP-Info.
            PlayStep::Queued(PlayRange { from_us, until_us, speed, scale, .. }) => {
                let start = from_us.map_or(Npt::Now, Npt::At);
                let range = NptRange { start: Some(start), end: until(until_us, scale) };
                response = with_range(response, range, shown_from_us);
                (speed, scale)
            }
            PlayStep::Unchanged => {
                let end = until(None, active.1);
                let start = Some(if is_live { Npt::Now } else { Npt::At(position_us) });
                response = response.range(NptRange { start, end });
                active
            }
        };
        // RFC 2326 sections 12.34 and 12.35: the response contains the values in effect.
        if scale.is_some() {
            response = response.header(header_names::SCALE, &chosen.1.to_string());
        }
        if asked_speed.is_some() {
            response = response.header(header_names::SPEED, &chosen.0.to_string());
        }
        Ok(replay.answer(response))
    }

    /// Admits a change of speed of a session that plays or rests: 453 if the load does not allow the
    /// increase.
    fn admit_speed(&self, active: Speed, asked: Speed) -> Result<(), Refusal> {
        let more = asked.factor() - active.factor();
        if more <= 0.0 {
            return Ok(());
        }
        let admitted = self.shared.player.admit_faster(more);
        admitted.map_err(|overload| {
            refuse(StatusCode::NotEnoughBandwidth, format!("Speed: {asked}: {overload}; play slower"))
        })
    }

    /// RFC 2326 section 10.6.
    pub(super) async fn pause(&mut self, request: &Request) -> Answer {
        let session = self.named_session(request)?;
        let point = NptRange::of(request)?.and_then(|range| range.start);
        if let Some(Npt::At(_)) = point {
            let why = "Range: a pause point to come is not supported; PAUSE without Range pauses at once";
            return Err(refuse(StatusCode::NotImplemented, why));
        }
        let is_live = session.playback.is_live();
        let (key, ticket) = (session.key(), session.pause()?);
        let paused = |kind: &EventKind| match kind {
            EventKind::Paused(number, result) if *number == ticket => Some(result.clone()),
            _ => None,
        };
        let at_us = self.wait(key, paused).await?;
        self.shared.counters.pauses.increment();
        let start = Some(if is_live { Npt::Now } else { Npt::At(at_us) });
        Ok(self.ok(request).range(NptRange { start, end: None }))
    }

    /// RFC 2326 section 10.7.
    pub(super) async fn tear_down(&mut self, request: &Request) -> Answer {
        let id = self.named_session(request)?.id.clone();
        self.end(&id, EndReason::Teardown).await;
        Ok(self.ok(request))
    }

    /// RFC 2326 sections 10.8 and 10.9: there are no parameters, but clients keep alive by requesting none.
    pub(super) fn parameters(&mut self, request: &Request) -> Answer {
        let body = String::from_utf8_lossy(&request.body);
        let names: Vec<&str> =
            body.lines().map(|line| line.split(':').next().unwrap_or(line).trim()).collect();
        let names: String =
            names.iter().filter(|name| !name.is_empty()).map(|name| format!("{name}\r\n")).collect();
        if names.is_empty() {
            return Ok(self.ok(request));
        }
        let response = Response::new(StatusCode::ParameterNotUnderstood, Some(request.cseq));
        Ok(response.body("text/parameters", names.into_bytes()))
    }
}

/// A range as normal play time, in a presentation whose time 0 is at `origin_us` on the wall clock. The part
/// before time 0 is left out.
fn normal(range: TimeRange, origin_us: Option<i64>) -> Result<NptRange, Refusal> {
    match (range, origin_us) {
        (TimeRange::Npt(range), _) => Ok(range),
        (TimeRange::Clock(range), Some(origin_us)) => {
            let time = |time: ClockTime| Npt::At(time.0.saturating_sub(origin_us).max(0).unsigned_abs());
            Ok(NptRange { start: Some(time(range.start)), end: range.end.map(time) })
        }
        (TimeRange::Clock(range), None) => {
            let why = format!("Range: {range}: only archives have absolute times; use `npt=`");
            Err(refuse(StatusCode::NotImplemented, why))
        }
    }
}

/// A response with its range, in absolute time if the client used it and time 0 is at `origin_us`.
fn with_range(response: Response, range: NptRange, origin_us: Option<i64>) -> Response {
    let (Some(origin_us), Some(Npt::At(start_us))) = (origin_us, range.start) else {
        return response.range(range);
    };
    let time = |us: u64| ClockTime(origin_us.saturating_add_unsigned(us));
    let end = match range.end {
        Some(Npt::At(end_us)) => Some(time(end_us)),
        _ => None,
    };
    response.header(header_names::RANGE, &ClockRange { start: time(start_us), end }.to_string())
}

/// The supported speed that is nearest to the requested one (RFC 2326 section 12.35).
fn speed(request: &Request) -> Result<Option<Speed>, Refusal> {
    match request.speed()? {
        Some(speed) if speed < 0.0 => {
            let why = format!("Speed: {speed}: expected a positive number");
            Err(refuse(StatusCode::BadRequest, why))
        }
        speed => Ok(speed.map(Speed::nearest)),
    }
}
