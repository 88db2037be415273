//! Departures of samples from before the beginning of a movie: decoders need them, but they are not shown. A
//! file that was cut without encoding can have seconds of them.

/// Rate at which they are sent, as a multiple of their own.
const RATE: u64 = 8;

/// Longest time over which they are sent. If they last more than [`RATE`] times as long, their rate is
/// higher.
const MAX_DELAY_US: u64 = 5_000_000;

/// Pace of the samples before the beginning, and of the first samples after it, which wait for them: in all
/// tracks, samples are sent at a multiple of their rate until they have caught up with their decode times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Preroll {
    /// Time from the first sample to the beginning.
    length_us: u64,
    /// Departure of the samples at the beginning.
    delay_us: u64,
}

impl Preroll {
    /// Preroll that begins `length_us` before the beginning.
    pub(super) fn new(length_us: u64) -> Self {
        Self { length_us, delay_us: (length_us / RATE).min(MAX_DELAY_US) }
    }

    /// Departure for a decode time, both in microseconds from the beginning. It increases with the decode
    /// time.
    pub(super) fn departure_us(self, decode_us: i64) -> u64 {
        let since_first = i128::from(decode_us) + i128::from(self.length_us);
        let paced = since_first * i128::from(self.delay_us) / i128::from(self.length_us.max(1));
        // At most ten years: decode times are checked.
        paced.max(decode_us.into()).max(0) as u64
    }
}
