//! The addresses of a name, asked for once by whoever waits: a resolver that hangs takes one of the threads
//! that open files, and not all of them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

/// What was found of one name, or is being asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<Mutex<Option<Lookup>>>);

/// Nothing until the resolver has answered.
type Lookup = watch::Receiver<Option<Result<Vec<SocketAddr>, Arc<io::Error>>>>;

impl Names {
    /// The addresses that are known, or those that `look_up` finds unless that is being asked already. It
    /// goes on when the caller's `limit` is over, for whoever comes next. May not be called outside of a
    /// runtime.
    ///
    /// # Errors
    /// What the resolver says, or that it took too long.
    pub(super) async fn addresses<F>(
        &self,
        limit: Duration,
        look_up: impl FnOnce() -> F,
    ) -> io::Result<Vec<SocketAddr>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut request = self.request(look_up);
        let answer = timeout(limit, request.wait_for(Option::is_some)).await;
        let answer = answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        match answer.as_deref() {
            Ok(Some(Ok(found))) => Ok(found.clone()),
            Ok(Some(Err(error))) => Err(io::Error::new(error.kind(), error.to_string())),
            Ok(None) | Err(_) => Err(io::Error::other("the look-up ended without an answer")),
        }
    }

    /// Has the next caller ask again: the name may stand for others by now.
    pub(super) fn forget(&self) {
        self.0.lock().take_if(|request| request.borrow().is_some());
    }

    /// The question that is under way or was answered well, or a new one.
    fn request<F>(&self, look_up: impl FnOnce() -> F) -> Lookup
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    {
        let mut request = self.0.lock();
        let is_of_use = |request: &&Lookup| match &*request.borrow() {
            Some(answer) => answer.is_ok(),
            None => request.has_changed().is_ok(),
        };
        if let Some(request) = request.as_ref().filter(is_of_use) {
            return request.clone();
        }
        let (tell, response) = watch::channel(None);
        let looking_up = look_up();
        tokio::spawn(async move { tell.send_replace(Some(looking_up.await.map_err(Arc::new))) });
        *request = Some(response.clone());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Promise: A hanging resolver delays no kept answer and is asked once.
    ///
    /// However many wait, a resolver that hangs is asked once, and nobody waits longer than he would.
    #[test]
    fn a_resolver_that_hangs_is_asked_once_and_answers_all_who_still_wait() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (names, request) = (Names::default(), Arc::new(AtomicUsize::new(0)));
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
            names.forget(); // nothing is known that could be forgotten
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

    /// Promise: A hanging resolver delays no kept answer and is asked once.
    #[test]
    fn a_name_is_asked_for_again_when_it_was_not_found_or_leads_nowhere() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let names = Names::default();
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
