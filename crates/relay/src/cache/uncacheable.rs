//! Resources whose last responses could not be stored. Requests for parts of them pass through at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time until the cache tries to store a response again.
const TTL: Duration = Duration::from_secs(60);

/// Maximum number of keys. Resources beyond it are fetched each time.
const MAX_KEYS: usize = 4096;

/// Keys with the time at which each was added last.
#[derive(Default)]
pub(super) struct UncacheableKeys(Mutex<HashMap<Arc<str>, Instant>>);

impl UncacheableKeys {
    pub(super) fn add(&self, key: &Arc<str>, now: Instant) {
        let mut since = self.0.lock();
        if since.len() >= MAX_KEYS {
            since.retain(|_, since| is_valid(*since, now));
        }
        if since.len() < MAX_KEYS {
            since.insert(Arc::clone(key), now);
        }
    }

    pub(super) fn remove(&self, key: &str) {
        self.0.lock().remove(key);
    }

    /// Returns whether the key was added within the last minute.
    pub(super) fn has(&self, key: &str, now: Instant) -> bool {
        self.0.lock().get(key).is_some_and(|since| is_valid(*since, now))
    }
}

fn is_valid(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < TTL
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: An uncacheable response keeps its ranges and conditions, and for a minute later requests pass
    /// through at once.
    #[test]
    fn it_is_valid_for_a_minute_and_until_it_is_kept() {
        let (keys, key, begin) = (UncacheableKeys::default(), Arc::from("a"), Instant::now());
        keys.add(&key, begin);
        assert!(keys.has("a", begin + Duration::from_secs(59)) && !keys.has("b", begin));
        assert!(!keys.has("a", begin + Duration::from_secs(60)));
        keys.remove("a");
        assert!(!keys.has("a", begin));
    }

    /// Promise: An uncacheable response keeps its ranges and conditions, and for a minute later requests pass
    /// through at once.
    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let (keys, begin) = (UncacheableKeys::default(), Instant::now());
        let add = |name: String, now| keys.add(&Arc::from(name), now);
        (0..=MAX_KEYS).for_each(|number| add(number.to_string(), begin));
        assert!(keys.has("0", begin) && !keys.has(&MAX_KEYS.to_string(), begin));
        let later = begin + TTL;
        add("later".to_owned(), later);
        assert!(keys.has("later", later) && keys.0.lock().len() == 1, "the others are not believed any more");
    }
}
