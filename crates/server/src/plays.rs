//! Plays of each asset.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// Most assets that are counted; beyond that, the least played ones are dropped.
const MOST_ASSETS: usize = 4096;

/// Number of plays by the names of assets.
#[derive(Debug, Default)]
pub struct Plays {
    counts: Mutex<HashMap<String, Count>>,
    look_up: Mutex<LookUp>,
}

/// State of the look-up of the assets that the server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LookUp {
    #[default]
    Idle,
    Running,
    /// It is to be repeated: what the server has changed meanwhile.
    Outdated,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    plays: u64,
    /// True if the server has the asset. Servers of other folders may have used the same cache before.
    is_served: bool,
}

impl Plays {
    /// Counts a session that has begun to play an asset.
    pub(crate) fn count(&self, asset: &str) {
        let mut plays = self.counts.lock();
        if let Some(count) = plays.get_mut(asset) {
            *count = Count { plays: count.plays + 1, is_served: true };
            return;
        }
        if plays.len() >= MOST_ASSETS {
            forget_half(&mut plays, |count| count.plays, |_| false);
        }
        plays.insert(asset.to_owned(), Count { plays: 1, is_served: true });
    }

    /// Adds the counts of an earlier run, whose assets are not served until [`note_served`](Self::note_served).
    pub(crate) fn restore(&self, plays: HashMap<String, u64>) {
        let restored = plays.into_iter().take(MOST_ASSETS);
        self.counts.lock().extend(restored.map(|(name, plays)| (name, Count { plays, is_served: false })));
    }

    /// Notes which of the assets the server has: the function tells it at that time, and is called without a lock.
    /// While another call of this is in progress, it is repeated instead.
    pub(crate) fn note_served(&self, is_served: impl Fn(&str) -> bool) {
        if std::mem::replace(&mut *self.look_up.lock(), LookUp::Outdated) != LookUp::Idle {
            return;
        }
        loop {
            *self.look_up.lock() = LookUp::Running;
            self.look_up(&is_served);
            let mut look_up = self.look_up.lock();
            if *look_up == LookUp::Running {
                *look_up = LookUp::Idle;
                return;
            }
        }
    }

    fn look_up(&self, is_served: impl Fn(&str) -> bool) {
        let names: Vec<String> = self.counts.lock().keys().cloned().collect();
        for name in names {
            let is_served = is_served(&name);
            if let Some(count) = self.counts.lock().get_mut(&name) {
                count.is_served = is_served;
            }
        }
    }

    /// Plays of all assets that were played, also of those that the server does not have.
    pub(crate) fn read(&self) -> HashMap<String, u64> {
        self.counts.lock().iter().map(|(name, count)| (name.clone(), count.plays)).collect()
    }

    /// Plays of the assets that the server has.
    pub(crate) fn read_served(&self) -> HashMap<String, u64> {
        let plays = self.counts.lock();
        let served = plays.iter().filter(|(_, count)| count.is_served);
        served.map(|(name, count)| (name.clone(), count.plays)).collect()
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
    fn only_assets_of_the_server_are_shown() {
        let plays = Plays::default();
        plays.restore([("own.ts".to_owned(), 3), ("other.ts".to_owned(), 2)].into());
        plays.count("new.ts");
        assert_eq!(plays.read_served(), [("new.ts".to_owned(), 1)].into());
        plays.note_served(|name| name != "other.ts");
        assert_eq!(plays.read_served(), [("new.ts".to_owned(), 1), ("own.ts".to_owned(), 3)].into());
        plays.count("other.ts");
        assert_eq!(plays.read_served()["other.ts"], 3, "it is there now");
        plays.note_served(|_| false);
        assert!(plays.read_served().is_empty() && plays.read().len() == 3);
    }

    #[test]
    fn a_look_up_is_repeated_if_the_assets_change_meanwhile() {
        let plays = Plays::default();
        plays.restore([("own.ts".to_owned(), 3)].into());
        let is_served = std::cell::Cell::new(true);
        plays.note_served(|_| {
            // The other catalog comes once the answer is known.
            let answer = is_served.replace(false);
            if answer {
                plays.note_served(|_| unreachable!("the call in progress is repeated"));
            }
            answer
        });
        assert!(plays.read_served().is_empty());
        plays.note_served(|_| true);
        assert_eq!(plays.read_served().len(), 1, "the next look-up is a new one");
    }

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
