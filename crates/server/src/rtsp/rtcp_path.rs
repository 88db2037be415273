//! A session's way for RTCP.

use std::io;
use std::sync::Arc;
use tokio::net::UdpSocket;
use wirepath_media::rtsp::ChannelPair;
use wirepath_playback::ConnectionWriter;

/// A session's way for RTCP.
pub(super) enum RtcpPath {
    /// A socket connected to the client.
    Udp(UdpSocket),
    /// A channel of the RTSP connection.
    Interleaved {
        /// Writer of the connection.
        writer: Arc<ConnectionWriter>,
        /// Channels of the session.
        channels: ChannelPair,
    },
}

impl RtcpPath {
    /// Channels of the session, if it is interleaved.
    pub(super) fn channels(&self) -> Option<ChannelPair> {
        match self {
            RtcpPath::Udp(_) => None,
            RtcpPath::Interleaved { channels, .. } => Some(*channels),
        }
    }

    /// Sends a packet, which may get lost.
    pub(super) fn send(&self, packet: &[u8]) -> io::Result<()> {
        match self {
            RtcpPath::Udp(socket) => socket.try_send(packet).map(drop),
            RtcpPath::Interleaved { writer, channels } => {
                writer.write_report(channels.rtcp, packet);
                Ok(())
            }
        }
    }

    /// Receives a datagram. Frames come through the connection's reader instead.
    pub(super) async fn receive(&self, datagram: &mut [u8]) -> io::Result<usize> {
        match self {
            RtcpPath::Udp(socket) => socket.recv(datagram).await,
            RtcpPath::Interleaved { .. } => std::future::pending().await,
        }
    }
}
