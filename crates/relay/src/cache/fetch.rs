//! Fetching what is to be kept: once for all who ask meanwhile, and, when the origin has begun to answer, to
//! its end whoever leaves.
//!
//! A stream moves the origin's answer to a file, and everybody who asked follows the file while it grows.
//! What turns out not to be kept goes to the one who asked first, unless he wants less than the whole; the
//! others ask for themselves.

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
use super::fetches::{Outdated, Running};
use super::flow;
use super::head::{self, ClientRequest, Refusal};
use super::origin::Reply;
use super::status::{add, count};
use super::store::Kept;

/// What a fetch came to, as soon as the origin's head is there.
#[derive(Clone)]
pub(super) enum Outcome {
    /// There is an entry, whose body may still be growing.
    Served(Served, Source),
    /// It is not to be kept.
    NotKept,
    /// The origin failed.
    Failed(Refusal),
}

/// What one who asked gets.
pub(super) enum Fetched {
    /// An entry.
    Served(Served, Source),
    /// An answer to be passed through.
    Reply(Reply),
    /// What came is for others: it has to be asked for again, and not to be kept.
    NotForThis,
    /// The origin failed.
    Failed(Refusal),
    /// It has been fetched since it was looked for: there is an entry, as a rule.
    Kept,
}

/// One who joins a fetch.
enum Joined {
    /// It is under way.
    Other(Outcomes),
    /// It begins with this one, to whom what is not kept comes by the second channel.
    First(Outcomes, oneshot::Receiver<Reply>),
    /// It is over, and there is an entry.
    Kept,
}

/// Where the outcome is told.
type Outcomes = watch::Receiver<Option<Outcome>>;

/// By whom.
pub(super) type Tell = watch::Sender<Option<Outcome>>;

/// Of one fetch: who is told. Whoever waits hears of the end, whatever becomes of it.
struct Telling {
    shared: Arc<Shared>,
    key: Arc<str>,
    outdated: Outdated,
    outcome: Tell,
    first: Option<oneshot::Sender<Reply>>,
}

impl Shared {
    /// What the origin has for a request that may be answered from the cache, where `found` is all there is,
    /// and not fresh.
    pub(super) async fn fetch(
        self: &Arc<Shared>,
        request: &ClientRequest,
        key: &Arc<str>,
        found: Option<Arc<Kept>>,
    ) -> Fetched {
        let (mut outcome, reply) = match self.join(request, key, found) {
            Joined::Other(outcome) => (outcome, None),
            Joined::First(outcome, reply) => (outcome, Some(reply)),
            Joined::Kept => return Fetched::Kept,
        };
        let came_late = outcome.borrow().is_some();
        // There is none if its task panicked.
        let response = outcome.wait_for(Option::is_some).await.map_or(None, |response| response.clone());
        let is_first = reply.is_some();
        match response {
            Some(Outcome::Served(served, source)) => {
                let use_here = served.entry.use_for(&request.fields, SystemTime::now());
                // Whoever asked before the origin answered has an answer that is as new as one of his own.
                if !is_first && (use_here == Use::Other || came_late && use_here != Use::Fresh) {
                    if !served.is_whole() {
                        return Fetched::NotForThis;
                    }
                    while outcome.changed().await.is_ok() {} // it is about to be kept, and can be asked about then
                    return Fetched::Kept;
                }
                Fetched::Served(served, if is_first { source } else { shared_source(source) })
            }
            Some(Outcome::Failed(refusal)) => Fetched::Failed(refusal),
            Some(Outcome::NotKept) | None => match reply {
                Some(reply) => match reply.await {
                    // A part of it is not to be had from what is passed through. Errors are the same for all.
                    Ok(reply) if request.is_partial() && reply.response.status.is_success() => {
                        Fetched::NotForThis
                    }
                    Ok(reply) => Fetched::Reply(reply),
                    Err(_) => Fetched::NotForThis,
                },
                None => Fetched::NotForThis,
            },
        }
    }

