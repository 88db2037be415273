//! Requests of one connection, answered one after the other.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode, Version, header};
use tokio::net::TcpStream;
use tokio::sync::watch;
use wirepath_counters::Gauge;
use wirepath_engine::Engine;
use wirepath_http::{ALLOWED, AssetPath, BodyPart, HeadReader, Request, Response, Target, respond_to_method};
use wirepath_streams::{self as streams, LendingSwitch};

use super::access_log::{Access, AccessLog};
use super::answer::{Answer, Reply, read_behind};
use super::connection::{Connection, End, now_s};
use super::counters::Counters;
use super::events::{self, Subscription};
use super::options::HttpOptions;
use super::prepared::Prepared;
use crate::descriptors::{DescriptorBudget, DescriptorPermit};
use crate::listener::{Addresses, drained};

/// Source of responses to GET and HEAD.
pub trait Site: Send + Sync + 'static {
    /// Result of admitting a request, from which the request is answered; `()` if answers do not depend on
    /// it.
    type Admission: Default + Send;

    /// Answers an admitted request for a path that arrived at this local address. The body of a response to
    /// HEAD is not sent.
    fn answer(
        &self,
        path: AssetPath,
        request: Request,
        client: (SocketAddr, Self::Admission),
    ) -> impl Future<Output = Answer> + Send;

    /// Prepared response to GET, which takes no descriptor; `None` if [`answer`](Site::answer) has to make
    /// the response. Never blocks.
    fn prepared(
        &self,
        _path: &AssetPath,
        _request: &Request,
        _admission: &Self::Admission,
    ) -> Option<Prepared> {
        None
    }

    /// Additional fields of any response to a request.
    fn fields(&self, _request: &Request) -> HeaderMap {
        HeaderMap::new()
    }

    /// Admits a request by GET, HEAD or an [accepted](Site::accepts) method before any lookup or action, or
    /// returns the response that denies it. The argument with the addresses also has the user that an earlier
    /// request of the connection was admitted as, which the method updates.
    fn admit(
        &self,
        _path: &AssetPath,
        _request: &Request,
        (_client, _user): (Addresses, &mut Option<String>),
    ) -> impl Future<Output = Result<Self::Admission, Response>> + Send {
        async { Ok(Self::Admission::default()) }
    }

    /// Maximum body size of a request by another method; `None` if the method is not supported.
    fn accepts(&self, _method: &Method, _path: &AssetPath) -> Option<usize> {
        None
    }

    /// Performs an [accepted](Site::accepts) request of this peer, and of this user if there is one, and
    /// answers it.
    fn act(
        &self,
        _path: AssetPath,
        _request: Request,
        _body: Vec<u8>,
        (_peer, _user): (SocketAddr, Option<&str>),
    ) -> impl Future<Output = Answer> + Send {
        async { Response::error(StatusCode::METHOD_NOT_ALLOWED, "read-only server").into() }
    }

    /// Returns whether a request asks for another protocol, whose connection is [served](Site::take_over)
    /// without an HTTP response.
    fn takes_over(&self, _request: &Request) -> bool {
        false
    }

    /// Serves such a connection to its end. Returns the status that answered the request.
    ///
    /// # Errors
    /// The client disconnected, or does not read the response.
    fn take_over(
        &self,
        _request: Request,
        _client: TakenOver,
    ) -> impl Future<Output = io::Result<StatusCode>> + Send {
        async { Ok(StatusCode::NOT_IMPLEMENTED) }
    }

    /// Maximum number of descriptors that a response for this path needs for lookup and sending.
    fn descriptors(&self, _path: &AssetPath) -> usize {
        0
    }
}

/// Connection that leaves HTTP.
#[derive(Debug)]
pub struct TakenOver {
    /// The connection.
    pub stream: TcpStream,
    /// Bytes that were read after the head of the request.
    pub read: Vec<u8>,
    /// Addresses of the connection.
    pub addresses: Addresses,
    /// Drain signal: becomes true, or its sender is dropped.
    pub drain: watch::Receiver<bool>,
}

/// Body of a request.
enum Body {
    /// Skipped: the method takes no body.
    Skipped,
    Read(Vec<u8>),
    /// Body longer than this limit.
    TooLong(usize),
}

