//! SDP attributes of a track's payload format.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde::{Deserialize, Serialize};

use super::{Format, MAX_SET_BYTES, PcmEncoding, PcmFormat, Unplayable};
use crate::track::{Av1, Avc, Codec, Hevc, Track, TrackKind};

/// Static payload type of MPEG audio (RFC 3551 table 4).
const MPEG_AUDIO: u8 = 14;

/// SDP attributes of a track.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackDescription {
    /// True if the media type is `video`, false if it is `audio`.
    pub video: bool,
    /// Payload type.
    pub payload_type: u8,
    /// Value of `a=rtpmap`.
    pub map: String,
    /// Value of `a=fmtp`, if the format has parameters.
    pub parameters: Option<String>,
    /// Value of `a=framerate` (RFC 8866 section 6.13), if the frame rate is known.
    pub frame_rate: Option<String>,
    /// Value of `a=lang` (three letters of ISO 639-2 or a BCP 47 tag), if the file contains the language.
    pub language: Option<String>,
    /// Mean bit rate of the payload in bits per second, if known.
    pub bits_per_second: Option<u64>,
}

impl TrackDescription {
    /// Description of a track. `payload_type`, 96 to 127, is used for formats without a static payload type;
    /// `frame_rate` is in frames per second.
    pub fn of(track: &Track, payload_type: u8, frame_rate: Option<f64>) -> Result<Self, Unplayable> {
        let format = Format::of(track)?;
        let payload_type = static_type(format).unwrap_or(payload_type);
        let clock = format.clock_hz(track);
        let channels = track.sound.map_or(1, |sound| sound.channels);
        let name = match format {
            Format::H264 => format!("H264/{clock}"),
            Format::H265 => format!("H265/{clock}"),
            Format::Aac => format!("MPEG4-GENERIC/{clock}/{channels}"),
            // RFC 7587 section 7: always two channels.
            Format::Opus => format!("opus/{clock}/2"),
            Format::MpegAudio => format!("MPA/{clock}"),
            Format::Ac3 => format!("ac3/{clock}/{channels}"),
            Format::Av1 => format!("AV1/{clock}"),
            Format::Vp8 => format!("VP8/{clock}"),
            Format::Vp9 => format!("VP9/{clock}"),
            Format::Pcm(format) => pcm(format),
        };
        let parameters = match &track.codec {
            Codec::H264(avc) => Some(h264(avc)),
            Codec::H265(hevc) => h265(hevc),
            Codec::Aac(config) => Some(aac(&config.bytes)),
            Codec::Av1(Some(Av1 { profile, level, tier })) => {
                Some(format!("profile={profile};level-idx={level};tier={tier}"))
            }
            Codec::Vp9(Some(profile)) => Some(format!("profile-id={profile}")),
            Codec::Opus if channels == 2 => Some("sprop-stereo=1".to_owned()),
            _ => None,
        };
        Ok(Self {
            video: track.kind == TrackKind::Video,
            payload_type,
            map: format!("{payload_type} {name}"),
            parameters: parameters.map(|parameters| format!("{payload_type} {parameters}")),
            frame_rate: frame_rate.map(|rate| ((rate * 1000.0).round() / 1000.0).to_string()),
            language: track.language.clone(),
            bits_per_second: None,
        })
    }
}

/// Static payload type of a format (RFC 3551 tables 4 and 5).
fn static_type(format: Format) -> Option<u8> {
    use PcmEncoding::{L16, L16Little, Pcma, Pcmu};
    match format {
        Format::MpegAudio => Some(MPEG_AUDIO),
        Format::Pcm(PcmFormat { encoding, channels, sample_rate }) => match (encoding, channels, sample_rate)
        {
            (Pcmu, 1, 8000) => Some(0),
            (Pcma, 1, 8000) => Some(8),
            (L16 | L16Little, 2, 44_100) => Some(10),
            (L16 | L16Little, 1, 44_100) => Some(11),
            _ => None,
        },
        _ => None,
    }
}