    /// Joins the fetch that is under way, or begins one.
    fn join(self: &Arc<Shared>, request: &ClientRequest, key: &Arc<str>, found: Option<Arc<Kept>>) -> Joined {
        let mut running = self.fetches.lock();
        if let Some(fetch) = running.get(key) {
            return Joined::Other(fetch.outcome.subscribe());
        }
        // A fetch leaves the list when what it fetched can be found.
        let there = self.store.find(key, &self.origin.url(&request.target));
        if there.is_some_and(|there| !found.as_ref().is_some_and(|found| Arc::ptr_eq(&there, found))) {
            return Joined::Kept;
        }
        let stale =
            found.filter(|found| found.entry.use_for(&request.fields, SystemTime::now()) != Use::Other);
        let (tell, outcome) = watch::channel(None);
        let outdated = Outdated::default();
        running.insert(Arc::clone(key), Running { outcome: tell.clone(), outdated: outdated.clone() });
        drop(running);
        let (first, reply) = oneshot::channel();
        let (shared, key, first) = (Arc::clone(self), Arc::clone(key), Some(first));
        let telling = Telling { shared, key, outdated, outcome: tell, first };
        // Ranges and conditions are ours to answer.
        tokio::spawn(telling.run(request.for_the_whole(), stale));
        Joined::First(outcome, reply)
    }
}

