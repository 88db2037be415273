//! Cache of callback answers, with an expiry time and a limited number of entries; concurrent equal questions
//! wait for one answer.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;
use parking_lot::Mutex;
use ring::digest::{Context, SHA256};
use tokio::sync::OnceCell;

use super::Verdict;

/// Hash of a question, so that neither passwords nor long queries are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    /// Key of a question about a path.
    pub(super) fn of(path: &[u8], question: &[u8]) -> Key {
        let mut context = Context::new(&SHA256);
        context.update(&(path.len() as u64).to_be_bytes());
        context.update(path);
        context.update(question);
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        Key(key)
    }
}

/// Answers by question; the least recently used entry is evicted first.
pub(super) struct KeptAnswers {
    answers: Mutex<LruCache<Key, Arc<Answer>>>,
    keep: Duration,
}

/// Cached or awaited answer.
#[derive(Default)]
pub(super) struct Answer(OnceCell<(Verdict, Instant)>);

impl KeptAnswers {
    /// Cache with room for `most` answers, each cached for `keep`.
    pub(super) fn new(most: usize, keep: Duration) -> KeptAnswers {
        let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        KeptAnswers { answers: Mutex::new(LruCache::new(most)), keep }
    }

    /// Entry of a question: cached, awaited by another request, or new.
    pub(super) fn find(&self, key: Key) -> Arc<Answer> {
        let mut answers = self.answers.lock();
        match answers.get(&key) {
            Some(answer) if answer.is_good(self.keep) => Arc::clone(answer),
            _ => {
                let answer = Arc::<Answer>::default();
                answers.put(key, Arc::clone(&answer));
                answer
            }
        }
    }

    /// Drops all answers.
    pub(super) fn clear(&self) {
        self.answers.lock().clear();
    }
}

impl Answer {
    /// Verdict; calls `ask` if no request has asked yet. If the asking request is dropped, the next waiting
    /// request asks.
    pub(super) async fn get_or_init(&self, ask: impl AsyncFnOnce() -> Verdict) -> Verdict {
        let answered = async || (ask().await, Instant::now());
        self.0.get_or_init(answered).await.0
    }

    /// Returns whether the answer is awaited, or still valid. Failures are not cached.
    fn is_good(&self, keep: Duration) -> bool {
        self.0.get().is_none_or(|(verdict, at)| *verdict != Verdict::Failed && at.elapsed() < keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::of(b"", &number.to_be_bytes())
    }

    async fn ask(kept: &KeptAnswers, number: u64, verdict: Verdict) -> Verdict {
        kept.find(key(number)).get_or_init(async || verdict).await
    }

    /// Promise: Answers of the authentication callback are cached in bounded number; failures are not cached.
    #[tokio::test(flavor = "current_thread")]
    async fn answers_are_kept_in_bounded_number() {
        let kept = KeptAnswers::new(2, Duration::from_secs(3600));
        assert_eq!(ask(&kept, 1, Verdict::Failed).await, Verdict::Failed);
        assert_eq!(ask(&kept, 1, Verdict::Allowed).await, Verdict::Allowed);
        assert_eq!(ask(&kept, 1, Verdict::Forbidden).await, Verdict::Allowed, "kept");
        for number in 2..100 {
            assert_eq!(ask(&kept, number, Verdict::Forbidden).await, Verdict::Forbidden);
        }
        assert_eq!(kept.answers.lock().len(), 2);
        assert_eq!(ask(&kept, 1, Verdict::Unauthorized).await, Verdict::Unauthorized, "forgotten");
        kept.clear();
        assert_eq!(ask(&kept, 1, Verdict::Allowed).await, Verdict::Allowed, "cleared");
        let unkept = KeptAnswers::new(2, Duration::ZERO);
        for verdict in [Verdict::Allowed, Verdict::Forbidden] {
            assert_eq!(ask(&unkept, 1, verdict).await, verdict);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn equal_questions_at_once_wait_for_one_answer() {
        let kept = KeptAnswers::new(2, Duration::ZERO);
        let (first, second) = (kept.find(key(1)), kept.find(key(1)));
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let asking = first.get_or_init(async || {
            released.await.expect("released");
            Verdict::Allowed
        });
        let waiting = second.get_or_init(async || Verdict::Forbidden);
        let releasing = async { release.send(()).expect("it waits") };
        let (asked, waited, ()) = tokio::join!(asking, waiting, releasing);
        assert_eq!((asked, waited), (Verdict::Allowed, Verdict::Allowed));
        // If the asking request is dropped, the next request asks.
        let (left, next) = (kept.find(key(2)), kept.find(key(2)));
        drop(left.get_or_init(async || std::future::pending().await));
        assert_eq!(next.get_or_init(async || Verdict::Allowed).await, Verdict::Allowed);
    }

    #[test]
    fn keys_tell_paths_and_questions_apart() {
        assert!(Key::of(b"a", b"b") == Key::of(b"a", b"b"));
        assert!(
            Key::of(b"a", b"b") != Key::of(b"ab", b"") && Key::of(b"\xff", b"q") != Key::of(b"\xfe", b"q")
        );
    }
}
