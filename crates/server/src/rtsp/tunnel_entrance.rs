//! RTSP tunnelled through HTTP, for clients behind proxies and firewalls that pass nothing else.
//!
//! The two halves are connections with one cookie and one address (`wirepath_media::rtsp::TunnelDecoder` has
//! the sources), of the HTTP listener or, as players take the port of the URL, of the RTSP listener. A GET
//! waits for its POST, then becomes an RTSP connection: it carries responses and interleaved media like any
//! other, and requests come from the POST's body. A client may close its POST and send another.

use super::connection::serve_tunnelled;
use super::output::Output;
use super::receive::read;
use super::shared::Shared;
use super::tunnels::{Key, Post, TunnelInput};
use http::header::{self, HeaderName};
use http::{Method, StatusCode};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::oneshot;
use tokio::time::timeout;
use wirepath_http::{HeadReader, Request, Response};
use wirepath_media::rtsp::TUNNEL_MEDIA_TYPE;
use wirepath_net::Addresses;
use wirepath_net::http::{TakenOver, now_s};

/// Longest cookie in bytes: clients send 22 to 40.
const MOST_COOKIE_BYTES: usize = 128;

/// Time within which the first POST follows its GET.
const JOIN_LIMIT: Duration = Duration::from_secs(10);

/// Time for which a refused half is still read, so that the client sees the response before the reset.
const LINGER_LIMIT: Duration = Duration::from_secs(1);

/// Time limit for the head of a half at the RTSP listener.
const HEAD_LIMIT: Duration = Duration::from_secs(10);

/// Response to a POST whose client waits before it sends requests.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Entry for tunnels into an RTSP listener.
#[derive(Clone)]
pub(crate) struct TunnelEntrance(pub(super) Arc<Shared>);

impl TunnelEntrance {
    /// Returns whether a request is half of a tunnel.
    pub(crate) fn takes(&self, request: &Request) -> bool {
        request.session_cookie.is_some() && matches!(request.method, Method::GET | Method::POST)
    }

    /// Serves half of a tunnel at the RTSP listener, which has admitted its connection already.
    pub(super) async fn serve_unread(&self, mut client: TakenOver) {
        let peer = client.addresses.peer;
        let mut drain = client.drain.clone();
        let request = tokio::select! {
            request = timeout(HEAD_LIMIT, read_request(&mut client)) => request,
            _ = drain.wait_for(|&drain| drain) => return,
        };
        match request {
            Ok(Ok(Some(request))) => {
                let served = match self.takes(&request) {
                    true => self.serve_admitted(request, client, true).await,
                    false => {
                        let why = "RTSP is served here, and RTSP through HTTP for clients that send x-sessioncookie";
                        refuse(client, StatusCode::NOT_FOUND, why).await
                    }
                };
                if let Err(error) = served {
                    tracing::debug!(%peer, %error, "RTSP connection failed");
                }
            }
            request => tracing::debug!(%peer, ?request, "no request of an RTSP tunnel came"),
        }
    }

    /// Serves half of a tunnel at the HTTP listener to its end. Returns the status of its response.
    ///
    /// # Errors
    ///
    /// The client is gone, or does not accept the response.
    pub(crate) async fn serve(&self, request: Request, client: TakenOver) -> io::Result<StatusCode> {
        self.serve_admitted(request, client, false).await
    }

    async fn serve_admitted(
        &self,
        request: Request,
        client: TakenOver,
        is_admitted: bool,
    ) -> io::Result<StatusCode> {
        let Addresses { peer, is_secure, .. } = client.addresses;
        let cookie = request.session_cookie.clone().filter(|cookie| cookie.len() <= MOST_COOKIE_BYTES);
        let key = |cookie| Key { client: peer.ip().to_canonical(), is_secure, cookie };
        match cookie.map(key) {
            None => refuse(client, StatusCode::BAD_REQUEST, "x-sessioncookie is longer than 128 bytes").await,
            Some(key) if request.method == Method::GET => self.serve_get(key, client, is_admitted).await,
            Some(key) => self.serve_post(&key, &request, client).await,
        }
    }

