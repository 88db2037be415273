//! Origin of the cache: its address, and requests to it.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};
use wirepath_http::fields::joined;
use wirepath_http::{HeadReader, write_head};

use super::head::{self, ClientRequest, OriginResponse, Refusal, invalid};
use super::resolver::ResolverCache;
use crate::connect::connect_to_any;
use crate::loop_detection;

/// Maximum length of a response's head, together with the interim responses before it.
const HEAD_LIMIT: usize = 64 * 1024;

/// Bytes read at a time. The value is small, since the beginning of the body is read with the head and
/// copied.
const READ_BYTES: usize = 4096;

/// Time limit of connecting, and of sending the head of a request.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Maximum number of Wirepath caches that a request passes. More indicate a loop.
const MAX_CACHES: usize = 8;

/// Origin server, reached over plain HTTP.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Value of `Host`.
    authority: HeaderValue,
    host: String,
    port: u16,
    /// Prefix of every path, without a slash at the end.
    prefix: String,
    resolver: ResolverCache,
    /// Listeners of this cache.
    listeners: Arc<OnceLock<Vec<SocketAddr>>>,
    /// True if the last attempt to connect failed. Used to log each change once.
    is_unreachable: Arc<AtomicBool>,
}

/// Invalid URL of an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {why}")]
pub struct OriginError {
    url: String,
    why: &'static str,
}

/// Response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) response: OriginResponse,
    pub(super) connection: TcpStream,
    /// Beginning of the body, which was read together with the head.
    pub(super) first: BytesMut,
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(url: &str) -> Result<Origin, OriginError> {
        let wrong = |why| OriginError { url: url.to_owned(), why };
        let uri: Uri = url.parse().map_err(|_| wrong("invalid URL: expected http://HOST[:PORT][/PATH]"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                let why = "TLS is not supported: name an http:// address, such as that of a TLS proxy (stunnel, HAProxy) \
                           in front of the origin";
                return Err(wrong(why));
            }
            _ => return Err(wrong("unknown scheme: expected http://HOST[:PORT][/PATH]")),
        }
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or_else(|| wrong("missing host: expected http://HOST[:PORT][/PATH]"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("user names and passwords are not supported"));
        }
        if uri.query().is_some() {
            return Err(wrong("a query is not supported"));
        }
        Ok(Origin {
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("invalid host"))?,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            prefix: uri.path().trim_end_matches('/').to_owned(),
            resolver: ResolverCache::default(),
            listeners: Arc::default(),
            is_unreachable: Arc::default(),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}{}", self.authority.to_str().unwrap_or_default(), self.prefix)
    }
}

impl Origin {
    pub(super) fn url(&self, target: &str) -> String {
        format!("{self}{target}")
    }

    /// The origin's address, if it is known without the resolver.
    pub(super) fn known(&self) -> Option<SocketAddr> {
        let host = if self.host == "localhost" { Ok(Ipv4Addr::LOCALHOST.into()) } else { self.host.parse() };
        host.ok().map(|host| SocketAddr::new(host, self.port))
    }

    /// Sets the listeners of this cache, to which it does not connect. Must be called once.
    pub(super) fn set_listeners(&self, listeners: Vec<SocketAddr>) {
        self.listeners.get_or_init(|| listeners);
    }

    /// Returns whether this cache listens on the address.
    pub(super) fn is_this_cache(&self, address: SocketAddr) -> bool {
        self.listeners.get().is_some_and(|listeners| loop_detection::is_reached(address, listeners))
    }

    /// Opens a connection for one request: with HTTP/1.0, the connection ends with the response. Logs when
    /// connecting begins to fail, and when connecting succeeds again.
    pub(super) async fn connect(&self) -> Result<TcpStream, Refusal> {
        let connected = self.try_connect().await;
        match &connected {
            Err(refusal) if !self.is_unreachable.swap(true, Relaxed) => tracing::warn!("{refusal}"),
            Ok(_) if self.is_unreachable.swap(false, Relaxed) => {
                tracing::info!(origin = %self, "origin reachable again")
            }
            _ => {}
        }
        connected
    }

