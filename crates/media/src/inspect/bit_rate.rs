//! Bit rate over time, in a limited number of intervals.

use serde::Serialize;

/// Initial length of an interval, which doubles when there are too many intervals.
const FIRST_INTERVAL_US: u64 = 100_000;

/// Most intervals; beyond that, pairs of intervals are merged.
const MAX_INTERVALS: usize = 2048;

/// Bytes that depart in each interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BitRate {
    /// Length of an interval in microseconds.
    pub interval_us: u64,
    /// Bytes of transport stream packets in each interval.
    pub bytes: Vec<u64>,
}

/// Peak bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Bit rate.
    pub bits_per_second: u64,
    /// Length of the window in microseconds.
    pub window_us: u64,
}

impl Default for BitRate {
    fn default() -> Self {
        Self { interval_us: FIRST_INTERVAL_US, bytes: Vec::new() }
    }
}

impl BitRate {
    /// Bits per second in each interval.
    pub fn bits_per_second(&self) -> impl Iterator<Item = u64> {
        let scale = |bytes: u64| u128::from(bytes) * 8_000_000 / u128::from(self.interval_us);
        self.bytes.iter().map(move |&bytes| u64::try_from(scale(bytes)).unwrap_or(u64::MAX))
    }

    /// Highest bit rate over a window of `window_us`, or over an interval if that is longer; `None` if the
    /// duration is shorter.
    pub fn peak(&self, window_us: u64) -> Option<Peak> {
        let intervals = (window_us / self.interval_us).max(1);
        let most = self.bytes.windows(intervals as usize).map(|window| window.iter().sum::<u64>()).max()?;
        let window_us = intervals * self.interval_us;
        let bits_per_second = u128::from(most) * 8_000_000 / u128::from(window_us);
        Some(Peak { bits_per_second: u64::try_from(bits_per_second).unwrap_or(u64::MAX), window_us })
    }

    /// Adds bytes that depart evenly between two times.
    pub(super) fn spread(&mut self, from_us: u64, until_us: u64, bytes: u64) {
        self.make_room(from_us.max(until_us.saturating_sub(1)));
        if bytes == 0 {
            return;
        }
        let (first, length) = (from_us / self.interval_us, until_us.saturating_sub(from_us));
        let last = (until_us.saturating_sub(1) / self.interval_us).max(first);
        let mut given = 0;
        for index in first..=last {
            let end = (index + 1).saturating_mul(self.interval_us).min(until_us).max(from_us);
            let due = if index == last { bytes } else { portion(bytes, end - from_us, length) };
            self.bytes[index as usize] += due - given;
            given = due;
        }
    }

    /// Adds intervals up to a time; doubles their length if there would be too many.
    fn make_room(&mut self, time_us: u64) {
        while time_us / self.interval_us >= MAX_INTERVALS as u64 {
            self.interval_us *= 2;
            self.bytes = self.bytes.chunks(2).map(|pair| pair.iter().sum()).collect();
        }
        let needed = (time_us / self.interval_us) as usize + 1;
        self.bytes.resize(self.bytes.len().max(needed), 0);
    }
}

fn portion(bytes: u64, part: u64, whole: u64) -> u64 {
    (u128::from(bytes) * u128::from(part) / u128::from(whole.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_go_where_they_depart() {
        let mut rate = BitRate::default();
        rate.spread(50_000, 250_000, 200);
        rate.spread(300_000, 300_000, 7);
        assert_eq!(rate.bytes, [50, 100, 50, 7]);
        assert_eq!(rate.bits_per_second().next(), Some(4000));
        assert_eq!(rate.peak(200_000), Some(Peak { bits_per_second: 6000, window_us: 200_000 }));
        assert_eq!(rate.peak(1_000), Some(Peak { bits_per_second: 8000, window_us: 100_000 }));
        assert_eq!(rate.peak(1_000_000), None);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_room_is_bounded(
            spans in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u32>(), 0u32..64), 0..20),
        ) {
            let mut rate = BitRate::default();
            for &(from, length, bytes, shift) in &spans {
                let from = from >> shift;
                rate.spread(from, from.saturating_add(length >> shift), bytes.into());
            }
            prop_assert_eq!(rate.bytes.iter().sum::<u64>(), spans.iter().map(|span| u64::from(span.2)).sum::<u64>());
            prop_assert!(rate.bytes.len() <= MAX_INTERVALS);
        }
    }
}
