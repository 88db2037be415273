//! Fetches. All requests for a resource that arrive during a fetch share it. Once the origin has begun to
//! respond, a fetch continues even if all its clients leave.
//!
//! A stream writes the origin's response to a file, and all requests read the file while it grows. A response
//! that cannot be stored goes to the first request, unless that request is for a part; the other requests are
//! passed to the origin.

use std::collections::HashMap;
use std::future::ready;
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{StatusCode, header};
use tokio::sync::{oneshot, watch};
use wirepath_engine::DropOnPool;
use wirepath_streams::WriteProgress;

use super::Shared;
use super::answer::{Served, Source};
use super::entry::{Entry, Use};
use super::fetches::{Outcome, OutcomeReceiver, OutcomeSender, Outdated, RunningFetch};
use super::head::{self, ClientRequest, Refusal};
use super::origin::Reply;
use super::store::StoredEntry;
use super::transfer;

/// Result of a fetch for a single request.
pub(super) enum Fetched {
    Served(Served, Source),
    /// Response to pass on to this request.
    Reply(Reply),
    /// The response goes to other requests; this request has to be passed to the origin.
    PassThrough,
    Failed(Refusal),
    /// Another fetch has ended meanwhile, and most likely stored an entry.
    Cached,
}

/// Result of joining a fetch.
enum Joined {
    /// The fetch was already running.
    Running(OutcomeReceiver),
    /// The fetch was started for this request, which also gets a response that cannot be stored.
    Started(OutcomeReceiver, oneshot::Receiver<Reply>),
    /// Another fetch has ended and stored an entry.
    Cached,
}

struct FetchTask {
    shared: Arc<Shared>,
    key: Arc<str>,
    outdated: Outdated,
    outcome: OutcomeSender,
    first: Option<oneshot::Sender<Reply>>,
}

impl Shared {
    /// Fetches a resource for a request that may be answered from the cache. `found` is the stored entry,
    /// which is not fresh.
    pub(super) async fn fetch(
        self: &Arc<Shared>,
        request: &ClientRequest,
        key: &Arc<str>,
        found: Option<Arc<StoredEntry>>,
    ) -> Fetched {
        let (mut outcome, reply) = match self.join(request, key, found) {
            Joined::Running(outcome) => (outcome, None),
            Joined::Started(outcome, reply) => (outcome, Some(reply)),
            Joined::Cached => return Fetched::Cached,
        };
        let joined_late = outcome.borrow().is_some();
        // The outcome is None if the task panicked.
        let response = outcome.wait_for(Option::is_some).await.map_or(None, |response| response.clone());
        let is_first = reply.is_some();
        match response {
            Some(Outcome::Served(served, source)) => {
                let use_here = served.entry.use_for(&request.fields, SystemTime::now());
                // A request that was received before the response may use it even if it is not fresh: the
                // response is as new as one fetched for that request alone.
                if !is_first && (use_here == Use::Other || joined_late && use_here != Use::Fresh) {
                    if !served.is_whole() {
                        return Fetched::PassThrough;
                    }
                    while outcome.changed().await.is_ok() {} // it will be stored soon, and can be validated then
                    return Fetched::Cached;
                }
                Fetched::Served(served, if is_first { source } else { shared_source(source) })
            }
            Some(Outcome::Failed(refusal)) => Fetched::Failed(refusal),
            Some(Outcome::NotStored) | None => {
                let Some(reply) = reply else { return Fetched::PassThrough };
                match reply.await {
                    // A response that passes through cannot be cut to a part. Errors are the same for all
                    // requests.
                    Ok(reply) if !request.is_partial() || !reply.response.status.is_success() => {
                        Fetched::Reply(reply)
                    }
                    Ok(_) | Err(_) => Fetched::PassThrough,
                }
            }
        }
    }

