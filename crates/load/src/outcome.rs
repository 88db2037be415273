//! Result of a run, over all sessions.

use std::collections::BTreeMap;

use serde::Serialize;
use wirepath_sys::usage::Usage;

use crate::distribution::Distribution;
use crate::options::{Options, Transport};
use crate::record::{Ending, HttpRecord, MediaRecord, SessionRecord, Times};
use crate::storm::StormOutcome;
use crate::target::Scheme;
use crate::totals::{ClientLateness, Snapshot};

/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// Maximum number of session records that are kept.
const MOST_RECORDS: usize = 50_000;

/// Playing time in seconds within which media or a sender report must have been received.
const LONG_S: f64 = 10.0;

/// Failure reason of sessions without a record.
const LOST: &str = "the session was lost: it panicked, or its thread did not end in time";

/// Maximum number of distinct failure reasons.
const MOST_REASONS: usize = 100;

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Version of the format.
    pub schema: u32,
    /// Options of the run.
    pub asked: Asked,
    /// True if the run was stopped before its time.
    pub partial: bool,
    /// Seconds from the start of the first session to the end.
    pub seconds: f64,
    /// Counts of sessions.
    pub sessions: Sessions,
    /// Reasons of failures, each with the number of sessions.
    pub failures: BTreeMap<String, u64>,
    /// Milliseconds from connecting to the response to the last SETUP, over RTSP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_ms: Option<Times>,
    /// Milliseconds from PLAY to the first packet, over RTSP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_packet_ms: Option<Times>,
    /// Milliseconds from a seek to the first packet or byte.
    pub seek_ms: Option<Times>,
    /// Judged media of all RTSP sessions. Over HTTP it is empty and omitted in the JSON.
    #[serde(skip_serializing_if = "MediaRecord::is_of_http")]
    pub media: MediaRecord,
    /// Requests and bodies of all judged HTTP sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRecord>,
    /// Share of expected packets that were lost, over RTSP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_share: Option<f64>,
    /// Number of receiver reports sent, over RTSP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_reports: Option<u64>,
    /// Number of sender reports received, over RTSP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_reports: Option<u64>,
    /// Media that were not judged.
    pub unjudged: Unjudged,
    /// Cost and lateness of the client itself.
    pub client: ClientCost,
    /// Result of the storm of set-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormOutcome>,
    /// Sessions by asset.
    pub assets: Vec<Asset>,
    /// State in each second.
    pub timeline: Vec<Snapshot>,
    /// Records of sessions, in the order in which the sessions ended.
    pub records: Vec<SessionRecord>,
    /// Number of sessions without a record in `records`.
    pub records_left_out: u64,
}

/// Options as recorded in a result.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// URLs of the assets.
    pub urls: Vec<String>,
    /// Distribution over the assets.
    pub mix: String,
    /// Number of concurrent sessions.
    pub sessions: usize,
    /// Sessions started per second.
    pub ramp: f64,
    /// Seconds after the ramp.
    pub duration_s: f64,
    /// Seconds after the ramp until lateness and underruns counted.
    pub settle_s: f64,
    /// Transport: `udp`, `tcp` or `http`.
    pub transport: &'static str,
    /// Bits per second of players over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// True if there are sessions with a media clock; downloads have none.
    pub has_clock: bool,
    /// Share of sessions that are judged.
    pub sample: f64,
    /// Mean seconds between seeks.
    pub seek_every_s: Option<f64>,
    /// Mean seconds until a session ends.
    pub churn_s: Option<f64>,
    /// Share of leaving sessions that vanish.
    pub vanish: f64,
    /// Milliseconds of the player's buffer.
    pub buffer_ms: f64,
}

/// Counts of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// Sessions started.
    pub started: u64,
    /// Sessions that failed, judged or not.
    pub failed: u64,
    /// Sessions that left or vanished by `--churn`.
    pub left: u64,
    /// Sessions that played to the end of their media.
    pub media_over: u64,
    /// Judged sessions that played long enough for a verdict.
    pub judged: u64,
    /// Judged sessions that were timely.
    pub timely: u64,
    /// Seeks of all sessions.
    pub seeks: u64,
}

/// Media that were not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of these sessions that failed.
    pub failed: u64,
    /// Number of sessions that had not begun to play when the run was over, a second or longer after their
    /// start.
    pub never_played: u64,
    /// Datagrams or whole trains that the kernel dropped for these sessions.
    pub dropped_buffers: u64,
    /// Number of sessions that played for ten seconds or longer, and for which neither media nor reports were
    /// received.
    pub without_media: u64,
    /// Bytes over TCP that were discarded, including HTTP.
    pub discarded_bytes: u64,
}

