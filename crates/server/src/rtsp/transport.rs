//! Transports of sessions: the choice among a client's offers, and the sockets or channels for it.

use super::handler::{RequestHandler, refuse};
use super::player::{MediaSink, OpenError};
use super::ports::SessionPorts;
use super::rtcp_path::{LowerTransport, RtcpPath};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use wirepath_media::rtsp::{
    ChannelPair, Delivery, Headers, Offer, PortPair, Profile, Protocol, Refusal, ReplyDelivery, StatusCode,
};
use wirepath_media::srtp::MasterKey;
use wirepath_net::is_out_of_descriptors;

/// Ports below this belong to services; a request for media there is probably an attack on one.
const FIRST_CLIENT_PORT: u16 = 1024;

/// Offer that can be met.
#[derive(Clone, Copy, Debug)]
pub(super) enum Accepted {
    /// To this client alone.
    Unicast(Unicast, Profile),
    /// To the group of the presentation.
    Multicast,
}

/// Way to one client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unicast {
    /// UDP to these ports of the client.
    Udp(PortPair),
    /// The RTSP connection, in these channels if the client requests some.
    Interleaved(Option<ChannelPair>),
}

/// An opened transport.
pub(super) struct Opened {
    /// Receiver of the packets.
    pub(super) sink: MediaSink,
    pub(super) rtcp: RtcpPath,
    /// The transport as it appears in the response to SETUP.
    pub(super) delivery: ReplyDelivery,
}

impl RequestHandler {
    /// Opens sockets or channels for an offer; media are encrypted if there is a key.
    pub(super) fn open_transport(
        &mut self,
        offer: Unicast,
        key: Option<MasterKey>,
    ) -> Result<Opened, Refusal> {
        match offer {
            Unicast::Udp(client_port) => {
                self.open_ports(client_port, key).map_err(|error| self.socket_refusal(error))
            }
            Unicast::Interleaved(wish) => self.open_channels(wish, key),
        }
    }

    fn open_ports(&self, client_port: PortPair, key: Option<MasterKey>) -> io::Result<Opened> {
        let SessionPorts { rtp, rtcp, ports } = self.shared.ports.open(self.local, self.peer, client_port)?;
        let source = self.local.ip();
        Ok(Opened {
            sink: MediaSink::Udp(rtp, key),
            rtcp: RtcpPath::Udp(rtcp),
            delivery: ReplyDelivery::Udp { client_port, server_port: ports, source },
        })
    }

    fn socket_refusal(&self, error: io::Error) -> Refusal {
        let said = format!("the UDP sockets could not be set up: {error}");
        match error.kind() {
            _ if is_out_of_descriptors(&error) => self.open_refusal(OpenError::Exhausted(said)),
            io::ErrorKind::AddrInUse => refuse(StatusCode::ServiceUnavailable, error.to_string()),
            _ => refuse(StatusCode::InternalServerError, said),
        }
    }

    fn open_channels(
        &mut self,
        wish: Option<ChannelPair>,
        key: Option<MasterKey>,
    ) -> Result<Opened, Refusal> {
        let used: Vec<_> = self.sessions.iter().flat_map(|session| session.info.channels()).collect();
        let channels = free_channels(wish, &used).ok_or_else(|| {
            refuse(StatusCode::UnsupportedTransport, "Transport: all channels of this connection are in use")
        })?;
        let timeout = self.shared.options.session_timeout;
        let writer =
            self.output.interleave(&*self.shared.player, timeout, self.is_secure).map_err(|error| {
                let why = format!("the connection cannot be used for media: {error}");
                refuse(StatusCode::InternalServerError, why)
            })?;
        Ok(Opened {
            sink: MediaSink::Interleaved(Arc::clone(&writer), channels.rtp, key),
            rtcp: RtcpPath::Interleaved { writer, channels },
            delivery: ReplyDelivery::Interleaved(channels),
        })
    }
}

/// The requested channels, unless another session of the connection has one of them; else the first free ones
/// (RFC 2326 section 12.39 leaves the choice to the server).
fn free_channels(wish: Option<ChannelPair>, used: &[ChannelPair]) -> Option<ChannelPair> {
    let is_free = |pair: &ChannelPair| !used.iter().any(|other| other.has(pair.rtp) || other.has(pair.rtcp));
    let even = (0..=u8::MAX - 1).step_by(2).map(|rtp| ChannelPair { rtp, rtcp: rtp + 1 });
    wish.into_iter().chain(even).find(is_free)
}

/// Properties of the client that affect the choice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offerer {
    pub(super) peer: IpAddr,
    /// The connection has TLS.
    pub(super) is_secure: bool,
    /// The client got keys, with which its media are encrypted if it requests RTP/SAVP.
    pub(super) has_keys: bool,
    /// The client got keys in such a way that its media are encrypted also if it requests RTP/AVP.
    pub(super) has_sdes: bool,
    /// There are multicast groups to send to.
    pub(super) has_groups: bool,
}

impl Accepted {
    /// Profile of the packets, as offered.
    pub(super) fn profile(self) -> Profile {
        match self {
            Accepted::Unicast(_, profile) => profile,
            Accepted::Multicast => Profile::Plain,
        }
    }

