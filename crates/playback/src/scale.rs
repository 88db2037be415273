//! Scale of a playback (RFC 2326 section 12.34): fast forward and rewind.

use std::fmt;

/// Scale of a playback: 1, or 2 to 32 times as fast, forward or backward. At a scale other than 1, only
/// pictures that can be decoded alone are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale(i8);

/// Fastest scale in each direction.
const MOST: f64 = 32.0;

impl Scale {
    /// As recorded.
    pub const NORMAL: Scale = Scale(1);

    /// The nearest scale to a factor; the normal scale if the factor is not a number.
    pub fn nearest(factor: f64) -> Scale {
        match factor {
            _ if factor >= 1.5 => Scale(factor.round().min(MOST) as i8),
            _ if factor <= -0.5 => Scale(factor.round().clamp(-MOST, -2.0) as i8),
            _ => Scale::NORMAL,
        }
    }

    /// The scale as a factor, negative where the presentation is played backward.
    pub fn factor(self) -> i8 {
        self.0
    }

    /// Returns whether the presentation is played as recorded.
    pub fn is_normal(self) -> bool {
        self == Scale::NORMAL
    }

    /// Returns whether the presentation is played backward.
    pub fn is_backward(self) -> bool {
        self.0 < 0
    }

    /// Time of the source, in microseconds, that passes in this time.
    pub fn source_us(self, time_us: u64) -> u64 {
        time_us.saturating_mul(self.0.unsigned_abs().into())
    }

    /// Time, in microseconds, in which this time of the source passes.
    pub fn time_us(self, source_us: u64) -> u64 {
        source_us / u64::from(self.0.unsigned_abs())
    }
}

impl Default for Scale {
    fn default() -> Scale {
        Scale::NORMAL
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.0", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: An unsupported Scale is answered with the nearest supported one: 1, or 2 to 32 in either
    /// direction.
    #[test]
    fn the_nearest_scale_is_chosen() {
        for (asked, chosen) in [
            (1.0, "1.0"),
            (0.0, "1.0"),
            (0.5, "1.0"),
            (1.4, "1.0"),
            (1.5, "2.0"),
            (2.4, "2.0"),
            (31.6, "32.0"),
            (1e9, "32.0"),
            (f64::INFINITY, "32.0"),
            (f64::NAN, "1.0"),
            (-0.4, "1.0"),
            (-1.0, "-2.0"),
            (-2.6, "-3.0"),
            (-1e9, "-32.0"),
        ] {
            assert_eq!(Scale::nearest(asked).to_string(), chosen, "{asked}");
        }
    }

    #[test]
    fn times_are_those_of_either_direction() {
        for factor in [4.0, -4.0] {
            let scale = Scale::nearest(factor);
            assert_eq!((scale.source_us(10), scale.time_us(40)), (40, 10));
        }
        assert_eq!(Scale::nearest(-32.0).source_us(u64::MAX), u64::MAX);
    }
}
