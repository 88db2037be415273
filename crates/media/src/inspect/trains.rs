//! Statistics of trains.

use serde::Serialize;

use super::bit_rate::BitRate;
use crate::image::{MAX_TRAIN_PACKETS, TrainRecord};
use crate::rtp::{HEADER_LENGTH, Marker};

/// Statistics of the trains of an asset or an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TrainReport {
    /// Number of trains.
    pub count: u64,
    /// Number of trains by number of packets; index 0 counts trains of one packet.
    pub by_packets: Vec<u64>,
    /// Number of trains that start at a clock discontinuity.
    pub discontinuities: u64,
}

/// Distribution of packets per train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PacketsPerTrain {
    /// Packets of the shortest train.
    pub min: u32,
    /// Packets of the median train.
    pub median: u32,
    /// Packets of the longest train.
    pub max: u32,
}

impl TrainReport {
    /// Distribution of packets per train; `None` without trains.
    pub fn packets_per_train(&self) -> Option<PacketsPerTrain> {
        let half = self.by_packets.iter().sum::<u64>().div_ceil(2);
        let used = || (1..).zip(&self.by_packets).filter(|(_, count)| **count > 0);
        let mut seen = 0;
        let mut reaches_half = |count: u64| {
            seen += count;
            seen >= half
        };
        Some(PacketsPerTrain {
            min: used().map(|(packets, _)| packets).next()?,
            median: used().find(|(_, count)| reaches_half(**count))?.0,
            max: used().map(|(packets, _)| packets).last()?,
        })
    }
}

/// Counters of trains.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) bit_rate: BitRate,
    by_packets: Vec<u64>,
    discontinuities: u64,
}

impl Default for Measures {
    fn default() -> Self {
        let by_packets = vec![0; MAX_TRAIN_PACKETS as usize];
        Self { bit_rate: BitRate::default(), by_packets, discontinuities: 0 }
    }
}

impl Measures {
    pub(super) fn take(&mut self, train: &TrainRecord) {
        self.by_packets[train.packets() as usize - 1] += 1;
        self.discontinuities += u64::from(train.marker == Marker::First);
        let payload = u64::from(train.length) - u64::from(train.packets()) * HEADER_LENGTH as u64;
        self.bit_rate.spread(train.departure_us, train.departure_us, payload);
    }

    pub(super) fn report(&mut self) -> TrainReport {
        let by_packets = std::mem::take(&mut self.by_packets);
        TrainReport { count: by_packets.iter().sum(), by_packets, discontinuities: self.discontinuities }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(by_packets: &[u64]) -> Option<(u32, u32, u32)> {
        let report = TrainReport { by_packets: by_packets.to_vec(), ..TrainReport::default() };
        report.packets_per_train().map(|PacketsPerTrain { min, median, max }| (min, median, max))
    }

    #[test]
    fn the_median_train_is_in_the_middle() {
        assert_eq!(of(&[0, 0, 0]), None);
        assert_eq!(of(&[0, 1, 0]), Some((2, 2, 2)));
        assert_eq!(of(&[2, 1, 0, 2]), Some((1, 2, 4)));
        assert_eq!(of(&[9, 0, 0, 1]), Some((1, 1, 4)));
    }
}
