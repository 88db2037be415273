//! The server behind the cache: its address, and one request to it.

mod looked;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};
use wirepath_http::fields::joined;
use wirepath_http::write_head;

use super::head::{self, ClientRequest, OriginResponse, Refusal};
use super::names::Names;
use crate::connect::connect_to_any;
use crate::loop_detection;
use looked::Looked;

/// Longest head of an answer, with those that are provisional before it.
const HEAD_LIMIT: usize = 64 * 1024;

/// Bytes read at a time: the head comes with the beginning of the body, which is copied, so not more than
/// needed.
const READ_BYTES: usize = 4096;

/// How long a connection may take to come about.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Most caches of ours that a request comes through: more are a few in a circle.
const MOST_CACHES: usize = 8;

/// A server that is spoken to in plain HTTP.
#[derive(Clone, Debug)]
pub struct Origin {
    /// As `Host` says it.
    authority: HeaderValue,
    host: String,
    port: u16,
    /// What goes before each path; no slash at its end.
    prefix: String,
    /// Its addresses, when they have been asked for, until none of them can be connected to.
    names: Names,
    /// Where this cache listens.
    doors: Arc<OnceLock<Vec<SocketAddr>>>,
    /// True if it could not be reached the last time, for the log.
    is_away: Arc<AtomicBool>,
}

/// What is wrong with the URL of an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {why}")]
pub struct OriginError {
    url: String,
    why: &'static str,
}

/// An answer whose body is still to come.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) response: OriginResponse,
    pub(super) connection: TcpStream,
    /// What came of the body with the head, and no more than belongs to it.
    pub(super) first: BytesMut,
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(url: &str) -> Result<Origin, OriginError> {
        let wrong = |why| OriginError { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|_| wrong("this is no URL; write http://HOST[:PORT][/PATH]"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                let why = "TLS is not spoken here; name an http:// address, such as that of a TLS proxy (stunnel, HAProxy) \
                           in front of the origin";
                return Err(wrong(why));
            }
            _ => return Err(wrong("an origin is http://HOST[:PORT][/PATH]")),
        }
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("user names and passwords do not belong in it"));
        }
        if uri.query().is_some() {
            return Err(wrong("a query does not belong in it"));
        }
        Ok(Origin {
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("its host is no host"))?,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            names: Names::default(),
            doors: Arc::default(),
            is_away: Arc::default(),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.authority.to_str().unwrap_or_default(), self.prefix)
    }
}

impl Origin {
    /// The URL of what a client asks for.
    pub(super) fn url(&self, target: &str) -> String {
        format!("{self}{target}")
    }

    /// Its address, where its URL says one: no name is looked up.
    pub(super) fn known(&self) -> Option<SocketAddr> {
        let host = if self.host == "localhost" { Ok(Ipv4Addr::LOCALHOST.into()) } else { self.host.parse() };
        host.ok().map(|host| SocketAddr::new(host, self.port))
    }

    /// Has nobody asked who listens there; to be called once.
    pub(super) fn leave_out(&self, doors: Vec<SocketAddr>) {
        self.doors.get_or_init(|| doors);
    }

    /// Returns whether this cache itself listens there.
    pub(super) fn leads_back(&self, address: SocketAddr) -> bool {
        self.doors.get().is_some_and(|doors| loop_detection::is_reached(address, doors))
    }

    /// A connection of its own for each request: HTTP/1.0 ends it with the answer. The log says when there
    /// begin to be none, and when there are some again.
    pub(super) async fn connect(&self) -> Result<TcpStream, Refusal> {
        let connected = self.try_connect().await;
        match &connected {
            Err(refusal) if !self.is_away.swap(true, Relaxed) => tracing::warn!("{refusal}"),
            Ok(_) if self.is_away.swap(false, Relaxed) => {
                tracing::info!(origin = %self, "the origin is back")
            }
            _ => {}
        }
        connected
    }