/// Encoding name, clock rate, and channels unless there is only one (RFC 3551 section 6).
fn pcm(PcmFormat { encoding, channels, sample_rate }: PcmFormat) -> String {
    let name = match encoding {
        PcmEncoding::Pcma => "PCMA",
        PcmEncoding::Pcmu => "PCMU",
        PcmEncoding::L16 | PcmEncoding::L16Little => "L16",
        PcmEncoding::L24 | PcmEncoding::L24Little => "L24",
    };
    let channels = if channels > 1 { format!("/{channels}") } else { String::new() };
    format!("{name}/{sample_rate}{channels}")
}

/// Parameters of H.264 (RFC 6184 section 8.1). Without parameter sets in the file (as for `avc3`) or if they
/// are too long, receivers get them in the stream.
fn h264(avc: &Avc) -> String {
    let [profile, constraints, level] = avc.profile_level;
    let sets: Vec<String> = match fit([&avc.sequence_sets, &avc.picture_sets]) {
        true => avc.sequence_sets.iter().chain(&avc.picture_sets).map(base64).collect(),
        false => Vec::new(),
    };
    let sets =
        if sets.is_empty() { String::new() } else { format!(";sprop-parameter-sets={}", sets.join(",")) };
    format!("packetization-mode=1{sets};profile-level-id={profile:02X}{constraints:02X}{level:02X}")
}

/// Parameters of H.265 (RFC 7798 section 7.1).
fn h265(hevc: &Hevc) -> Option<String> {
    if !fit([&hevc.video_sets, &hevc.sequence_sets, &hevc.picture_sets]) {
        return None;
    }
    let lists = [("vps", &hevc.video_sets), ("sps", &hevc.sequence_sets), ("pps", &hevc.picture_sets)];
    let lists = lists.iter().filter(|(_, sets)| !sets.is_empty());
    let list = |(name, sets): &(&str, &Vec<Vec<u8>>)| {
        format!("sprop-{name}={}", sets.iter().map(base64).collect::<Vec<_>>().join(","))
    };
    let lists: Vec<String> = lists.map(list).collect();
    (!lists.is_empty()).then(|| lists.join(";"))
}

/// Returns whether SDP can contain these parameter sets.
fn fit<const LISTS: usize>(lists: [&Vec<Vec<u8>>; LISTS]) -> bool {
    lists.into_iter().flatten().map(Vec::len).sum::<usize>() <= MAX_SET_BYTES
}

/// Parameters of AAC (RFC 3640 sections 4.1 and 3.3.6).
fn aac(config: &[u8]) -> String {
    let config: String = config.iter().map(|byte| format!("{byte:02X}")).collect();
    let mode = "profile-level-id=1;mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3";
    format!("streamtype=5;{mode};config={config}")
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with RFC 3551 tables 4 and 5.
    #[test]
    fn formats_of_static_payload_types_have_these() {
        use PcmEncoding::{L16, L24, Pcma, Pcmu};
        for (encoding, channels, sample_rate, expected) in [
            (Pcmu, 1, 8000, Some(0)),
            (Pcmu, 2, 8000, None),
            (Pcmu, 1, 16_000, None),
            (Pcma, 1, 8000, Some(8)),
            (Pcma, 1, 48_000, None),
            (L16, 2, 44_100, Some(10)),
            (L16, 1, 44_100, Some(11)),
            (L16, 2, 48_000, None),
            (L16, 3, 44_100, None),
            (L24, 2, 44_100, None),
        ] {
            let format = PcmFormat { encoding, channels, sample_rate };
            assert_eq!(static_type(Format::Pcm(format)), expected, "{format:?}");
        }
        assert_eq!(static_type(Format::MpegAudio), Some(14));
        assert_eq!(static_type(Format::Opus), None);
    }
}