impl Telling {
    async fn run(mut self, request: ClientRequest, stale: Option<Arc<Kept>>) {
        let shared = Arc::clone(&self.shared);
        let Ok(_place) = shared.fetch_places.try_acquire() else {
            let words = "too much is being fetched";
            return self.tell(Outcome::Failed(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)));
        };
        let reply = tokio::select! {
            biased;
            reply = shared.ask(&request, stale.as_deref()) => reply,
            () = self.abandoned() => return,
        };
        let now = SystemTime::now();
        let has_failed = !reply.as_ref().is_ok_and(|reply| !reply.response.status.is_server_error());
        if let Some(kept) = stale.as_ref().filter(|kept| has_failed && kept.entry.serves_on_error(now))
            && let Ok(Some(served)) = shared.open(kept).await
        {
            return self.tell(Outcome::Served(served, Source::Stale));
        }
        let reply = match reply {
            Ok(reply) => reply,
            Err(refusal) => return self.tell(Outcome::Failed(refusal)),
        };
        if reply.response.status == StatusCode::NOT_MODIFIED {
            return self.renew(&request, stale, &reply.response, now).await;
        }
        let url = shared.origin.url(&request.target);
        let entry = Entry::new(&url, &request.fields, &reply.response, now);
        match entry {
            Some(entry) => self.keep(entry, reply).await,
            None => {
                if stale.is_some() && !has_failed {
                    shared.forget(&self.key).await; // what there is now is not what was kept
                }
                // Without the cookie it may be another matter.
                if reply.response.status.is_success() && !request.fields.contains_key(header::COOKIE) {
                    shared.unkept.add(&self.key, Instant::now());
                }
                self.pass(reply);
            }
        }
    }

    /// The origin says that what is kept is still good.
    async fn renew(
        &mut self,
        request: &ClientRequest,
        stale: Option<Arc<Kept>>,
        response: &head::OriginResponse,
        now: SystemTime,
    ) {
        let Some(kept) = stale else {
            let words = "the origin says that nothing has changed, of something that it was not asked about";
            return self.tell(Outcome::Failed(Refusal::new(StatusCode::BAD_GATEWAY, words)));
        };
        let served = match kept.entry.renewed(&request.fields, response, now) {
            Some(entry) => match self.shared.with_store(move |store| store.renew(&kept, entry)).await {
                Ok(kept) => match self.shared.open(&kept).await {
                    Ok(served) => served,
                    Err(refusal) => return self.tell(Outcome::Failed(refusal)),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tracing::debug!("an entry of the cache went while the origin was asked about it");
                    None
                }
                Err(error) => {
                    tracing::warn!(%error, "an entry of the cache could not be renewed");
                    None
                }
            },
            None => None, // it is about another version, or not to be kept any more
        };
        match served {
            Some(served) => {
                count(&self.shared.counters.revalidated);
                self.tell(Outcome::Served(served, Source::Revalidated));
            }
            None => {
                // Everybody asks for all of it.
                self.shared.forget(&self.key).await;
                self.tell(Outcome::NotKept);
            }
        }
    }

    /// Writes the body to a file, from where it goes to all who want it; keeps it when it is whole.
    async fn keep(&mut self, entry: Entry, reply: Reply) {
        let (key, entry) = (Arc::clone(&self.key), Arc::new(entry));
        let head = Arc::clone(&entry);
        let reserved = self.shared.with_store(move |store| store.reserve(&key, &head));
        let writing = match reserved.await {
            Ok(Some(writing)) => DropOnPool::new(writing, self.shared.engine.pool()),
            Ok(None) => {
                self.shared.unkept.add(&self.key, Instant::now());
                return self.pass(reply);
            }
            Err(error) => {
                tracing::warn!(%error, "what was fetched cannot be kept");
                return self.pass(reply);
            }
        };
        self.shared.unkept.remove(&self.key);
        let growth = Breaking(WriteProgress::new());
        let (file, following) = (Arc::clone(&writing.file), Some(Arc::clone(&growth.0)));
        self.tell(Outcome::Served(self.shared.served(&entry, file, following), Source::Miss));
        let url = &entry.url;
        let written = flow::write_body(&self.shared, reply, &writing, &growth.0).await;
        add(&self.shared.counters.bytes_from_origin, growth.0.bytes());
        match written {
            Ok(()) => growth.end(),
            Err(words) => {
                self.leave(); // whoever comes now begins anew
                count(&self.shared.counters.broken_fetches);
                return tracing::warn!(url, words, "a fetch broke; nothing of it is kept");
            }
        }
        let (head, outdated) = (Arc::clone(&entry), self.outdated.clone());
        let keep = move |_: &_| outdated.unless(|| writing.into_inner().keep(head)).transpose();
        if let Err(error) = self.shared.with_store(keep).await {
            tracing::warn!(url, %error, "what was fetched could not be kept");
        }
    }

    /// Gives an answer that is not kept to whoever asked first.
    fn pass(&mut self, reply: Reply) {
        self.leave();
        if let Some(first) = self.first.take() {
            drop(first.send(reply)); // if that client is gone, nobody wants it
        }
        self.tell(Outcome::NotKept);
    }

    fn tell(&self, outcome: Outcome) {
        self.outcome.send_replace(Some(outcome));
    }

    /// Waits until nobody waits for it. Then nobody can join it any more.
    async fn abandoned(&self) {
        loop {
            self.outcome.closed().await;
            let mut running = self.shared.fetches.lock();
            // Whoever joins does it while the list is locked.
            if self.outcome.is_closed() {
                return self.leave_from(&mut running);
            }
        }
    }

    /// The next one who asks begins another fetch.
    fn leave(&self) {
        self.leave_from(&mut self.shared.fetches.lock());
    }

    fn leave_from(&self, running: &mut HashMap<Arc<str>, Running>) {
        // There may be another one of the same key already.
        if running.get(&self.key).is_some_and(|fetch| fetch.outcome.same_channel(&self.outcome)) {
            running.remove(&self.key);
        }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    async fn ask(&self, request: &ClientRequest, stale: Option<&Kept>) -> Result<Reply, Refusal> {
        let mut fields = request.fields.clone();
        if let Some(kept) = stale {
            kept.entry.add_conditions(&mut fields);
        }
        let mut connection = self.origin.connect().await?;
        self.origin.send_head(&mut connection, request, &fields).await?;
        self.origin.reply(connection, &request.method, self.origin_limit, ready(())).await
    }
}

/// Breaks off whoever follows when this is dropped before all is written.
struct Breaking(Arc<WriteProgress>);

impl Breaking {
    /// All is written.
    fn end(mut self) {
        self.0 = WriteProgress::new(); // nobody follows this one
    }
}

impl Drop for Breaking {
    fn drop(&mut self) {
        self.0.fail();
    }
}

fn shared_source(source: Source) -> Source {
    if source == Source::Miss { Source::Shared } else { source }
}
