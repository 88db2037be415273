//! Responses (RFC 2326 section 7).

use super::npt::NptRange;
use super::request::{BURST_MAX, Refusal};
use super::transport::TransportReply;
use rtsp_types::{HeaderName, StatusCode, Version, headers};
use std::fmt;
use std::time::SystemTime;

/// Response under construction. Header values are written as a single line without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Response {
    message: rtsp_types::Response<Vec<u8>>,
    /// Values of `WWW-Authenticate`. Each is written as a header line of its own, in this order, because
    /// clients expect one challenge in a line. `rtsp-types` does not support this.
    challenges: Vec<String>,
}

/// `RTP-Info` of a track (RFC 2326 section 12.33).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RtpInfo {
    /// URL of the track.
    pub url: String,
    /// Sequence number of the first packet after PLAY, if known.
    pub sequence: Option<u16>,
    /// RTP timestamp of the beginning of `Range`.
    pub timestamp: u32,
}

impl fmt::Display for RtpInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "url={}", self.url)?;
        if let Some(sequence) = self.sequence {
            write!(formatter, ";seq={sequence}")?;
        }
        write!(formatter, ";rtptime={}", self.timestamp)
    }
}

impl Response {
    /// Response to the request with this CSeq; without CSeq if it could not be read.
    pub fn new(status: StatusCode, cseq: Option<u64>) -> Self {
        let mut response = rtsp_types::Response::builder(Version::V1_0, status)
            .reason_phrase(reason_phrase(status))
            .build(Vec::new());
        if let Some(cseq) = cseq {
            response.insert_header(headers::CSEQ, cseq.to_string());
        }
        Self { message: response, challenges: Vec::new() }
    }

    /// Response to a refused request, with the reason as its body.
    pub fn refusal(refusal: &Refusal) -> Self {
        let response = Self::new(refusal.status, refusal.cseq);
        let response =
            response.body("text/plain; charset=utf-8", format!("{}\r\n", refusal.why).into_bytes());
        let response = match refusal.retry_after_s {
            Some(seconds) => response.header(headers::RETRY_AFTER, &seconds.to_string()),
            None => response,
        };
        if refusal.close { response.header(headers::CONNECTION, "close") } else { response }
    }

    /// Status of the response.
    pub fn status(&self) -> StatusCode {
        self.message.status()
    }

    /// Adds `Date`.
    pub fn date(self, now: SystemTime) -> Self {
        self.header(headers::DATE, &httpdate::fmt_http_date(now))
    }

    /// Adds `Session` with its timeout in seconds.
    pub fn session(self, id: &str, timeout_s: u64) -> Self {
        self.header(headers::SESSION, &format!("{id};timeout={timeout_s}"))
    }

    /// Adds `Transport`.
    pub fn transport(mut self, transport: TransportReply) -> Self {
        self.message.insert_typed_header(&headers::Transports::from(transport));
        self
    }

    /// Adds `Range`: the range that is actually played.
    pub fn range(self, range: NptRange) -> Self {
        self.header(headers::RANGE, &range.to_string())
    }

    /// Adds `X-Burst-Max`: the longest burst, given in microseconds and written in whole milliseconds.
    pub fn burst_max(self, burst_us: u64) -> Self {
        let name = HeaderName::from_static_str(BURST_MAX).expect("the name is ASCII");
        self.header(name, &format!("{}ms", burst_us / 1000))
    }

    /// Adds `RTP-Info` of the tracks, unless there are none.
    pub fn rtp_info(self, tracks: &[RtpInfo]) -> Self {
        if tracks.is_empty() {
            return self;
        }
        let tracks: Vec<_> = tracks.iter().map(RtpInfo::to_string).collect();
        self.header(headers::RTP_INFO, &tracks.join(","))
    }

    /// Adds `Unsupported`: the option tags that status 551 refers to.
    pub fn unsupported(self, options: &[&str]) -> Self {
        self.header(headers::UNSUPPORTED, &options.join(", "))
    }

    /// Adds a body with `Content-Type` and `Content-Length`.
    pub fn body(mut self, content_type: &str, body: Vec<u8>) -> Self {
        self.message = self.message.replace_body(body);
        self.header(headers::CONTENT_TYPE, content_type)
    }

    /// Encodes the response.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.message.write(&mut bytes).expect("writing to memory does not fail");
        if !self.challenges.is_empty() {
            let line = bytes.windows(2).position(|end| end == b"\r\n").expect("there is a status line") + 2;
            let lines =
                self.challenges.iter().map(|value| format!("WWW-Authenticate: {}\r\n", single_line(value)));
            bytes.splice(line..line, lines.collect::<String>().into_bytes());
        }
        bytes
    }

    /// Adds a header field.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.message.insert_header(name, single_line(value));
        self
    }

    /// Adds `WWW-Authenticate`, a line for each value (RFC 2326 section 12.44).
    pub fn challenges(self, challenges: Vec<String>) -> Self {
        Self { challenges, ..self }
    }
}

