//! One client: heads in, answers out, one after the other.

use std::io;
use std::sync::Arc;

use http::Version;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use wirepath_net::http::{self as client, Timeouts, now_s};
use wirepath_streams::{Object, Stream, StreamProgress};

use super::Shared;
use super::answer;
use super::flow::{Flow, Moved, Patience};
use super::head::{ClientRequest, Refusal};
use super::status::count;

pub(super) struct Connection {
    pub(super) client: client::Connection,
    pub(super) shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        shared: Arc<Shared>,
        place: OwnedSemaphorePermit,
        drain: watch::Receiver<bool>,
    ) -> Connection {
        count(&shared.counters.connections);
        let timeouts =
            Timeouts { write: shared.client_limit, body: shared.client_limit, ..Timeouts::default() };
        let client = client::Connection::new(stream, timeouts, drain);
        Connection { client, shared, _place: place }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.exchanges().await {
            tracing::debug!(%error, "a client's connection broke");
        }
    }

    async fn exchanges(&mut self) -> io::Result<()> {
        loop {
            match self.client.next(|reader| Ok(reader.next_head()?.map(ClientRequest::new))).await {
                Ok(Ok(request)) => {
                    if !self.exchange(request).await? {
                        break;
                    }
                }
                Ok(Err(refusal)) => {
                    self.turn_down(&refusal).await?;
                    break;
                }
                Err(end) => {
                    let Some((status, words)) = end.answer() else { return Ok(()) };
                    self.turn_down(&Refusal::new(status, words)).await?;
                    break;
                }
            }
        }
        self.client.linger().await
    }

    /// Says what is wrong with what came, after which nothing that comes can be understood.
    async fn turn_down(&mut self, refusal: &Refusal) -> io::Result<()> {
        self.client.write(&answer::refusal(refusal, false, Version::HTTP_11, false, now_s())).await
    }

    /// Says why a request is not answered as it wishes; answers whether the connection stays.
    pub(super) async fn refuse(&mut self, refusal: &Refusal, request: &ClientRequest) -> io::Result<bool> {
        let is_head = request.method == http::Method::HEAD;
        let answer = answer::refusal(refusal, is_head, request.version, request.keep_alive, now_s());
        self.client.write(&answer).await.map(|()| request.keep_alive)
    }

    /// Has the engine move a stream to this connection; `build` gets it as an object. While the one `beside`
    /// it moves, it may wait.
    pub(super) async fn relay(
        &mut self,
        patience: Patience,
        build: impl FnOnce(Object) -> io::Result<Stream>,
        beside: Option<&StreamProgress>,
    ) -> io::Result<Moved> {
        let (stream, socket) = self.client.lend()?;
        let relayed = build(Object::stream("the client", socket)?)?;
        let moved = Flow::start(&self.shared.engine, relayed).end(patience, beside).await;
        self.client.take_back(stream)?;
        Ok(moved)
    }

    /// Waits for something unless the client leaves, for whom it is.
    pub(super) async fn unless_gone<T>(&self, wanted: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            done = wanted => Ok(done),
            () = self.client.peer_reset() => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "the client left before it was answered"))
            }
        }
    }
}
