//! What could not be kept when it was last asked for: it needs not be asked for whole before a part of it is
//! passed through.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long that is believed: an origin may change its mind, and room may be made.
const BELIEVED: Duration = Duration::from_secs(60);

/// How many are remembered; others are asked for whole each time.
const MOST: usize = 4096;

/// Keys of such, and since when they are.
#[derive(Default)]
pub(super) struct Unkept(Mutex<HashMap<Arc<str>, Instant>>);

impl Unkept {
    /// This could not be kept.
    pub(super) fn add(&self, key: &Arc<str>, now: Instant) {
        let mut since = self.0.lock();
        if since.len() >= MOST {
            since.retain(|_, since| is_believed(*since, now));
        }
        if since.len() < MOST {
            since.insert(Arc::clone(key), now);
        }
    }

    /// This could be kept.
    pub(super) fn remove(&self, key: &str) {
        self.0.lock().remove(key);
    }

    /// Returns whether this is known not to be kept.
    pub(super) fn has(&self, key: &str, now: Instant) -> bool {
        self.0.lock().get(key).is_some_and(|since| is_believed(*since, now))
    }
}

fn is_believed(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) < BELIEVED
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: What is not kept keeps its ranges and conditions, and passes through at once for a minute.
    #[test]
    fn it_is_believed_for_a_minute_and_until_it_is_kept() {
        let (unkept, key, begin) = (Unkept::default(), Arc::from("a"), Instant::now());
        unkept.add(&key, begin);
        assert!(unkept.has("a", begin + Duration::from_secs(59)) && !unkept.has("b", begin));
        assert!(!unkept.has("a", begin + Duration::from_secs(60)));
        unkept.remove("a");
        assert!(!unkept.has("a", begin));
    }

    /// Promise: What is not kept keeps its ranges and conditions, and passes through at once for a minute.
    #[test]
    fn no_more_are_remembered_than_there_is_room_for() {
        let (unkept, begin) = (Unkept::default(), Instant::now());
        let add = |name: String, now| unkept.add(&Arc::from(name), now);
        (0..=MOST).for_each(|number| add(number.to_string(), begin));
        assert!(unkept.has("0", begin) && !unkept.has(&MOST.to_string(), begin));
        let later = begin + BELIEVED;
        add("later".to_owned(), later);
        assert!(
            unkept.has("later", later) && unkept.0.lock().len() == 1,
            "the others are not believed any more"
        );
    }
}
