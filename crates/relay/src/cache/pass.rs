//! Passes requests to the origin, and the responses back. Bodies are moved in both directions at once: an
//! origin may respond while it still reads the request, and may never read a body that it does not want.

use std::future::ready;
use std::io;
use std::net::TcpStream as BlockingStream;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use http::StatusCode;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use wirepath_streams::{Framing, Object, StreamBuilder};

use super::Shared;
use super::answer;
use super::connection::Connection;
use super::head::{ClientRequest, Refusal};
use super::origin::Reply;
use super::store;
use super::transfer::{StallLimits, TransferError};
use super::upload::Upload;

impl Connection {
    pub(super) async fn pass(&mut self, mut request: ClientRequest, why: &'static str) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let stays = request.keep_alive;
        request.keep_alive &= request.body_bytes == 0;
        let reached = self.or_client_gone(shared.reach(&request)).await;
        let origin = match reached.inspect_err(|_| shared.counters.failed.increment())? {
            Ok(origin) => origin,
            Err(refusal) => return self.refuse(&refusal, &request).await,
        };
        let answered = if request.body_bytes == 0 {
            let reply = shared.origin.reply(origin, &request.method, shared.origin_limit, ready(()));
            self.or_client_gone(reply).await.map(|reply| Ok((reply?, None)))
        } else {
            self.send_body(origin, &mut request, stays).await
        };
        // RFC 9111 section 4.4. The resource may have changed even if there is no response.
        let is_refused = matches!(&answered, Ok(Ok((reply, _))) if is_error(reply.response.status));
        let changes = !request.method.is_safe() && !is_refused;
        let key = store::key(&shared.origin.url(&request.target));
        if changes {
            shared.invalidate(&key).await;
        }
        let (reply, upload) = match answered.inspect_err(|_| shared.counters.failed.increment())? {
            Ok(answered) => answered,
            Err(refusal) => return self.refuse(&refusal, &request).await,
        };
        shared.counters.passed.increment();
        let Some(upload) = upload else { return self.pass_reply(&request, reply, why, None).await };
        let passed = self.pass_both(&request, reply, &upload, why).await;
        if changes {
            shared.invalidate(&key).await; // the resource may have changed again
        }
        passed
    }

