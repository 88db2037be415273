//! `Transport` header of a session, as a client sends it and reads it in a response (RFC 2326 section 12.39).

use std::net::IpAddr;

/// Transport header of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) is_tcp: bool,
    /// Ports of the server for RTP and RTCP.
    pub(crate) server_ports: Option<(u16, u16)>,
    /// Channels for RTP and RTCP.
    pub(crate) channels: Option<(u8, u8)>,
    /// Sender of the media, if it is another host than the server.
    pub(crate) source: Option<IpAddr>,
}

impl Reply {
    /// Reads the first transport of a response. Invalid parameters are ignored.
    pub(crate) fn read(value: &str) -> Reply {
        let mut parts = value.split(',').next().unwrap_or_default().split(';').map(str::trim);
        let protocol = parts.next().unwrap_or_default();
        let mut reply = Reply { is_tcp: protocol.to_ascii_uppercase().ends_with("/TCP"), ..Reply::default() };
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "server_port" => reply.server_ports = pair(value),
                "interleaved" => reply.channels = pair(value),
                "source" => reply.source = value.trim().trim_matches(['"', '[', ']']).parse().ok(),
                _ => {}
            }
        }
        reply
    }
}

/// Parses `a-b`, or `a` alone, where RTCP has the next number.
fn pair<T: std::str::FromStr + Copy + TryFrom<u32> + Into<u32>>(value: &str) -> Option<(T, T)> {
    let (first, second) = value.split_once('-').unwrap_or((value, ""));
    let first: T = first.trim().parse().ok()?;
    let second = second.trim().parse().ok().or_else(|| T::try_from(first.into() + 1).ok());
    Some((first, second?))
}

/// First sequence number of each track, from the values of `RTP-Info`, in order.
pub(crate) fn first_sequences<'a>(values: impl Iterator<Item = &'a str>) -> Vec<Option<u16>> {
    let sequence = |value: &str| {
        let parts = value.split(';').filter_map(|part| part.trim().strip_prefix("seq="));
        parts.filter_map(|digits| digits.trim().parse().ok()).next()
    };
    values.map(sequence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_of_real_servers_are_read() {
        let reply = Reply::read(
            "RTP/AVP;unicast;ssrc=000000AB;client_port=5000-5001;server_port=6970-6971;source=10.0.0.1",
        );
        let expected = Reply {
            server_ports: Some((6970, 6971)),
            source: Some([10, 0, 0, 1].into()),
            ..Reply::default()
        };
        assert_eq!(reply, expected);
        let reply = Reply::read("RTP/AVP/TCP;unicast;interleaved=2-3;ssrc=1");
        assert_eq!(reply, Reply { is_tcp: true, channels: Some((2, 3)), ..Reply::default() });
        assert_eq!(Reply::read("RTP/AVP;server_port=6970").server_ports, Some((6970, 6971)));
        assert_eq!(Reply::read("RTP/AVP;interleaved=255;server_port=x"), Reply::default());
    }

    #[test]
    fn first_sequence_numbers_are_read() {
        let values = ["url=rtsp://h/a/track1;seq=7;rtptime=9", "url=b", "url=c; seq=65536"];
        assert_eq!(first_sequences(values.into_iter()), [Some(7), None, None]);
    }

    proptest! {
        #[test]
        fn no_text_panics(value in "\\PC*") {
            _ = Reply::read(&value);
            _ = Reply::read(&format!("RTP/AVP;server_port={value};source={value}"));
            _ = first_sequences([value.as_str()].into_iter());
        }
    }
}
