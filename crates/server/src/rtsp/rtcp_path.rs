//! A session's way for RTCP.

use super::port_socket::{PortUse, RtcpReceiver};
use std::io;
use std::sync::{Arc, Weak};
use wirepath_media::rtsp::ChannelPair;
use wirepath_playback::ConnectionWriter;

/// Lower transport of a session: the same for all its tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LowerTransport {
    /// UDP to the client.
    Udp,
    /// The RTSP connection.
    Tcp,
    /// UDP to a group.
    Multicast,
}

impl LowerTransport {
    /// Its name, for log and status.
    pub(super) fn name(self) -> &'static str {
        match self {
            LowerTransport::Udp => "udp",
            LowerTransport::Tcp => "tcp",
            LowerTransport::Multicast => "multicast",
        }
    }
}

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
    /// None: the sender to the group sends reports for all sessions.
    Group,
}

impl RtcpPath {
    /// The lower transport of the session.
    pub(super) fn transport(&self) -> LowerTransport {
        match self {
            RtcpPath::Udp(_) => LowerTransport::Udp,
            RtcpPath::Interleaved { .. } => LowerTransport::Tcp,
            RtcpPath::Group => LowerTransport::Multicast,
        }
    }

    /// Channels of the session, if it is interleaved.
    pub(super) fn channels(&self) -> Option<ChannelPair> {
        match self {
            RtcpPath::Udp(_) | RtcpPath::Group => None,
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
            RtcpPath::Group => Ok(()),
        }
    }

    /// Reads datagrams of the client that still wait to be read.
    pub(super) fn read_waiting(&self) {
        if let RtcpPath::Udp(ports) = self {
            ports.read_waiting();
        }
    }

    /// Registers the session for datagrams of the client. Frames come through the connection's reader instead.
    pub(super) fn register<T: RtcpReceiver + 'static>(&self, session: &Arc<T>) {
        if let RtcpPath::Udp(ports) = self {
            let session: Weak<T> = Arc::downgrade(session);
            ports.register(session);
        }
    }
}
