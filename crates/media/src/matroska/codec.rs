//! Codecs from codec IDs (RFC 9559 section 5.1.4.1.21, "Matroska Media Container Codec Specifications").

use super::entry::Entry;
use crate::track::{AudioConfig, Codec, Fields, Pcm, PcmKind, Sound, av1, avc, hevc};

/// Codec of a track, with its configuration.
pub(super) fn codec(entry: &Entry<'_>) -> Codec {
    let configuration = || Fields(entry.private);
    let pcm = |big_endian, kind| {
        let bits = u16::try_from(entry.bits).unwrap_or(u16::MAX);
        let kind = if bits == 8 && kind == PcmKind::Signed { PcmKind::Unsigned } else { kind };
        Codec::Pcm(Pcm { bits, big_endian, kind })
    };
    let found = match entry.codec {
        "V_MPEG4/ISO/AVC" => avc(&mut configuration()).map(Codec::H264),
        "V_MPEGH/ISO/HEVC" => hevc(&mut configuration()).map(Codec::H265),
        "V_AV1" => Some(Codec::Av1(av1(&mut configuration()))),
        "V_VP8" => Some(Codec::Vp8),
        "V_VP9" => Some(Codec::Vp9(vp9_profile(entry.private))),
        "A_AAC" => AudioConfig::read(entry.private).map(Codec::Aac),
        "A_OPUS" => Some(Codec::Opus),
        "A_MPEG/L1" | "A_MPEG/L2" | "A_MPEG/L3" => Some(Codec::MpegAudio),
        "A_AC3" => Some(Codec::Ac3),
        "A_EAC3" => Some(Codec::Eac3),
        "A_PCM/INT/BIG" => Some(pcm(true, PcmKind::Signed)),
        "A_PCM/INT/LIT" => Some(pcm(false, PcmKind::Signed)),
        "A_PCM/FLOAT/IEEE" => Some(pcm(false, PcmKind::Float)),
        "A_MS/ACM" => wave(entry.private),
        _ => None,
    };
    found.unwrap_or_else(|| match entry.codec {
        "V_MPEG4/ISO/AVC" | "V_MPEGH/ISO/HEVC" | "A_AAC" => Codec::Unconfigured(entry.codec.to_owned()),
        _ => Codec::Other(printable(entry.codec)),
    })
}

/// Channels and sample rate of an audio track.
pub(super) fn sound(entry: &Entry<'_>, codec: &Codec) -> Sound {
    let stated = Sound {
        channels: u16::try_from(entry.channels).unwrap_or(u16::MAX),
        sample_rate: entry.sample_rate.round() as u32, // Saturates; 0 for NaN.
    };
    match codec {
        Codec::Aac(config) => Sound {
            channels: if config.channels > 0 { config.channels.into() } else { stated.channels },
            sample_rate: config.sample_rate,
        },
        // Times of Opus have 48,000 ticks per second at any sample rate (RFC 7845 section 5.1).
        Codec::Opus => Sound { sample_rate: 48_000, ..stated },
        _ => stated,
    }
}

/// Profile from the configuration of VP9, which is a list of features: ID, length, value.
fn vp9_profile(mut private: &[u8]) -> Option<u8> {
    while let [id, length, rest @ ..] = private {
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        match (id, value) {
            (1, [profile]) => return Some(*profile),
            _ => private = rest,
        }
    }
    None
}

/// Codec from the format tag of a `WAVEFORMATEX` structure.
fn wave(private: &[u8]) -> Option<Codec> {
    match u16::from_le_bytes(*private.first_chunk()?) {
        0x0006 => Some(Codec::G711A),
        0x0007 => Some(Codec::G711Mu),
        0x0050 | 0x0055 => Some(Codec::MpegAudio),
        0x2000 => Some(Codec::Ac3),
        _ => None,
    }
}

/// Layer of MPEG audio from the codec ID, or from a `WAVEFORMATEX` structure: its format tag is for layer 3,
/// or for all layers with flags for the layer (fwHeadLayer of `MPEG1WAVEFORMAT`).
pub(super) fn mpeg_layer(entry: &Entry<'_>) -> Option<u8> {
    match (entry.codec, entry.private) {
        ("A_MPEG/L1", _) => Some(1),
        ("A_MPEG/L2", _) => Some(2),
        ("A_MPEG/L3", _) | (_, [0x55, 0, ..]) => Some(3),
        (_, private) => match private.get(18..20)? {
            [1, 0] => Some(1),
            [2, 0] => Some(2),
            [4, 0] => Some(3),
            _ => None,
        },
    }
}

/// Codec ID of an unknown codec: its printable characters, at most 32.
fn printable(codec: &str) -> String {
    codec.chars().filter(|letter| letter.is_ascii_graphic()).take(32).collect()
}
