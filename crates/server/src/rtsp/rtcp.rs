//! A session's RTCP (RFC 3550 section 6): reports at intervals, the client's reports, BYE at the end.

use super::port_socket::RtcpReceiver;
use super::session_info::SessionInfo;
use super::session_state::Phase;
use super::ticks;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, sleep_until};
use wirepath_media::rtcp::{self, NtpTime, SenderState};
use wirepath_media::rtp::CLOCK_HZ;
use wirepath_playback::RtpClock;

/// Between the last packet and BYE: players take BYE for the end at once, and drop packets not yet read.
const BYE_DELAY: Duration = Duration::from_millis(100);

/// Time until the next attempt at a report when no packet has left yet.
const FIRST_REPORT_RETRY: Duration = Duration::from_millis(100);

/// Reports of many sessions are sent in one wake-up, up to a fiftieth of the interval late.
const TICKS_PER_INTERVAL: u32 = 50;

/// Sends a session's RTCP until the task is aborted.
pub(super) async fn serve(session: Arc<SessionInfo>, interval: Duration) {
    let mut phases = session.phase.subscribe();
    let mut wake = None;
    loop {
        tokio::select! {
            changed = phases.changed() => {
                if changed.is_err() {
                    return;
                }
                let phase = *phases.borrow_and_update();
                wake = match phase {
                    Phase::Ready => None,
                    Phase::Playing { .. } => Some(Instant::now()),
                    Phase::Ended { .. } => Some(Instant::now() + BYE_DELAY),
                };
            }
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                let phase = *session.phase.borrow();
                wake = None;
                match phase {
                    Phase::Ready => {}
                    Phase::Playing { .. } => {
                        let is_sent = session.send_report();
                        let wait = if is_sent { interval } else { FIRST_REPORT_RETRY.min(interval) };
                        wake = Some(ticks::after(Instant::now() + wait, interval / TICKS_PER_INTERVAL));
                    }
                    Phase::Ended { .. } => session.send_bye(),
                }
            }
        }
    }
}

impl RtcpReceiver for SessionInfo {
    fn receive(&self, packet: &[u8], received: SystemTime) {
        self.read_packet(packet, received);
    }
}

impl SessionInfo {
    /// Reads an RTCP packet of the client's, which came at `received`.
    pub(super) fn read_packet(&self, datagram: &[u8], received: SystemTime) {
        self.counters.rtcp_received.increment();
        match rtcp::read(datagram, self.ssrc) {
            Ok(report) => {
                self.note_heard();
                self.counters.reception_reports.add(report.receptions.len() as u64);
                if let Some(&last) = report.receptions.last() {
                    *self.reception.lock() = Some((last, last.round_trip(ntp(received))));
                }
            }
            Err(error) => {
                self.counters.rtcp_malformed.increment();
                tracing::debug!(peer = %self.peer, %error, "a datagram was dropped");
            }
        }
    }

    /// Sends a sender report with its CNAME (RFC 3550 section 6.4.1), if there is anything to report. Returns
    /// whether there was.
    fn send_report(&self) -> bool {
        let state = self.sender_state();
        if let Some(state) = &state {
            self.bye_sent.store(false, Relaxed);
            self.counters.sender_reports.increment();
            self.send(&state.report(&self.cname));
        }
        state.is_some()
    }

    /// Sends a BYE, once; a source that never sent a packet does not (RFC 3550 section 6.3.7).
    pub(super) fn send_bye(&self) {
        if let Some(state) = self.sender_state()
            && !self.bye_sent.swap(true, Relaxed)
        {
            self.counters.rtcp_byes.increment();
            self.send(&state.bye(&self.cname));
        }
    }

    /// The clock as it is, or was when packets were last being sent.
    pub(super) fn note_clock(&self) -> Option<RtpClock> {
        let now = self.progress().and_then(|progress| progress.clock);
        let mut last = self.clock.lock();
        *last = now.or(*last);
        *last
    }

    fn sender_state(&self) -> Option<SenderState> {
        let progress = self.progress()?;
        let clock = self.note_clock()?;
        let elapsed_us = wirepath_engine::now_us().wrapping_sub(clock.at_us) as i64;
        let ticks = i128::from(elapsed_us) * i128::from(CLOCK_HZ) / 1_000_000;
        Some(SenderState {
            ssrc: self.ssrc,
            now: ntp(SystemTime::now()),
            timestamp: clock.timestamp.wrapping_add(ticks as u32),
            packets: progress.packets as u32,
            octets: progress.payload_bytes as u32,
        })
    }

    /// Sends a report. One that the network does not take is not sent again: the next one says more.
    fn send(&self, datagram: &[u8]) {
        if let Err(error) = self.rtcp.send(datagram) {
            tracing::debug!(peer = %self.peer, %error, "RTCP was not sent");
        }
    }
}

fn ntp(time: SystemTime) -> NtpTime {
    NtpTime::from_unix(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}
