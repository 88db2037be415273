//! Progress bar on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use wirepath_assess::Progress;

use crate::interrupt::Interrupt;
use crate::terminal;

/// Resolution of the bar: number of parts.
const PARTS: u64 = 10_000;

/// Time before the first estimate of the remaining time.
const KNOWN_AFTER: Duration = Duration::from_secs(2);

/// Interval of progress lines in a log, in percent.
const LINE_EVERY: u32 = 10;

/// Progress bar for all experiments, with an estimate of the remaining time. Dropping it removes it from the
/// terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Names of the experiments, and their approximate shares of the time.
    steps: Vec<(&'static str, f64)>,
    /// Index of the current experiment.
    current: usize,
    start: Instant,
    interrupt: Interrupt,
    /// Percentage in the last line, without a terminal.
    told: u32,
}

impl Bar {
    /// Progress bar for experiments with these names and weights. The bar is drawn when it moves. It has no
    /// thread of its own, which would use processor time during measurements.
    pub(crate) fn new(steps: &[(&'static str, f64)], interrupt: Interrupt) -> Bar {
        let bar =
            ProgressBar::with_draw_target(Some(PARTS), ProgressDrawTarget::stderr()).with_style(style());
        let (steps, start) = (steps.to_vec(), Instant::now());
        let mut bar = Bar { bar, steps, current: 0, start, interrupt, told: 0 };
        bar.begin(0);
        bar
    }

    /// Starts the experiment with this index.
    pub(crate) fn begin(&mut self, index: usize) {
        (self.current, self.told) = (index, 0);
        self.bar.set_prefix(self.name());
    }

    fn name(&self) -> &'static str {
        self.steps.get(self.current).map_or("", |(name, _)| name)
    }

    /// Share of all experiments that is done when this share of the current one is done.
    fn overall(&self, share: f64) -> f64 {
        let weight = |steps: &[(&str, f64)]| steps.iter().map(|(_, weight)| weight).sum::<f64>();
        let current = self.steps.get(self.current).map_or(0.0, |(_, weight)| *weight);
        (weight(&self.steps[..self.current]) + current * share) / weight(&self.steps)
    }

    /// Prints a line for each tenth of an experiment, if there is no terminal.
    fn tell(&mut self, share: f64, left: &str) {
        let tenths = (share * 100.0) as u32 / LINE_EVERY * LINE_EVERY;
        if self.bar.is_hidden() && tenths > self.told {
            self.told = tenths;
            let separator = if left.is_empty() { "" } else { ", " };
            eprintln!("wirepath: {}: {tenths} %{separator}{left}", self.name());
        }
    }
}

impl Progress for Bar {
    fn at(&mut self, share: f64, doing: &str) {
        let share = share.clamp(0.0, 1.0);
        let overall = self.overall(share);
        let left = match time_left(self.start.elapsed(), overall) {
            Some(left) => format!("{} left", crate::format::clock(left.as_secs())),
            None => String::new(),
        };
        self.tell(share, &left);
        self.bar.set_position((overall * PARTS as f64) as u64);
        self.bar.set_message(format!("{left:>14}  {doing}"));
    }

    fn note(&mut self, text: &str) {
        let said = format!("wirepath: {text}");
        // Lines are not wrapped in a log.
        let said = if std::io::stderr().is_terminal() {
            terminal::error_output().paragraph(&said)
        } else {
            said + "\n"
        };
        self.bar.suspend(|| eprint!("{said}"));
    }

    fn stopped(&self) -> bool {
        self.interrupt.signal().is_some()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Estimates the remaining time.
fn time_left(elapsed: Duration, share: f64) -> Option<Duration> {
    let known = elapsed >= KNOWN_AFTER && share > 0.0 && share <= 1.0;
    known.then(|| elapsed.mul_f64((1.0 - share) / share))
}

fn style() -> ProgressStyle {
    let letters = if terminal::supports_utf8() { "█▉▊▋▌▍▎▏ " } else { "=> " };
    ProgressStyle::with_template("{prefix:10} {bar:24} {percent:>3}%  {wide_msg}")
        .expect("the template is well formed")
        .progress_chars(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_extrapolated_once_there_is_something_to_extrapolate() {
        let ten = Duration::from_secs(10);
        assert_eq!(time_left(ten, 0.25), Some(Duration::from_secs(30)));
        assert_eq!(time_left(Duration::from_secs(1), 0.25), None);
        assert_eq!(time_left(ten, 0.0), None);
    }

    #[test]
    fn the_share_of_all_experiments_is_known_in_each() {
        let mut bar = Bar::new(&[("host", 1.0), ("loan", 3.0)], Interrupt::default());
        assert_eq!(bar.overall(0.5), 0.125);
        bar.begin(1);
        assert_eq!((bar.name(), bar.overall(0.5), bar.overall(1.0)), ("loan", 0.625, 1.0));
    }
}
