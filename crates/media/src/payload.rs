//! Payload formats: how the samples of a track are carried over RTP.

use crate::mp4::{Codec, Track};

/// Payload format of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// H.264 (RFC 6184).
    H264,
    /// H.265 (RFC 7798).
    H265,
    /// AAC (RFC 3640, mode AAC-hbr).
    Aac,
    /// Opus (RFC 7587).
    Opus,
    /// MPEG-1 and MPEG-2 audio (RFC 2250 section 3.5).
    MpegAudio,
    /// AC-3 (RFC 4184).
    Ac3,
}

/// Reason why a track is not played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unplayable {
    /// Its samples are encrypted.
    #[error("its samples are encrypted")]
    Encrypted,
    /// Its samples are not in the file.
    #[error("its samples are in another file")]
    External,
    /// The codec changes within the track.
    #[error("it has {0} sample descriptions; one is supported")]
    Descriptions(u32),
    /// The codec has no payload format here.
    #[error("no RTP payload format for {0}")]
    Codec(String),
    /// The configuration of the codec is damaged.
    #[error("NAL units have lengths of {0} bytes; 1, 2 and 4 are valid")]
    LengthSize(u8),
}

impl Format {
    /// Payload format of a track.
    pub fn of(track: &Track) -> Result<Self, Unplayable> {
        let format = match &track.codec {
            Codec::Encrypted => return Err(Unplayable::Encrypted),
            _ if track.external => return Err(Unplayable::External),
            _ if track.descriptions > 1 => return Err(Unplayable::Descriptions(track.descriptions)),
            Codec::H264(avc) if avc.length_size == 3 => return Err(Unplayable::LengthSize(3)),
            Codec::H265(hevc) if hevc.length_size == 3 => return Err(Unplayable::LengthSize(3)),
            Codec::H264(_) => Self::H264,
            Codec::H265(_) => Self::H265,
            Codec::Aac(_) => Self::Aac,
            Codec::Opus => Self::Opus,
            Codec::MpegAudio => Self::MpegAudio,
            Codec::Ac3 => Self::Ac3,
            other => return Err(Unplayable::Codec(other.name())),
        };
        Ok(format)
    }

    /// The document that specifies it.
    pub fn specification(self) -> &'static str {
        match self {
            Self::H264 => "RFC 6184",
            Self::H265 => "RFC 7798",
            Self::Aac => "RFC 3640",
            Self::Opus => "RFC 7587",
            Self::MpegAudio => "RFC 2250",
            Self::Ac3 => "RFC 4184",
        }
    }
}
