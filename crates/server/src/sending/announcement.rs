//! Announcements of sessions by SAP (RFC 2974).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::Duration;

use super::destination::Destination;

/// Port of announcements (RFC 2974 section 3).
const PORT: u16 = 9875;

/// Time to live of announcements: their scope is that of their group (RFC 2974 section 3).
const TTL: u8 = 255;

/// Interval of announcements. RFC 2974 section 3.1 allows 4,000 bits a second to all announcers of a group, and asks
/// for five minutes at least; ffmpeg and VLC announce each five seconds, since people who look wait for it.
pub(crate) const INTERVAL: Duration = Duration::from_secs(30);

/// Announcer of a destination that is a group.
pub(crate) struct Announcer {
    socket: UdpSocket,
    announcement: Vec<u8>,
    deletion: Vec<u8>,
}

impl Announcer {
    /// An announcer of a description.
    ///
    /// # Errors
    /// Those of socket calls.
    pub(crate) fn open(destination: &Destination, description: &[u8]) -> io::Result<Announcer> {
        let mut to = destination.address; // with the zone of an IPv6 address
        to.set_ip(group_of_announcements(to.ip()));
        to.set_port(PORT);
        let socket = Destination { address: to, ttl: Some(TTL), ..destination.clone() }.connect(0)?;
        socket.set_nonblocking(true)?;
        let source = socket.local_addr()?.ip();
        let packet = |is_deletion| packet(source, is_deletion, description);
        Ok(Announcer { socket, announcement: packet(false), deletion: packet(true) })
    }

    /// Announces the session.
    pub(crate) fn announce(&self) {
        self.send(&self.announcement);
    }

    /// Says that the session is over.
    pub(crate) fn delete(&self) {
        self.send(&self.deletion);
    }

    fn send(&self, packet: &[u8]) {
        if let Err(error) = self.socket.send(packet) {
            tracing::debug!(%error, "an announcement was not sent");
        }
    }
}

/// Group of the announcements of sessions of a group: the highest address of its scope (RFC 2974 section 3), of
/// the scopes that RFC 2365 and RFC 4291 define.
fn group_of_announcements(group: IpAddr) -> IpAddr {
    match group {
        IpAddr::V4(group) => match group.octets() {
            [239, 255, ..] => Ipv4Addr::new(239, 255, 255, 255).into(),
            [239, 192..=195, ..] => Ipv4Addr::new(239, 195, 255, 255).into(),
            [224, 0, 0, _] => Ipv4Addr::new(224, 0, 0, 255).into(),
            _ => Ipv4Addr::new(224, 2, 127, 254).into(),
        },
        IpAddr::V6(group) => {
            let scope = group.segments()[0] & 0xf;
            Ipv6Addr::new(0xff00 | scope, 0, 0, 0, 0, 0, 2, 0x7ffe).into()
        }
    }
}

/// Packet of an announcement, or of its deletion (RFC 2974 section 4).
fn packet(source: IpAddr, is_deletion: bool, description: &[u8]) -> Vec<u8> {
    const VERSION_1: u8 = 1 << 5;
    const IPV6: u8 = 1 << 4;
    const DELETION: u8 = 1 << 2;
    let flags = VERSION_1 | if source.is_ipv6() { IPV6 } else { 0 } | if is_deletion { DELETION } else { 0 };
    let hash = description
        .iter()
        .fold(1_u16, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()))
        .max(1);
    let mut packet = vec![flags, 0];
    packet.extend(hash.to_be_bytes());
    match source {
        IpAddr::V4(source) => packet.extend(source.octets()),
        IpAddr::V6(source) => packet.extend(source.octets()),
    }
    packet.extend(b"application/sdp\0");
    // A deletion needs the line of the origin only.
    let origin = description.split_inclusive(|byte| *byte == b'\n').take(2);
    let payload: Vec<u8> =
        if is_deletion { origin.flatten().copied().collect() } else { description.to_vec() };
    packet.extend(payload);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_go_to_the_group_of_the_scope() {
        for (group, expected) in [
            ("239.255.3.4", "239.255.255.255"),
            ("239.193.3.4", "239.195.255.255"),
            ("224.0.0.9", "224.0.0.255"),
            ("239.1.1.1", "224.2.127.254"),
            ("ff15::7", "ff05::2:7ffe"),
        ] {
            assert_eq!(group_of_announcements(group.parse().unwrap()), expected.parse::<IpAddr>().unwrap());
        }
    }

    #[test]
    fn packets_have_the_form_of_the_rfc() {
        let description = b"v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=clip\r\n";
        let announcement = packet([192, 0, 2, 1].into(), false, description);
        assert_eq!((announcement[0], announcement[1]), (0x20, 0));
        assert_ne!(announcement[2..4], [0, 0], "the hash is not 0");
        assert_eq!(announcement[4..8], [192, 0, 2, 1]);
        assert_eq!(announcement[8..], [&b"application/sdp\0"[..], description].concat());
        let deletion = packet(Ipv6Addr::LOCALHOST.into(), true, description);
        assert_eq!(deletion[0], 0x34);
        assert_eq!(deletion[2..4], announcement[2..4], "the same session");
        assert!(deletion.ends_with(b"application/sdp\0v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\n"));
    }
}