/// Cost and lateness of the client itself.
#[derive(Clone, Debug, Serialize)]
pub struct ClientCost {
    /// Number of threads with sessions.
    pub threads: usize,
    /// Processor seconds in user space.
    pub user_s: f64,
    /// Processor seconds in the kernel.
    pub system_s: f64,
    /// Processors used on average.
    pub processors: f64,
    /// Lateness of timers of the client's event loops.
    pub event_loop_ms: Option<Times>,
    /// Time that datagrams waited in the kernel before they were read, over RTSP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_ms: Option<Times>,
    /// Datagrams or trains that the sockets of judged sessions dropped.
    pub dropped_buffers: u64,
}

/// Sessions of an asset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Asset {
    /// URL of the asset.
    pub url: String,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of judged sessions.
    pub judged: u64,
    /// Number of judged sessions that were timely.
    pub timely: u64,
    /// Number of sessions that failed.
    pub failed: u64,
}

/// Collected records of a run in progress.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    sessions: Sessions,
    pub(crate) failed: u64,
    failures: BTreeMap<String, u64>,
    setup: Distribution,
    first_packet: Distribution,
    seek: Distribution,
    media: MediaRecord,
    http: HttpRecord,
    reports: (u64, u64),
    unjudged: Unjudged,
    client_drops: u64,
    assets: BTreeMap<String, Asset>,
    records: Vec<SessionRecord>,
    left_out: u64,
}

impl Collected {
    pub(crate) fn add(&mut self, record: SessionRecord) {
        self.sessions.started += 1;
        self.sessions.seeks += record.seeks;
        match record.ending {
            Ending::Left | Ending::Vanished => self.sessions.left += 1,
            Ending::MediaOver => self.sessions.media_over += 1,
            Ending::Failed => self.sessions.failed += 1,
            Ending::RunOver => {}
        }
        self.failed = self.sessions.failed;
        if let Some(reason) = &record.failure {
            let is_known = self.failures.contains_key(reason) || self.failures.len() < MOST_REASONS;
            *self.failures.entry(if is_known { reason } else { "other" }.to_owned()).or_default() += 1;
        }
        record.setup_ms.iter().for_each(|ms| self.setup.add((ms * 1000.0) as i64));
        self.reports.0 += record.receiver_reports.unwrap_or(0);
        self.reports.1 += record.sender_reports.unwrap_or(0);
        let timely = match (&record.media, &record.http) {
            (Some(media), _) => media.timely,
            (None, Some(http)) => http.timely,
            (None, None) => None,
        };
        let asset = self.assets.entry(record.url.clone()).or_default();
        asset.sessions += 1;
        asset.failed += u64::from(record.ending == Ending::Failed);
        asset.judged += u64::from(timely.is_some());
        asset.timely += u64::from(timely == Some(true));
        self.sessions.judged += u64::from(timely.is_some());
        self.sessions.timely += u64::from(timely == Some(true));
        match (&record.media, &record.http) {
            (Some(media), _) => {
                self.client_drops += record.dropped_buffers;
                media.first_packet_ms.iter().for_each(|ms| self.first_packet.add((ms * 1000.0) as i64));
                media.seek_starts.iter().for_each(|us| self.seek.add(*us));
                self.media.merge(media);
            }
            (None, Some(http)) => {
                http.seek_starts.iter().for_each(|us| self.seek.add(*us));
                self.http.merge(http);
            }
            (None, None) => self.unjudged.add(&record),
        }
        self.keep(record);
    }

    /// Adds sessions that were started but sent no record, as failed sessions.
    pub(crate) fn add_lost(&mut self, started: u64) {
        let lost = started.saturating_sub(self.sessions.started);
        if lost > 0 {
            self.sessions.started += lost;
            self.sessions.failed += lost;
            self.failed = self.sessions.failed;
            self.unjudged.sessions += lost;
            self.unjudged.failed += lost;
            self.left_out += lost;
            *self.failures.entry(LOST.to_owned()).or_default() += lost;
        }
    }

    /// Adds the number of drops at sockets that sessions outside the sample share.
    pub(crate) fn add_shared_drops(&mut self, drops: u64) {
        self.unjudged.dropped_buffers += drops;
    }

    fn keep(&mut self, mut record: SessionRecord) {
        if self.records.len() == MOST_RECORDS {
            self.left_out += 1;
            return;
        }
        record.media.iter_mut().for_each(MediaRecord::forget);
        record.http.iter_mut().for_each(HttpRecord::forget);
        self.records.push(record);
    }
}

