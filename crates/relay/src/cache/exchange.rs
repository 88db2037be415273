//! One request: answered from the cache, by a fetch, or by the origin itself.

use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{Method, header};
use wirepath_media::http::{Response, Status};
use wirepath_net::http::now_s;
use wirepath_streams::Part;

use super::answer::{self, Served, Source};
use super::connection::Connection;
use super::entry::Use;
use super::fetch::Fetched;
use super::head::{Asked, Refusal};
use super::hops;
use super::rules::has_directive;
use super::status::{add, count};
use super::store;

impl Connection {
    /// Answers one request; says whether the connection stays.
    pub(super) async fn exchange(&mut self, mut asked: Asked) -> io::Result<bool> {
        count(&self.shared.counters.requests);
        asked.keep_alive &= !self.client.is_draining();
        if let Some(answer) = hops::answer_to_last(&mut asked) {
            return self.answer_here(answer, &asked).await;
        }
        if let Some(why) = passes(&asked) {
            return self.pass(asked, why).await;
        }
        let shared = Arc::clone(&self.shared);
        let url = shared.origin.url(&asked.target);
        let key = store::key(&url);
        loop {
            let found = shared.store.find(&key, &url);
            if let Some(kept) = &found
                && kept.entry.use_for(&asked.fields, SystemTime::now()) == Use::Fresh
            {
                match shared.open(kept).await {
                    Ok(Some(served)) => return self.serve(&asked, served, Source::Hit).await,
                    Ok(None) => continue, // it is gone now
                    Err(refusal) => {
                        count(&shared.counters.failed);
                        return self.refuse(&refusal, &asked).await;
                    }
                }
            }
            if has_directive(&asked.fields, &["only-if-cached"]) {
                count(&shared.counters.failed);
                let words = "this is not in the cache, and the origin is not to be asked";
                return self.refuse(&Refusal::new(Status::GatewayTimeout, words), &asked).await;
            }
            if asked.method == Method::HEAD || asked.is_for_less() && shared.unkept.has(&key, Instant::now())
            {
                return self.pass(asked, "miss").await;
            }
            let fetched = self.unless_gone(shared.fetch(&asked, &key, found)).await;
            match fetched.inspect_err(|_| count(&shared.counters.failed))? {
                Fetched::Served(served, source) => return self.serve(&asked, served, source).await,
                Fetched::Reply(reply) => {
                    count(&shared.counters.passed);
                    return self.pass_reply(&asked, reply, "miss", None).await;
                }
                Fetched::NotForThis => return self.pass(asked, "miss").await,
                Fetched::Failed(refusal) => {
                    count(&shared.counters.failed);
                    return self.refuse(&refusal, &asked).await;
                }
                Fetched::Kept => {}
            }
        }
    }

    /// Sends an answer of ours. A body that came with the request is left where it is.
    async fn answer_here(&mut self, response: Response, asked: &Asked) -> io::Result<bool> {
        let counters = &self.shared.counters;
        count(if response.status == Status::BadRequest { &counters.failed } else { &counters.hits });
        let stays = asked.keep_alive && asked.body_bytes == 0;
        let answer = answer::own(response, false, asked.version, stays, now_s());
        self.client.write(&answer).await.map(|()| stays)
    }

    /// Sends what an entry has.
    async fn serve(&mut self, asked: &Asked, served: Served, source: Source) -> io::Result<bool> {
        let counters = &self.shared.counters;
        count(match source {
            Source::Hit | Source::Revalidated => &counters.hits,
            Source::Stale => &counters.stale,
            Source::Miss => &counters.misses,
            Source::Shared => &counters.shared,
            Source::Passed(_) => &counters.passed,
        });
        let answer = served.answer(asked, source, SystemTime::now(), boundary());
        drop(served);
        if answer.parts.is_empty() {
            return self.client.write(&answer.head).await.map(|()| asked.keep_alive);
        }
        let head_bytes = answer.head.len() as u64;
        let parts = std::iter::once(Part::Bytes(answer.head)).chain(answer.parts).collect();
        let sent = self.client.send(&self.shared.engine, parts).await?;
        add(&self.shared.counters.bytes_from_cache, sent - head_bytes);
        Ok(asked.keep_alive)
    }
}

/// Why a request is not answered from the cache whatever is in it, as `Cache-Status` says it (RFC 9211 section 2.2).
fn passes(asked: &Asked) -> Option<&'static str> {
    let has = |name| asked.fields.contains_key(name);
    match asked.method {
        Method::GET | Method::HEAD => {}
        _ => return Some("method"),
    }
    // These conditions are for the origin (RFC 9111 section 4.3.2); what only some may see is kept for nobody.
    let is_for_origin =
        has(header::IF_MATCH) || has(header::IF_UNMODIFIED_SINCE) || has(header::AUTHORIZATION);
    (asked.body_bytes > 0 || is_for_origin || has_directive(&asked.fields, &["no-store"])).then_some("bypass")
}

/// Random, so that no file can hold it on purpose; without randomness, the parts are still right for any other file.
fn boundary() -> u128 {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random boundary for the parts of a body");
    }
    u128::from_ne_bytes(bytes)
}