/// State shared by all connections.
pub(super) struct Shared<S> {
    pub(super) options: HttpOptions,
    pub(super) counters: Arc<Counters>,
    pub(super) site: S,
    pub(super) engine: Arc<Engine>,
    pub(super) descriptors: Arc<DescriptorBudget>,
    /// True once the listener is closed, so that connections have to end soon.
    pub(super) closing: watch::Receiver<bool>,
    /// Rule of sending files.
    pub(super) lending: Option<LendingSwitch>,
}

/// Client of a listener.
pub(super) struct Exchanges<S> {
    client: Connection,
    addresses: Addresses,
    drain: watch::Receiver<bool>,
    /// User that a request was admitted as.
    user: Option<String>,
    shared: Arc<Shared<S>>,
}

impl<S: Site> Exchanges<S> {
    pub(super) fn new(
        stream: TcpStream,
        addresses: Addresses,
        shared: Arc<Shared<S>>,
        drain: watch::Receiver<bool>,
    ) -> Self {
        shared.counters.connections_accepted.increment();
        let client = Connection::new(stream, shared.options.timeouts, drain.clone());
        let client = client.lending(shared.lending.clone());
        Self { client, addresses, drain, user: None, shared }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.serve().await {
            tracing::debug!(peer = %self.addresses.peer, %error, "HTTP connection failed");
        }
    }