    async fn try_connect(&self) -> Result<TcpStream, Refusal> {
        let in_time = |error: io::Error| match error.kind() {
            io::ErrorKind::TimedOut => self.failed("timed out", true),
            _ => self.failed(&error.to_string(), false),
        };
        let resolve = || {
            let (host, port) = (self.host.clone(), self.port);
            async move { lookup_host((host.as_str(), port)).await.map(Iterator::collect) }
        };
        let mut addresses = self.resolver.addresses(CONNECT_LIMIT, resolve).await.map_err(in_time)?;
        let has_any = !addresses.is_empty();
        addresses.retain(|address| !self.is_this_cache(*address));
        if has_any && addresses.is_empty() {
            self.resolver.forget();
            let words = format!("the origin {self} is this cache itself; name the server behind it");
            return Err(Refusal::new(StatusCode::LOOP_DETECTED, words));
        }
        let connected = connect_to_any(&addresses, CONNECT_LIMIT, TcpStream::connect).await;
        // The host name may have other addresses by now.
        let connection = connected.inspect_err(|_| self.resolver.forget()).map_err(in_time)?;
        connection.set_nodelay(true).map_err(|error| self.failed(&error.to_string(), false))?;
        Ok(connection)
    }

    /// Sends the head of a request with these header fields, as HTTP/1.0. HTTP/1.0 has no chunks: a body has
    /// a length or ends with the connection, and need not be parsed.
    pub(super) async fn send_head(
        &self,
        connection: &mut TcpStream,
        request: &ClientRequest,
        fields: &HeaderMap,
    ) -> Result<(), Refusal> {
        if !self.prefix.is_empty() && has_parent_segment(&request.target) {
            let words = "a path with .. leaves the origin's path";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, words));
        }
        if caches_before(fields) >= MAX_CACHES {
            let words = format!("the request passed {MAX_CACHES} caches: the caches form a loop");
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
        let sent = sent.map_err(|_| self.failed("timed out", true))?;
        sent.map_err(|error| self.failed(&error.to_string(), false))
    }

    /// Reads the head of the response to a request with this method. The head must arrive within `limit`
    /// after the request is `sent`.
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
            () = late => return Err(self.failed("timed out", true)),
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
        let mut reader = HeadReader::with_limit(HEAD_LIMIT);
        let mut bytes = vec![0; READ_BYTES];
        let mut room = HEAD_LIMIT;
        loop {
            while let Some(head) = reader.next_response().map_err(|error| invalid(&error))? {
                let response = OriginResponse::new(head, method)?;
                if !response.status.is_informational() {
                    return Ok((response, BytesMut::from(&reader.take(u64::MAX)[..])));
                }
            }
            if room == 0 {
                return Err(invalid(&"head too long"));
            }
            match connection.read(&mut bytes[..READ_BYTES.min(room)]).await {
                Ok(0) => return Err(self.failed("connection closed before a response", false)),
                Ok(length) => room -= reader.feed(&bytes[..length]),
                Err(error) => return Err(self.failed(&error.to_string(), false)),
            }
        }
    }

    /// Refusal for a failure of the origin.
    pub(super) fn failed(&self, why: &str, is_timeout: bool) -> Refusal {
        let status = if is_timeout { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
        Refusal::new(status, format!("origin {self}: {why}"))
    }
}

/// Number of Wirepath caches that a request has passed, by its `Via`.
fn caches_before(fields: &HeaderMap) -> usize {
    let via = joined(fields, &header::VIA).unwrap_or_default();
    via.split(',').filter(|one| one.split_whitespace().nth(1) == Some("wirepath")).count()
}

/// Returns whether a path has a segment `..`, plain or percent-encoded, with or without parameters: some
/// servers decode or remove these first.
fn has_parent_segment(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default().to_ascii_lowercase();
    let path = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    let path = path.replace("%3b", ";");
    path.split('/').any(|segment| segment == ".." || segment.starts_with("..;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Requests stay below the path of the origin.
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
            assert!(has_parent_segment(path), "{path}");
        }
        for path in ["/", "/a/..b/c", "/...", "/a?b=/../c", "/./a", "*", "/%2e"] {
            assert!(!has_parent_segment(path), "{path}");
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