    fn transport(self) -> LowerTransport {
        match self {
            Accepted::Unicast(Unicast::Udp(_), _) => LowerTransport::Udp,
            Accepted::Unicast(Unicast::Interleaved(_), _) => LowerTransport::Tcp,
            Accepted::Multicast => LowerTransport::Multicast,
        }
    }
}

/// The first offer that can be accepted; 461 if there is none, with the reason (RFC 2326 section 11.3.12).
pub(super) fn choose(headers: &Headers, offerer: Offerer) -> Result<Accepted, Refusal> {
    choose_of(headers, |offer| accept(offer, offerer))
}

/// The same for a session whose other tracks have this transport.
///
/// The connection of an interleaved session may be over TLS; other offers are then refused as well.
pub(super) fn choose_like(
    headers: &Headers,
    offerer: Offerer,
    transport: LowerTransport,
) -> Result<Accepted, Refusal> {
    let offerer = Offerer { is_secure: false, ..offerer };
    choose_of(headers, |offer| match accept(offer, offerer)? {
        accepted if accepted.transport() == transport => Ok(accepted),
        _ => {
            let why = "Transport: all tracks of a session go over UDP, all over TCP, or all to a group; offer what the \
                       first has";
            Err(refuse(StatusCode::UnsupportedTransport, why))
        }
    })
}

fn choose_of(
    headers: &Headers,
    accept: impl Fn(&Offer) -> Result<Accepted, Refusal>,
) -> Result<Accepted, Refusal> {
    let mut last = refuse(StatusCode::BadRequest, "SETUP needs a Transport header");
    for offer in Offer::all(headers) {
        match offer.and_then(|offer| accept(&offer)) {
            Ok(accepted) => return Ok(accepted),
            Err(refusal) => last = refusal,
        }
    }
    Err(last)
}

fn accept(offer: &Offer, offerer: Offerer) -> Result<Accepted, Refusal> {
    let Offerer { peer, is_secure, has_keys, has_sdes, has_groups } = offerer;
    let refuse = |why: &str| Err(refuse(StatusCode::UnsupportedTransport, format!("Transport: {why}")));
    if let Protocol::Other(_) = &offer.protocol {
        return refuse("only RTP/AVP and RTP/SAVP over UDP or TCP are served");
    }
    if offer.profile == Profile::Secure && !has_keys {
        return refuse(
            "RTP/SAVP needs new keys, which DESCRIBE tells over TLS if the server has --srtp; offer RTP/AVP",
        );
    }
    let is_protected = offer.profile == Profile::Secure || has_sdes;
    if !offer.is_for_playing {
        return refuse("this server only plays");
    }
    if offer.delivery == Delivery::Multicast {
        return match offer.protocol {
            _ if !has_groups => refuse("multicast is not served; offer RTP/AVP;unicast;client_port=A-B"),
            _ if is_secure => refuse("over TLS media do not go to groups, in the clear; offer RTP/AVP/TCP"),
            Protocol::RtpTcp => refuse("multicast goes over UDP; offer RTP/AVP;multicast"),
            // The server chooses the group; the requested destination has no effect.
            _ => Ok(Accepted::Multicast),
        };
    }
    if offer.destination.as_deref().is_some_and(|destination| !is_peer(destination, peer)) {
        return refuse("media is sent only to the requesting address; omit destination");
    }
    if offer.protocol == Protocol::RtpTcp {
        return Ok(Accepted::Unicast(Unicast::Interleaved(offer.interleaved), offer.profile));
    }
    if is_secure && !is_protected {
        return refuse(
            "over TLS media go over the connection, UDP would send them in the clear; offer RTP/AVP/TCP",
        );
    }
    match offer.client_port {
        None => refuse("client_port is missing"),
        Some(PortPair { rtp, rtcp }) if rtp == rtcp => refuse("RTP and RTCP need ports of their own"),
        Some(PortPair { rtp, rtcp }) if rtp.min(rtcp) < FIRST_CLIENT_PORT => {
            refuse(&format!("client ports are {FIRST_CLIENT_PORT} or more"))
        }
        Some(ports) => Ok(Accepted::Unicast(Unicast::Udp(ports), offer.profile)),
    }
}

fn is_peer(destination: &str, peer: IpAddr) -> bool {
    let bare = destination.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical() == peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(rtp: u8, rtcp: u8) -> ChannelPair {
        ChannelPair { rtp, rtcp }
    }

    /// Promise: A session gets the channels that its client requests, unless another session uses them.
    #[test]
    fn channels_are_the_wish_or_the_first_that_are_free() {
        let used = [pair(0, 1), pair(5, 2)];
        assert_eq!(free_channels(Some(pair(7, 3)), &used), Some(pair(7, 3)));
        for taken in [pair(0, 9), pair(9, 1), pair(2, 3), pair(5, 6)] {
            assert_eq!(free_channels(Some(taken), &used), Some(pair(6, 7)));
        }
        assert_eq!(free_channels(None, &[]), Some(pair(0, 1)));
        let all: Vec<_> = (0..=254).step_by(2).map(|rtp| pair(rtp, rtp + 1)).collect();
        assert_eq!(free_channels(Some(pair(4, 7)), &all), None);
        assert_eq!(free_channels(None, &all[..127]), Some(pair(254, 255)));
    }
}