    async fn try_connect(&self) -> Result<TcpStream, Refusal> {
        let in_time = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => self.failed("it did not answer in time", true),
            _ => self.failed(&error.to_string(), false),
        };
        let look_up = || {
            let place = (self.host.clone(), self.port);
            async move { lookup_host((place.0.as_str(), place.1)).await.map(Iterator::collect) }
        };
        let mut addresses = self.names.addresses(CONNECT_LIMIT, look_up).await.map_err(in_time)?;
        let has_any = !addresses.is_empty();
        addresses.retain(|address| !self.leads_back(*address));
        if has_any && addresses.is_empty() {
            self.names.forget(); // it may stand for others by now
            let words = format!("the origin {self} is this cache itself; name the server behind it");
            return Err(Refusal::new(StatusCode::LOOP_DETECTED, words));
        }
        let connected = connect_to_any(&addresses, CONNECT_LIMIT, TcpStream::connect).await;
        // The name may stand for others by now.
        let connection = connected.inspect_err(|_| self.names.forget()).map_err(in_time)?;
        connection.set_nodelay(true).map_err(|error| self.failed(&error.to_string(), false))?;
        Ok(connection)
    }

    /// Sends the head of a request with these fields. It is HTTP/1.0, which knows no chunks: a body has a
    /// length, or ends with the connection, and needs nobody to look at it.
    pub(super) async fn send_head(
        &self,
        connection: &mut TcpStream,
        request: &ClientRequest,
        fields: &HeaderMap,
    ) -> Result<(), Refusal> {
        if !self.prefix.is_empty() && climbs(&request.target) {
            let words = "a path with .. would lead out of the origin's";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, words));
        }
        if caches_before(fields) >= MOST_CACHES {
            let words =
                format!("the request came through {MOST_CACHES} caches; they ask each other in a circle");
            return Err(Refusal::new(StatusCode::LOOP_DETECTED, words));
        }
        let mut fields = fields.clone();
        fields.insert(header::HOST, self.authority.clone());
        fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
        if request.body_bytes > 0 || matches!(request.method, Method::POST | Method::PUT | Method::PATCH) {
            fields.insert(header::CONTENT_LENGTH, request.body_bytes.into());
        }
        head::add_via(&mut fields);
        let prefix = if request.target == "*" { "" } else { &self.prefix };
        let line = format!("{} {prefix}{} HTTP/1.0", request.method, request.target);
        let sent = timeout(CONNECT_LIMIT, connection.write_all(&write_head(&line, &fields))).await;
        let sent = sent.map_err(|_| self.failed("it does not take requests", true))?;
        sent.map_err(|error| self.failed(&error.to_string(), false))
    }

    /// The answer to a request of this method, which must begin within `limit` of its end: when it is `sent`.
    pub(super) async fn reply(
        &self,
        mut connection: TcpStream,
        method: &Method,
        limit: Duration,
        sent: impl Future<Output = ()>,
    ) -> Result<Reply, Refusal> {
        let late = async {
            sent.await;
            sleep(limit).await;
        };
        let (response, mut first) = tokio::select! {
            biased;
            read = self.read_head(&mut connection, method) => read?,
            () = late => return Err(self.failed("it did not answer in time", true)),
        };
        if let Some(body_bytes) = response.body_bytes {
            first.truncate(usize::try_from(body_bytes).unwrap_or(usize::MAX));
        }
        Ok(Reply { response, connection, first })
    }

    async fn read_head(
        &self,
        connection: &mut TcpStream,
        method: &Method,
    ) -> Result<(OriginResponse, BytesMut), Refusal> {
        let mut bytes = BytesMut::new();
        let mut looked = Looked::default();
        let mut room = HEAD_LIMIT;
        loop {
            skip_empty_lines(&mut bytes);
            while looked.is_worth_reading(&bytes)
                && let Some((response, length)) = OriginResponse::read(&bytes, method)?
            {
                drop(bytes.split_to(length));
                if !response.status.is_informational() {
                    return Ok((response, bytes));
                }
                skip_empty_lines(&mut bytes);
                looked = Looked::default();
            }
            if room == 0 {
                return Err(self.failed("the head of its answer is too long", false));
            }
            match connection.read_buf(&mut (&mut bytes).limit(READ_BYTES.min(room))).await {
                Ok(0) => return Err(self.failed("it closed the connection before it answered", false)),
                Ok(length) => room -= length,
                Err(error) => return Err(self.failed(&error.to_string(), false)),
            }
        }
    }

    /// Why it cannot be asked; whether that is because it takes too long.
    pub(super) fn failed(&self, why: &str, in_time: bool) -> Refusal {
        let status = if in_time { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
        Refusal::new(status, format!("the origin {self} cannot be asked: {why}"))
    }
}

/// How many caches of ours a request came through, as `Via` says it.
fn caches_before(fields: &HeaderMap) -> usize {
    let via = joined(fields, &header::VIA).unwrap_or_default();
    via.split(',').filter(|one| one.split_whitespace().nth(1) == Some("wirepath")).count()
}

/// Before a head they mean nothing, and there may be as many as an origin likes.
fn skip_empty_lines(bytes: &mut BytesMut) {
    let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    drop(bytes.split_to(empty));
}

/// Returns whether a path has a segment `..`, plain or percent-encoded, which some servers decode before they
/// look for it, with parameters or without, which some take off first.
fn climbs(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    let path = path.replace("%3b", ";");
    path.split('/').any(|segment| segment == ".." || segment.starts_with("..;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Requests do not leave the path of the origin.
    #[test]
    fn paths_that_lead_out_of_the_origins_are_found() {
        for path in [
            "/public/../x",
            "/..",
            "/a/%2e%2E/x",
            "/a/.%2e?b",
            "/..%2fx",
            "/a%5C..%5cx",
            "/a\\..\\x",
            "/..;a/x",
            "/..%3B",
        ] {
            assert!(climbs(path), "{path}");
        }
        for path in ["/", "/a/..b/c", "/...", "/a?b=/../c", "/./a", "*", "/%2e"] {
            assert!(!climbs(path), "{path}");
        }
    }

    #[test]
    fn an_origin_is_a_plain_url() {
        let origin: Origin = "http://host:81/base/".parse().unwrap();
        assert_eq!(
            (origin.host.as_str(), origin.port, origin.url("/a?b").as_str()),
            ("host", 81, "http://host:81/base/a?b")
        );
        let origin: Origin = "http://[::1]".parse().unwrap();
        assert_eq!(
            (origin.host.as_str(), origin.port, origin.to_string().as_str()),
            ("::1", 80, "http://[::1]")
        );
        for (url, words) in [
            ("https://host", "TLS proxy"),
            ("ftp://host", "http://HOST"),
            ("host:80", "http://HOST"),
            ("http://", "http://HOST"),
            ("http://a@host", "passwords"),
            ("http://host/?a", "query"),
            ("", "http://HOST"),
        ] {
            let error = url.parse::<Origin>().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
