//! Contents of sender reports, of sessions and of channels.

use std::time::SystemTime;

use wirepath_media::rtcp::{NtpTime, SenderState};
use wirepath_playback::{RtpClock, StreamProgress};

/// Report of a stream for the moment `now`, which is `now_us` on CLOCK_MONOTONIC.
pub(crate) fn state(
    ssrc: u32,
    clock_hz: u32,
    clock: RtpClock,
    progress: &StreamProgress,
    now: NtpTime,
    now_us: u64,
) -> SenderState {
    let elapsed_us = now_us.wrapping_sub(clock.at_us) as i64;
    let thousandths = i128::from(clock.speed.thousandths());
    let ticks = i128::from(elapsed_us) * i128::from(clock_hz) * thousandths / 1_000_000_000;
    SenderState {
        ssrc,
        now,
        timestamp: clock.timestamp.wrapping_add(ticks as u32),
        packets: progress.packets as u32,
        octets: progress.payload_bytes as u32,
    }
}

/// A time as reports have it.
pub(crate) fn ntp(time: SystemTime) -> NtpTime {
    NtpTime::from_unix(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use wirepath_playback::Speed;

    use super::*;

    /// Promise: Sender reports still map wall clock to RTP timestamps exactly after 27 hours.
    #[test]
    fn reports_are_right_after_a_day() {
        const BEGIN_US: u64 = u64::MAX / 1000;
        let clock = RtpClock { at_us: BEGIN_US, timestamp: u32::MAX - 5, speed: Speed::NORMAL };
        for clock_hz in [8000, 48_000, 90_000] {
            for second in (0..27 * 3600_u64).step_by(977) {
                let now = ntp(SystemTime::UNIX_EPOCH);
                let progress = StreamProgress::default();
                let report = state(7, clock_hz, clock, &progress, now, BEGIN_US + second * 1_000_000);
                let ticks = (second * u64::from(clock_hz)) as u32;
                assert_eq!(
                    report.timestamp,
                    clock.timestamp.wrapping_add(ticks),
                    "{second} s at {clock_hz} Hz"
                );
            }
        }
    }
}
