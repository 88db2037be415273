//! Responses to requests: from the cache, by a fetch, or directly from the origin.

use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use http::{Method, StatusCode, header};
use wirepath_http::Response;
use wirepath_net::http::{boundary, now_s};
use wirepath_streams::ObjectPart;

use super::answer::{Served, Source};
use super::connection::Connection;
use super::entry::Use;
use super::fetch::Fetched;
use super::head::{ClientRequest, Refusal};
use super::hops;
use super::rules::has_directive;
use super::store;

impl Connection {
    /// Responds to a request. Returns whether the connection stays open.
    pub(super) async fn exchange(&mut self, mut request: ClientRequest) -> io::Result<bool> {
        self.shared.counters.requests.increment();
        request.keep_alive &= !self.client.is_draining();
        if let Some(answer) = hops::local_response(&mut request) {
            return self.answer_here(answer, &request).await;
        }
        if let Some(why) = bypass(&request) {
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
                    Ok(None) => continue, // evicted meanwhile
                    Err(refusal) => return self.refuse(&refusal, &request).await,
                }
            }
            if has_directive(&request.fields, &["only-if-cached"]) {
                let words = "not in the cache, and the request forbids asking the origin (only-if-cached)";
                return self.refuse(&Refusal::new(StatusCode::GATEWAY_TIMEOUT, words), &request).await;
            }
            if request.method == Method::HEAD
                || request.is_partial() && shared.uncacheable.has(&key, Instant::now())
            {
                return self.pass(request, "miss").await;
            }
            let fetched = self.or_client_gone(shared.fetch(&request, &key, found)).await;
            match fetched.inspect_err(|_| shared.counters.failed.increment())? {
                Fetched::Served(served, source) => return self.serve(&request, served, source).await,
                Fetched::Reply(reply) => {
                    shared.counters.passed.increment();
                    return self.pass_reply(&request, reply, "miss", None).await;
                }
                Fetched::PassThrough => return self.pass(request, "miss").await,
                Fetched::Failed(refusal) => return self.refuse(&refusal, &request).await,
                Fetched::Cached => {}
            }
        }
    }

    /// Sends a response that the cache itself makes. The body of the request is not read.
    async fn answer_here(&mut self, response: Response, request: &ClientRequest) -> io::Result<bool> {
        let counters = &self.shared.counters;
        let is_failed = response.status == StatusCode::BAD_REQUEST;
        if is_failed { &counters.failed } else { &counters.hits }.increment();
        let stays = request.keep_alive && request.body_bytes == 0;
        self.client.write(&response.into_bytes(request.version, stays, now_s())).await.map(|()| stays)
    }

    async fn serve(&mut self, request: &ClientRequest, served: Served, source: Source) -> io::Result<bool> {
        let counters = &self.shared.counters;
        let outcome = match source {
            Source::Hit | Source::Revalidated => &counters.hits,
            Source::Stale => &counters.stale,
            Source::Miss => &counters.misses,
            Source::Shared => &counters.shared,
            Source::Passed(_) => &counters.passed,
        };
        outcome.increment();
        let answer = served.answer(request, source, SystemTime::now(), boundary);
        drop(served);
        if answer.parts.is_empty() {
            return self.client.write(&answer.head).await.map(|()| request.keep_alive);
        }
        let head_bytes = answer.head.len() as u64;
        let parts = std::iter::once(ObjectPart::Bytes(answer.head.into())).chain(answer.parts).collect();
        let sent = self.client.send(&self.shared.engine, parts).await?;
        self.shared.counters.from_cache_bytes.add(sent - head_bytes);
        Ok(request.keep_alive)
    }
}

/// Reason why a request bypasses the cache, in the words of `Cache-Status` (RFC 9211 section 2.2).
fn bypass(request: &ClientRequest) -> Option<&'static str> {
    let has = |name| request.fields.contains_key(name);
    match request.method {
        Method::GET | Method::HEAD => {}
        _ => return Some("method"),
    }
    // These conditions are for the origin (RFC 9111 section 4.3.2). Private responses are not stored.
    let is_for_origin =
        has(header::IF_MATCH) || has(header::IF_UNMODIFIED_SINCE) || has(header::AUTHORIZATION);
    (request.body_bytes > 0 || is_for_origin || has_directive(&request.fields, &["no-store"]))
        .then_some("bypass")
}