impl Unjudged {
    fn add(&mut self, record: &SessionRecord) {
        self.sessions += 1;
        self.failed += u64::from(record.failure.is_some());
        self.never_played += u64::from(record.never_played);
        self.dropped_buffers += record.dropped_buffers;
        self.discarded_bytes += record.discarded_bytes;
        // Over shared sockets, sender reports show that the server sends.
        let came =
            record.dropped_buffers > 0 || record.discarded_bytes > 0 || record.sender_reports > Some(0);
        self.without_media += u64::from(!came && record.failure.is_none() && record.played_s >= LONG_S);
    }
}

impl Outcome {
    pub(crate) fn new(
        options: &Options,
        collected: Collected,
        client: ClientCost,
        seconds: f64,
        partial: bool,
        timeline: Vec<Snapshot>,
    ) -> Outcome {
        let Collected { sessions, failures, mut media, mut http, assets, .. } = collected;
        let is_http = options.scheme() == Scheme::Http;
        media.is_of_http = is_http;
        media.summarize(seconds);
        http.summarize(seconds);
        let expected = media.packets + media.lost + media.missing_at_start;
        let lost = media.lost + media.missing_at_start;
        let mut assets: Vec<Asset> = assets.into_iter().map(|(url, asset)| Asset { url, ..asset }).collect();
        assets.sort_by_key(|asset| std::cmp::Reverse(asset.sessions));
        Outcome {
            schema: SCHEMA,
            asked: Asked::of(options),
            partial,
            seconds,
            sessions,
            failures,
            setup_ms: Times::of(&collected.setup),
            first_packet_ms: Times::of(&collected.first_packet),
            seek_ms: Times::of(&collected.seek),
            loss_share: (!is_http).then_some(if expected > 0 { lost as f64 / expected as f64 } else { 0.0 }),
            media,
            http: is_http.then_some(http),
            receiver_reports: (!is_http).then_some(collected.reports.0),
            sender_reports: (!is_http).then_some(collected.reports.1),
            unjudged: collected.unjudged,
            client: ClientCost { dropped_buffers: collected.client_drops, ..client },
            storm: None,
            assets,
            timeline,
            records: collected.records,
            records_left_out: collected.left_out,
        }
    }

    /// Number of sessions that count in the share of timely sessions: the judged sessions, and the unjudged
    /// sessions that failed or never played.
    pub fn counted(&self) -> u64 {
        self.sessions.judged + self.unjudged.failed + self.unjudged.never_played
    }

    /// Share of timely sessions among the counted sessions; 0 if there are none.
    pub fn timely_share(&self) -> f64 {
        match self.counted() {
            0 => 0.0,
            counted => self.sessions.timely as f64 / counted as f64,
        }
    }
}

impl Asked {
    fn of(options: &Options) -> Asked {
        Asked {
            urls: options.targets.iter().map(|target| target.url.clone()).collect(),
            mix: options.mix.to_string(),
            sessions: options.sessions,
            ramp: options.ramp,
            duration_s: options.duration.as_secs_f64(),
            settle_s: options.settle.as_secs_f64(),
            transport: match (options.scheme(), options.transport) {
                (Scheme::Http, _) => "http",
                (Scheme::Rtsp, Transport::Udp) => "udp",
                (Scheme::Rtsp, Transport::Tcp) => "tcp",
            },
            rate: options.rate,
            has_clock: options.has_clock(),
            sample: options.sample,
            seek_every_s: options.seek_every.map(|time| time.as_secs_f64()),
            churn_s: options.churn.map(|time| time.as_secs_f64()),
            vanish: options.vanish,
            buffer_ms: options.buffer.as_secs_f64() * 1000.0,
        }
    }
}

impl ClientCost {
    pub(crate) fn new(used: Usage, seconds: f64, threads: usize, lateness: &ClientLateness) -> ClientCost {
        let (user_s, system_s) = (used.user.as_secs_f64(), used.system.as_secs_f64());
        ClientCost {
            threads,
            user_s,
            system_s,
            processors: if seconds > 0.0 { (user_s + system_s) / seconds } else { 0.0 },
            event_loop_ms: Times::of(&lateness.event_loops),
            waiting_ms: Times::of(&lateness.waiting),
            dropped_buffers: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: `wirepath load` counts lost sessions as failed.
    #[test]
    fn lost_sessions_count_as_failed() {
        let mut collected = Collected::default();
        collected.add_lost(0);
        assert_eq!((collected.failed, collected.failures.len()), (0, 0));
        collected.add_lost(3);
        collected.add_lost(3);
        assert_eq!((collected.sessions.started, collected.sessions.failed, collected.failed), (3, 3, 3));
        assert_eq!((collected.unjudged.failed, collected.failures[LOST], collected.left_out), (3, 3, 3));
    }
}
