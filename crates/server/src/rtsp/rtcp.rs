//! A session's RTCP (RFC 3550 section 6): sender reports, the client's reports, BYE at the end.

use super::port_socket::RtcpReceiver;
use super::rtcp_path::LowerTransport;
use super::session_info::SessionInfo;
use super::track::{Track, TrackReport};
use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;
use wirepath_media::rtcp::{self, NtpTime, SenderState};
use wirepath_media::srtp::UnprotectError;
use wirepath_playback::StreamProgress;

use super::player::TrackSource;
use crate::sender_report::{self, ntp};

impl RtcpReceiver for SessionInfo {
    fn receive(&self, packet: &[u8], received: SystemTime) {
        self.read_packet(packet, received);
    }
}

impl SessionInfo {
    /// Reads an RTCP packet of the client's, which came at `received`.
    pub(super) fn read_packet(&self, datagram: &[u8], received: SystemTime) {
        self.counters.rtcp_received.increment();
        self.with_tracks(|tracks| {
            let clear = unprotect(tracks, datagram);
            let Ok(datagram) = clear.as_deref() else {
                self.counters.rtcp_unauthenticated.increment();
                return;
            };
            let ours = |ssrc| tracks.iter().any(|track| track.source.ssrc == ssrc);
            match rtcp::read(datagram, ours) {
                Ok(report) => {
                    self.note_heard();
                    self.counters.reception_reports.add(report.receptions.len() as u64);
                    for (ssrc, reception) in report.receptions {
                        let round_trip = reception.round_trip(ntp(received));
                        for track in tracks.iter_mut().filter(|track| track.source.ssrc == ssrc) {
                            let clock_hz = track.source.clock_hz;
                            track.report = Some(TrackReport { reception, round_trip, clock_hz });
                        }
                    }
                }
                Err(error) => {
                    self.counters.rtcp_malformed.increment();
                    tracing::debug!(peer = %self.peer, %error, "a datagram was dropped");
                }
            }
        });
    }

    /// Sends a sender report with its CNAME (RFC 3550 section 6.4.1) for each track with a known clock, all
    /// for the same time. A track without a sent packet has a report, too, so that the client can synchronise
    /// it with the others. Returns whether any report was sent, or none is needed: packets of ONVIF replay
    /// that leave as fast as the connection takes them have no relation to the wall clock.
    pub(super) fn send_reports(&self) -> bool {
        if self.is_unpaced() {
            self.bye_sent.store(false, Relaxed);
            return true;
        }
        self.for_each_clock(|track, state, _| {
            self.bye_sent.store(false, Relaxed);
            self.counters.sender_reports.increment();
            self.send(track, &state.report(&self.cname()));
        })
    }

    /// Sends a BYE for each track, once; a source that never sent a packet does not (RFC 3550 section 6.3.7).
    pub(super) fn send_bye(&self) {
        if self.transport() == LowerTransport::Multicast || self.bye_sent.swap(true, Relaxed) {
            return;
        }
        let is_sent = self.for_each_clock(|track, state, progress| {
            if progress.packets > 0 {
                self.counters.rtcp_byes.increment();
                self.send(track, &state.bye(&self.cname()));
            }
        });
        self.bye_sent.store(is_sent, Relaxed);
    }

    /// Stores the clocks as of now, or as of the time when packets were last sent.
    pub(super) fn note_clocks(&self) {
        let Some(playback) = self.playback() else { return };
        self.with_tracks(|tracks| {
            for track in tracks {
                track.note_clock(&playback.track_progress(track.index));
            }
        });
    }

    /// Calls a function for each track whose clock is or was known, with the data of its report and its
    /// progress. Returns whether there is such a track.
    fn for_each_clock(&self, act: impl Fn(&mut Track, &SenderState, &StreamProgress)) -> bool {
        let Some(playback) = self.playback() else { return false };
        let (now, now_us) = (ntp(SystemTime::now()), wirepath_engine::now_us());
        self.with_tracks(|tracks| {
            let mut has_clock = false;
            for track in tracks {
                let progress = playback.track_progress(track.index);
                let state = match self.is_unpaced() {
                    true => Some(without_times(track.source, &progress)),
                    false => sender_state(track, &progress, now, now_us),
                };
                if let Some(state) = state {
                    act(track, &state, &progress);
                    has_clock = true;
                }
            }
            has_clock
        })
    }

    /// Sends a report. A report that the network rejects is not repeated; the next one replaces it.
    fn send(&self, track: &mut Track, datagram: &[u8]) {
        let datagram = match &mut track.srtcp {
            None => Cow::Borrowed(datagram),
            Some(srtcp) => match srtcp.protect(datagram) {
                Some(protected) => Cow::Owned(protected),
                None => return, // its key is used up
            },
        };
        if let Err(error) = track.rtcp.send(&datagram) {
            tracing::debug!(peer = %self.peer, %error, "RTCP was not sent");
        }
    }
}

/// The plaintext of a datagram: unchanged, or decrypted by the key of the track that it reports on.
fn unprotect<'a>(tracks: &mut [Track], datagram: &'a [u8]) -> Result<Cow<'a, [u8]>, UnprotectError> {
    let mut result = Ok(Cow::Borrowed(datagram));
    for srtcp in tracks.iter_mut().filter_map(|track| track.srtcp.as_mut()) {
        match srtcp.unprotect(datagram) {
            Ok(clear) => return Ok(Cow::Owned(clear)),
            Err(error) => result = Err(error),
        }
    }
    result
}

/// Report of a track without times (ONVIF Streaming Specification, section "Use of RTCP").
fn without_times(source: TrackSource, progress: &StreamProgress) -> SenderState {
    SenderState {
        ssrc: source.ssrc,
        now: NtpTime::from_bits(0),
        timestamp: 0,
        packets: progress.packets as u32,
        octets: progress.payload_bytes as u32,
    }
}

/// Report of a track for this time, which is `now_us` on CLOCK_MONOTONIC.
fn sender_state(
    track: &mut Track,
    progress: &StreamProgress,
    now: NtpTime,
    now_us: u64,
) -> Option<SenderState> {
    let clock = track.note_clock(progress)?;
    let TrackSource { ssrc, clock_hz } = track.source;
    Some(sender_report::state(ssrc, clock_hz, clock, progress, now, now_us))
}
