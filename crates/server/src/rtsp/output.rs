//! Sending side of an RTSP connection. It is written here, or by an engine thread once a session is
//! interleaved.

use super::player::Player;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;
use wirepath_net::expect_acknowledgements;
use wirepath_playback::ConnectionWriter;

pub(super) struct Output {
    half: OwnedWriteHalf,
    /// Present from the first interleaved session on; then nothing is written to `half`.
    writer: Option<Arc<ConnectionWriter>>,
}

impl Output {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self { half, writer: None }
    }

    /// Hands the connection over to an engine thread, for interleaved sessions. A client that acknowledges
    /// nothing for `timeout` is considered gone. On a secure connection, the socket leads to the
    /// thread that encrypts.
    pub(super) fn interleave(
        &mut self,
        player: &dyn Player,
        timeout: Duration,
        is_secure: bool,
    ) -> io::Result<Arc<ConnectionWriter>> {
        if let Some(writer) = &self.writer {
            return Ok(Arc::clone(writer));
        }
        let stream: &TcpStream = self.half.as_ref();
        expect_acknowledgements(stream, timeout)?;
        let writer = player.open_writer(stream.as_fd().try_clone_to_owned()?)?;
        let writer = if is_secure { writer.without_lending() } else { writer };
        Ok(Arc::clone(self.writer.insert(Arc::new(writer))))
    }

    /// The sending half of a connection to which nothing was written.
    pub(super) fn into_half(self) -> OwnedWriteHalf {
        self.half
    }

    pub(super) fn is_interleaved(&self) -> bool {
        self.writer.is_some()
    }

    /// Writes bytes after all earlier bytes, and never inside a frame.
    pub(super) async fn write(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let Some(writer) = &self.writer else { return self.half.write_all(&bytes).await };
        let (sent, when_sent) = oneshot::channel();
        // The receiver may have been dropped already.
        writer.write(bytes, move || _ = sent.send(()));
        when_sent.await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends the end of the connection, after all written bytes.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        self.write(Vec::new()).await?;
        self.half.shutdown().await
    }
}
