//! Session descriptions (RFC 8866, RFC 2326 appendix C) of presentations.

use crate::payload::TrackDescription;
use crate::rtp::{CLOCK_HZ, PAYLOAD_TYPE_MP2T};
use crate::rtsp::{ClockRange, Npt, NptRange};
use crate::srtp::KeyAttributes;
use sdp_types::{Attribute, Bandwidth, BandwidthType, Connection, Media, MediaType, Origin, Session, Time};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Description of a presentation, which clients read before they set up a session.
/// ```
/// use wirepath_media::sdp::{Description, Track};
///
/// let description = Description {
///     name: "clip.ts".to_owned(),
///     id: 1,
///     version: 1,
///     duration_us: Some(10_000_000),
///     clock: None,
///     is_live: false,
///     has_replay: false,
///     tracks: vec![Track::transport_stream(None)],
/// };
/// let text = String::from_utf8(description.to_bytes([192, 0, 2, 1].into())).unwrap();
/// assert!(text.contains("m=video 0 RTP/AVP 33\r\n"));
/// assert!(text.contains("a=range:npt=0.000-10.000\r\n"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Name of the presentation, which players show.
    pub name: String,
    /// Session id, which stays the same for a presentation.
    pub id: u64,
    /// Session version, which increases when the media of the presentation change.
    pub version: u64,
    /// Duration of the presentation; `None` while it is unknown.
    pub duration_us: Option<u64>,
    /// Absolute times of the presentation, if it has them.
    pub clock: Option<ClockRange>,
    /// True if the presentation has no beginning and end, and therefore no range.
    pub is_live: bool,
    /// True if tracks have references for ONVIF replay (ONVIF Streaming Specification, section "RTSP
    /// describe").
    pub has_replay: bool,
    /// Tracks. Track N, counted from 1, has the control URL [`track_name`].
    pub tracks: Vec<Track>,
}

/// Track of a presentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Track {
    /// SDP attributes of the payload format.
    pub description: TrackDescription,
    /// Mean bit rate of the track including RTP, UDP and IP headers (RFC 3550 section 6.2); `None` if
    /// unknown.
    pub bits_per_second: Option<u64>,
}

/// Name of a track in its URL: `rtsp://host/clip.ts/track1`.
pub fn track_name(number: u32) -> String {
    format!("track{number}")
}

impl Track {
    /// Track of a transport stream. Its payload type 33 is static (RFC 3551 section 5), but the name is
    /// included for clients that look for it.
    pub fn transport_stream(bits_per_second: Option<u64>) -> Track {
        let description = TrackDescription {
            video: true,
            payload_type: PAYLOAD_TYPE_MP2T,
            map: format!("{PAYLOAD_TYPE_MP2T} MP2T/{CLOCK_HZ}"),
            parameters: None,
            frame_rate: None,
            language: None,
            bits_per_second: None,
        };
        Track { description, bits_per_second }
    }

    fn media(&self, number: u32) -> Media {
        let TrackDescription { video, payload_type, map, parameters, frame_rate, language, .. } =
            &self.description;
        let kind = if *video { MediaType::Video } else { MediaType::Audio };
        let format = payload_type.to_string();
        let mut media = Media::new(kind, 0, sdp_types::TransportProto::RtpAvp, &format);
        if let Some(bits_per_second) = self.bits_per_second {
            let kilobits = bits_per_second.div_ceil(1000);
            media.add_bandwidth(Bandwidth::new(BandwidthType::As, kilobits));
        }
        let attributes = [
            ("rtpmap", Some(map)),
            ("fmtp", parameters.as_ref()),
            ("framerate", frame_rate.as_ref()),
            ("lang", language.as_ref()),
            ("control", Some(&track_name(number))),
        ];
        for (name, value) in attributes {
            if let Some(value) = value {
                media.add_attribute(Attribute::with_value(name, one_line(value)));
            }
        }
        media
    }
}

impl Description {
    /// Encodes the description for a client. `server`: address of the server as the client sees it.
    pub fn to_bytes(&self, server: IpAddr) -> Vec<u8> {
        self.to_bytes_with_keys(server, &[])
    }

