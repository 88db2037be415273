//! Sizes of packet headers in bytes.

use std::net::SocketAddr;

/// IPv4 (RFC 791, without options) and UDP.
pub(crate) const UDP_OVER_IPV4: u32 = 20 + 8;

/// IPv6 (RFC 8200, without extensions) and UDP.
pub(crate) const UDP_OVER_IPV6: u32 = 40 + 8;

/// RTP (RFC 3550, without contributing sources).
pub(crate) const RTP: u32 = wirepath_datapath::rtp::HEADER_LENGTH as u32;

/// UDP payload that fills a packet to this address.
pub(crate) fn udp_payload_limit(mtu: u32, to: SocketAddr) -> u32 {
    mtu.saturating_sub(if to.is_ipv4() { UDP_OVER_IPV4 } else { UDP_OVER_IPV6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Packets to an IPv6 sink, with their headers, fill its MTU.
    #[test]
    fn a_packet_over_ipv6_has_room_for_less() {
        assert_eq!(udp_payload_limit(1500, "192.0.2.1:5000".parse().unwrap()), 1472);
        assert_eq!(udp_payload_limit(1500, "[2001:db8::1]:5000".parse().unwrap()), 1452);
    }
}
