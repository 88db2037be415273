//! Bit rate of an asset over time, from its index.

use wirepath_media::image::SegmentEntry;

use super::image::Image;
use super::progress::Progress;

/// Most points of a plot.
pub(crate) const MOST_POINTS: usize = 120;

/// Bit rate of an asset over time: mean rates of intervals of one length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RatePlot {
    /// Length of an interval in microseconds.
    pub(crate) step_us: f64,
    /// Mean rates of the payload in bits per second, in order of time.
    pub(crate) bits_per_second: Vec<f64>,
    /// True if the index is complete; else the end of the asset is missing.
    pub(crate) is_complete: bool,
}

impl RatePlot {
    /// Plot of an image or index as far as it has grown. Does not access storage.
    pub(crate) fn of(image: &Image) -> RatePlot {
        let progress = image.progress().borrow().clone();
        let segments = image.segments();
        let last_us = segments.last().map_or(0, |segment| segment.first_departure_us);
        let until_us = match progress {
            Progress::Growing { until_us } => until_us,
            Progress::Complete | Progress::Failed(_) => image.duration_us().unwrap_or(last_us),
        };
        let (step_us, bits_per_second) = rates(&segments, until_us);
        RatePlot { step_us, bits_per_second, is_complete: progress == Progress::Complete }
    }
}

/// Length of intervals in microseconds, and mean rates of segments up to `until_us`. An interval is at least
/// as long as the mean segment. A segment's bits are spread evenly over its duration.
fn rates(segments: &[SegmentEntry], until_us: u64) -> (f64, Vec<f64>) {
    let points = segments.len().min(MOST_POINTS);
    if points == 0 || until_us == 0 {
        return (0.0, Vec::new());
    }
    let step_us = until_us as f64 / points as f64;
    let mut bits = vec![0.0; points];
    let ends = segments.iter().skip(1).map(|next| next.first_departure_us).chain([until_us]);
    for (segment, end_us) in segments.iter().zip(ends) {
        let begin = segment.first_departure_us.min(until_us) as f64 / step_us;
        let end = end_us.min(until_us) as f64 / step_us;
        spread(&mut bits, begin, end, segment.payload_length() as f64 * 8.0);
    }
    (step_us, bits.into_iter().map(|bits| bits * 1e6 / step_us).collect())
}

/// Distributes an amount over the intervals between two positions, which are measured in intervals.
fn spread(intervals: &mut [f64], begin: f64, end: f64, amount: f64) {
    let last = intervals.len() - 1;
    if end <= begin {
        intervals[(begin as usize).min(last)] += amount;
        return;
    }
    for (place, interval) in intervals.iter_mut().enumerate().skip(begin as usize) {
        let (from, to) = (begin.max(place as f64), end.min(place as f64 + 1.0));
        if to <= from {
            break;
        }
        *interval += amount * (to - from) / (end - begin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment without headers.
    fn segment(first_departure_us: u64, bytes: u32) -> SegmentEntry {
        SegmentEntry {
            offset: 0,
            data_length: bytes,
            records: 1,
            first_packet: 0,
            packets: 0,
            first_departure_us,
            crc: 0,
            asset_offset: None,
        }
    }

    /// Promise: The bit rate of an asset over time has at most 120 points, and their mean is the asset's mean
    /// rate.
    #[test]
    fn rates_over_time_are_those_of_segments() {
        let three = [segment(0, 1000), segment(1_000_000, 3000), segment(2_000_000, 500)];
        assert_eq!(rates(&three, 3_000_000), (1e6, vec![8000.0, 24_000.0, 4000.0]));
        assert!(rates(&[], 3_000_000).1.is_empty());
        assert!(rates(&three, 0).1.is_empty());

        let uneven = [segment(0, 1000), segment(500_000, 1000)];
        let rounded: Vec<f64> = rates(&uneven, 2_000_000).1.into_iter().map(f64::round).collect();
        assert_eq!(rounded, [10_667.0, 5333.0]);

        let many: Vec<_> = (0..1000).map(|number| segment(number * 700_000, 10_000)).collect();
        let (step_us, bits) = rates(&many, 700_000_000);
        assert_eq!(bits.len(), MOST_POINTS);
        let sent = bits.iter().sum::<f64>() * step_us / 1e6;
        assert!((sent - 8e7).abs() < 1.0, "{sent}");
    }

    #[test]
    fn times_that_contradict_each_other_lose_no_bits() {
        let back = [segment(0, 1000), segment(0, 1000), segment(9_000_000, 1000)];
        let (step_us, bits) = rates(&back, 3_000_000);
        let sent = bits.iter().sum::<f64>() * step_us / 1e6;
        assert!((sent - 24_000.0).abs() < 1e-6, "{sent}");
    }
}
