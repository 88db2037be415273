//! One RTSP connection: bytes in, bytes out, time limits.

mod inbox;

use self::inbox::{Filled, Inbox, Input};
use super::counters::{EndReason, TimeoutReason};
use super::handler::RequestHandler;
use super::output::Output;
use super::session_events::SessionEvent;
use super::shared::{SERVER_NAME, Shared};
use super::tunnels::TunnelInput;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until, timeout};
use wirepath_media::rtsp::{Item, Reader, Refusal, Request, Response, StatusCode, header_names};
use wirepath_net::Addresses;
use wirepath_net::http::TakenOver;

/// Time limit of writing a response.
const WRITE_LIMIT: Duration = Duration::from_secs(5);

/// Longer than any connection without a deadline lasts.
const NO_DEADLINE: Duration = Duration::from_secs(86_400);

/// Time for which a closing connection is still read, so that the client sees the response before the reset.
const LINGER_LIMIT: Duration = Duration::from_secs(1);

/// Serves a connection to its end, and ends its sessions with it. Returns the connection, without a response,
/// if it is half of a tunnel.
///
/// This is not an `async fn`, which would store the arguments in addition to the connection that is made of
/// them.
pub(super) fn serve(
    stream: TcpStream,
    addresses: Addresses,
    shared: Arc<Shared>,
    shutdown: watch::Receiver<bool>,
) -> impl Future<Output = Option<TakenOver>> {
    let (read, write) = stream.into_split();
    let mut connection =
        Connection::new(Input::Connection(read), Output::new(write), addresses, shared, shutdown);
    async move {
        match connection.run().await {
            End::Tunnel => connection.into_half(),
            end => {
                Box::pin(connection.close(end)).await;
                None
            }
        }
    }
}

/// The same for a connection through a tunnel.
pub(super) async fn serve_tunnelled(
    input: TunnelInput,
    output: Output,
    addresses: Addresses,
    shared: Arc<Shared>,
    shutdown: watch::Receiver<bool>,
) {
    let input = Input::Tunnel(Box::new(input));
    let mut connection = Connection::new(input, output, addresses, shared, shutdown);
    let end = connection.run().await;
    connection.close(end).await;
}

/// Response to a client beyond a limit. Its request is not awaited, so the response has no CSeq.
const FULL: &[u8] = b"RTSP/1.0 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n\r\n";

/// Rejects a client beyond a limit, without waiting.
pub(super) fn reject(stream: &TcpStream) {
    let sent = stream.try_write(FULL);
    tracing::debug!(peer = ?stream.peer_addr(), ?sent, "RTSP connection rejected: limit reached");
}

struct Connection {
    shared: Arc<Shared>,
    handler: RequestHandler,
    inbox: Inbox,
    reader: Reader,
    shutdown: watch::Receiver<bool>,
    /// Time when bytes last came.
    heard: Instant,
    /// Beginning of an incomplete request.
    request_begun: Option<Instant>,
}

/// Reason for the end of a connection.
#[derive(Debug)]
enum End {
    /// The client or the network closed it.
    Gone,
    /// The bytes received are not RTSP.
    Lost,
    /// The bytes received are half of a tunnel.
    Tunnel,
    /// It had no session and sent nothing.
    Idle,
    /// A request or the writing of a response timed out.
    Slow,
    /// The server shuts down.
    Drained,
    /// An administrator ended its sessions.
    Dismissed,
}

impl Connection {
    fn new(
        input: Input,
        output: Output,
        addresses: Addresses,
        shared: Arc<Shared>,
        shutdown: watch::Receiver<bool>,
    ) -> Self {
        let handler = RequestHandler::new(Arc::clone(&shared), addresses, output);
        let (inbox, reader, heard) = (Inbox::new(input), Reader::new(), Instant::now());
        Self { shared, handler, inbox, reader, shutdown, heard, request_begun: None }
    }

