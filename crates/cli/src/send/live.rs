//! State of a sender on the terminal, redrawn every second.

use std::path::Path;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wirepath_server::{ChannelStatus, OutputStatus};

use crate::{format, terminal};

/// Status line on standard error. Dropping this removes it.
pub(super) struct Live {
    bar: ProgressBar,
    before: (Duration, u64),
}

impl Live {
    pub(super) fn new() -> Live {
        let style = ProgressStyle::with_template("{msg}").expect("the template is well formed");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
        Live { bar, before: (Duration::ZERO, 0) }
    }

    pub(super) fn draw(&mut self, time: Duration, channels: &[ChannelStatus]) {
        let bytes = outputs(channels).map(|output| output.bytes).sum();
        let (last, sent) = std::mem::replace(&mut self.before, (time, bytes));
        let seconds = time.saturating_sub(last).as_secs_f64().max(0.001);
        let bits_per_second = (bytes.saturating_sub(sent) as f64 * 8.0 / seconds) as u64;
        let text = line(time, bits_per_second, channels);
        self.bar.set_message(text.chars().take(terminal::error_size().0).collect::<String>());
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn outputs(channels: &[ChannelStatus]) -> impl Iterator<Item = &OutputStatus> {
    channels.iter().flat_map(|channel| &channel.outputs)
}

fn file_name(path: &str) -> String {
    format::name(Path::new(path).file_name().map_or(Path::new(path), Path::new))
}

/// Status line: a single channel is shown with its asset, several channels with their number.
fn line(time: Duration, bits_per_second: u64, channels: &[ChannelStatus]) -> String {
    let lost: u64 = outputs(channels).map(|output| output.packets_lost).sum();
    let count = outputs(channels).count();
    let subject = match channels {
        [channel] => channel.outputs.first().map_or_else(String::new, |output| file_name(&output.asset)),
        channels => format!("{} channels", format::count(channels.len() as u64)),
    };
    let lost = if lost > 0 { format!(", {} packets lost", format::count(lost)) } else { String::new() };
    format!(
        "{}  {} to {} destination{}{lost}  {subject}",
        format::clock(time.as_secs()),
        format::bit_rate(bits_per_second),
        format::count(count as u64),
        if count == 1 { "" } else { "s" },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(packets_lost: u64) -> ChannelStatus {
        let output = OutputStatus {
            to: "rtp://239.1.1.1:5004".to_owned(),
            asset: "/srv/clip.ts".to_owned(),
            packets: 10,
            bytes: 13_160,
            packets_lost,
            position_s: 1.0,
            path: None,
        };
        ChannelStatus { channel: "clip.ts".to_owned(), outputs: vec![output] }
    }

    #[test]
    fn the_line_has_time_rate_and_asset() {
        let time = Duration::from_secs(61);
        assert_eq!(line(time, 4_000_000, &[channel(0)]), "1:01  4.00 Mbit/s to 1 destination  clip.ts");
        let two = line(time, 4_000_000, &[channel(1), channel(2)]);
        assert_eq!(two, "1:01  4.00 Mbit/s to 2 destinations, 3 packets lost  2 channels");
    }
}
