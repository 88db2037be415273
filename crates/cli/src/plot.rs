//! Bar chart of a bit rate, drawn with characters.

use wirepath_media::inspect::BitRate;

use crate::format;

/// Number of rows of the chart without the axis.
const HEIGHT: usize = 8;

/// Characters for the top of a column, from the lowest to a full row.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_BLOCKS: [char; 8] = ['.', '.', '.', ':', ':', '|', '|', '#'];

struct Axes {
    mark: char,
    line: char,
    corner: char,
    floor: char,
    tick: char,
}

const AXES: Axes = Axes { mark: '┤', line: '│', corner: '└', floor: '─', tick: '┴' };
const ASCII_AXES: Axes = Axes { mark: '+', line: '|', corner: '+', floor: '-', tick: '+' };

/// Chart of the bit rate over `duration_us`, as wide as `width` allows. Empty if there is no bit rate.
pub(crate) fn plot(rate: &BitRate, duration_us: u64, width: usize, utf8: bool) -> String {
    let duration_us = duration_us.min(rate.interval_us.saturating_mul(rate.bytes.len() as u64));
    let highest = columns(rate, duration_us, width).into_iter().fold(0.0, f64::max);
    if highest <= 0.0 {
        return String::new();
    }
    let top = round_up(highest);
    let labels = [top, top / 2.0, 0.0].map(|rate| format::bit_rate(rate as u64));
    let margin = labels.iter().map(String::len).max().unwrap_or_default();
    let heights: Vec<usize> = columns(rate, duration_us, width.saturating_sub(margin + 2).max(1))
        .iter()
        .map(|rate| height(*rate, top))
        .collect();
    let axes = if utf8 { AXES } else { ASCII_AXES };
    let mut text = String::new();
    for row in (0..HEIGHT).rev() {
        let label = match row + 1 {
            HEIGHT => Some(&labels[0]),
            above if above * 2 == HEIGHT => Some(&labels[1]),
            _ => None,
        };
        let axis = if label.is_some() { axes.mark } else { axes.line };
        let bars: String = heights.iter().map(|height| block(*height, row, utf8)).collect();
        let line = format!("{:>margin$} {axis}{bars}", label.map_or("", String::as_str));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&time_axis(&labels[2], margin, heights.len(), duration_us, &axes));
    text
}

/// Mean bit rates of `width` periods of equal length.
fn columns(rate: &BitRate, duration_us: u64, width: usize) -> Vec<f64> {
    let interval = rate.interval_us as f64;
    let step = duration_us as f64 / width as f64;
    let bytes_before = |time: f64| {
        let whole = ((time / interval) as usize).min(rate.bytes.len());
        let part = (time - whole as f64 * interval) / interval;
        (whole, rate.bytes.get(whole).map_or(0.0, |bytes| *bytes as f64 * part.clamp(0.0, 1.0)))
    };
    (0..width)
        .map(|column| {
            let (first, begun) = bytes_before(column as f64 * step);
            let (last, ended) = bytes_before((column + 1) as f64 * step);
            let whole: u64 = rate.bytes[first.min(last)..last].iter().sum();
            (whole as f64 + ended - begun).max(0.0) * 8e6 / step
        })
        .collect()
}

/// Height of a column in eighths of a row, at least one for any rate above 0.
fn height(rate: f64, top: f64) -> usize {
    let eighths = (rate / top * (HEIGHT * BLOCKS.len()) as f64).round() as usize;
    if rate > 0.0 { eighths.max(1) } else { 0 }
}

fn block(height: usize, row: usize, utf8: bool) -> char {
    let blocks = if utf8 { BLOCKS } else { ASCII_BLOCKS };
    match height.saturating_sub(row * blocks.len()) {
        0 => ' ',
        eighths => blocks[eighths.min(blocks.len()) - 1],
    }
}

/// Time axis, with as many time labels below it as fit.
fn time_axis(zero: &str, margin: usize, width: usize, duration_us: u64, axes: &Axes) -> String {
    let step_us = tick_step(duration_us, width);
    let mut floor = vec![axes.floor; width];
    let mut times = vec![' '; margin + 2 + width];
    let mut free = 0;
    for time_us in (0..=duration_us).step_by(step_us.max(1) as usize) {
        let column = (u128::from(time_us) * width as u128 / u128::from(duration_us.max(1))) as usize;
        let label = tick_label(time_us, step_us);
        let start = (margin + 2 + column).saturating_sub(if column == 0 { 0 } else { label.len() / 2 });
        if column < width && start >= free && start + label.len() <= times.len() {
            floor[column] = axes.tick;
            times.splice(start..start + label.len(), label.chars());
            free = start + label.len() + 1;
        }
    }
    let (floor, times) = (String::from_iter(floor), String::from_iter(times));
    format!("{zero:>margin$} {}{floor}\n{}\n", axes.corner, times.trim_end())
}

