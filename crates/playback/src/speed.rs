//! Speed of a playback (RFC 2326 section 12.35): the factor by which its packets leave faster than recorded.

use std::fmt;

/// Speed of a playback, in thousandths of the recorded one: its departures are divided by it. Timestamps do
/// not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speed {
    thousandths: u16,
}

const ONE: u16 = 1000;

impl Speed {
    /// Packets leave as recorded.
    pub const NORMAL: Speed = Speed { thousandths: ONE };
    /// The slowest, a quarter.
    pub const LEAST: Speed = Speed { thousandths: ONE / 4 };
    /// The fastest, 8.
    pub const MOST: Speed = Speed { thousandths: 8 * ONE };

    /// The nearest speed to a factor; the normal speed if the factor is not a number.
    pub fn nearest(factor: f64) -> Speed {
        if factor.is_nan() {
            return Speed::NORMAL;
        }
        let thousandths = (factor * f64::from(ONE)).round();
        let (least, most) = (f64::from(Speed::LEAST.thousandths), f64::from(Speed::MOST.thousandths));
        Speed { thousandths: thousandths.clamp(least, most) as u16 }
    }

    /// The speed as a factor.
    pub fn factor(self) -> f64 {
        f64::from(self.thousandths) / f64::from(ONE)
    }

    /// The speed in thousandths of the recorded one.
    pub fn thousandths(self) -> u64 {
        self.thousandths.into()
    }

    /// Time of the source, in microseconds, that passes in this time: all departures before this time are
    /// before the result.
    pub fn source_us(self, time_us: u64) -> u64 {
        match self {
            Speed::NORMAL => time_us,
            _ => time_us.saturating_mul(self.thousandths()).div_ceil(ONE.into()),
        }
    }

    /// Time in which this time of the source passes, in microseconds, rounded down.
    pub fn time_us(self, source_us: u64) -> u64 {
        match self {
            Speed::NORMAL => source_us,
            _ => source_us.saturating_mul(ONE.into()) / self.thousandths(),
        }
    }
}

impl Default for Speed {
    fn default() -> Speed {
        Speed::NORMAL
    }
}

impl fmt::Display for Speed {
    /// The factor, with at least one decimal.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.factor())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Promise: A Speed out of range is answered with the nearest supported one, 0.25 to 8.
    #[test]
    fn the_nearest_speed_is_chosen() {
        for (asked, chosen) in [
            (1.0, "1.0"),
            (0.25, "0.25"),
            (0.0, "0.25"),
            (0.1, "0.25"),
            (1.5, "1.5"),
            (1.23456, "1.235"),
            (8.0, "8.0"),
            (1e300, "8.0"),
            (f64::INFINITY, "8.0"),
            (f64::NAN, "1.0"),
        ] {
            assert_eq!(Speed::nearest(asked).to_string(), chosen, "{asked}");
        }
        assert_eq!(Speed::default(), Speed::nearest(1.0));
    }

    proptest! {
        /// Bursts are divided in the time of the source: packets due before the end of a burst depart before
        /// that end there.
        #[test]
        fn a_departure_is_before_a_time_on_both_clocks(
            factor in 0.25_f64..8.0, source_us in 0_u64..1 << 50, time_us in 0_u64..1 << 50,
        ) {
            let speed = Speed::nearest(factor);
            prop_assert_eq!(speed.time_us(source_us) < time_us, source_us < speed.source_us(time_us));
            let there = speed.source_us(speed.time_us(source_us));
            prop_assert!(there <= source_us && source_us - there <= speed.source_us(1));
        }
    }
}