    async fn serve_get(&self, key: Key, mut client: TakenOver, is_admitted: bool) -> io::Result<StatusCode> {
        // The HTTP listener counts its descriptor, but does not apply limits of RTSP.
        let permits = if is_admitted { None } else { self.0.admit(key.client, 0) };
        if permits.is_none() && !is_admitted {
            return refuse(client, StatusCode::SERVICE_UNAVAILABLE, "too many RTSP connections").await;
        }
        let Some((entered, mut posts)) = self.0.tunnels.enter(key) else {
            let why = "x-sessioncookie is that of a tunnel that is open: choose another";
            return refuse(client, StatusCode::BAD_REQUEST, why).await;
        };
        client.stream.write_all(&opening()).await?;
        let (mut get, half) = client.stream.into_split();
        let joined = tokio::select! {
            joined = timeout(JOIN_LIMIT, posts.recv()) => joined.ok().flatten(),
            _ = closed(&mut get) => None,
            _ = client.drain.wait_for(|&drain| drain) => None,
        };
        if let Some(post) = joined {
            self.0.counters.tunnels.increment();
            let input = TunnelInput::new(get, post, posts, entered);
            let shared = Arc::clone(&self.0);
            serve_tunnelled(input, Output::new(half), client.addresses, shared, client.drain).await;
            self.0.counters.tunnels.decrement();
        }
        drop(permits);
        Ok(StatusCode::OK)
    }

    /// Passes the connection to its tunnel, and waits until the tunnel no longer needs it.
    async fn serve_post(&self, key: &Key, request: &Request, client: TakenOver) -> io::Result<StatusCode> {
        let Some(tunnel) = self.0.tunnels.find(key) else {
            let why = "no tunnel of this x-sessioncookie is open: send the GET first, from the same address, \
                       and both over TLS or neither";
            return refuse(client, StatusCode::NOT_FOUND, why).await;
        };
        let (ended, when_ended) = oneshot::channel();
        let TakenOver { mut stream, read, .. } = client;
        if request.expects_continue {
            stream.write_all(CONTINUE).await?;
        }
        // A tunnel that has just ended drops the connection.
        if tunnel.send(Post::new(stream, request.is_chunked, read, ended)).await.is_ok() {
            drop(tunnel);
            _ = when_ended.await; // its sender is dropped, never used
        }
        Ok(StatusCode::OK)
    }
}

/// Reads the head of a connection's first request; none if the client closes the connection first.
async fn read_request(client: &mut TakenOver) -> io::Result<Option<Request>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (mut head, mut length) = (HeadReader::default(), client.read.len());
    while length > 0 {
        client.read.drain(..head.feed(&client.read));
        if let Some(request) = head.next_with_body().map_err(invalid)? {
            client.read = [head.take(u64::MAX), std::mem::take(&mut client.read)].concat();
            return Ok(Some(request));
        }
        length = read(&mut client.stream, |bytes| client.read.extend_from_slice(bytes)).await?;
    }
    Ok(None)
}

/// Waits until a client has closed its side. Received bytes are ignored.
async fn closed(get: &mut OwnedReadHalf) {
    while read(get, |_| ()).await.is_ok_and(|length| length > 0) {}
}

/// Head of the response to GET, whose body does not end. Proxies must not store it.
fn opening() -> Vec<u8> {
    Response::empty(StatusCode::OK)
        .header(header::CONTENT_TYPE, TUNNEL_MEDIA_TYPE)
        .fixed_header(header::CACHE_CONTROL, "no-store")
        .fixed_header(header::PRAGMA, "no-cache")
        .fixed_header(HeaderName::from_static("x-accel-buffering"), "no")
        .head(http::Version::HTTP_10, false, now_s())
}

async fn refuse(client: TakenOver, status: StatusCode, why: &str) -> io::Result<StatusCode> {
    let TakenOver { mut stream, addresses: Addresses { peer, .. }, .. } = client;
    tracing::debug!(%peer, %status, why, "RTSP tunnel refused");
    let response = Response::error(status, why);
    stream.write_all(&response.into_bytes(http::Version::HTTP_10, false, now_s())).await?;
    stream.shutdown().await?;
    let rest = async { while read(&mut stream, |_| ()).await.is_ok_and(|length| length > 0) {} };
    _ = timeout(LINGER_LIMIT, rest).await; // a client that goes on sending is cut
    Ok(status)
}
