//! Wait for the drain of a listener, registered once per connection and not for each request.

use std::fmt;
use std::pin::Pin;

use parking_lot::Mutex;
use tokio::sync::watch;

/// Drain signal of a connection: a channel that has become true, or whose sender was dropped.
pub(super) struct Drain {
    receiver: watch::Receiver<bool>,
    /// Stays registered between waits: registering and unregistering costs more than the rest of a wait. The
    /// lock is never taken; it makes a connection `Sync`.
    waiting: Mutex<Option<Waiting>>,
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Drain {
    pub(super) fn new(receiver: watch::Receiver<bool>) -> Self {
        Self { receiver, waiting: Mutex::new(None) }
    }

    /// Returns whether the connection drains.
    pub(super) fn is_drained(&self) -> bool {
        *self.receiver.borrow()
    }

    /// Waits until the connection drains. May be dropped and called again.
    pub(super) async fn wait(&mut self) {
        let Self { receiver, waiting } = self;
        let waiting = waiting.get_mut();
        let wait = waiting.get_or_insert_with(|| {
            let mut receiver = receiver.clone();
            // The reference that `wait_for` returns must not be held across an await.
            Box::pin(async move { drop(receiver.wait_for(|&drain| drain).await) })
        });
        wait.as_mut().await;
        // A completed future must not be polled again.
        *waiting = None;
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Drain").field(&self.receiver).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Poll;

    use super::*;

    /// Polls a wait that is then dropped; returns whether it ended.
    async fn ends_now(drain: &mut Drain) -> bool {
        let mut wait = Box::pin(drain.wait());
        poll_fn(|context| Poll::Ready(wait.as_mut().poll(context).is_ready())).await
    }

    #[test]
    fn a_wait_that_was_dropped_goes_on_in_the_next() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            for drops_sender in [false, true] {
                let (sender, receiver) = watch::channel(false);
                let mut drain = Drain::new(receiver);
                assert!(!ends_now(&mut drain).await && !ends_now(&mut drain).await);
                let sender = if drops_sender {
                    drop(sender);
                    None
                } else {
                    sender.send(true).expect("received");
                    Some(sender)
                };
                assert!(ends_now(&mut drain).await && ends_now(&mut drain).await);
                assert_eq!(drain.is_drained(), sender.is_some());
            }
        });
    }

    #[test]
    fn a_task_that_waits_is_woken() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let (sender, receiver) = watch::channel(false);
            let mut drain = Drain::new(receiver);
            // The first wait registers another task's waker.
            assert!(!ends_now(&mut drain).await);
            let waits = tokio::spawn(async move { drain.wait().await });
            tokio::task::yield_now().await;
            sender.send(true).expect("received");
            waits.await.expect("it ends");
        });
    }
}
