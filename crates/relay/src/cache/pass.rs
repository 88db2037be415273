//! A request that passes to the origin, and its answer that passes back. Bodies go both ways at once: an origin may answer while it still
//! reads, and may never read what it does not want.

use std::future::ready;
use std::io;
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use http::StatusCode;
use tokio::sync::oneshot;
use wirepath_streams::{Framing, Object, StreamBuilder, StreamProgress};

use super::Shared;
use super::answer;
use super::connection::Connection;
use super::flow::Patience;
use super::head::{Asked, Refusal};
use super::origin::Reply;
use super::status::{add, count};
use super::store;
use super::upload::Upload;

impl Connection {
    /// Has the origin answer.
    pub(super) async fn pass(&mut self, mut asked: Asked, why: &'static str) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let answered = self.ask(&mut asked).await.inspect_err(|_| count(&shared.counters.failed))?;
        let (reply, upload) = match answered {
            Ok(answered) => answered,
            Err(refusal) => {
                count(&shared.counters.failed);
                return self.refuse(&refusal, &asked).await;
            }
        };
        count(&shared.counters.passed);
        let changes = !asked.method.is_safe() && !is_error(reply.told.status);
        let key = store::key(&shared.origin.url(&asked.target));
        if changes {
            shared.forget(&key).await; // RFC 9111 section 4.4
        }
        let Some(upload) = upload else { return self.pass_reply(&asked, reply, why, None).await };
        let passed = self.pass_both(&asked, reply, upload, why).await;
        if changes {
            shared.forget(&key).await; // the change may have come about since
        }
        passed
    }

    /// Sends a request to the origin. Answers what comes back, and what still goes there.
    async fn ask(&mut self, asked: &mut Asked) -> io::Result<Result<(Reply, Option<Upload>), Refusal>> {
        let shared = Arc::clone(&self.shared);
        let stays = asked.keep_alive;
        asked.keep_alive &= asked.body_bytes == 0;
        let reached = async {
            let mut connection = shared.origin.connect().await?;
            shared.origin.send_head(&mut connection, asked, &asked.fields).await.map(|()| connection)
        };
        let connection = match self.unless_gone(reached).await? {
            Ok(connection) => connection,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if asked.body_bytes == 0 {
            let reply = shared.origin.reply(connection, &asked.method, shared.origin_limit, ready(()));
            return Ok(self.unless_gone(reply).await?.map(|reply| (reply, None)));
        }
        if asked.expects_continue {
            self.client.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let first = self.client.take_read(asked.body_bytes);
        let (lent, socket) = self.client.lend()?;
        let mut upload = Upload::start(&shared.engine, (socket, &first), &connection, asked.body_bytes)?;
        let (sent, is_sent) = oneshot::channel::<()>();
        // Told, or dropped: that is all the same.
        let is_sent = async { drop(is_sent.await) };
        let mut reply = pin!(shared.origin.reply(connection, &asked.method, shared.origin_limit, is_sent));
        let early = tokio::select! {
            biased;
            () = upload.over(shared.upload_patience()) => None,
            reply = &mut reply => Some(reply),
        };
        self.client.take_back(lent)?;
        let reply = match early {
            Some(reply) => reply,
            None if let Some(why) = upload.cut_short() => return Err(self.client.cut(why)),
            None => {
                drop(sent);
                self.unless_gone(reply).await?
            }
        };
        let goes_on = !upload.is_settled().await;
        asked.keep_alive = stays && upload.is_whole();
        Ok(reply.map(|reply| (reply, goes_on.then_some(upload))))
    }

    /// Moves the origin's answer to the client, and what is left of its body to the origin. The connection ends with that.
    async fn pass_both(
        &mut self,
        asked: &Asked,
        reply: Reply,
        mut upload: Upload,
        why: &'static str,
    ) -> io::Result<bool> {
        let is_error = is_error(reply.told.status);
        let beside = Arc::clone(upload.progress());
        {
            let mut passing = pin!(self.pass_reply(asked, reply, why, Some(&beside)));
            tokio::select! {
                passed = &mut passing => passed,
                () = upload.ended() => {
                    upload.pass_on_a_short_end();
                    passing.await
                }
            }?;
        }
        if is_error {
            upload.stop(); // nobody wants it
        }
        upload.over(self.shared.upload_patience()).await;
        Ok(false)
    }

    /// Moves the origin's answer to the client. While the one `beside` it moves, it may wait.
    pub(super) async fn pass_reply(
        &mut self,
        asked: &Asked,
        reply: Reply,
        why: &'static str,
        beside: Option<&StreamProgress>,
    ) -> io::Result<bool> {
        let Reply { told, connection, first } = reply;
        let head = answer::passed(&told, asked, why);
        if told.body_bytes == Some(0) {
            return self.client.write(&head).await.map(|()| asked.keep_alive);
        }
        // The end of the connection is that of such a body: until all is sent, any other end, even of this process, is a reset.
        let ends_with_connection = told.body_bytes.is_none();
        if ends_with_connection {
            self.client.reset_when_closed(true)?;
        }
        let head_bytes = head.len() as u64;
        let rest = told.body_bytes.map_or(u64::MAX, |bytes| bytes - first.len() as u64);
        let patience = Patience { source: self.shared.origin_limit, sink: self.shared.client_limit };
        let build = |client| {
            let before = BytesMut::from(&[&head[..], &first[..]].concat()[..]);
            let source =
                Object::stream("the origin", connection.into_std()?.into())?.up_to(rest).preceded_by(before);
            Ok(StreamBuilder::default().input(source, Framing::Whole).output(client).build())
        };
        let (sent, result) = self.relay(patience, build, beside).await?;
        add(&self.shared.counters.bytes_from_origin, sent.saturating_sub(head_bytes));
        let is_whole = told.body_bytes.is_none_or(|bytes| sent.checked_sub(head_bytes) == Some(bytes));
        match result {
            Ok(()) if ends_with_connection => self.client.reset_when_closed(false).map(|()| false),
            Ok(()) if is_whole => Ok(asked.keep_alive),
            Ok(()) => Err(self.client.cut("the origin's answer ended early".to_owned())),
            Err(words) => Err(self.client.cut(words)),
        }
    }
}

impl Shared {
    /// How long client and origin may pause within the body of a request.
    fn upload_patience(&self) -> Patience {
        Patience { source: self.client_limit, sink: self.origin_limit }
    }
}

fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}