    /// Joins the running fetch, or starts a fetch.
    fn join(
        self: &Arc<Shared>,
        request: &ClientRequest,
        key: &Arc<str>,
        found: Option<Arc<StoredEntry>>,
    ) -> Joined {
        let mut running = self.fetches.lock();
        if let Some(fetch) = running.get(key) {
            return Joined::Running(fetch.outcome.subscribe());
        }
        // A fetch leaves the list only after its entry can be found in the store.
        let stored = self.store.find(key, &self.origin.url(&request.target));
        if stored.is_some_and(|stored| !found.as_ref().is_some_and(|found| Arc::ptr_eq(&stored, found))) {
            return Joined::Cached;
        }
        let stale =
            found.filter(|found| found.entry.use_for(&request.fields, SystemTime::now()) != Use::Other);
        let (sender, outcome) = watch::channel(None);
        let outdated = Outdated::default();
        running.insert(Arc::clone(key), RunningFetch { outcome: sender.clone(), outdated: outdated.clone() });
        drop(running);
        let (first, reply) = oneshot::channel();
        let (shared, key, first) = (Arc::clone(self), Arc::clone(key), Some(first));
        let task = FetchTask { shared, key, outdated, outcome: sender, first };
        // The cache itself handles ranges and conditions, so the fetch is for the whole resource.
        tokio::spawn(task.run(request.for_the_whole(), stale));
        Joined::Started(outcome, reply)
    }
}

