//! Header fields of ONVIF replay (ONVIF Streaming Specification, section "Initiating Playback").

use rtsp_types::{HeaderName, StatusCode};

use super::request::{Refusal, Request};
use super::response::Response;

/// Option tag of ONVIF replay.
pub const REPLAY_OPTION: &str = "onvif-replay";

const RATE_CONTROL: &str = "Rate-Control";
const FRAMES: &str = "Frames";
const IMMEDIATE: &str = "Immediate";

/// Frames that a client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// All frames.
    #[default]
    All,
    /// Frames that refer to others, and those to which others refer.
    Predicted,
    /// Frames that can be decoded alone.
    Intra {
        /// Least interval between such frames, in microseconds as recorded.
        interval_us: u64,
    },
}

impl Request {
    /// Returns whether the client requires ONVIF replay.
    pub fn requires_replay(&self) -> bool {
        self.required_options().contains(&REPLAY_OPTION)
    }

    /// Returns whether the request has `Rate-Control`.
    pub fn has_rate_control(&self) -> bool {
        self.headers.first(RATE_CONTROL).is_some()
    }

    /// Requested rate control: true if packets are to be sent at their times, false if they are to be sent as
    /// fast as the transport takes them. None if the request leaves it out, which means true.
    pub fn rate_control(&self) -> Result<Option<bool>, Refusal> {
        self.yes_or_no(RATE_CONTROL)
    }

    /// Returns whether a PLAY replaces the active one instead of waiting for its end.
    pub fn is_immediate(&self) -> Result<bool, Refusal> {
        Ok(self.yes_or_no(IMMEDIATE)?.unwrap_or(false))
    }

    /// Requested frames; none if the request leaves them out, which means all.
    pub fn frames(&self) -> Result<Option<Frames>, Refusal> {
        let Some(value) = self.headers.first(FRAMES) else { return Ok(None) };
        let (name, interval) = match value.split_once('/') {
            Some((name, interval)) => (name, Some(interval)),
            None => (value, None),
        };
        let interval_ms = interval.map(|interval| interval.trim().parse::<u64>());
        match (name.trim().to_ascii_lowercase().as_str(), interval_ms) {
            ("all", None) => Ok(Some(Frames::All)),
            ("predicted", None) => Ok(Some(Frames::Predicted)),
            ("intra", None) => Ok(Some(Frames::Intra { interval_us: 0 })),
            ("intra", Some(Ok(ms))) => Ok(Some(Frames::Intra { interval_us: ms.saturating_mul(1000) })),
            _ => {
                let why =
                    format!("{FRAMES}: `{value}`: expected all, predicted, intra or intra/MILLISECONDS");
                Err(Refusal::new(StatusCode::BadRequest, why))
            }
        }
    }

    fn yes_or_no(&self, name: &str) -> Result<Option<bool>, Refusal> {
        match self.headers.first(name) {
            None => Ok(None),
            Some(value) if value.eq_ignore_ascii_case("yes") => Ok(Some(true)),
            Some(value) if value.eq_ignore_ascii_case("no") => Ok(Some(false)),
            Some(value) => {
                let why = format!("{name}: `{value}`: expected yes or no");
                Err(Refusal::new(StatusCode::BadRequest, why))
            }
        }
    }
}

impl Response {
    /// Adds `Rate-Control`: `yes` if packets are sent at their times.
    pub fn rate_control(self, is_controlled: bool) -> Self {
        self.named(RATE_CONTROL, if is_controlled { "yes" } else { "no" })
    }

    /// Adds `Frames`: the frames that are sent.
    pub fn frames(self, frames: Frames) -> Self {
        match frames {
            Frames::All => self.named(FRAMES, "all"),
            Frames::Predicted => self.named(FRAMES, "predicted"),
            Frames::Intra { interval_us: 0 } => self.named(FRAMES, "intra"),
            Frames::Intra { interval_us } => self.named(FRAMES, &format!("intra/{}", interval_us / 1000)),
        }
    }

    fn named(self, name: &'static str, value: &str) -> Self {
        let name = HeaderName::from_static_str(name).expect("the name is ASCII");
        self.header(name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtsp::{Item, Reader};

    fn request(fields: &str) -> Request {
        let mut reader = Reader::new();
        reader.feed(format!("PLAY rtsp://h/x RTSP/1.0\r\nCSeq: 1\r\n{fields}\r\n").as_bytes());
        match reader.next_item() {
            Some(Item::Request(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn frames_are_parsed() {
        let frames = |value: &str| request(&format!("Frames: {value}\r\n")).frames();
        assert_eq!(frames("all"), Ok(Some(Frames::All)));
        assert_eq!(frames("Predicted"), Ok(Some(Frames::Predicted)));
        assert_eq!(frames("intra"), Ok(Some(Frames::Intra { interval_us: 0 })));
        assert_eq!(frames("intra/4000"), Ok(Some(Frames::Intra { interval_us: 4_000_000 })));
        assert_eq!(request("").frames(), Ok(None));
        for wrong in ["", "intra/", "intra/x", "all/4000", "b"] {
            assert_eq!(frames(wrong).unwrap_err().status, StatusCode::BadRequest, "{wrong}");
        }
    }

    #[test]
    fn yes_and_no_are_parsed() {
        let request =
            request("Require: a, onvif-replay\r\nRate-Control: no\r\nImmediate: YES\r\nFrames: intra\r\n");
        assert!(request.requires_replay());
        assert_eq!(request.rate_control(), Ok(Some(false)));
        assert_eq!(request.is_immediate(), Ok(true));
        let request = self::request("Rate-Control: maybe\r\n");
        assert!(!request.requires_replay());
        assert_eq!(request.rate_control().unwrap_err().status, StatusCode::BadRequest);
        assert_eq!(request.is_immediate(), Ok(false));
    }
}
