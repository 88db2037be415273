//! Connection of a client: reads request heads and sends responses, one after the other.

use std::io;
use std::sync::Arc;

use http::{Method, Version};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use wirepath_http::Response;
use wirepath_net::http::{self as client, Timeouts, now_s};
use wirepath_streams::{Object, Stream, StreamProgress};

use super::Shared;
use super::head::{ClientRequest, Refusal};
use super::transfer::{StallLimits, Transfer, TransferResult};

pub(super) struct Connection {
    pub(super) client: client::Connection,
    pub(super) shared: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        shared: Arc<Shared>,
        permit: OwnedSemaphorePermit,
        drain: watch::Receiver<bool>,
    ) -> Connection {
        shared.counters.connections.increment();
        let timeouts = Timeouts { write: shared.client_limit, ..Timeouts::default() };
        let client = client::Connection::new(stream, timeouts, drain);
        Connection { client, shared, _permit: permit }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.exchanges().await {
            tracing::debug!(%error, "client connection broke");
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
                    self.reject(&refusal).await?;
                    break;
                }
                Err(end) => {
                    let Some((status, words)) = end.answer() else { return Ok(()) };
                    self.reject(&Refusal::new(status, words)).await?;
                    break;
                }
            }
        }
        self.client.linger().await
    }

    /// Responds to a request that cannot be parsed. The rest of the connection cannot be parsed, either.
    async fn reject(&mut self, refusal: &Refusal) -> io::Result<()> {
        let response = Response::error(refusal.status, &refusal.words);
        self.client.write(&response.into_bytes(Version::HTTP_11, false, now_s())).await
    }

    /// Responds to a failed request. Returns whether the connection stays open.
    pub(super) async fn refuse(&mut self, refusal: &Refusal, request: &ClientRequest) -> io::Result<bool> {
        self.shared.counters.failed.increment();
        let response = Response::error(refusal.status, &refusal.words);
        let bytes = match request.method {
            Method::HEAD => response.head(request.version, request.keep_alive, now_s()),
            _ => response.into_bytes(request.version, request.keep_alive, now_s()),
        };
        self.client.write(&bytes).await.map(|()| request.keep_alive)
    }

    /// Runs a stream to this connection; `build` gets the connection as an object. The stream may pause while
    /// the stream `beside` it makes progress.
    pub(super) async fn relay(
        &mut self,
        limits: StallLimits,
        build: impl FnOnce(Object) -> io::Result<Stream>,
        beside: Option<&StreamProgress>,
    ) -> io::Result<TransferResult> {
        let (stream, socket) = self.client.lend()?;
        let relayed = build(Object::stream("the client", socket)?)?;
        let moved = Transfer::start(&self.shared.engine, relayed).end(limits, beside).await;
        self.client.take_back(stream)?;
        Ok(moved)
    }

    /// Waits for a result for the client. Fails if the client leaves first.
    pub(super) async fn or_client_gone<T>(&self, wanted: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            done = wanted => Ok(done),
            () = self.client.peer_reset() => {
                Err(io::Error::new(io::ErrorKind::ConnectionReset, "the client closed the connection before the response"))
            }
        }
    }
}