impl FetchTask {
    async fn run(mut self, request: ClientRequest, stale: Option<Arc<StoredEntry>>) {
        let shared = Arc::clone(&self.shared);
        let Ok(_permit) = shared.fetch_permits.try_acquire() else {
            let words = "too many concurrent fetches; try again later";
            return self.publish(Outcome::Failed(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)));
        };
        let reply = tokio::select! {
            biased;
            reply = shared.ask(&request, stale.as_deref()) => reply,
            () = self.all_waiters_gone() => return,
        };
        let now = SystemTime::now();
        let has_failed = !reply.as_ref().is_ok_and(|reply| !reply.response.status.is_server_error());
        if let Some(kept) = stale.as_ref().filter(|kept| has_failed && kept.entry.serves_on_error(now))
            && let Ok(Some(served)) = shared.open(kept).await
        {
            return self.publish(Outcome::Served(served, Source::Stale));
        }
        let reply = match reply {
            Ok(reply) => reply,
            Err(refusal) => return self.publish(Outcome::Failed(refusal)),
        };
        if reply.response.status == StatusCode::NOT_MODIFIED {
            return self.renew(&request, stale, &reply.response, now).await;
        }
        let url = shared.origin.url(&request.target);
        let entry = Entry::new(&url, &request.fields, &reply.response, now);
        match entry {
            Some(entry) => self.store(entry, reply).await,
            None => {
                if stale.is_some() && !has_failed {
                    shared.invalidate(&self.key).await; // the stored entry is outdated
                }
                // A request without the cookie may get another response.
                if reply.response.status.is_success() && !request.fields.contains_key(header::COOKIE) {
                    shared.uncacheable.add(&self.key, Instant::now());
                }
                self.pass(reply);
            }
        }
    }

    /// Handles a 304 response: the origin confirms the entry.
    async fn renew(
        &mut self,
        request: &ClientRequest,
        stale: Option<Arc<StoredEntry>>,
        response: &head::OriginResponse,
        now: SystemTime,
    ) {
        let Some(kept) = stale else {
            let words = "the origin answered 304 to an unconditional request";
            return self.publish(Outcome::Failed(Refusal::new(StatusCode::BAD_GATEWAY, words)));
        };
        let served = match kept.entry.renewed(&request.fields, response, now) {
            Some(entry) => match self.shared.with_store(move |store| store.renew(&kept, entry)).await {
                Ok(kept) => match self.shared.open(&kept).await {
                    Ok(served) => served,
                    Err(refusal) => return self.publish(Outcome::Failed(refusal)),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => None, // evicted or replaced
                Err(error) => {
                    tracing::warn!(%error, "cannot update an entry of the cache");
                    None
                }
            },
            None => None, // another version, or no longer cacheable
        };
        match served {
            Some(served) => {
                self.shared.counters.revalidated.increment();
                self.publish(Outcome::Served(served, Source::Revalidated));
            }
            None => {
                self.shared.invalidate(&self.key).await;
                self.publish(Outcome::NotStored);
            }
        }
    }

    /// Writes the body to a file, which clients read as it grows, and stores the entry when the body is
    /// complete.
    async fn store(&mut self, entry: Entry, reply: Reply) {
        let (key, entry) = (Arc::clone(&self.key), Arc::new(entry));
        let head = Arc::clone(&entry);
        let reserved = self.shared.with_store(move |store| store.reserve(&key, &head));
        let writing = match reserved.await {
            Ok(Some(writing)) => DropOnPool::new(writing, self.shared.engine.pool()),
            Ok(None) => {
                self.shared.uncacheable.add(&self.key, Instant::now());
                return self.pass(reply);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot cache the response");
                return self.pass(reply);
            }
        };
        self.shared.uncacheable.remove(&self.key);
        let progress = FailOnDrop(WriteProgress::new());
        let (file, following) = (Arc::clone(&writing.file), Some(Arc::clone(&progress.0)));
        self.publish(Outcome::Served(self.shared.served(&entry, file, following), Source::Miss));
        let url = &entry.url;
        let written = transfer::write_body(&self.shared, reply, &writing, &progress.0).await;
        self.shared.counters.from_origin_bytes.add(progress.0.bytes());
        match written {
            Ok(()) => progress.finish(),
            Err(error) => {
                self.unregister(); // the next request begins another fetch
                self.shared.counters.broken_fetches.increment();
                return tracing::warn!(url, error, "fetch failed; nothing is cached");
            }
        }
        let (head, outdated) = (Arc::clone(&entry), self.outdated.clone());
        let keep = move |_: &_| outdated.unless(|| writing.into_inner().commit(head)).transpose();
        if let Err(error) = self.shared.with_store(keep).await {
            tracing::warn!(url, %error, "cannot cache the response");
        }
    }

    /// Passes a response that cannot be stored to the first request.
    fn pass(&mut self, reply: Reply) {
        self.unregister();
        if let Some(first) = self.first.take() {
            drop(first.send(reply)); // if that client is gone, the response is dropped
        }
        self.publish(Outcome::NotStored);
    }

    fn publish(&self, outcome: Outcome) {
        self.outcome.send_replace(Some(outcome));
    }

    /// Completes when no request waits for the fetch. No request can join the fetch then.
    async fn all_waiters_gone(&self) {
        loop {
            self.outcome.closed().await;
            let mut running = self.shared.fetches.lock();
            // Requests join while they hold the lock of the list.
            if self.outcome.is_closed() {
                return self.unregister_from(&mut running);
            }
        }
    }

    /// Removes the fetch from the list. The next request starts another fetch.
    fn unregister(&self) {
        self.unregister_from(&mut self.shared.fetches.lock());
    }

    fn unregister_from(&self, running: &mut HashMap<Arc<str>, RunningFetch>) {
        // Another fetch of the key may have been registered already.
        if running.get(&self.key).is_some_and(|fetch| fetch.outcome.same_channel(&self.outcome)) {
            running.remove(&self.key);
        }
    }
}

impl Drop for FetchTask {
    fn drop(&mut self) {
        self.unregister();
    }
}

impl Shared {
    async fn ask(&self, request: &ClientRequest, stale: Option<&StoredEntry>) -> Result<Reply, Refusal> {
        let mut fields = request.fields.clone();
        if let Some(kept) = stale {
            kept.entry.add_conditions(&mut fields);
        }
        let mut connection = self.origin.connect().await?;
        self.origin.send_head(&mut connection, request, &fields).await?;
        self.origin.reply(connection, &request.method, self.origin_limit, ready(())).await
    }
}

/// Progress that fails if this is dropped before the body is complete.
struct FailOnDrop(Arc<WriteProgress>);

impl FailOnDrop {
    fn finish(mut self) {
        self.0 = WriteProgress::new(); // replaced by a progress without readers
    }
}

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        self.0.fail();
    }
}

fn shared_source(source: Source) -> Source {
    if source == Source::Miss { Source::Shared } else { source }
}
