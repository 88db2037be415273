//! Record of a finished session.

use serde::Serialize;

use crate::distribution::Distribution;
use crate::judge::{Counts, Judge};

/// Quantiles of times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Maximum.
    pub max: f64,
}

/// Reason for the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The run ended.
    RunOver,
    /// The media ended.
    MediaOver,
    /// The time of the session ended, by `--churn`.
    Left,
    /// The time of the session ended, by `--churn`, and the session sent no TEARDOWN.
    Vanished,
    /// The session failed.
    Failed,
}

/// Finished session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionRecord {
    /// Number of the session, in the order of starts.
    pub number: u64,
    /// URL of the asset.
    pub url: String,
    /// True if the session was received and judged.
    pub judged: bool,
    /// Seconds from the start of the run to the start of the session.
    pub started_s: f64,
    /// Seconds that the session played.
    pub played_s: f64,
    /// True if PLAY was not answered when the run was over, a second or longer after the start of the
    /// session.
    pub never_played: bool,
    /// Reason for the end of the session.
    pub ending: Ending,
    /// Reason of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Milliseconds from connecting to the response to the last SETUP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup_ms: Option<f64>,
    /// Number of seeks.
    pub seeks: u64,
    /// Number of receiver reports sent by an RTSP session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_reports: Option<u64>,
    /// Number of sender reports received by an RTSP session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_reports: Option<u64>,
    /// Judgement of the media of an RTSP session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaRecord>,
    /// Judgement of an HTTP session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpRecord>,
    /// Buffers (datagrams, or whole trains) that the client's sockets dropped. In a judged session, these are
    /// losses by the client; in another session, these are its media.
    pub dropped_buffers: u64,
    /// Bytes over TCP that were discarded.
    pub discarded_bytes: u64,
}

/// Media of a judged session, over all tracks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MediaRecord {
    /// True if the session had no underrun, received the media at their rate, and did not fail. `None` if the
    /// session was too short for a verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timely: Option<bool>,
    /// Milliseconds from PLAY to the first packet.
    pub first_packet_ms: Option<f64>,
    /// Packets received, without duplicates.
    pub packets: u64,
    /// Bytes of these packets, including RTP headers.
    pub bytes: u64,
    /// Bits per second of these packets while the session played.
    pub bits_per_second: f64,
    /// Packets lost between received packets.
    pub lost: u64,
    /// Packets announced in the response to PLAY, but lost before the first received packet.
    pub missing_at_start: u64,
    /// Packets received after a later packet.
    pub reordered: u64,
    /// Packets received again.
    pub duplicates: u64,
    /// Packets that do not belong to the stream.
    pub strays: u64,
    /// Restarts of a source, with a new SSRC or new sequence numbers.
    pub restarts: u64,
    /// Discontinuities of RTP timestamps.
    pub clock_jumps: u64,
    /// Lateness of bursts.
    pub lateness_ms: Option<Times>,
    /// Media time of bursts.
    pub burst_ms: Option<Times>,
    /// Longest interval without a packet.
    pub longest_gap_ms: f64,
    /// Number of times that the player's buffer ran dry.
    pub underruns: u64,
    /// Milliseconds that the player waited for media then.
    pub stalled_ms: f64,
    /// Lowest receiving rate of a transport stream, as a share of the stream's own rate by its clock (PCR).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub least_pace: Option<f64>,
    /// Number of transport streams received at less than 0.9 of their rate.
    pub slow: u64,
    #[serde(skip)]
    pub(crate) lateness: Distribution,
    #[serde(skip)]
    pub(crate) bursts: Distribution,
    /// Times from PLAY to the first packet, after seeks.
    #[serde(skip)]
    pub(crate) seek_starts: Vec<i64>,
    /// True over HTTP, where these figures do not apply.
    #[serde(skip)]
    pub(crate) is_of_http: bool,
}

/// Requests and bodies of a judged HTTP session.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HttpRecord {
    /// True if the session had no underrun and did not fail. `None` if the session was too short for a
    /// verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timely: Option<bool>,
    /// Connections opened.
    pub connections: u64,
    /// Requests sent, including requests on a kept connection that the server had already closed.
    pub requests: u64,
    /// Bodies of media received completely.
    pub responses: u64,
    /// Bytes of media received.
    pub bytes: u64,
    /// Bits per second of these bytes while the session played.
    pub bits_per_second: f64,
    /// Milliseconds to connect.
    pub connect_ms: Option<Times>,
    /// Milliseconds from a request to the first byte of its response.
    pub first_byte_ms: Option<Times>,
    /// Milliseconds from a request to the last byte of its body, for bodies read at full speed.
    pub response_ms: Option<Times>,
    /// Longest interval without a byte while a byte was awaited.
    pub longest_gap_ms: f64,
    /// Number of times that the player's buffer ran dry.
    pub underruns: u64,
    /// Milliseconds that the player waited for media then.
    pub stalled_ms: f64,
    #[serde(skip)]
    pub(crate) connect: Distribution,
    #[serde(skip)]
    pub(crate) first_byte: Distribution,
    #[serde(skip)]
    pub(crate) response: Distribution,
    /// Times from a seek to the first byte of media.
    #[serde(skip)]
    pub(crate) seek_starts: Vec<i64>,
}

