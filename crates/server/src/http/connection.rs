//! One connection: heads in, answers out, one after the other.

use super::answer::Answer;
use super::counters::Counters;
use super::door::Shared;
use crate::limits::Permit;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;
use wirepath_doors::{self as doors, End, now_s};
use wirepath_media::http::{HeadReader, Part, Request, Response, Version};
use wirepath_streams as streams;

pub(super) struct Connection {
    client: doors::Connection,
    peer: SocketAddr,
    shared: Arc<Shared>,
    _permit: Permit,
}

impl Connection {
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        shared: Arc<Shared>,
        permit: Permit,
        drain: watch::Receiver<bool>,
    ) -> Self {
        Counters::add(&shared.counters.accepted, 1);
        let client = doors::Connection::new(stream, shared.options.limits, drain);
        Self { client, peer, shared, _permit: permit }
    }

    pub(super) async fn run(mut self) {
        if let Err(error) = self.exchanges().await {
            tracing::debug!(peer = %self.peer, %error, "an HTTP connection broke");
        }
    }

    /// Answers requests until there are no more.
    async fn exchanges(&mut self) -> io::Result<()> {
        loop {
            match self.client.next(HeadReader::next).await {
                Ok(request) => {
                    if !self.exchange(request).await? {
                        break;
                    }
                }
                Err(end) => {
                    self.count(&end);
                    let Some((status, words)) = end.answer() else { return Ok(()) };
                    self.send(Response::error(status, &words).into(), Version::Http11, false).await?;
                    break;
                }
            }
        }
        self.client.linger().await
    }

    fn count(&self, end: &End) {
        match end {
            End::Closed => {}
            End::Idle | End::Late => Counters::add(&self.shared.counters.timed_out, 1),
            End::Malformed(_) => Counters::add(&self.shared.counters.malformed, 1),
        }
    }

    /// Answers one request; says whether the connection stays.
    async fn exchange(&mut self, request: Request) -> io::Result<bool> {
        Counters::add(&self.shared.counters.requests, 1);
        let (version, keep_alive) = (request.version, request.keep_alive);
        let local = self.client.local_address()?;
        let answer = self.shared.answer(request, local).await;
        let keep_alive = keep_alive && !self.client.is_draining();
        self.send(answer, version, keep_alive).await?;
        Ok(keep_alive)
    }

    async fn send(&mut self, answer: Answer, client: Version, keep_alive: bool) -> io::Result<()> {
        let Answer { response, file } = answer;
        let (status, length) = (response.status, response.body_length());
        tracing::debug!(peer = %self.peer, status = status.code(), length, "answer");
        self.shared.counters.response(status);
        let head = response.head(client, keep_alive, now_s());
        let of_file = response.body.iter().any(|part| matches!(part, Part::Extent(_)));
        let engine = &self.shared.site.engine;
        let sent = match file {
            // Only the parts hold the file from here on, and whoever has the parts discards them.
            Some(file) if of_file => {
                let parts = body_parts(head, response.body, file);
                self.client.send(engine, parts).await.map(drop)
            }
            file => {
                if let Some(file) = file {
                    engine.readers().discard(file);
                }
                self.client.write(&flatten(head, response.body)).await
            }
        };
        match &sent {
            Ok(()) => Counters::add(&self.shared.counters.body_bytes, length),
            Err(error) => {
                Counters::add(&self.shared.counters.bodies_cut, 1);
                if error.kind() == io::ErrorKind::TimedOut {
                    Counters::add(&self.shared.counters.timed_out, 1);
                }
            }
        }
        sent
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        Counters::add(&self.shared.counters.closed, 1);
    }
}

fn body_parts(head: Vec<u8>, body: Vec<Part>, file: Arc<std::fs::File>) -> Vec<streams::Part> {
    let parts = body.into_iter().map(|part| match part {
        Part::Bytes(bytes) => streams::Part::Bytes(bytes),
        Part::Extent(extent) => {
            streams::Part::Extent { file: Arc::clone(&file), range: extent.offset..extent.end() }
        }
    });
    std::iter::once(streams::Part::Bytes(head)).chain(parts).collect()
}

fn flatten(mut head: Vec<u8>, body: Vec<Part>) -> Vec<u8> {
    for part in body {
        match part {
            Part::Bytes(bytes) => head.extend_from_slice(&bytes),
            Part::Extent(_) => unreachable!("an answer with extents has a file"),
        }
    }
    head
}
