//! One request: answered from the cache, by a fetch, or by the origin itself.

use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::BytesMut;
use http::{Method, header};
use tokio::net::TcpStream;
use wirepath_media::http::Status;
use wirepath_streams::{Framing, Object, Part, StreamBuilder};

use super::answer::{self, Served, Source};
use super::connection::Connection;
use super::entry::Use;
use super::fetch::Fetched;
use super::flow::Patience;
use super::head::{Asked, Refusal, joined};
use super::origin::Reply;
use super::status::{add, count};
use super::store;

impl Connection {
    /// Answers one request; says whether the connection stays.
    pub(super) async fn exchange(&mut self, mut asked: Asked) -> io::Result<bool> {
        count(&self.shared.counters.requests);
        asked.keep_alive &= !self.client.is_draining();
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
            if has_directive(&asked, "only-if-cached") {
                count(&shared.counters.failed);
                let words = "this is not in the cache, and the origin is not to be asked";
                return self.refuse(&Refusal::new(Status::GatewayTimeout, words), &asked).await;
            }
            if asked.method == Method::HEAD {
                return self.pass(asked, "miss").await;
            }
            match shared.fetch(&asked, &key, found).await {
                Fetched::Served(served, source) => return self.serve(&asked, served, source).await,
                Fetched::Reply(reply) => {
                    count(&shared.counters.passed);
                    return self.pass_reply(&asked, reply, "miss").await;
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

    /// Has the origin answer.
    async fn pass(&mut self, mut asked: Asked, why: &'static str) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let answered = self.ask(&mut asked).await.inspect_err(|_| count(&shared.counters.failed))?;
        match answered {
            Ok(reply) => {
                count(&shared.counters.passed);
                let changes = !asked.method.is_safe() && !reply.told.status.is_client_error();
                if changes && !reply.told.status.is_server_error() {
                    // RFC 9111 section 4.4.
                    shared.forget(&store::key(&shared.origin.url(&asked.target))).await;
                }
                self.pass_reply(&asked, reply, why).await
            }
            Err(refusal) => {
                count(&shared.counters.failed);
                self.refuse(&refusal, &asked).await
            }
        }
    }

    /// Sends a request and its body to the origin. What is left of a body that the origin did not want is the end of the connection.
    async fn ask(&mut self, asked: &mut Asked) -> io::Result<Result<Reply, Refusal>> {
        let shared = Arc::clone(&self.shared);
        let stays = asked.keep_alive;
        asked.keep_alive &= asked.body_bytes == 0;
        let mut connection = match shared.origin.connect().await {
            Ok(connection) => connection,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Err(refusal) = shared.origin.send_head(&mut connection, asked, &asked.fields).await {
            return Ok(Err(refusal));
        }
        if asked.body_bytes > 0 {
            if asked.expects_continue {
                self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            }
            let (back, is_whole) = self.send_body(connection, asked.body_bytes).await?;
            connection = back;
            asked.keep_alive = stays && is_whole;
        }
        Ok(shared.origin.reply(connection, &asked.method, shared.origin_limit).await)
    }

    /// Moves a request's body to the origin. An origin that does not take it all may answer all the same.
    async fn send_body(&mut self, connection: TcpStream, bytes: u64) -> io::Result<(TcpStream, bool)> {
        let first = self.client.take_read(bytes);
        let rest = bytes - first.len() as u64;
        let connection = connection.into_std()?;
        let origin = connection.try_clone()?;
        let patience = Patience { source: self.shared.client_limit, sink: self.shared.origin_limit };
        let moved = self.relay(patience, |client| {
            let source = client.up_to(rest).preceded_by(BytesMut::from(&first[..]));
            let sink = Object::stream("the origin", origin.into())?;
            Ok(StreamBuilder::default().input(source, Framing::Whole).output(sink).build())
        });
        match moved.await? {
            (sent, Ok(())) if sent < bytes => {
                Err(self.client.cut(format!("the body ended after {sent} of {bytes} bytes")))
            }
            (_, result) => Ok((TcpStream::from_std(connection)?, result.is_ok())),
        }
    }

    /// Moves the origin's answer to the client.
    async fn pass_reply(&mut self, asked: &Asked, reply: Reply, why: &'static str) -> io::Result<bool> {
        let Reply { told, connection, first } = reply;
        let head = answer::passed(&told, asked, why);
        if told.body_bytes == Some(0) {
            return self.client.write(&head).await.map(|()| asked.keep_alive);
        }
        // The end of the connection is that of such a body: until all is sent, any other end, even of this process, is a reset.
        let ends_with_connection = told.body_bytes.is_none();
        if ends_with_connection {
            self.client.reset_when_closed(true)?;
        }
        let head_bytes = head.len() as u64;
        let rest = told.body_bytes.map_or(u64::MAX, |bytes| bytes - first.len() as u64);
        let patience = Patience { source: self.shared.origin_limit, sink: self.shared.client_limit };
        let moved = self.relay(patience, |client| {
            let before = BytesMut::from(&[&head[..], &first[..]].concat()[..]);
            let source =
                Object::stream("the origin", connection.into_std()?.into())?.up_to(rest).preceded_by(before);
            Ok(StreamBuilder::default().input(source, Framing::Whole).output(client).build())
        });
        let (sent, result) = moved.await?;
        add(&self.shared.counters.bytes_from_origin, sent.saturating_sub(head_bytes));
        let is_whole = told.body_bytes.is_none_or(|bytes| sent.checked_sub(head_bytes) == Some(bytes));
        match result {
            Ok(()) if ends_with_connection => self.client.reset_when_closed(false).map(|()| false),
            Ok(()) if is_whole => Ok(asked.keep_alive),
            Ok(()) => Err(self.client.cut("the origin's answer ended early".to_owned())),
            Err(words) => Err(self.client.cut(words)),
        }
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
    (asked.body_bytes > 0 || is_for_origin || has_directive(asked, "no-store")).then_some("bypass")
}

fn has_directive(asked: &Asked, directive: &str) -> bool {
    let control = joined(&asked.fields, &header::CACHE_CONTROL).unwrap_or_default();
    control.split(',').any(|one| one.trim().eq_ignore_ascii_case(directive))
}

/// Random, so that no file can hold it on purpose; without randomness, the parts are still right for any other file.
fn boundary() -> u128 {
    let mut bytes = [0; 16];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::warn!(%error, "no random boundary for the parts of a body");
    }
    u128::from_ne_bytes(bytes)
}
