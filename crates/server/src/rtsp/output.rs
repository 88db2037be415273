//! Sending side of an RTSP connection: written here, or by an engine thread once a session is interleaved.

use super::player::Player;
use rustix::net::sockopt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;
use wirepath_playback::ConnectionWriter;

/// Least time between two TCP keepalive probes.
const LEAST_PROBE_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Output {
    half: OwnedWriteHalf,
    /// Present from the first interleaved session on: then nothing is written to `half`.
    writer: Option<Arc<ConnectionWriter>>,
}

impl Output {
    pub(super) fn new(half: OwnedWriteHalf) -> Self {
        Self { half, writer: None }
    }

    /// Hands the connection over to an engine thread, for sessions that are interleaved. A client that
    /// acknowledges nothing for `timeout` is gone.
    pub(super) fn interleave(
        &mut self,
        player: &dyn Player,
        timeout: Duration,
    ) -> io::Result<Arc<ConnectionWriter>> {
        if let Some(writer) = &self.writer {
            return Ok(Arc::clone(writer));
        }
        let stream: &TcpStream = self.half.as_ref();
        expect_acknowledgements(stream, timeout)?;
        let writer = Arc::new(player.open_writer(stream.as_fd().try_clone_to_owned()?)?);
        Ok(Arc::clone(self.writer.insert(writer)))
    }

    pub(super) fn is_interleaved(&self) -> bool {
        self.writer.is_some()
    }

    /// Writes bytes after all that was written before, and never inside a frame.
    pub(super) async fn write(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let Some(writer) = &self.writer else { return self.half.write_all(&bytes).await };
        let (sent, when_sent) = oneshot::channel();
        // The receiver may have given up already.
        writer.write(bytes, move || _ = sent.send(()));
        when_sent.await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends the end of the connection, behind all that was written.
    pub(super) async fn shutdown(&mut self) -> io::Result<()> {
        self.write(Vec::new()).await?;
        self.half.shutdown().await
    }
}

/// Has the kernel probe an idle client, and give up one that acknowledges nothing for `timeout`.
fn expect_acknowledgements(stream: impl AsFd, timeout: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, (timeout / 2).max(LEAST_PROBE_INTERVAL))?;
    sockopt::set_tcp_keepintvl(&stream, (timeout / 8).max(LEAST_PROBE_INTERVAL))?;
    sockopt::set_tcp_user_timeout(&stream, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}