    /// Encodes the description with keys: `keys[0]` are the keys of the first track. Tracks with keys are
    /// RTP/SAVP. Only the client may then see the description.
    pub fn to_bytes_with_keys(&self, server: IpAddr, keys: &[KeyAttributes]) -> Vec<u8> {
        let origin = Origin::with_ip_addr(self.id, self.version, server);
        let mut session = Session::new(origin, one_line(&self.name));
        // The address is determined by SETUP (RFC 2326 appendix C.1.7).
        session.set_connection(Connection::from_ip_addr(match server {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }));
        session.add_time(Time::new(0, 0));
        session.add_attribute_with_value("tool", concat!("Wirepath ", env!("CARGO_PKG_VERSION")));
        session.add_attribute_with_value("control", "*");
        // Clients of ONVIF replay take the first range for the one in which they seek.
        if !(self.is_live || self.has_replay && self.clock.is_some()) {
            session.add_attribute_with_value("range", self.range());
        }
        if let Some(clock) = self.clock {
            session.add_attribute_with_value("range", clock);
        }
        for (number, track) in (1..).zip(&self.tracks) {
            let mut media = track.media(number);
            if let Some(keys) = keys.get(number as usize - 1) {
                media.proto = sdp_types::TransportProto::RtpSavp.to_string();
                keys.iter()
                    .for_each(|(name, value)| media.add_attribute(Attribute::with_value(*name, value)));
            }
            if self.has_replay {
                media.add_attribute(Attribute::with_value("x-onvif-track", track_name(number)));
            }
            session.add_media(media);
        }
        let mut bytes = Vec::new();
        session.write(&mut bytes).expect("writing to memory does not fail");
        bytes
    }

    /// Encodes the description as a file for receivers of media that `source` sends to the address `to` and
    /// the ports from its port on, two for each track. `ttl`: time to live of a group.
    pub fn sent_to(&self, source: IpAddr, to: SocketAddr, ttl: Option<u8>) -> Vec<u8> {
        let origin = Origin::with_ip_addr(self.id, self.version, source);
        let mut session = Session::new(origin, one_line(&self.name));
        let mut connection = Connection::from_ip_addr(to.ip());
        if let (IpAddr::V4(group), Some(ttl)) = (to.ip(), ttl) {
            connection.connection_address = format!("{group}/{ttl}"); // RFC 8866 section 5.7
        }
        session.set_connection(connection);
        session.add_time(Time::new(0, 0));
        session.add_attribute_with_value("tool", concat!("Wirepath ", env!("CARGO_PKG_VERSION")));
        session.add_attribute_from_str("recvonly");
        for (track, port) in self.tracks.iter().zip((to.port()..).step_by(2)) {
            let mut media = track.media(0);
            media.port = port;
            media.attributes.retain(|attribute| attribute.attribute != "control");
            session.add_media(media);
        }
        let mut bytes = Vec::new();
        session.write(&mut bytes).expect("writing to memory does not fail");
        bytes
    }

    /// Range of the presentation (RFC 2326 appendix C.1.5), with an open end if the duration is unknown.
    fn range(&self) -> NptRange {
        NptRange { start: Some(Npt::At(0)), end: self.duration_us.map(Npt::At) }
    }
}

