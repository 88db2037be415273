//! Numbers of segments in a source that goes on at another place with each PLAY: the upper bits are the epoch, which
//! counts the places modulo a power of two, the lower bits count segments since then.

/// Bits of the number within an epoch. A stream of 20 Mb/s has three segments in a second, so that they last for two
/// years.
const LOCAL_BITS: u32 = 28;

/// Last number within an epoch. No segment has it: the next number would belong to another epoch.
pub(crate) const LAST: u32 = (1 << LOCAL_BITS) - 1;

/// Splits the number of a segment into its epoch and its number within that.
pub(crate) fn split(number: u32) -> (u32, u32) {
    (number >> LOCAL_BITS, number & LAST)
}

/// Number of a segment of an epoch.
pub(crate) fn join(epoch: u32, local: u32) -> u32 {
    epoch << LOCAL_BITS | local & LAST
}

/// The epoch after one. A playback knows only the last epochs, so that numbers may recur.
pub(crate) fn next(epoch: u32) -> u32 {
    (epoch + 1) & (u32::MAX >> LOCAL_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (epoch, local) in [(0, 0), (1, 7), (15, LAST), (next(15), 1)] {
            assert_eq!(split(join(epoch, local)), (epoch, local));
        }
        assert_eq!(next(15), 0);
    }
}
