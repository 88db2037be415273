//! Wrong attempts of each address: slowed, then refused without a check.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Time that each wrong attempt costs.
const PRICE_MS: u64 = 1000;

/// Wrong attempts that are answered at once, in time.
const FREE_MS: u64 = 5 * PRICE_MS;

/// Time that the answer to unreadable credentials is held back. VLC 3 answers any challenge with Basic, and does so
/// again and again.
pub(crate) const UNREADABLE_DELAY: Duration = Duration::from_secs(1);

/// Longest delay of the answer to a failed attempt. Attempts beyond it are rejected without a check.
pub const MOST_DELAY: Duration = Duration::from_secs(5);

const MOST_DELAY_MS: u64 = MOST_DELAY.as_millis() as u64;

/// Most addresses that are remembered.
const MOST: usize = 4096;

/// Wrong attempts by address: a second each, of which an address may owe five without waiting.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Time at which an address will have paid.
    paid_at_ms: HashMap<IpAddr, u64>,
    /// Time at which those that had paid were last forgotten.
    swept_at_ms: u64,
}

impl Throttle {
    /// Returns whether an address owes so much that its attempts are not checked.
    pub(crate) fn is_exhausted(&self, address: IpAddr, now_ms: u64) -> bool {
        let paid_at_ms = self.paid_at_ms.get(&address).copied().unwrap_or(0);
        paid_at_ms >= now_ms + FREE_MS + MOST_DELAY_MS
    }

    /// Counts a wrong attempt; returns for how long its answer is to be held back.
    pub(crate) fn count(&mut self, address: IpAddr, now_ms: u64) -> Duration {
        if self.paid_at_ms.len() >= MOST && now_ms >= self.swept_at_ms + PRICE_MS {
            self.swept_at_ms = now_ms;
            self.paid_at_ms.retain(|_, paid_at_ms| *paid_at_ms > now_ms);
        }
        if self.paid_at_ms.len() >= MOST && !self.paid_at_ms.contains_key(&address) {
            return MOST_DELAY;
        }
        let paid_at_ms = self.paid_at_ms.entry(address).or_default();
        *paid_at_ms = now_ms.max(*paid_at_ms) + PRICE_MS;
        let owed_ms = *paid_at_ms - now_ms;
        Duration::from_millis(owed_ms.saturating_sub(FREE_MS)).min(MOST_DELAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    /// Promise: After five wrong passwords, an address has one attempt a second; further attempts are refused
    /// unchecked.
    #[test]
    fn wrong_attempts_have_a_rate() {
        let mut throttle = Throttle::default();
        let delays: Vec<_> = (0..10).map(|_| throttle.count(address(1), 0).as_secs()).collect();
        assert_eq!(delays, [0, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
        assert!(throttle.is_exhausted(address(1), 0) && !throttle.is_exhausted(address(2), 0));
        assert!(!throttle.is_exhausted(address(1), 1));
        assert_eq!(throttle.count(address(1), 10_000), Duration::ZERO);
    }

    /// Promise: Wrong passwords from any number of addresses take no more memory than those from 4,096
    /// addresses.
    #[test]
    fn addresses_are_bounded() {
        let mut throttle = Throttle::default();
        for number in 0..3 * MOST as u32 {
            throttle.count(address(number), 0);
        }
        assert_eq!(throttle.paid_at_ms.len(), MOST);
        assert_eq!(throttle.count(address(u32::MAX), 500), MOST_DELAY);
        assert_eq!(throttle.count(address(u32::MAX), 2000), Duration::ZERO, "the others have paid");
        assert_eq!(throttle.paid_at_ms.len(), 1);
    }
}
