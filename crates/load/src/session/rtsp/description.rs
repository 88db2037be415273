//! Parts of a session description that a client needs (RFC 8866, RFC 2326 appendix C). The parser is as
//! tolerant as those of players.

use wirepath_media::rtsp::{Npt, NptRange};

/// Maximum number of tracks of a presentation that are set up.
const MOST_TRACKS: usize = 8;

/// Default clock rate: the rate of video and of transport streams.
const DEFAULT_HZ: u32 = 90_000;

/// Description of a presentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Description {
    /// URL of the presentation, for PLAY.
    pub(crate) url: String,
    pub(crate) tracks: Vec<TrackDescription>,
    pub(crate) duration_us: Option<u64>,
}

/// Description of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackDescription {
    /// URL for SETUP.
    pub(crate) url: String,
    pub(crate) payload_type: Option<u8>,
    /// Clock rate of the RTP timestamps.
    pub(crate) hz: u32,
}

/// Attributes of a medium, or of the whole session.
#[derive(Default)]
struct Part<'a> {
    medium: &'a str,
    control: Option<&'a str>,
    range: Option<&'a str>,
    rate: Option<&'a str>,
}

impl Description {
    /// Reads the response to DESCRIBE of `url`, with the base URL from its headers. Tracks other than audio
    /// and video are omitted.
    pub(crate) fn read(text: &str, url: &str, base: Option<&str>) -> Description {
        let base = base.filter(|base| is_absolute(base)).unwrap_or(url);
        let mut parts = vec![Part::default()];
        for line in text.lines() {
            let (kind, value) = line.split_once('=').unwrap_or_default();
            if kind == "m" {
                parts.push(Part { medium: value, ..Part::default() });
            } else if let (Some(part), "a") = (parts.last_mut(), kind) {
                part.attribute(value);
            }
        }
        let session = parts.remove(0);
        let aggregate = session.control.map_or_else(|| url.to_owned(), |control| resolve(base, control));
        let tracks = parts.iter().filter(|part| part.is_playable()).take(MOST_TRACKS);
        let duration = parts.iter().chain([&session]).filter_map(Part::duration_us).max();
        Description {
            tracks: tracks.map(|part| part.track(base, &aggregate)).collect(),
            url: aggregate,
            duration_us: duration,
        }
    }
}

impl<'a> Part<'a> {
    fn attribute(&mut self, attribute: &'a str) {
        let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "control" => self.control = Some(value.trim()),
            "range" => self.range = Some(value.trim()),
            // If there are several formats, the first one is played.
            "rtpmap" if self.rate.is_none() => self.rate = value.split('/').nth(1),
            _ => {}
        }
    }

    fn is_playable(&self) -> bool {
        ["audio", "video"].iter().any(|kind| self.medium.starts_with(kind))
    }

    fn track(&self, base: &str, aggregate: &str) -> TrackDescription {
        let url = self.control.map_or_else(|| aggregate.to_owned(), |control| resolve(base, control));
        let payload_type = self.medium.split_ascii_whitespace().nth(3).and_then(|format| format.parse().ok());
        let hz = self.rate.and_then(|rate| rate.trim().parse().ok()).filter(|hz| *hz > 0);
        TrackDescription { url, payload_type, hz: hz.unwrap_or(DEFAULT_HZ) }
    }

    fn duration_us(&self) -> Option<u64> {
        let range = NptRange::parse(self.range?).ok()?;
        let (Some(Npt::At(end)), start) = (range.end, range.start) else { return None };
        let start = if let Some(Npt::At(start)) = start { start } else { 0 };
        end.checked_sub(start).filter(|duration| *duration > 0)
    }
}

fn is_absolute(url: &str) -> bool {
    url.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("rtsp://"))
}

/// Resolves a control URL as players do (RFC 2326 appendix C.1.1): a relative URL is appended to the base.
fn resolve(base: &str, control: &str) -> String {
    match control {
        "*" | "" => base.to_owned(),
        control if is_absolute(control) => control.to_owned(),
        control => format!("{}/{}", base.trim_end_matches('/'), control.trim_start_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const URL: &str = "rtsp://h/clip.ts";

    fn track(url: &str, payload_type: u8, hz: u32) -> TrackDescription {
        TrackDescription { url: url.to_owned(), payload_type: Some(payload_type), hz }
    }

    #[test]
    fn descriptions_of_real_servers_are_read() {
        let ours = "v=0\r\na=control:*\r\na=range:npt=0.000-60.040\r\nm=video 0 RTP/AVP 33\r\n\
            a=rtpmap:33 MP2T/90000\r\na=control:track1\r\n";
        let expected = Description {
            url: format!("{URL}/"),
            tracks: vec![track("rtsp://h/clip.ts/track1", 33, 90_000)],
            duration_us: Some(60_040_000),
        };
        assert_eq!(Description::read(ours, URL, Some("rtsp://h/clip.ts/")), expected);
        let cameras = "m=video 0 RTP/AVP 96\na=rtpmap:96 H264/90000\na=control:rtsp://h/x/trackID=0\n\
            m=audio 0 RTP/AVP 97\na=rtpmap:97 mpeg4-generic/48000/2\na=control:trackID=1\n\
            m=application 0 RTP/AVP 98\na=control:trackID=2\n";
        let expected = Description {
            url: URL.to_owned(),
            tracks: vec![
                track("rtsp://h/x/trackID=0", 96, 90_000),
                track("rtsp://h/clip.ts/trackID=1", 97, 48_000),
            ],
            duration_us: None,
        };
        assert_eq!(Description::read(cameras, URL, None), expected);
        let bare = Description::read("m=video 0 RTP/AVP 33", URL, None);
        assert_eq!(bare.tracks, [track(URL, 33, 90_000)]);
        assert_eq!(Description::read("<html>", URL, None).tracks, []);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).*", lines in prop::collection::vec("[mab]=[a-z]*[: ]\\PC*", 0..9)) {
            _ = Description::read(&text, URL, None);
            prop_assert!(Description::read(&lines.join("\n"), URL, Some(&text)).tracks.len() <= MOST_TRACKS);
        }
    }
}
