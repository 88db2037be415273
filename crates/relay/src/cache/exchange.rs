//! One request: answered from the cache, by a fetch, or by the origin itself.

use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{Method, StatusCode, header};
use wirepath_http::Response;
use wirepath_net::http::now_s;
use wirepath_streams::ObjectPart;

use super::answer::{self, Served, Source};
use super::connection::Connection;
use super::entry::Use;
use super::fetch::Fetched;
use super::head::{ClientRequest, Refusal};
use super::hops;
use super::rules::has_directive;
use super::status::{add, count};
use super::store;

impl Connection {
    /// Answers one request; says whether the connection stays.
    pub(super) async fn exchange(&mut self, mut request: ClientRequest) -> io::Result<bool> {
        count(&self.shared.counters.requests);
        request.keep_alive &= !self.client.is_draining();
        if let Some(answer) = hops::answer_to_last(&mut request) {
            return self.answer_here(answer, &request).await;
        }
        if let Some(why) = passes(&request) {
            return self.pass(request, why).await;
        }
        let shared = Arc::clone(&self.shared);
        let url = shared.origin.url(&request.target);
        let key = store::key(&url);
        loop {
            let found = shared.store.find(&key, &url);
            if let Some(kept) = &found
                && kept.entry.use_for(&request.fields, SystemTime::now()) == Use::Fresh
            {
                match shared.open(kept).await {
                    Ok(Some(served)) => return self.serve(&request, served, Source::Hit).await,
                    Ok(None) => continue, // it is gone now
                    Err(refusal) => {
                        count(&shared.counters.failed);
                        return self.refuse(&refusal, &request).await;
                    }
                }
            }
            if has_directive(&request.fields, &["only-if-cached"]) {
                count(&shared.counters.failed);
                let words = "this is not in the cache, and the origin is not to be asked";
                return self.refuse(&Refusal::new(StatusCode::GATEWAY_TIMEOUT, words), &request).await;
            }
            if request.method == Method::HEAD
                || request.is_partial() && shared.unkept.has(&key, Instant::now())
            {
                return self.pass(request, "miss").await;
            }
            let fetched = self.unless_gone(shared.fetch(&request, &key, found)).await;
            match fetched.inspect_err(|_| count(&shared.counters.failed))? {
                Fetched::Served(served, source) => return self.serve(&request, served, source).await,
                Fetched::Reply(reply) => {
                    count(&shared.counters.passed);
                    return self.pass_reply(&request, reply, "miss", None).await;
                }
                Fetched::NotForThis => return self.pass(request, "miss").await,
                Fetched::Failed(refusal) => {
                    count(&shared.counters.failed);
                    return self.refuse(&refusal, &request).await;
                }
                Fetched::Kept => {}
            }
        }
    }

    /// Sends an answer of ours. A body that came with the request is left where it is.
    async fn answer_here(&mut self, response: Response, request: &ClientRequest) -> io::Result<bool> {
        let counters = &self.shared.counters;
        count(if response.status == StatusCode::BAD_REQUEST { &counters.failed } else { &counters.hits });
        let stays = request.keep_alive && request.body_bytes == 0;
        let answer = answer::own(response, false, request.version, stays, now_s());
        self.client.write(&answer).await.map(|()| stays)
    }

    /// Sends what an entry has.
    async fn serve(&mut self, request: &ClientRequest, served: Served, source: Source) -> io::Result<bool> {
        let counters = &self.shared.counters;
        count(match source {
            Source::Hit | Source::Revalidated => &counters.hits,
            Source::Stale => &counters.stale,
            Source::Miss => &counters.misses,
            Source::Shared => &counters.shared,
            Source::Passed(_) => &counters.passed,
        });
        let answer = served.answer(request, source, SystemTime::now(), boundary());
        drop(served);
        if answer.parts.is_empty() {
            return self.client.write(&answer.head).await.map(|()| request.keep_alive);
        }
        let head_bytes = answer.head.len() as u64;
        let parts = std::iter::once(ObjectPart::Bytes(answer.head.into())).chain(answer.parts).collect();
        let sent = self.client.send(&self.shared.engine, parts).await?;
        add(&self.shared.counters.bytes_from_cache, sent - head_bytes);
        Ok(request.keep_alive)
    }
}

/// Why a request is not answered from the cache whatever is in it, as `Cache-Status` says it (RFC 9211
/// section 2.2).
fn passes(request: &ClientRequest) -> Option<&'static str> {
    let has = |name| request.fields.contains_key(name);
    match request.method {
        Method::GET | Method::HEAD => {}
        _ => return Some("method"),
    }
    // These conditions are for the origin (RFC 9111 section 4.3.2); what only some may see is kept for
    // nobody.
    let is_for_origin =
        has(header::IF_MATCH) || has(header::IF_UNMODIFIED_SINCE) || has(header::AUTHORIZATION);
    (request.body_bytes > 0 || is_for_origin || has_directive(&request.fields, &["no-store"]))
        .then_some("bypass")
}

/// Random, so that no file can hold it on purpose; without randomness, the parts are still right for any
/// other file.
fn boundary() -> u128 {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random boundary for the parts of a body");
    }
    u128::from_ne_bytes(bytes)
}