/// Makes a single line of a name or value, which is not empty (RFC 8866 section 5.3).
fn one_line(name: &str) -> String {
    let line: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.trim().is_empty() { "-".to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtsp::ClockTime;
    use proptest::prelude::*;

    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn description() -> Description {
        Description {
            name: "clip.ts".to_owned(),
            id: 7,
            version: 1,
            duration_us: Some(60_040_000),
            clock: None,
            is_live: false,
            has_replay: false,
            tracks: vec![Track::transport_stream(Some(4_000_001))],
        }
    }

    fn text(description: &Description, server: IpAddr) -> String {
        String::from_utf8(description.to_bytes(server)).expect("text")
    }

    /// Promise: The description for ONVIF replay has absolute times alone, and a reference of each track.
    #[test]
    fn a_description_for_replay_has_references_of_tracks() {
        let clock = Some(ClockRange { start: ClockTime(0), end: None });
        let text = text(&Description { clock, has_replay: true, ..description() }, SERVER);
        assert!(text.contains("a=range:clock=19700101T000000Z-\r\n") && !text.contains("npt"), "{text}");
        assert!(text.ends_with("a=control:track1\r\na=x-onvif-track:track1\r\n"), "{text}");
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
        let tracks = vec![Track::transport_stream(None)];
        let unknown = Description { duration_us: None, tracks, ..description() };
        let text = text(&unknown, Ipv6Addr::LOCALHOST.into());
        assert!(text.contains("\r\no=- 7 1 IN IP6 ::1\r\n"), "{text}");
        assert!(text.contains("\r\nc=IN IP6 ::\r\n"), "{text}");
        assert!(text.contains("\r\na=range:npt=0.000-\r\n"), "{text}");
        assert!(!text.contains("b="), "{text}");
    }

    /// Promise: A session description file has the address, the time to live of a group, and a port for each
    /// track.
    #[test]
    fn what_is_sent_is_described_with_its_ports() {
        let sent = |to: &str, ttl| {
            String::from_utf8(movie().sent_to(SERVER, to.parse().unwrap(), ttl)).expect("text")
        };
        let group = sent("239.1.1.1:5004", Some(4));
        assert!(group.contains("\r\nc=IN IP4 239.1.1.1/4\r\n"), "{group}");
        assert!(group.contains("\r\nm=video 5004 RTP/AVP 96\r\n"), "{group}");
        assert!(group.contains("\r\nm=audio 5006 RTP/AVP 97\r\n"), "{group}");
        assert!(!group.contains("control") && !group.contains("range"), "{group}");
        let group = sent("[ff02::1]:5004", Some(4));
        assert!(group.contains("\r\nc=IN IP6 ff02::1\r\n"), "IPv6 has no time to live: {group}");
        assert!(sent("192.0.2.7:5004", None).contains("\r\nc=IN IP4 192.0.2.7\r\n"));
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
        assert_eq!(session.medias[0].get_first_attribute_value("control"), Some(Some("track1")));
    }

    fn movie() -> Description {
        let video = TrackDescription {
            video: true,
            payload_type: 96,
            map: "96 H264/90000".to_owned(),
            parameters: Some("96 packetization-mode=1;profile-level-id=64001F".to_owned()),
            frame_rate: Some("29.97".to_owned()),
            language: None,
            bits_per_second: None,
        };
        let audio = TrackDescription {
            video: false,
            payload_type: 97,
            map: "97 MPEG4-GENERIC/48000/2".to_owned(),
            parameters: Some("97 streamtype=5;mode=AAC-hbr;config=1190".to_owned()),
            frame_rate: None,
            language: Some("de".to_owned()),
            bits_per_second: None,
        };
        let tracks = vec![
            Track { description: video, bits_per_second: Some(4_000_000) },
            Track { description: audio, bits_per_second: None },
        ];
        Description { name: "film.mp4".to_owned(), tracks, ..description() }
    }

    /// Promise: Each track of a movie is described with its format, parameters, frame rate, language and URL.
    #[test]
    fn tracks_are_described_one_after_the_other() {
        let expected = [
            "m=video 0 RTP/AVP 96",
            "b=AS:4000",
            "a=rtpmap:96 H264/90000",
            "a=fmtp:96 packetization-mode=1;profile-level-id=64001F",
            "a=framerate:29.97",
            "a=control:track1",
            "m=audio 0 RTP/AVP 97",
            "a=rtpmap:97 MPEG4-GENERIC/48000/2",
            "a=fmtp:97 streamtype=5;mode=AAC-hbr;config=1190",
            "a=lang:de",
            "a=control:track2",
            "",
        ];
        let text = text(&movie(), SERVER);
        let medias = text.find("m=").expect("media lines");
        assert_eq!(text[medias..], expected.join("\r\n"));
        let read = Session::parse(text.as_bytes()).expect("valid");
        assert_eq!(read.medias.len(), 2);
    }

    /// Promise: Over TLS, a track with a key is RTP/SAVP, and SDP contains the key for MIKEY and for SDES.
    #[test]
    fn keys_are_told() {
        let keys = vec![("key-mgmt", "mikey AQ==".to_owned()), ("crypto", "1 SUITE inline:AQ==".to_owned())];
        let bytes = movie().to_bytes_with_keys(SERVER, &[keys]);
        let text = String::from_utf8(bytes).expect("text");
        assert!(
            text.contains("\r\nm=video 0 RTP/SAVP 96\r\n") && text.contains("\r\nm=audio 0 RTP/AVP 97\r\n")
        );
        assert!(text.contains("\r\na=key-mgmt:mikey AQ==\r\na=crypto:1 SUITE inline:AQ==\r\n"), "{text}");
    }

    proptest! {
        /// Promise: No text of a file's tracks adds a line to their session description.
        #[test]
        fn values_of_tracks_stay_in_their_lines(values in prop::collection::vec(any::<String>(), 1..5)) {
            let tracks = values.iter().map(|value| {
                let description = TrackDescription {
                    video: false,
                    payload_type: 97,
                    map: value.clone(),
                    parameters: Some(value.clone()),
                    frame_rate: Some(value.clone()),
                    language: Some(value.clone()),
                    bits_per_second: None,
                };
                Track { description, bits_per_second: Some(1) }
            });
            let hostile = Description { tracks: tracks.collect(), ..description() };
            let text = text(&hostile, SERVER);
            prop_assert_eq!(text.matches("\r\n").count(), 8 + 7 * values.len());
            prop_assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
            let read = Session::parse(text.as_bytes()).expect("valid");
            prop_assert_eq!(read.medias.len(), values.len());
        }
    }
}
