//! A request to play whose position is still being located.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use wirepath_playback::PlayError;

/// The request of a session that waits for its position: the latest request, until it is cancelled or the
/// session's last reference to this value is dropped.
#[derive(Clone, Default)]
pub(crate) struct WaitingPlay(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl WaitingPlay {
    /// Cancels the request, unless it has started.
    pub(crate) fn cancel(&self) {
        self.0.lock().take();
    }

    /// Locates a position, and starts playing there unless the request is cancelled. Must be called on a
    /// tokio runtime.
    pub(crate) fn start_at<T: Send>(
        &self,
        search: impl Future<Output = Result<T, PlayError>> + Send + 'static,
        start: impl FnOnce(Result<T, PlayError>) + Send + 'static,
    ) {
        let (waiting, mut cancelled) = oneshot::channel();
        *self.0.lock() = Some(waiting);
        let latest = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let place = tokio::select! {
                biased;
                _ = &mut cancelled => return start(Err(PlayError::Superseded)),
                place = search => place,
            };
            let Some(latest) = latest.upgrade() else { return start(Err(PlayError::Superseded)) };
            // A PAUSE cancels before the start, or follows it, because the start holds the lock.
            let latest = latest.lock();
            let is_cancelled = matches!(cancelled.try_recv(), Err(oneshot::error::TryRecvError::Closed));
            match place {
                Ok(place) if !is_cancelled => start(Ok(place)),
                place => {
                    drop(latest);
                    start(place.and(Err(PlayError::Superseded)));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn started(
        waiting: &WaitingPlay,
        search: impl Future<Output = u32> + Send + 'static,
    ) -> Option<u32> {
        let (sender, receiver) = oneshot::channel();
        waiting.start_at(async { Ok(search.await) }, |place| sender.send(place.ok()).expect("it is awaited"));
        receiver.await.expect("there is an answer")
    }

    /// Promise: A PAUSE that arrives when the place of a PLAY has just been found is not overtaken by it.
    #[tokio::test(flavor = "current_thread")]
    async fn a_request_that_is_cancelled_at_the_end_of_its_search_does_not_start() {
        let waiting = WaitingPlay::default();
        assert_eq!(started(&waiting, async { 1 }).await, Some(1));
        let pause = waiting.clone();
        let search = async move {
            pause.cancel();
            2
        };
        assert_eq!(started(&waiting, search).await, None);
        let other = waiting.clone();
        let search = async move {
            other.start_at(std::future::pending(), |_: Result<(), _>| ());
            3
        };
        assert_eq!(started(&waiting, search).await, None, "the later request counts");
        waiting.cancel();
        assert_eq!(started(&waiting, async { 4 }).await, Some(4));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_session_that_ends_does_not_start_later() {
        let waiting = WaitingPlay::default();
        let (sender, receiver) = oneshot::channel();
        waiting.start_at(std::future::pending(), |place: Result<u32, _>| {
            sender.send(place).expect("it is awaited");
        });
        drop(waiting);
        assert_eq!(receiver.await.expect("there is an answer"), Err(PlayError::Superseded));
    }
}
