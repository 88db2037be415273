//! HTTP interface that controls running streams: handlers (`/api/streams/STREAM/handlers/NUMBER`), outputs
//! (`/api/streams/STREAM/outputs/NUMBER/trust`), options of streams and outputs (`…/options/KEY`), and the
//! lending rule of all streams (`/api/loans`).

mod change;
mod handler_folder;
mod options;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode, header};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;
use wirepath_http::{AssetPath, BodyPart, Request, Response};
use wirepath_net::http::{Answer, Endpoint, Site};
use wirepath_net::loans;
use wirepath_streams::{Handler, HandlerChangeError, HandlerId, LendingSwitch, RunningStream, StreamOption};

use super::json::options_report;
use super::metrics::Loans;
use change::{add, add_to_output, control, parse, parse_trust, remove, replace, set_trust};
pub(super) use handler_folder::HandlerFolder;
use options::{options, set_option};

/// Maximum length of a request body: a control message, or a handler.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// Time limit of a response, which waits for the end of a record.
const PATIENCE: Duration = Duration::from_secs(5);

/// Access of a call to a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The call changes nothing.
    Read,
    /// The call may change the stream.
    Change,
}

/// Call to a running stream.
pub(super) type Call = Box<dyn FnOnce(&RunningStream) + Send>;

/// Stream that requests control.
pub(super) struct Controlled {
    /// Name of the stream.
    pub(super) name: String,
    /// Folder of the files that requests may name as handlers.
    pub(super) handler_folder: Option<HandlerFolder>,
}

/// HTTP site with metrics, status and the control of streams.
pub(super) struct ControlSite {
    endpoint: Endpoint,
    streams: Vec<Controlled>,
    lending: LendingSwitch,
    /// Passes a call to the stream with this index.
    call: Box<dyn Fn(usize, Call, Access) + Send + Sync>,
    from_anywhere: bool,
}

/// Parsed path below `/api/streams`.
struct Place {
    stream: String,
    target: Target,
}

/// Part of a stream that a request is about.
#[derive(Clone)]
enum Target {
    Handlers,
    Handler(HandlerId),
    /// Handlers of the output with this number.
    OutputHandlers(u64),
    /// Trust in the peer of the output with this number.
    Trust(u64),
    /// Options of the stream, or of an output.
    Options(Option<u64>),
    /// The option with this key.
    Option(Option<u64>, String),
}

/// Outcome of a request.
enum Outcome {
    Answered(Vec<u8>),
    Added(HandlerId),
    Set,
    Options(Vec<StreamOption>),
    /// Removed handler. The responding thread drops it, so that the engine thread need not.
    Removed(#[expect(dead_code, reason = "held to be dropped elsewhere")] Handler),
    Refused(StatusCode, String),
}

/// Sender of a request's outcome, which is sent at most once.
#[derive(Clone)]
struct Reply(Arc<Mutex<Option<oneshot::Sender<Outcome>>>>);

impl Reply {
    /// Sends the outcome. Does nothing if an outcome was already sent or the receiver is gone.
    fn give(&self, outcome: Outcome) {
        if let Some(sender) = self.0.lock().take() {
            drop(sender.send(outcome));
        }
    }

    /// Sends the error of a change that was not accepted, if any.
    fn check(&self, accepted: Result<(), HandlerChangeError>) {
        let Err(error) = accepted else { return };
        let status = match error {
            HandlerChangeError::Missing(_) => StatusCode::NOT_FOUND,
            HandlerChangeError::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            HandlerChangeError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
        };
        self.give(Outcome::Refused(status, error.to_string()));
    }
}

impl Place {
    fn of(path: &AssetPath) -> Option<Place> {
        let segments: Vec<&str> = path.segments().map(std::str::from_utf8).collect::<Result<_, _>>().ok()?;
        match segments[..] {
            ["api", "streams", stream, ref rest @ ..] => {
                let target = match *rest {
                    ["handlers"] => Target::Handlers,
                    ["handlers", handler] => Target::Handler(HandlerId(handler.parse().ok()?)),
                    ["outputs", output, "handlers"] => Target::OutputHandlers(output.parse().ok()?),
                    ["outputs", output, "trust"] => Target::Trust(output.parse().ok()?),
                    ["options"] => Target::Options(None),
                    ["options", key] => Target::Option(None, key.to_owned()),
                    ["outputs", output, "options"] => Target::Options(Some(output.parse().ok()?)),
                    ["outputs", output, "options", key] => {
                        Target::Option(Some(output.parse().ok()?), key.to_owned())
                    }
                    _ => return None,
                };
                Some(Place { stream: stream.to_owned(), target })
            }
            _ => None,
        }
    }
}

impl ControlSite {
    pub(super) fn new(
        endpoint: Endpoint,
        streams: Vec<Controlled>,
        lending: LendingSwitch,
        call: Box<dyn Fn(usize, Call, Access) + Send + Sync>,
        from_anywhere: bool,
    ) -> ControlSite {
        ControlSite { endpoint, streams, lending, call, from_anywhere }
    }