impl HttpRecord {
    /// Calculates rates and quantiles.
    pub(crate) fn summarize(&mut self, seconds: f64) {
        self.bits_per_second = if seconds > 0.0 { self.bytes as f64 * 8.0 / seconds } else { 0.0 };
        self.connect_ms = Times::of(&self.connect);
        self.first_byte_ms = Times::of(&self.first_byte);
        self.response_ms = Times::of(&self.response);
    }

    /// Adds the figures of another session.
    pub(crate) fn merge(&mut self, other: &HttpRecord) {
        self.connections += other.connections;
        self.requests += other.requests;
        self.responses += other.responses;
        self.bytes += other.bytes;
        self.connect.add_all(&other.connect);
        self.first_byte.add_all(&other.first_byte);
        self.response.add_all(&other.response);
        self.longest_gap_ms = self.longest_gap_ms.max(other.longest_gap_ms);
        self.underruns += other.underruns;
        self.stalled_ms += other.stalled_ms;
    }

    /// Frees the memory of figures that were merged.
    pub(crate) fn forget(&mut self) {
        (self.connect, self.first_byte) = (Distribution::default(), Distribution::default());
        (self.response, self.seek_starts) = (Distribution::default(), Vec::new());
    }
}

impl Times {
    /// Quantiles of a distribution in microseconds; `None` if the distribution is empty.
    pub(crate) fn of(times: &Distribution) -> Option<Times> {
        let at = |share| times.quantile(share).map(milliseconds);
        Some(Times {
            p50: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
            p999: at(0.999)?,
            max: milliseconds(times.greatest()?),
        })
    }
}

impl MediaRecord {
    /// Record of all tracks of a session that played for so many seconds.
    pub(crate) fn of<'a>(judges: impl Iterator<Item = &'a Judge>, played_s: f64) -> MediaRecord {
        let mut record = MediaRecord::default();
        judges.for_each(|judge| record.add(judge));
        record.summarize(played_s);
        record
    }

    pub(crate) fn is_of_http(&self) -> bool {
        self.is_of_http
    }

    /// Calculates rates and quantiles.
    pub(crate) fn summarize(&mut self, seconds: f64) {
        self.bits_per_second = if seconds > 0.0 { self.bytes as f64 * 8.0 / seconds } else { 0.0 };
        (self.lateness_ms, self.burst_ms) = (Times::of(&self.lateness), Times::of(&self.bursts));
    }

    /// Adds the figures of another session.
    pub(crate) fn merge(&mut self, other: &MediaRecord) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.missing_at_start += other.missing_at_start;
        self.reordered += other.reordered;
        self.duplicates += other.duplicates;
        self.strays += other.strays;
        self.restarts += other.restarts;
        self.clock_jumps += other.clock_jumps;
        self.lateness.add_all(&other.lateness);
        self.bursts.add_all(&other.bursts);
        self.longest_gap_ms = self.longest_gap_ms.max(other.longest_gap_ms);
        self.underruns += other.underruns;
        self.stalled_ms += other.stalled_ms;
        self.note_pace(other.least_pace);
        self.slow += other.slow;
    }

    /// Frees the memory of figures that were merged.
    pub(crate) fn forget(&mut self) {
        (self.lateness, self.bursts) = (Distribution::default(), Distribution::default());
        self.seek_starts = Vec::new();
    }

    fn note_pace(&mut self, share: Option<f64>) {
        let paces = [self.least_pace, share].into_iter().flatten();
        self.least_pace = paces.min_by(f64::total_cmp);
    }

    fn add(&mut self, judge: &Judge) {
        let Counts { packets, bytes, lost, missing_at_start, reordered, duplicates, strays, restarts } =
            judge.counts;
        self.packets += packets;
        self.bytes += bytes;
        self.lost += lost;
        self.missing_at_start += missing_at_start;
        self.reordered += reordered;
        self.duplicates += duplicates;
        self.strays += strays;
        self.restarts += restarts;
        self.clock_jumps += judge.clock_jumps;
        self.lateness.add_all(judge.lateness());
        self.bursts.add_all(&judge.bursts);
        self.longest_gap_ms = self.longest_gap_ms.max(milliseconds(judge.longest_gap_us));
        self.underruns += judge.player.underruns;
        self.stalled_ms += milliseconds(judge.player.stalled_us);
        self.note_pace(judge.pace.share());
        self.slow += u64::from(judge.pace.is_slow());
        if let Some((first, seeks)) = judge.starts.split_first() {
            let first = milliseconds(*first);
            self.first_packet_ms = Some(self.first_packet_ms.map_or(first, |other| first.min(other)));
            self.seek_starts.extend(seeks);
        }
    }
}

pub(crate) fn milliseconds(us: i64) -> f64 {
    us as f64 / 1000.0
}
