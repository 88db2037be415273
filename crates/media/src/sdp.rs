//! Session descriptions (RFC 8866, RFC 2326 appendix C) of a presentation with one MPEG-2 transport stream.

use crate::rtp::{CLOCK_HZ, PAYLOAD_TYPE_MP2T};
use crate::rtsp::{Npt, NptRange};
use sdp_types::{Attribute, Bandwidth, Connection, Media, Origin, Session, Time};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Name of the track in its URL: `rtsp://host/clip.ts/track1`.
pub const TRACK: &str = "track1";

/// Description of a presentation, which a client reads before it sets up a session.
/// ```
/// use wirepath_media::sdp::Description;
///
/// let description = Description {
///     name: "clip.ts".to_owned(),
///     id: 1,
///     version: 1,
///     duration_us: Some(10_000_000),
///     bits_per_second: None,
/// };
/// let text = String::from_utf8(description.to_bytes([192, 0, 2, 1].into())).unwrap();
/// assert!(text.contains("m=video 0 RTP/AVP 33\r\n"));
/// assert!(text.contains("a=range:npt=0.000-10.000\r\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The presentation's name, shown by players.
    pub name: String,
    /// Session id: the same presentation keeps it.
    pub id: u64,
    /// Goes up when the presentation's media change.
    pub version: u64,
    /// Duration of the presentation; `None` while it is unknown.
    pub duration_us: Option<u64>,
    /// Mean rate of the media with RTP, UDP and IP headers (RFC 3550 section 6.2); `None` while unknown.
    pub bits_per_second: Option<u64>,
}

impl Description {
    /// The description as text, by a server that the client sees at this address.
    pub fn to_bytes(&self, server: IpAddr) -> Vec<u8> {
        let origin = Origin::with_ip_addr(self.id, self.version, server);
        let mut session = Session::new(origin, one_line(&self.name));
        // RFC 2326 appendix C.1.7: the address is settled by SETUP.
        session.set_connection(Connection::from_ip_addr(match server {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }));
        session.add_time(Time::new(0, 0));
        session.add_attribute_with_value("tool", concat!("Wirepath ", env!("CARGO_PKG_VERSION")));
        session.add_attribute_with_value("control", "*");
        session.add_attribute_with_value("range", self.range());
        session.add_media(self.media());
        let mut bytes = Vec::new();
        session.write(&mut bytes).expect("writing to memory does not fail");
        bytes
    }

    /// RFC 2326 appendix C.1.5; an open end where the duration is not known.
    fn range(&self) -> NptRange {
        NptRange { start: Some(Npt::At(0)), end: self.duration_us.map(Npt::At) }
    }

    /// RFC 3551 section 5: payload type 33 is static; it is spelt out for clients that look for the name.
    fn media(&self) -> Media {
        let format = PAYLOAD_TYPE_MP2T.to_string();
        let mut media =
            Media::new(sdp_types::MediaType::Video, 0, sdp_types::TransportProto::RtpAvp, &format);
        if let Some(bits_per_second) = self.bits_per_second {
            let kilobits = bits_per_second.div_ceil(1000);
            media.add_bandwidth(Bandwidth::new(sdp_types::BandwidthType::As, kilobits));
        }
        media.add_attribute(Attribute::with_value("rtpmap", format!("{format} MP2T/{CLOCK_HZ}")));
        media.add_attribute(Attribute::with_value("control", TRACK));
        media
    }
}

/// A session name is one line and not empty (RFC 8866 section 5.3).
fn one_line(name: &str) -> String {
    let line: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.trim().is_empty() { "-".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn description() -> Description {
        Description {
            name: "clip.ts".to_owned(),
            id: 7,
            version: 1,
            duration_us: Some(60_040_000),
            bits_per_second: Some(4_000_001),
        }
    }

    fn text(description: &Description, server: IpAddr) -> String {
        String::from_utf8(description.to_bytes(server)).expect("text")
    }

    #[test]
    fn a_presentation_is_described() {
        let expected = [
            "v=0",
            "o=- 7 1 IN IP4 10.0.0.1",
            "s=clip.ts",
            "c=IN IP4 0.0.0.0",
            "t=0 0",
            concat!("a=tool:Wirepath ", env!("CARGO_PKG_VERSION")),
            "a=control:*",
            "a=range:npt=0.000-60.040",
            "m=video 0 RTP/AVP 33",
            "b=AS:4001",
            "a=rtpmap:33 MP2T/90000",
            "a=control:track1",
            "",
        ];
        assert_eq!(text(&description(), SERVER), expected.join("\r\n"));
    }

    #[test]
    fn what_is_not_known_is_left_open() {
        let unknown = Description { duration_us: None, bits_per_second: None, ..description() };
        let text = text(&unknown, Ipv6Addr::LOCALHOST.into());
        assert!(text.contains("\r\no=- 7 1 IN IP6 ::1\r\n"), "{text}");
        assert!(text.contains("\r\nc=IN IP6 ::\r\n"), "{text}");
        assert!(text.contains("\r\na=range:npt=0.000-\r\n"), "{text}");
        assert!(!text.contains("b="), "{text}");
    }

    #[test]
    fn a_name_stays_in_its_line() {
        let hostile = Description { name: "a\r\nm=audio 1 RTP/AVP 0".to_owned(), ..description() };
        assert!(text(&hostile, SERVER).contains("\r\ns=a  m=audio 1 RTP/AVP 0\r\n"));
        assert!(text(&Description { name: String::new(), ..description() }, SERVER).contains("\r\ns=-\r\n"));
    }

    #[test]
    fn an_independent_reader_reads_it() {
        let bytes = description().to_bytes(SERVER);
        let session = Session::parse(&bytes).expect("valid");
        assert_eq!(session.medias.len(), 1);
        assert_eq!(session.medias[0].fmt, "33");
        assert_eq!(session.medias[0].get_first_attribute_value("control"), Some(Some(TRACK)));
    }
}