    /// Index of the stream with this name, or else with this number.
    fn place_of(&self, stream: &str) -> Option<usize> {
        let by_name = self.streams.iter().position(|controlled| controlled.name == stream);
        by_name.or_else(|| stream.parse().ok().filter(|place| *place < self.streams.len()))
    }

    /// Index of the stream and the call to it, or the refusal of the request.
    async fn prepare(
        &self,
        place: &Place,
        request: &Request,
        body: Vec<u8>,
        peer: SocketAddr,
        reply: Reply,
    ) -> Result<(usize, Call), Refusal> {
        self.check_peer(request, peer)?;
        let stream = self.place_of(&place.stream).ok_or_else(|| {
            let words = format!("no stream {}; /api/status has the names", place.stream);
            (StatusCode::NOT_FOUND, words)
        })?;
        let folder = self.streams[stream].handler_folder.as_ref();
        let call = match (place.target.clone(), &request.method) {
            (Target::Handler(id), &Method::PUT) => replace(id, parse(&body, folder).await?, reply),
            (Target::Handler(id), &Method::DELETE) => remove(id, reply),
            (Target::Handler(id), _) => control(id, body, reply),
            (Target::Handlers, _) => add(parse(&body, folder).await?, reply),
            (Target::OutputHandlers(output), _) => add_to_output(output, &body, folder, reply).await?,
            (Target::Trust(output), _) => set_trust(output, parse_trust(&body)?, reply),
            (Target::Options(output), _) => options(output, reply),
            (Target::Option(output, key), _) => set_option(output, key, &body, reply)?,
        };
        Ok((stream, call))
    }
}

impl ControlSite {
    fn check_peer(&self, request: &Request, peer: SocketAddr) -> Result<(), Refusal> {
        if !self.from_anywhere && !peer.ip().to_canonical().is_loopback() {
            let words = "streams are controlled from this machine only; allow others by --remote-control";
            return Err((StatusCode::FORBIDDEN, words.to_owned()));
        }
        if request.origin.is_some() {
            let words = "streams are not controlled by pages in browsers (Origin)";
            return Err((StatusCode::FORBIDDEN, words.to_owned()));
        }
        Ok(())
    }
}

impl Site for ControlSite {
    type Admission = ();

    async fn answer(&self, path: AssetPath, request: Request, client: (SocketAddr, ())) -> Answer {
        self.endpoint.answer(path, request, client).await
    }

    fn accepts(&self, method: &Method, path: &AssetPath) -> Option<usize> {
        if loans::is_path(path) {
            return matches!(*method, Method::GET | Method::PUT).then_some(loans::MAX_BODY_BYTES);
        }
        let is_change = match Place::of(path)?.target {
            Target::Handler(_) => matches!(*method, Method::POST | Method::PUT | Method::DELETE),
            Target::Handlers | Target::OutputHandlers(_) | Target::Trust(_) => *method == Method::POST,
            Target::Options(_) => *method == Method::GET,
            Target::Option(..) => *method == Method::PUT,
        };
        is_change.then_some(MAX_BODY_BYTES)
    }

