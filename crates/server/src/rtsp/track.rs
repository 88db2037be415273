//! A track that is set up in a session: the source of its packets, and the path and the state of its RTCP.

use super::player::TrackSource;
use super::rtcp_path::RtcpPath;
use super::srtp::Srtcp;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use wirepath_media::rtcp::Reception;
use wirepath_playback::{RtpClock, StreamProgress};

/// A track that is set up.
pub(super) struct Track {
    /// Index of the track in its presentation.
    pub(super) index: u8,
    pub(super) source: TrackSource,
    pub(super) rtcp: Arc<RtcpPath>,
    /// Encryption of RTCP, if media are encrypted.
    pub(super) srtcp: Option<Box<Srtcp>>,
    /// The client's last report.
    pub(super) report: Option<TrackReport>,
    /// The clock as of the time when packets were last sent.
    pub(super) clock: Option<RtpClock>,
}

/// A client's report about a track.
#[derive(Clone, Copy)]
pub(super) struct TrackReport {
    pub(super) reception: Reception,
    /// Round-trip time, if known.
    pub(super) round_trip: Option<Duration>,
    /// Ticks of the track's timestamps per second.
    pub(super) clock_hz: u32,
}

/// Number of a track in its URL and for people.
pub(super) fn number(index: u8) -> u32 {
    u32::from(index) + 1
}

impl Track {
    pub(super) fn new(index: u8, source: TrackSource, rtcp: RtcpPath, srtcp: Option<Srtcp>) -> Track {
        Track { index, source, rtcp: Arc::new(rtcp), srtcp: srtcp.map(Box::new), report: None, clock: None }
    }

    /// The clock by the progress of the track, or as of the time when packets were last sent.
    pub(super) fn note_clock(&mut self, progress: &StreamProgress) -> Option<RtpClock> {
        self.clock = progress.clock.or(self.clock);
        self.clock
    }

    /// The track for `/api/status`.
    pub(super) fn json(&self, progress: StreamProgress) -> Json {
        json!({
            "track": number(self.index),
            "packets": progress.packets,
            "payload_bytes": progress.payload_bytes,
            "receiver_report": self.report.as_ref().map(TrackReport::json),
        })
    }
}

impl TrackReport {
    /// The report for `/api/status`.
    pub(super) fn json(&self) -> Json {
        let TrackReport { reception, round_trip, clock_hz } = self;
        json!({
            "packets_lost": reception.cumulative_lost,
            "fraction_lost": f64::from(reception.fraction_lost) / 256.0,
            "jitter_ms": f64::from(reception.jitter) * 1000.0 / f64::from(*clock_hz),
            "round_trip_ms": round_trip.map(|time| time.as_secs_f64() * 1000.0),
        })
    }
}