    async fn run(&mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    /// Answers the requests that have arrived, and waits for the next event.
    async fn step(&mut self) -> Result<(), End> {
        let mut served = 0;
        while let Some(item) = self.reader.next_item() {
            // Boxed, so that a connection that waits for a request is small.
            Box::pin(self.serve_item(item)).await?;
            served += 1;
        }
        if served > 1 {
            // Requests and frames of one connection may never end: other connections have a turn after each
            // read.
            yield_now().await;
        }
        if *self.shutdown.borrow() {
            return Err(End::Drained);
        }
        if self.handler.is_dismissed {
            return Err(End::Dismissed);
        }
        let begun = self.request_begun.unwrap_or_else(Instant::now);
        self.request_begun = self.reader.is_inside_request().then_some(begun);
        let deadline = self.deadline();
        let event = tokio::select! {
            more = self.inbox.fill(&mut self.reader) => return self.note_filled(more),
            event = self.handler.next_event() => Some(event),
            () = sleep_until(deadline) => None,
            changed = self.shutdown.changed() => return changed.map_err(|_| End::Drained),
        };
        Box::pin(self.react(event)).await
    }

    fn note_filled(&mut self, filled: io::Result<Filled>) -> Result<(), End> {
        match filled {
            Ok(Filled::More) => {
                self.heard = Instant::now();
                Ok(())
            }
            Ok(Filled::Tunnel) => Err(End::Tunnel),
            Ok(Filled::End) | Err(_) => Err(End::Gone),
        }
    }

    /// Handles an event of a session, or the end of the time limit.
    async fn react(&mut self, event: Option<SessionEvent>) -> Result<(), End> {
        let Some(event) = event else { return self.time_out().await };
        self.handler.handle(&event).await;
        self.handler.release(); // no response is under way
        // If this ended the last session, the idle time begins now.
        self.heard = Instant::now();
        Ok(())
    }

    fn deadline(&self) -> Instant {
        let request = self.request_begun.map(|begun| begun + self.shared.options.request_timeout);
        let idle = match self.handler.sessions.is_empty() {
            true => self.heard + self.shared.options.idle_timeout,
            false => Instant::now() + NO_DEADLINE,
        };
        let next = self.handler.deadline().unwrap_or(idle);
        request.map_or(next, |request| request.min(next))
    }

    async fn time_out(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if self.request_begun.is_some_and(|begun| begun + self.shared.options.request_timeout <= now) {
            self.shared.counters.connections_timed_out.increment(TimeoutReason::Request);
            return Err(End::Slow);
        }
        let had_sessions = !self.handler.sessions.is_empty();
        self.handler.expire(now).await;
        if had_sessions {
            // Without sessions, the idle time begins now.
            self.heard = now;
        } else if self.heard + self.shared.options.idle_timeout <= now {
            self.shared.counters.connections_timed_out.increment(TimeoutReason::Idle);
            return Err(End::Idle);
        }
        Ok(())
    }

    async fn serve_item(&mut self, item: Item) -> Result<(), End> {
        self.request_begun = None;
        match item {
            Item::Request(request) => {
                self.shared.counters.requests.increment();
                let response = self.answer(&request).await?;
                self.send(response).await?;
                self.handler.release();
                Ok(())
            }
            Item::Refused(refusal) => {
                self.shared.counters.requests.increment();
                self.refuse(&refusal).await
            }
            Item::Frame(channel, frame) => {
                self.handler.receive_frame(channel, &frame);
                Ok(())
            }
        }
    }

    async fn answer(&mut self, request: &Request) -> Result<Response, End> {
        tokio::select! {
            biased;
            response = self.handler.answer(request) => Ok(response),
            () = self.inbox.gone() => Err(End::Gone),
        }
    }

    async fn refuse(&mut self, refusal: &Refusal) -> Result<(), End> {
        tracing::debug!(peer = %self.handler.peer, %refusal, "not a request");
        self.shared.counters.requests_malformed.increment();
        self.send(Response::refusal(refusal)).await?;
        if refusal.close { Err(End::Lost) } else { Ok(()) }
    }

    async fn send(&mut self, response: Response) -> Result<(), End> {
        if u16::from(response.status()) >= 400 {
            self.shared.counters.requests_refused.increment();
        }
        let bytes = response.header(header_names::SERVER, SERVER_NAME).date(SystemTime::now()).to_bytes();
        let output = &mut self.handler.output;
        // After media, this may take as long as a client may be silent; the kernel ends connections that take
        // longer.
        let patience =
            if output.is_interleaved() { self.shared.options.session_timeout } else { WRITE_LIMIT };
        match timeout(patience, output.write(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Gone),
            Err(_) => {
                self.shared.counters.connections_timed_out.increment(TimeoutReason::Response);
                Err(End::Slow)
            }
        }
    }

    /// The connection, if only the beginning of a request was read from it.
    fn into_half(self) -> Option<TakenOver> {
        let addresses = self.handler.addresses();
        let (half, read) = self.inbox.into_half()?;
        let stream = half.reunite(self.handler.output.into_half()).ok()?;
        Some(TakenOver { stream, read, addresses, drain: self.shutdown })
    }

    /// Ends the sessions, so that no packet follows the end of the connection, then closes it.
    async fn close(mut self, end: End) {
        tracing::debug!(peer = %self.handler.peer, ?end, "connection ends");
        let reason = if matches!(end, End::Drained) { EndReason::Shutdown } else { EndReason::Disconnected };
        self.handler.end_all(reason).await;
        if matches!(end, End::Gone) {
            return;
        }
        if matches!(end, End::Slow) && self.request_begun.is_some() {
            let refusal = Refusal::new(StatusCode::RequestTimeout, "request timed out");
            // The client may no longer read this.
            _ = self.send(Response::refusal(&Refusal { close: true, ..refusal })).await;
        }
        // The client may have closed it meanwhile, or may read nothing more.
        _ = timeout(LINGER_LIMIT, self.handler.output.shutdown()).await;
        _ = timeout(LINGER_LIMIT, self.inbox.drain()).await;
    }
}