    async fn act(
        &self,
        path: AssetPath,
        request: Request,
        body: Vec<u8>,
        (peer, _user): (SocketAddr, Option<&str>),
    ) -> Answer {
        if loans::is_path(&path) {
            let checked = self.check_peer(&request, peer);
            let counts = || Loans::of(&self.lending).json();
            let answered =
                checked.and_then(|()| loans::answer(&self.lending, &request.method, &body, counts));
            return answered.unwrap_or_else(|(status, words)| Response::error(status, &words)).into();
        }
        let Some(place) = Place::of(&path) else {
            return Response::error(StatusCode::NOT_FOUND, "no such path").into();
        };
        let (sender, receiver) = oneshot::channel();
        let reply = Reply(Arc::new(Mutex::new(Some(sender))));
        let is_read = request.method == Method::GET;
        match self.prepare(&place, &request, body, peer, reply).await {
            Ok((stream, call)) => {
                let access = if is_read { Access::Read } else { Access::Change };
                (self.call)(stream, call, access);
            }
            Err((status, words)) => return Response::error(status, &words).into(),
        }
        let mut receiver = receiver;
        match timeout(PATIENCE, &mut receiver).await {
            Ok(Ok(outcome)) => answer(outcome).into(),
            Ok(Err(_)) => {
                let words = format!("the stream {} does not run, or has ended", place.stream);
                Response::error(StatusCode::CONFLICT, &words).into()
            }
            Err(_) => {
                // Drops a removed handler when its change has been made.
                tokio::spawn(async move { drop(receiver.await) });
                let words = "the current record has not ended yet: this is done when it has";
                Response::error(StatusCode::ACCEPTED, words).into()
            }
        }
    }
}

fn answer(outcome: Outcome) -> Response {
    let text = |status, text: String| {
        Response::with_body(status, "text/plain; charset=utf-8", vec![BodyPart::Bytes(text.into_bytes())])
    };
    let response = match outcome {
        Outcome::Answered(bytes) => {
            let body = vec![BodyPart::Bytes(bytes)];
            Response::with_body(StatusCode::OK, "application/octet-stream", body)
        }
        Outcome::Added(id) => text(StatusCode::CREATED, format!("{id}\n")),
        Outcome::Options(options) => {
            let body = vec![BodyPart::Bytes(options_report(&options).to_string().into_bytes())];
            Response::with_body(StatusCode::OK, "application/json", body)
        }
        Outcome::Set | Outcome::Removed(_) => Response::empty(StatusCode::NO_CONTENT),
        Outcome::Refused(status, words) => Response::error(status, &words),
    };
    response.header(header::CACHE_CONTROL, "no-store")
}

/// Status and reason of a refused request.
type Refusal = (StatusCode, String);

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use wirepath_http::HeadReader;
    use wirepath_net::metrics::Metrics;
    use wirepath_net::status::Status;

    use super::*;

    /// Status with which a peer's request is refused before its stream is asked.
    fn refused(peer: &str, from_anywhere: bool) -> Option<StatusCode> {
        let endpoint = Endpoint::new(Metrics::of_process(), Status::new(Instant::now()));
        let site = ControlSite::new(
            endpoint,
            vec![Controlled { name: "one".to_owned(), handler_folder: None }],
            LendingSwitch::default(),
            Box::new(|_, _, _| {}),
            from_anywhere,
        );
        let mut reader = HeadReader::default();
        reader.feed(b"DELETE /api/streams/one/handlers/0 HTTP/1.1\r\nHost: relay\r\n\r\n");
        let request = reader.next().unwrap().unwrap();
        let place = Place { stream: "one".to_owned(), target: Target::Handler(HandlerId(0)) };
        let reply = Reply(Arc::default());
        let prepared = site.prepare(&place, &request, Vec::new(), peer.parse().unwrap(), reply);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(prepared).err().map(|(status, _)| status)
    }

    /// Promise: Only clients on the same machine can control handlers, unless others are allowed.
    #[test]
    fn clients_of_other_machines_are_refused_unless_they_are_allowed() {
        for here in ["127.0.0.1:9", "[::1]:9", "[::ffff:127.0.0.1]:9"] {
            assert_eq!(refused(here, false), None, "{here}");
        }
        for elsewhere in ["192.0.2.1:9", "[2001:db8::1]:9"] {
            assert_eq!(refused(elsewhere, false), Some(StatusCode::FORBIDDEN), "{elsewhere}");
            assert_eq!(refused(elsewhere, true), None, "{elsewhere}");
        }
    }
}
