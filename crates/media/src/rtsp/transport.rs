//! `Transport` header of requests and responses (RFC 2326 section 12.39).

use super::headers::{Headers, split_outside_quotes};
use super::request::Refusal;
use rtsp_types::StatusCode;
use std::fmt;
use std::net::IpAddr;

/// Lower transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RTP over UDP.
    RtpUdp,
    /// RTP over TCP, interleaved with RTSP on its connection.
    RtpTcp,
    /// Another transport, as written.
    Other(String),
}

/// RTP profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// RTP/AVP (RFC 3551).
    Plain,
    /// RTP/SAVP (RFC 3711).
    Secure,
}

/// Unicast or multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// To one client.
    Unicast,
    /// To a group.
    Multicast,
}

/// Ports for RTP and RTCP. Neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPair {
    /// Port of the RTP packets.
    pub rtp: u16,
    /// Port of the RTCP packets.
    pub rtcp: u16,
}

/// Channels for RTP and RTCP in an RTSP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelPair {
    /// Channel of the RTP packets.
    pub rtp: u8,
    /// Channel of the RTCP packets.
    pub rtcp: u8,
}

/// Transport offered by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Lower transport.
    pub protocol: Protocol,
    /// RTP profile.
    pub profile: Profile,
    /// Unicast or multicast.
    pub delivery: Delivery,
    /// Ports of the client.
    pub client_port: Option<PortPair>,
    /// Channels that the client requests.
    pub interleaved: Option<ChannelPair>,
    /// Destination of the packets; by default, the address of the client.
    pub destination: Option<String>,
    /// True if the modes include `PLAY`, or there are none.
    pub is_for_playing: bool,
}

/// Transport of a session in the response to SETUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportReply {
    /// RTP profile, as offered.
    pub profile: Profile,
    /// Delivery of the packets.
    pub delivery: ReplyDelivery,
    /// Synchronisation source of the packets.
    pub ssrc: u32,
}

/// Delivery of a session's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyDelivery {
    /// UDP to a client.
    Udp {
        /// Ports of the client, as offered.
        client_port: PortPair,
        /// Ports of the server.
        server_port: PortPair,
        /// Source address of the packets.
        source: IpAddr,
    },
    /// Interleaved with RTSP on its connection.
    Interleaved(ChannelPair),
    /// UDP to a multicast group.
    Multicast {
        /// Address of the group.
        group: IpAddr,
        /// Ports of the group.
        ports: PortPair,
        /// Time to live, or hop limit.
        ttl: u8,
    },
}

impl Offer {
    /// Parses all offered transports, in the client's order. A malformed one is returned as a refusal.
    pub fn all(headers: &Headers) -> Vec<Result<Self, Refusal>> {
        headers.list("Transport").map(Self::parse).collect()
    }

    fn parse(value: &str) -> Result<Self, Refusal> {
        let mut parts = split_outside_quotes(value, ';');
        let (protocol, profile) = parse_protocol(parts.next().unwrap_or_default());
        let (mut delivery, mut destination, mut mode) = (None, None, None);
        let (mut client_port, mut interleaved) = (None, None);
        let bad = |why| Refusal::new(StatusCode::BadRequest, format!("Transport: {value}: {why}"));
        for part in parts {
            let (name, argument) = part.split_once('=').unwrap_or((part, ""));
            let argument = argument.trim().trim_matches('"');
            // Other parameters do not matter for unicast (ttl, layers, append, ssrc, source...).
            match name.trim().to_ascii_lowercase().as_str() {
                "unicast" => delivery = Some(Delivery::Unicast),
                "multicast" => delivery = Some(Delivery::Multicast),
                "client_port" => client_port = Some(PortPair::parse(argument).map_err(bad)?),
                "interleaved" => interleaved = Some(ChannelPair::parse(argument).map_err(bad)?),
                "destination" if !argument.is_empty() => destination = Some(argument.to_owned()),
                "mode" => mode = Some(argument.to_ascii_uppercase()),
                _ => {}
            }
        }
        // The default of the RFC is multicast. But a client that sends ports and no delivery means unicast,
        // and an RTSP connection can only be unicast.
        let is_unicast = client_port.is_some() || protocol == Protocol::RtpTcp;
        let guess = if is_unicast { Delivery::Unicast } else { Delivery::Multicast };
        let is_play = |mode: String| mode.split(',').any(|mode| mode.trim().trim_matches('"') == "PLAY");
        let (delivery, is_for_playing) = (delivery.unwrap_or(guess), mode.is_none_or(is_play));
        Ok(Offer { protocol, profile, delivery, client_port, interleaved, destination, is_for_playing })
    }
}