    /// Sends the body of a request whose head the origin already has. Returns the origin's reply, and the
    /// upload, which may still run. The client's connection is kept if that is allowed (`stays`) and the
    /// whole body has been sent.
    async fn send_body(
        &mut self,
        origin: TcpStream,
        request: &mut ClientRequest,
        stays: bool,
    ) -> io::Result<Result<(Reply, Option<Upload>), Refusal>> {
        let shared = Arc::clone(&self.shared);
        if request.expects_continue {
            self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let (lent, upload) = match self.begin_upload(&origin, request.body_bytes) {
            Ok(begun) => begun,
            Err(error) => {
                let words = "cannot forward the request body";
                tracing::warn!(%error, "{words}");
                return Ok(Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, words)));
            }
        };
        let (sent, is_sent) = oneshot::channel::<()>();
        let is_sent = async { drop(is_sent.await) }; // the sender is only ever dropped
        let mut reply = pin!(shared.origin.reply(origin, &request.method, shared.origin_limit, is_sent));
        let early = tokio::select! {
            biased;
            moved = upload.end(shared.upload_limits()) => Err(moved),
            reply = &mut reply => Ok(reply),
        };
        self.client.take_back(lent)?;
        let reply = match early {
            Ok(reply) => reply,
            Err(moved) if let Some(why) = upload.client_error(&moved) => return Err(self.client.cut(why)),
            Err((_, Err(TransferError::SinkStalled(_)))) => {
                return Ok(Err(shared.origin.failed("it does not read the body of the request", true)));
            }
            Err(_) => {
                drop(sent);
                self.or_client_gone(reply).await?
            }
        };
        request.keep_alive = stays && upload.is_settled().await && upload.is_whole();
        Ok(reply.map(|reply| (reply, Some(upload))))
    }

    /// Starts an upload of a request's body to the origin. The client's connection is lent to the upload.
    fn begin_upload(&mut self, origin: &TcpStream, bytes: u64) -> io::Result<(BlockingStream, Upload)> {
        let (lent, socket) = self.client.lend()?;
        let first = self.client.take_read(bytes);
        match Upload::start(&self.shared.engine, (socket, &first), origin, bytes) {
            Ok(upload) => Ok((lent, upload)),
            Err(error) => self.client.take_back(lent).and(Err(error)),
        }
    }

    /// Moves the origin's response to the client, and the rest of the request's body to the origin. If there
    /// is a rest, the client's connection is closed afterwards.
    async fn pass_both(
        &mut self,
        request: &ClientRequest,
        reply: Reply,
        upload: &Upload,
        why: &'static str,
    ) -> io::Result<bool> {
        let is_error = is_error(reply.response.status);
        let stays = {
            let mut passing = pin!(self.pass_reply(request, reply, why, Some(upload)));
            tokio::select! {
                passed = &mut passing => passed,
                () = upload.ended() => {
                    upload.end_early();
                    passing.await
                }
            }?
        };
        if upload.is_whole() {
            return Ok(stays);
        }
        if is_error {
            upload.stop(); // the origin does not want the body
        } else {
            // The client may wait for the end of the response before it sends more of the body.
            self.client.finish().await?;
        }
        tokio::select! {
            _ = upload.end(self.shared.upload_limits()) => Ok(false),
            ended = upload.origin_ended() => ended.map(|()| false),
        }
    }

    /// Moves the origin's response to the client. The response may pause while an upload to the same origin
    /// makes progress.
    pub(super) async fn pass_reply(
        &mut self,
        request: &ClientRequest,
        reply: Reply,
        why: &'static str,
        upload: Option<&Upload>,
    ) -> io::Result<bool> {
        let Reply { response, connection, first } = reply;
        let head = answer::passed(&response, request, why);
        if response.body_bytes == Some(0) {
            return self.client.write(&head).await.map(|()| request.keep_alive);
        }
        // Without a length, the end of the connection is the end of the body. Until the whole body is sent,
        // the connection must therefore end with a reset, even if this process ends.
        let ends_with_connection = response.body_bytes.is_none();
        if ends_with_connection {
            self.client.reset_when_closed(true)?;
        }
        let head_bytes = head.len() as u64;
        let rest = response.body_bytes.map_or(u64::MAX, |bytes| bytes - first.len() as u64);
        let limits = StallLimits { source: self.shared.origin_limit, sink: self.shared.client_limit };
        let build = |client| {
            let before = BytesMut::from(&[&head[..], &first[..]].concat()[..]);
            let source =
                Object::stream("the origin", connection.into_std()?.into())?.up_to(rest).preceded_by(before);
            Ok(StreamBuilder::default().input(source, Framing::Whole).output(client).build())
        };
        let beside = upload.map(|upload| &**upload.progress());
        let (sent, result) = self.relay(limits, build, beside).await?;
        self.shared.counters.from_origin_bytes.add(sent.saturating_sub(head_bytes));
        let is_whole = response.body_bytes.is_none_or(|bytes| sent.checked_sub(head_bytes) == Some(bytes));
        match result {
            Ok(()) if ends_with_connection => {
                let error = if let Some(upload) = upload { upload.origin_error().await } else { None };
                match error {
                    Some(errno) => Err(self.client.cut(format!("origin connection failed: {errno}"))),
                    None => self.client.reset_when_closed(false).map(|()| false),
                }
            }
            Ok(()) if is_whole => Ok(request.keep_alive),
            Ok(()) => Err(self.client.cut("origin response ended early".to_owned())),
            Err(error) => Err(self.client.cut(error.to_string())),
        }
    }
}

impl Shared {
    /// Connects to the origin and sends the head of a request.
    async fn reach(&self, request: &ClientRequest) -> Result<TcpStream, Refusal> {
        let mut origin = self.origin.connect().await?;
        self.origin.send_head(&mut origin, request, &request.fields).await.map(|()| origin)
    }

    /// Limits of pauses in the body of a request.
    fn upload_limits(&self) -> StallLimits {
        StallLimits { source: self.client_limit, sink: self.origin_limit }
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}