fn single_line(value: &str) -> String {
    value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Reason phrase of RFC 2326 section 7.1.1, which sometimes differs from that of `rtsp-types`.
fn reason_phrase(status: StatusCode) -> String {
    match status {
        StatusCode::Ok => "OK".to_owned(),
        StatusCode::OnlyAggregateOperationAllowed => "Only Aggregate Operation Allowed".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ChannelPair, Npt, PortPair, Profile, ReplyDelivery};
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn text(response: Response) -> String {
        String::from_utf8(response.to_bytes()).expect("text")
    }

    #[test]
    fn each_challenge_has_a_line() {
        let challenges = vec!["Digest a".to_owned(), "Digest b\r\nx".to_owned()];
        let text = text(Response::new(StatusCode::Unauthorized, Some(1)).challenges(challenges));
        let expected = "RTSP/1.0 401 Unauthorized\r\nWWW-Authenticate: Digest a\r\nWWW-Authenticate: Digest b  x\r\n\
                        CSeq: 1\r\n";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_setup_is_answered() {
        let delivery = ReplyDelivery::Udp {
            client_port: PortPair { rtp: 5000, rtcp: 5001 },
            server_port: PortPair { rtp: 6970, rtcp: 6971 },
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
        };
        let transport = TransportReply { profile: Profile::Plain, delivery, ssrc: 0xab };
        let response = Response::new(StatusCode::Ok, Some(3)).session("0123", 60).transport(transport);
        assert_eq!(
            text(response),
            "RTSP/1.0 200 OK\r\nCSeq: 3\r\nSession: 0123;timeout=60\r\nTransport: RTP/AVP;unicast;ssrc=000000AB;\
             client_port=5000-5001;server_port=6970-6971;source=10.0.0.1\r\n\r\n"
        );
    }

    #[test]
    fn a_setup_over_tcp_is_answered() {
        let delivery = ReplyDelivery::Interleaved(ChannelPair { rtp: 0, rtcp: 1 });
        let transport = TransportReply { profile: Profile::Plain, delivery, ssrc: 0xab };
        let response = Response::new(StatusCode::Ok, Some(3)).transport(transport);
        assert_eq!(
            text(response),
            "RTSP/1.0 200 OK\r\nCSeq: 3\r\nTransport: RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=000000AB\r\n\r\n"
        );
    }

    #[test]
    fn a_play_is_answered() {
        let info = RtpInfo { url: "rtsp://h/clip.ts/track1".to_owned(), sequence: Some(7), timestamp: 9 };
        let unsent = RtpInfo { url: "rtsp://h/clip.ts/track2".to_owned(), sequence: None, timestamp: 5 };
        let range = NptRange { start: Some(Npt::At(1_500_000)), end: Some(Npt::At(2_000_001)) };
        let response = Response::new(StatusCode::Ok, Some(4)).range(range).rtp_info(&[info, unsent]);
        let response = response.header(headers::SCALE, "1.0");
        assert_eq!(
            text(response),
            "RTSP/1.0 200 OK\r\nCSeq: 4\r\nRange: npt=1.500-2.000001\r\n\
             RTP-Info: url=rtsp://h/clip.ts/track1;seq=7;rtptime=9,url=rtsp://h/clip.ts/track2;rtptime=5\r\nScale: 1.0\r\n\r\n"
        );
    }

    #[test]
    fn a_description_carries_its_length() {
        let response = Response::new(StatusCode::Ok, Some(2))
            .header(headers::SERVER, "Wirepath")
            .date(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
            .header(headers::CONTENT_BASE, "rtsp://h/clip.ts/")
            .body("application/sdp", b"v=0\r\n".to_vec());
        assert_eq!(
            text(response),
            "RTSP/1.0 200 OK\r\nContent-Base: rtsp://h/clip.ts/\r\nContent-Length: 5\r\n\
             Content-Type: application/sdp\r\nCSeq: 2\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Server: Wirepath\r\n\r\nv=0\r\n"
        );
    }

    #[test]
    fn a_refusal_cannot_be_made_to_write_lines_of_its_own() {
        let response =
            Response::new(StatusCode::OptionNotSupported, None).unsupported(&["a\r\nEvil: 1", "b"]);
        assert_eq!(text(response), "RTSP/1.0 551 Option Not Supported\r\nUnsupported: a  Evil: 1, b\r\n\r\n");
        let refusal = Refusal { close: true, cseq: Some(1), ..Refusal::new(StatusCode::BadRequest, "why") };
        let text = text(Response::refusal(&refusal));
        assert!(
            text.starts_with("RTSP/1.0 400 Bad Request\r\nConnection: close\r\nContent-Length: 5\r\n"),
            "{text}"
        );
        assert!(text.ends_with("\r\n\r\nwhy\r\n"), "{text}");
    }
}
