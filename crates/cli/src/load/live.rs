//! State of a run on the terminal, redrawn every second. Shows nothing without a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wirepath_load::{ProtocolSnapshot, Snapshot};

use crate::format;

/// Lines on standard error. Dropping this removes them.
pub(super) struct Live {
    bar: ProgressBar,
    sessions: usize,
    before: Snapshot,
}

impl Live {
    pub(super) fn new(sessions: usize) -> Live {
        let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
        Live { bar, sessions, before: Snapshot::default() }
    }

    pub(super) fn draw(&mut self, snapshot: &Snapshot) {
        self.bar.set_message(lines(&self.before, snapshot, self.sessions));
        self.before = *snapshot;
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn lines(before: &Snapshot, now: &Snapshot, sessions: usize) -> String {
    let seconds = (now.at_s - before.at_s).max(0.001);
    let bits = (now.bytes.saturating_sub(before.bytes) as f64 * 8.0 / seconds) as u64;
    let time = Duration::from_secs_f64(now.at_s.max(0.0)).as_secs();
    let underruns = format::count(now.underruns);
    let judged = match now.protocol {
        ProtocolSnapshot::Rtp { lost, latest_us, .. } => {
            let latest_ms = latest_us as f64 / 1000.0;
            format!("lost {}, underruns {underruns}, latest burst {latest_ms:.1} ms", lost.max(0))
        }
        ProtocolSnapshot::Http { responses, first_byte_us } => {
            let slowest_ms = first_byte_us as f64 / 1000.0;
            let responses = format::count(responses);
            format!("{responses} whole bodies, underruns {underruns}, slowest first byte {slowest_ms:.1} ms")
        }
    };
    format!(
        "{}  {} of {} sessions play, {} failed, {} received\n      {judged}",
        format::clock(time),
        format::count(now.playing),
        format::count(sessions as u64),
        format::count(now.failed),
        format::bit_rate(bits),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_fits_a_terminal() {
        let before = Snapshot { at_s: 59.0, bytes: 1_000_000, ..Snapshot::default() };
        let now = Snapshot {
            at_s: 60.0,
            started: 20_000,
            playing: 19_999,
            failed: 1_000,
            bytes: 12_000_000_000,
            underruns: 3,
            protocol: ProtocolSnapshot::Rtp { packets: 1, lost: 7, latest_us: 20_400 },
        };
        let text = lines(&before, &now, 20_000);
        assert_eq!(
            text,
            "1:00  19,999 of 20,000 sessions play, 1,000 failed, 96.0 Gbit/s received\n      \
             lost 7, underruns 3, latest burst 20.4 ms"
        );
        assert!(text.lines().all(|line| line.len() < 80), "{text}");
        let http = ProtocolSnapshot::Http { responses: 123_456_789, first_byte_us: 1_250_500 };
        let text = lines(&before, &Snapshot { protocol: http, ..now }, 20_000);
        let second = "      123,456,789 whole bodies, underruns 3, slowest first byte 1250.5 ms";
        assert_eq!(text.lines().nth(1), Some(second));
        assert!(text.lines().all(|line| line.len() < 80), "{text}");
    }
}
