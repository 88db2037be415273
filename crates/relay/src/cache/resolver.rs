//! Cached addresses of a host name. All waiting callers share one look-up, so that a hanging resolver blocks
//! only one of the threads that open files.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

/// Addresses of a name, or the running look-up.
#[derive(Clone, Debug, Default)]
pub(super) struct ResolverCache(Arc<Mutex<Option<Lookup>>>);

/// Result of a look-up; None until the resolver has answered.
type Lookup = watch::Receiver<Option<Result<Vec<SocketAddr>, Arc<io::Error>>>>;

impl ResolverCache {
    /// Returns the known addresses, or the addresses that `resolve` finds. A running look-up is shared; it
    /// continues after the caller's `limit`. Must be called on a tokio runtime.
    pub(super) async fn addresses<F>(
        &self,
        limit: Duration,
        resolve: impl FnOnce() -> F,
    ) -> io::Result<Vec<SocketAddr>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut lookup = self.lookup(resolve);
        let answer = timeout(limit, lookup.wait_for(Option::is_some)).await;
        let answer = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        match answer.as_deref() {
            Ok(Some(Ok(found))) => Ok(found.clone()),
            Ok(Some(Err(error))) => Err(io::Error::new(error.kind(), error.to_string())),
            Ok(None) | Err(_) => Err(io::Error::other("the look-up ended without an answer")),
        }
    }

    /// Makes the next caller resolve the name again, unless a look-up is running.
    pub(super) fn forget(&self) {
        self.0.lock().take_if(|lookup| lookup.borrow().is_some());
    }

    /// The running or successful look-up, or a new one.
    fn lookup<F>(&self, resolve: impl FnOnce() -> F) -> Lookup
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut last = self.0.lock();
        let is_usable = |lookup: &&Lookup| match &*lookup.borrow() {
            Some(answer) => answer.is_ok(),
            None => lookup.has_changed().is_ok(),
        };
        if let Some(lookup) = last.as_ref().filter(is_usable) {
            return lookup.clone();
        }
        let (sender, lookup) = watch::channel(None);
        let resolving = resolve();
        tokio::spawn(async move { sender.send_replace(Some(resolving.await.map_err(Arc::new))) });
        *last = Some(lookup.clone());
        lookup
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Promise: A hanging resolver does not delay cached responses and is asked once.
    ///
    /// A hanging resolver is asked once for any number of waiting callers, and each caller waits at most for
    /// its own limit.
    #[test]
    fn a_resolver_that_hangs_is_asked_once_and_answers_all_who_still_wait() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (names, request) = (ResolverCache::default(), Arc::new(AtomicUsize::new(0)));
            let (answer, hangs) = oneshot::channel::<io::Result<Vec<SocketAddr>>>();
            let mut hangs = Some(hangs);
            let mut look_up = || {
                request.fetch_add(1, Relaxed);
                let hangs = hangs.take();
                async move { hangs.expect("it is asked once").await.unwrap() }
            };
            for _ in 0..1000 {
                let error = names.addresses(Duration::ZERO, &mut look_up).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            }
            names.forget(); // no addresses are known, so there is nothing to forget
            let waiting = tokio::spawn({
                let names = names.clone();
                async move { names.addresses(PATIENCE, std::future::pending).await }
            });
            tokio::task::yield_now().await;
            let found: Vec<SocketAddr> = vec!["127.0.0.1:80".parse().unwrap()];
            answer.send(Ok(found.clone())).unwrap();
            assert_eq!(waiting.await.unwrap().unwrap(), found);
            assert_eq!(names.addresses(PATIENCE, &mut look_up).await.unwrap(), found);
            assert_eq!(request.load(Relaxed), 1);
        });
    }

    /// Promise: A hanging resolver does not delay cached responses and is asked once.
    #[test]
    fn a_name_is_asked_for_again_when_it_was_not_found_or_leads_nowhere() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let names = ResolverCache::default();
            let missing = || async { Err(io::ErrorKind::NotFound.into()) };
            let error = names.addresses(PATIENCE, missing).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            for port in [80, 81] {
                let found = vec![SocketAddr::from(([127, 0, 0, 1], port))];
                let answered = names.addresses(PATIENCE, || std::future::ready(Ok(found.clone()))).await;
                assert_eq!(answered.unwrap(), found);
                names.forget();
            }
        });
    }
}