/// Interval of the ticks: a round number for which the ticks fit.
fn tick_step(duration_us: u64, width: usize) -> u64 {
    const DAY_MS: u64 = 86_400_000;
    const STEPS_MS: [u64; 21] = [
        10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000,
        600_000, 900_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000,
    ];
    let most = (width / 10).max(1) as u64;
    let fits = STEPS_MS.into_iter().map(|step| 1000 * step).find(|step| duration_us / step <= most);
    fits.unwrap_or_else(|| (duration_us / most).next_multiple_of(1000 * DAY_MS))
}

fn tick_label(time_us: u64, step_us: u64) -> String {
    match step_us {
        0..1_000_000 => format!("{:.2} s", time_us as f64 / 1e6),
        _ => format::clock(time_us / 1_000_000),
    }
}

/// Rounds up to a number that is easy to halve.
fn round_up(rate: f64) -> f64 {
    let magnitude = 10f64.powf(rate.log10().floor());
    let steps = [1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0];
    // Tolerates rounding errors of sums.
    let least = rate * (1.0 - 1e-9);
    steps.into_iter().map(|step| step * magnitude).find(|step| *step >= least).unwrap_or(10.0 * magnitude)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 s in 100 intervals: 1 Mbit/s in the first half, 2 Mbit/s in the second.
    fn steps() -> BitRate {
        let bytes = (0..100).map(|interval| if interval < 50 { 12_500 } else { 25_000 }).collect();
        BitRate { interval_us: 100_000, bytes }
    }

    #[test]
    fn columns_are_as_high_as_the_rate() {
        let text = plot(&steps(), 10_000_000, 43, false);
        let expected = "\
2.00 Mbit/s +               ###############
            |               ###############
            |               ###############
            |               ###############
1.00 Mbit/s +##############################
            |##############################
            |##############################
            |##############################
    0 bit/s ++--------------+--------------
             0:00         0:05
";
        assert_eq!(text, expected);
    }

    /// Promise: The plot of the bit rate fits its width, and is ASCII if the locale is not UTF-8.
    #[test]
    fn every_width_and_duration_is_drawn_within_its_width() {
        for width in [40, 80, 213] {
            for (interval_us, intervals) in [(100_000, 1), (100_000, 7), (100_000, 600), (6_553_600, 2048)] {
                for utf8 in [false, true] {
                    let bytes: Vec<u64> =
                        (0..intervals).map(|interval| interval * 7919 % 100_000 + 1).collect();
                    let rate = BitRate { interval_us, bytes };
                    let text = plot(&rate, interval_us * intervals - interval_us / 2, width, utf8);
                    assert_eq!(text.lines().count(), HEIGHT + 2, "{text}");
                    assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
                    assert!(text.is_ascii() != utf8);
                    assert!(text.contains("bit/s"), "{text}");
                }
            }
        }
    }

    #[test]
    fn no_byte_is_lost_between_columns() {
        let rate =
            BitRate { interval_us: 100_000, bytes: (0..97).map(|interval| interval * interval).collect() };
        for width in [1, 13, 97, 500] {
            let sum: f64 = columns(&rate, 9_700_000, width).iter().sum::<f64>() * 9.7 / width as f64 / 8.0;
            let bytes = rate.bytes.iter().sum::<u64>() as f64;
            assert!((sum - bytes).abs() < 0.01, "{sum} of {bytes} in {width} columns");
        }
    }

    #[test]
    fn nothing_to_show_is_no_plot() {
        assert_eq!(plot(&BitRate::default(), 0, 80, true), "");
        assert_eq!(plot(&BitRate { interval_us: 100_000, bytes: vec![0; 9] }, 900_000, 80, true), "");
    }

    #[test]
    fn extreme_times_and_rates_end() {
        let rate = BitRate { interval_us: u64::MAX / 2048, bytes: vec![u64::MAX / 4096; 2048] };
        assert!(plot(&rate, u64::MAX / 27, 80, true).lines().count() == HEIGHT + 2);
    }
}
