//! Plays of each asset.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// Most assets that are counted; beyond that, the least played ones are dropped.
const MOST_ASSETS: usize = 4096;

/// Number of plays by the names of assets.
#[derive(Debug, Default)]
pub struct Plays(Mutex<HashMap<String, u64>>);

impl Plays {
    /// Counts a session that has begun to play an asset.
    pub(crate) fn count(&self, asset: &str) {
        let mut plays = self.0.lock();
        if let Some(count) = plays.get_mut(asset) {
            *count += 1;
            return;
        }
        if plays.len() >= MOST_ASSETS {
            forget_half(&mut plays, |count| *count, |_| false);
        }
        plays.insert(asset.to_owned(), 1);
    }

    /// Adds the counts of an earlier run.
    pub(crate) fn restore(&self, plays: HashMap<String, u64>) {
        self.0.lock().extend(plays.into_iter().take(MOST_ASSETS));
    }

    /// Plays of all assets that were played.
    pub(crate) fn read(&self) -> HashMap<String, u64> {
        self.0.lock().clone()
    }
}

/// Drops the less played half, except assets that must stay. This is rare enough that its cost does not
/// matter.
pub(crate) fn forget_half<Key: Eq + Hash, Value>(
    plays: &mut HashMap<Key, Value>,
    count: impl Fn(&Value) -> u64,
    stays: impl Fn(&Value) -> bool,
) {
    let half = plays.len() / 2;
    let mut counts: Vec<u64> = plays.values().map(&count).collect();
    if counts.is_empty() {
        return;
    }
    let (less, median, _) = counts.select_nth_unstable(half);
    let median = *median;
    let mut equal_to_forget = half - less.iter().filter(|count| **count < median).count();
    plays.retain(|_, value| {
        let count = count(value);
        let is_forgotten = !stays(value) && (count < median || count == median && equal_to_forget > 0);
        equal_to_forget -= usize::from(is_forgotten && count == median);
        !is_forgotten
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_played_most_is_remembered() {
        let plays = Plays::default();
        for _ in 0..3 {
            plays.count("popular.ts");
        }
        (0..3 * MOST_ASSETS).for_each(|number| plays.count(&format!("{number}.ts")));
        let read = plays.read();
        assert_eq!(read["popular.ts"], 3);
        assert!((MOST_ASSETS / 2..=MOST_ASSETS).contains(&read.len()), "{}", read.len());
    }
}