    /// Answers requests until the end of the connection.
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            match self.client.next(HeadReader::next_with_body).await {
                // Boxed, so that an HTTP connection does not become larger.
                Ok(request) if self.shared.site.takes_over(&request) => {
                    return Box::pin(self.hand_over(request)).await;
                }
                Ok(request) => {
                    if !self.exchange(request).await? {
                        break;
                    }
                }
                Err(end) => {
                    self.count(&end);
                    let Some((status, words)) = end.answer() else { return Ok(()) };
                    self.send(Response::error(status, &words).into(), Version::HTTP_11, false).await?;
                    break;
                }
            }
        }
        self.client.linger().await
    }

    /// Lets the site serve the connection, which is no longer HTTP.
    async fn hand_over(&mut self, request: Request) -> io::Result<()> {
        self.shared.counters.requests.increment();
        let (stream, read) = self.client.take_over()?;
        let (addresses, drain) = (self.addresses, self.drain.clone());
        let access = self.access(&request);
        let served = self.shared.site.take_over(request, TakenOver { stream, read, addresses, drain }).await;
        if let Some((form, access)) = access {
            let status = served.as_ref().map_or(StatusCode::OK, |status| *status);
            access.end(form, status, 0, served.is_ok()); // its bytes are not HTTP
        }
        served.map(drop)
    }

    /// Begins the line of a request in the access log, if enabled.
    fn access(&self, request: &Request) -> Option<(AccessLog, Access)> {
        let options = &self.shared.options;
        let begin = || Access::begin(self.addresses.peer, request, options.logs_queries);
        options.access_log.map(|form| (form, begin()))
    }

    fn count(&self, end: &End) {
        match end {
            End::Closed => {}
            End::Idle | End::Late => self.shared.counters.connections_timed_out.increment(),
            End::Malformed(_) => self.shared.counters.requests_malformed.increment(),
        }
    }

    /// Answers one request; returns whether the connection stays open.
    async fn exchange(&mut self, request: Request) -> io::Result<bool> {
        self.shared.counters.requests.increment();
        let (version, keep_alive) = (request.version, request.keep_alive);
        let access = self.access(&request);
        let body = self.body(&request).await?;
        let fields = self.shared.site.fields(&request);
        let (mut reply, descriptors) = self.answer(request, body).await;
        reply.fields().extend(fields);
        // An event stream ends only with its connection.
        let leaves = self.client.is_draining() || *self.shared.closing.borrow();
        let keep_alive = keep_alive && !reply.is_of_events() && !leaves;
        let (status, bytes) = (reply.status(), reply.body_length());
        let sent = match reply {
            Reply::Prepared(prepared) => self.send_prepared(prepared, version, keep_alive).await,
            Reply::Made(answer) => self.send(*answer, version, keep_alive).await,
        };
        drop(descriptors);
        if let Some((form, access)) = access {
            let bytes = sent.as_ref().map_or(bytes, |bytes| *bytes);
            access.end(form, status, bytes, sent.is_ok());
        }
        sent.map(|_| keep_alive)
    }

    /// Reads the body of a request that the site accepts; skips other bodies.
    async fn body(&mut self, request: &Request) -> io::Result<Body> {
        let limit = match &request.target {
            Target::Path(path) => self.shared.site.accepts(&request.method, path),
            _ => None,
        };
        match limit {
            Some(limit) if !request.has_unread_body && request.body_length <= limit as u64 => {
                Ok(Body::Read(self.client.read_body(request.body_length as usize).await?))
            }
            limit => {
                self.client.skip_body(request.body_length);
                Ok(limit.map_or(Body::Skipped, Body::TooLong))
            }
        }
    }

    /// Response, and a permit for the descriptors that it needs until it is sent.
    async fn answer(&mut self, request: Request, body: Body) -> (Reply, Option<DescriptorPermit>) {
        match (body, &request.target) {
            (Body::Read(body), Target::Path(path)) => {
                let (path, site) = (path.clone(), &self.shared.site);
                if let Err(denied) = site.admit(&path, &request, (self.addresses, &mut self.user)).await {
                    return (denied.into(), None);
                }
                let client = (self.addresses.peer, self.user.as_deref());
                return (site.act(path, request, body, client).await.into(), None);
            }
            (Body::TooLong(limit), _) => {
                let words =
                    format!("the body is too long, of unknown length or announced: at most {limit} bytes");
                return (Response::error(StatusCode::PAYLOAD_TOO_LARGE, &words).into(), None);
            }
            _ => {}
        }
        if let Some(response) = respond_to_method(&request.method) {
            return (self.with_accepted(response, &request.target).into(), None);
        }
        let Target::Path(path) = &request.target else {
            return (Response::error(StatusCode::BAD_REQUEST, "this method needs a path").into(), None);
        };
        let is_head = request.method == Method::HEAD;
        let Shared { site, descriptors, .. } = &*self.shared;
        let admission = match site.admit(path, &request, (self.addresses, &mut self.user)).await {
            Ok(admission) => admission,
            Err(denied) => return (if is_head { denied.without_body() } else { denied }.into(), None),
        };
        if let Some(prepared) = site.prepared(path, &request, &admission) {
            return (Reply::Prepared(prepared), None);
        }
        let path = path.clone();
        let Ok(permit) = descriptors.admit(self.addresses.peer.ip(), site.descriptors(&path)) else {
            return (too_many_files().into(), None);
        };
        // Boxed, so that the task of a connection with prepared responses is small.
        let answer = Box::pin(site.answer(path, request, (self.addresses.local, admission))).await;
        let answer = match is_head {
            true => Answer { response: answer.response.without_body(), parts: None, events: None, ..answer },
            false => answer,
        };
        (answer.into(), Some(permit))
    }

    /// Adds the [accepted](Site::accepts) methods of the path to `Allow`.
    fn with_accepted(&self, mut response: Response, target: &Target) -> Response {
        let Target::Path(path) = target else { return response };
        let methods = [Method::POST, Method::PUT, Method::DELETE];
        let is_accepted = |method: &&Method| self.shared.site.accepts(method, path).is_some();
        let all: String = methods.iter().filter(is_accepted).map(|method| format!(", {method}")).collect();
        response.headers.remove(header::ALLOW);
        response.header(header::ALLOW, &format!("{ALLOWED}{all}"))
    }

    /// Sends a prepared response; returns the number of body bytes.
    async fn send_prepared(
        &mut self,
        prepared: Prepared,
        client: Version,
        keep_alive: bool,
    ) -> io::Result<u64> {
        let Prepared { head, fields, body } = prepared;
        self.note_response(head.status(), body.length() as u64);
        let head = head.head(&fields, client, keep_alive, now_s());
        let sending = Counted::begin(&self.shared.counters.responses_sending);
        let sent = self.client.send_mapped(&head, &body).await;
        drop(sending);
        self.count_body(sent, body.length() as u64)
    }

    /// Sends a response; returns the number of body bytes.
    async fn send(&mut self, answer: Answer, client: Version, keep_alive: bool) -> io::Result<u64> {
        let length = answer.body_length();
        let Answer { response, file, parts, events } = answer;
        self.note_response(response.status, length);
        let counters = &self.shared.counters;
        if let Some(events) = events {
            let head = response.head(client, keep_alive, now_s());
            let sent = self.send_events(&head, events).await;
            return sent.inspect_err(|error| self.count_timeout(error));
        }
        let of_file = response.body.iter().any(|part| matches!(part, BodyPart::Extent(_)));
        let engine = &self.shared.engine;
        let sending = Counted::begin(&counters.responses_sending);
        let sent = match (file, parts) {
            (_, Some(parts)) => {
                let mut head = response.head(client, keep_alive, now_s());
                response.body.iter().for_each(|part| match part {
                    BodyPart::Bytes(bytes) => head.extend_from_slice(bytes),
                    BodyPart::Extent(_) => debug_assert!(false, "parts follow bytes only"),
                });
                self.client.send_parts(engine, head, parts).await.map(drop)
            }
            (Some(file), None) if of_file => {
                let head = response.head(client, keep_alive, now_s());
                match read_behind(head, &response.body, &file) {
                    Ok(bytes) => {
                        close(file, engine);
                        self.client.write(&bytes).await
                    }
                    // From here on only the parts hold the file; their owner discards them.
                    Err(head) => {
                        let parts = body_parts(head, response.body, file);
                        self.client.send(engine, parts).await.map(drop)
                    }
                }
            }
            (file, None) => {
                file.into_iter().for_each(|file| close(file, engine));
                self.client.write(&response.into_bytes(client, keep_alive, now_s())).await
            }
        };
        drop(sending);
        self.count_body(sent, length)
    }

    /// Logs and counts the beginning of a response.
    fn note_response(&self, status: StatusCode, length: u64) {
        tracing::debug!(peer = %self.addresses.peer, status = status.as_u16(), length, "response");
        self.shared.counters.responses.increment(status.into());
    }

    /// Counts a body of this length that was sent, or was cut; returns its length.
    fn count_body(&self, sent: io::Result<()>, length: u64) -> io::Result<u64> {
        let counters = &self.shared.counters;
        match &sent {
            Ok(()) => counters.body_bytes.add(length),
            Err(error) => {
                counters.bodies_cut.increment();
                self.count_timeout(error);
            }
        }
        sent.map(|()| length)
    }

    /// Counts a client that read nothing for too long.
    fn count_timeout(&self, error: &io::Error) {
        if error.kind() == io::ErrorKind::TimedOut {
            self.shared.counters.connections_timed_out.increment();
        }
    }

    /// Sends events until the client disconnects, which is the usual end, or the listener drains; returns the
    /// number of bytes.
    async fn send_events(&mut self, head: &[u8], mut events: Subscription) -> io::Result<u64> {
        let counters = &self.shared.counters;
        let _open = Counted::begin(&counters.event_streams);
        let mut closing = self.shared.closing.clone();
        self.client.limit_unacknowledged()?;
        self.client.write(&[head, events::PREAMBLE].concat()).await?;
        let mut sent = events::PREAMBLE.len() as u64;
        counters.body_bytes.add(sent);
        loop {
            let event = tokio::select! {
                () = self.client.draining() => return Ok(sent),
                () = drained(&mut closing) => return Ok(sent),
                event = events.next() => event,
            };
            let Some(event) = event else { return Ok(sent) };
            self.client.write(&event).await?;
            counters.body_bytes.add(event.len() as u64);
            sent += event.len() as u64;
        }
    }
}

