//! A session's way for RTCP.

use super::port_socket::{PortUse, RtcpReceiver};
use std::io;
use std::sync::{Arc, Weak};
use wirepath_media::rtsp::ChannelPair;
use wirepath_playback::ConnectionWriter;

/// A session's way for RTCP.
pub(super) enum RtcpPath {
    /// The socket that sessions share.
    Udp(PortUse),
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
            RtcpPath::Udp(ports) => ports.send(packet),
            RtcpPath::Interleaved { writer, channels } => {
                writer.write_report(channels.rtcp, packet);
                Ok(())
            }
        }
    }

    /// Has the session receive what its client sent until now, if that still waits to be read.
    pub(super) fn read_waiting(&self) {
        if let RtcpPath::Udp(ports) = self {
            ports.read_waiting();
        }
    }

    /// Has datagrams of the client given to the session. Frames come through the connection's reader instead.
    pub(super) fn register<T: RtcpReceiver + 'static>(&self, session: &Arc<T>) {
        if let RtcpPath::Udp(ports) = self {
            let session: Weak<T> = Arc::downgrade(session);
            ports.register(session);
        }
    }
}