fn parse_protocol(specification: &str) -> (Protocol, Profile) {
    match specification.to_ascii_uppercase().as_str() {
        "RTP/AVP" | "RTP/AVP/UDP" => (Protocol::RtpUdp, Profile::Plain),
        "RTP/AVP/TCP" => (Protocol::RtpTcp, Profile::Plain),
        "RTP/SAVP" | "RTP/SAVP/UDP" => (Protocol::RtpUdp, Profile::Secure),
        "RTP/SAVP/TCP" => (Protocol::RtpTcp, Profile::Secure),
        _ => (Protocol::Other(specification.to_owned()), Profile::Plain),
    }
}

impl PortPair {
    /// Parses `a-b`, or `a` alone; then RTCP uses the next port (RFC 3550 section 11).
    fn parse(value: &str) -> Result<Self, String> {
        let port = |digits: &str| match digits.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("`{value}` is not a pair of ports from 1 to 65535")),
        };
        let (rtp, rtcp) = match value.split_once('-') {
            Some((rtp, rtcp)) => (port(rtp)?, port(rtcp)?),
            None => {
                let rtp = port(value)?;
                (rtp, rtp.checked_add(1).ok_or(format!("there is no port for RTCP after {rtp}"))?)
            }
        };
        Ok(Self { rtp, rtcp })
    }
}

impl ChannelPair {
    /// Parses `a-b`, or `a` alone; then RTCP uses the next channel.
    fn parse(value: &str) -> Result<Self, String> {
        let channel = |digits: &str| {
            digits
                .trim()
                .parse::<u8>()
                .map_err(|_| format!("`{value}` is not a pair of channels from 0 to 255"))
        };
        let (rtp, rtcp) = match value.split_once('-') {
            Some((rtp, rtcp)) => (channel(rtp)?, channel(rtcp)?),
            None => {
                let rtp = channel(value)?;
                (rtp, rtp.checked_add(1).ok_or(format!("there is no channel for RTCP after {rtp}"))?)
            }
        };
        if rtp == rtcp {
            return Err("RTP and RTCP need channels of their own".to_owned());
        }
        Ok(Self { rtp, rtcp })
    }

    /// Returns whether a channel is one of the pair.
    pub fn has(self, channel: u8) -> bool {
        channel == self.rtp || channel == self.rtcp
    }
}

impl fmt::Display for PortPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.rtp, self.rtcp)
    }
}

impl From<PortPair> for (u16, Option<u16>) {
    fn from(ports: PortPair) -> Self {
        (ports.rtp, Some(ports.rtcp))
    }
}