fn too_many_files() -> Answer {
    let why = "the server has too many files open: try again later";
    Response::error(StatusCode::SERVICE_UNAVAILABLE, why).header(header::RETRY_AFTER, "5").into()
}

/// Closes a file that is no longer needed, unless it is open elsewhere. Freeing a file that was deleted
/// meanwhile may take a long time.
fn close(file: Arc<File>, engine: &Engine) {
    if let Some(file) = Arc::into_inner(file).filter(super::is_deleted) {
        engine.pool().discard(file);
    }
}

/// Counts an activity until drop, even if its task is dropped.
struct Counted<'a>(&'a Gauge);

impl<'a> Counted<'a> {
    fn begin(gauge: &'a Gauge) -> Self {
        gauge.increment();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.decrement();
    }
}

fn body_parts(head: Vec<u8>, body: Vec<BodyPart>, file: Arc<File>) -> Vec<streams::ObjectPart> {
    let parts = body.into_iter().map(|part| match part {
        BodyPart::Bytes(bytes) => streams::ObjectPart::Bytes(bytes.into()),
        BodyPart::Extent(extent) => {
            streams::ObjectPart::Extent { file: Arc::clone(&file), range: extent.offset..extent.end() }
        }
    });
    std::iter::once(streams::ObjectPart::Bytes(head.into())).chain(parts).collect()
}
