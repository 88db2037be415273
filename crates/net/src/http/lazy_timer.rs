//! Timeouts of a connection by a single timer, which is reset only when it fires.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// Timeout expired.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Elapsed;

/// Timer that stays in the runtime's timer wheel between waits: deadlines are nearly always extended before
/// they expire, and inserting each into the wheel costs more than a wake-up for an outdated deadline.
#[derive(Debug, Default)]
pub(super) struct LazyTimer {
    sleep: Option<Pin<Box<Sleep>>>,
}

impl LazyTimer {
    /// Polls `poll` until it is ready, or the deadline has passed.
    pub(super) async fn limit<T>(
        &mut self,
        deadline: Instant,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Result<T, Elapsed> {
        poll_fn(|context| match poll(context) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => self.poll_elapsed(deadline, context).map(|()| Err(Elapsed)),
        })
        .await
    }

    fn poll_elapsed(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if sleep.deadline() > deadline {
            sleep.as_mut().reset(deadline);
        }
        while sleep.as_mut().poll(context).is_ready() {
            if sleep.deadline() == deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Promise: A timeout holds whether the connection's previous timeout was longer or shorter.
    #[test]
    fn each_deadline_holds() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let mut timer = LazyTimer::default();
            let ms = Duration::from_millis;
            for (limit, is_ready) in [(60_000, true), (20, false), (60_000, true), (40, false), (90, false)] {
                let before = Instant::now();
                // The timer is set only if a poll is pending.
                let mut has_waited = false;
                let step = |context: &mut Context<'_>| {
                    if is_ready && has_waited {
                        return Poll::Ready(());
                    }
                    if is_ready {
                        has_waited = true;
                        context.waker().wake_by_ref();
                    }
                    Poll::Pending
                };
                let end = timeout(ms(10_000), timer.limit(before + ms(limit), step)).await;
                assert_eq!(end.expect("the limit ends"), if is_ready { Ok(()) } else { Err(Elapsed) });
                assert!(is_ready || before.elapsed() >= ms(limit));
            }
        });
    }
}