impl From<TransportReply> for rtsp_types::headers::Transports {
    fn from(reply: TransportReply) -> Self {
        use rtsp_types::headers::{
            RtpLowerTransport, RtpProfile, RtpTransport, RtpTransportParameters, Transport,
        };
        let params = RtpTransportParameters { unicast: true, ssrc: vec![reply.ssrc], ..Default::default() };
        let (lower_transport, params) = match reply.delivery {
            ReplyDelivery::Udp { client_port, server_port, source } => {
                let (client_port, server_port) = (Some(client_port.into()), Some(server_port.into()));
                let source = Some(source.to_string());
                (None, RtpTransportParameters { client_port, server_port, source, ..params })
            }
            ReplyDelivery::Interleaved(ChannelPair { rtp, rtcp }) => {
                let interleaved = Some((rtp, Some(rtcp)));
                (Some(RtpLowerTransport::Tcp), RtpTransportParameters { interleaved, ..params })
            }
            ReplyDelivery::Multicast { group, ports, ttl } => {
                let (destination, port) = (Some(group.to_string()), Some(ports.into()));
                let params =
                    RtpTransportParameters { unicast: false, multicast: true, destination, port, ..params };
                (None, RtpTransportParameters { ttl: Some(ttl), ..params })
            }
        };
        let profile = match reply.profile {
            Profile::Plain => RtpProfile::Avp,
            Profile::Secure => RtpProfile::SAvp,
        };
        vec![Transport::Rtp(RtpTransport { profile, lower_transport, params })].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offers(value: &str) -> Vec<Result<Offer, Refusal>> {
        let line = format!("Transport: {value}");
        Offer::all(&Headers::parse(std::iter::once(line.as_bytes())).expect("a field"))
    }

    fn unicast(rtp: u16) -> Offer {
        Offer {
            protocol: Protocol::RtpUdp,
            profile: Profile::Plain,
            delivery: Delivery::Unicast,
            client_port: Some(PortPair { rtp, rtcp: rtp + 1 }),
            interleaved: None,
            destination: None,
            is_for_playing: true,
        }
    }

    fn over_tcp(channels: Option<(u8, u8)>) -> Offer {
        let interleaved = channels.map(|(rtp, rtcp)| ChannelPair { rtp, rtcp });
        Offer { protocol: Protocol::RtpTcp, client_port: None, interleaved, ..unicast(5000) }
    }

    #[test]
    fn offers_of_real_clients_are_read() {
        let with = |change: fn(&mut Offer)| {
            let mut offer = unicast(5000);
            change(&mut offer);
            offer
        };
        for (value, expected) in [
            ("RTP/AVP/UDP;unicast;client_port=5000-5001", unicast(5000)), // ffmpeg
            ("RTP/AVP;unicast;client_port=5000-5001", unicast(5000)),     // live555, GStreamer
            ("rtp/avp ; Unicast ; client_port = 5000 ; mode=\"PLAY\"", unicast(5000)),
            ("RTP/AVP;client_port=5000-5001;ttl=127;ssrc=0", unicast(5000)),
            ("RTP/AVP;unicast;client_port=5000-5001;mode=record", with(|offer| offer.is_for_playing = false)),
            ("RTP/AVP;unicast;client_port=5000-5001;mode=\"PLAY,RECORD\"", unicast(5000)),
            (
                "RTP/AVP;unicast;destination=10.0.0.9;client_port=5000-5001",
                with(|offer| offer.destination = Some("10.0.0.9".to_owned())),
            ),
            (
                "RTP/SAVP;unicast;client_port=5000-5001",
                with(|offer| offer.profile = Profile::Secure), // GStreamer
            ),
            (
                "RTP/SAVPF;unicast;client_port=5000-5001",
                with(|offer| offer.protocol = Protocol::Other("RTP/SAVPF".to_owned())),
            ),
            ("RTP/AVP/TCP;unicast;interleaved=0-1", over_tcp(Some((0, 1)))), // ffmpeg, GStreamer, live555
            ("RTP/AVP/TCP;interleaved=254", over_tcp(Some((254, 255)))),
            ("RTP/AVP/TCP;unicast;interleaved=\"7 - 3\"", over_tcp(Some((7, 3)))),
            ("RTP/AVP/TCP", over_tcp(None)),
            (
                "RTP/AVP",
                with(|offer| {
                    offer.delivery = Delivery::Multicast;
                    offer.client_port = None;
                }),
            ),
        ] {
            assert_eq!(offers(value), [Ok(expected)], "{value}");
        }
    }

    #[test]
    fn several_offers_keep_their_order_and_a_bad_one_spoils_only_itself() {
        let read = offers(
            "RTP/AVP;multicast,RTP/AVP;client_port=x , RTP/AVP;unicast;client_port=6000-6001;mode=\"a,b\"",
        );
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].as_ref().map(|offer| offer.delivery), Ok(Delivery::Multicast));
        assert_eq!(read[1].as_ref().map_err(|refusal| u16::from(refusal.status)), Err(400));
        assert_eq!(read[2], Ok(Offer { is_for_playing: false, ..unicast(6000) }));
        assert_eq!(offers(""), []);
    }

    #[test]
    fn impossible_ports_are_refused() {
        for ports in ["0-1", "1-0", "0", "65535", "65536-65537", "a-b", "", "1-2-3", "-5", "5-", "+1-2x"] {
            let read = offers(&format!("RTP/AVP;unicast;client_port={ports}"));
            assert!(
                matches!(&read[..], [Err(refusal)] if refusal.status == StatusCode::BadRequest),
                "{ports}"
            );
        }
    }

    #[test]
    fn impossible_channels_are_refused() {
        for channels in ["", "a", "255", "256-257", "3-3", "1-2-3", "-1", "0-"] {
            let read = offers(&format!("RTP/AVP/TCP;unicast;interleaved={channels}"));
            assert!(
                matches!(&read[..], [Err(refusal)] if refusal.status == StatusCode::BadRequest),
                "{channels}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_value_panics(value in "[\\PC\"]*") {
            _ = offers(&value);
            _ = offers(&format!("RTP/AVP;mode={value};client_port={value};interleaved={value}"));
        }
    }
}
