//! Codecs of tracks, with the configuration of their decoders.

use super::AudioConfig;

/// Codec of a track, with the configuration of its decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264.
    H264(Avc),
    /// H.265.
    H265(Hevc),
    /// AV1, with its configuration if the file has one.
    Av1(Option<Av1>),
    /// VP8.
    Vp8,
    /// VP9, with its profile if the file has it.
    Vp9(Option<u8>),
    /// AAC and other MPEG-4 audio.
    Aac(AudioConfig),
    /// MPEG-1 or MPEG-2 audio, layers 1 to 3.
    MpegAudio,
    /// AC-3.
    Ac3,
    /// Enhanced AC-3.
    Eac3,
    /// Opus.
    Opus,
    /// G.711 with A-law.
    G711A,
    /// G.711 with µ-law.
    G711Mu,
    /// Linear PCM.
    Pcm(Pcm),
    /// Encrypted samples of any codec.
    Encrypted,
    /// Samples of any codec that the container compressed.
    Compressed,
    /// A codec whose configuration is missing or damaged, by its name.
    Unconfigured(String),
    /// Unknown codec, with its name.
    Other(String),
}

/// Configuration of H.264 (`avcC`, ISO/IEC 14496-15 section 5.3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Avc {
    /// Profile, constraints and level: the bytes of `profile-level-id`.
    pub profile_level: [u8; 3],
    /// Length of the NAL units' length fields in bytes: 1, 2 or 4.
    pub length_size: u8,
    /// Sequence parameter sets.
    pub sequence_sets: Vec<Vec<u8>>,
    /// Picture parameter sets.
    pub picture_sets: Vec<Vec<u8>>,
}

/// Configuration of H.265 (`hvcC`, ISO/IEC 14496-15 section 8.3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hevc {
    /// Profile: 1 for Main, 2 for Main 10.
    pub profile: u8,
    /// Level, times 30: 93 for 3.1.
    pub level: u8,
    /// Length of the NAL units' length fields in bytes: 1, 2 or 4.
    pub length_size: u8,
    /// Video parameter sets.
    pub video_sets: Vec<Vec<u8>>,
    /// Sequence parameter sets.
    pub sequence_sets: Vec<Vec<u8>>,
    /// Picture parameter sets.
    pub picture_sets: Vec<Vec<u8>>,
}

/// Configuration of AV1 (`av1C`, AV1 in ISO base media section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Av1 {
    /// Profile (`seq_profile`): 0 for Main.
    pub profile: u8,
    /// Level (`seq_level_idx_0`): 8 for 4.0.
    pub level: u8,
    /// Tier (`seq_tier_0`).
    pub tier: u8,
}

/// Sample format of linear PCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pcm {
    /// Bits of a sample.
    pub bits: u16,
    /// True if big-endian, as in RTP.
    pub big_endian: bool,
    /// Kind of number.
    pub kind: PcmKind,
}

/// Kind of number of linear PCM samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PcmKind {
    /// Signed integers.
    Signed,
    /// Unsigned integers; silence is the middle of their range.
    Unsigned,
    /// Floating point.
    Float,
}

/// Channels and sample rate of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Number of channels.
    pub channels: u16,
    /// Sample rate in Hz.
    pub sample_rate: u32,
}

impl Codec {
    /// Display name.
    pub fn name(&self) -> String {
        match self {
            Self::H264(_) => "H.264".to_owned(),
            Self::H265(_) => "H.265".to_owned(),
            Self::Av1(_) => "AV1".to_owned(),
            Self::Vp8 => "VP8".to_owned(),
            Self::Vp9(_) => "VP9".to_owned(),
            Self::Aac(config) => config.name().to_owned(),
            Self::MpegAudio => "MPEG audio".to_owned(),
            Self::Ac3 => "AC-3".to_owned(),
            Self::Eac3 => "E-AC-3".to_owned(),
            Self::Opus => "Opus".to_owned(),
            Self::G711A => "G.711 A-law".to_owned(),
            Self::G711Mu => "G.711 µ-law".to_owned(),
            Self::Pcm(pcm) => pcm.name(),
            Self::Encrypted => "encrypted".to_owned(),
            Self::Compressed => "compressed".to_owned(),
            Self::Unconfigured(name) | Self::Other(name) => name.clone(),
        }
    }

    /// Profile and level for display, if the configuration contains them.
    pub fn profile(&self) -> Option<String> {
        match self {
            Self::H264(Avc { profile_level: [profile, constraints, level], .. }) => {
                let name = match (profile, constraints & 0x40 != 0) {
                    (66, true) => "Constrained Baseline".to_owned(),
                    (66, false) => "Baseline".to_owned(),
                    (77, _) => "Main".to_owned(),
                    (88, _) => "Extended".to_owned(),
                    (100, _) => "High".to_owned(),
                    (110, _) => "High 10".to_owned(),
                    (122, _) => "High 4:2:2".to_owned(),
                    (244, _) => "High 4:4:4 Predictive".to_owned(),
                    (other, _) => format!("profile {other}"),
                };
                Some(format!("{name} {}.{}", level / 10, level % 10))
            }
            Self::H265(Hevc { profile, level, .. }) => {
                let name = match profile {
                    1 => "Main".to_owned(),
                    2 => "Main 10".to_owned(),
                    3 => "Main Still Picture".to_owned(),
                    4 => "Range Extensions".to_owned(),
                    other => format!("profile {other}"),
                };
                Some(format!("{name} {}.{}", level / 30, level % 30 / 3))
            }
            Self::Av1(Some(Av1 { profile, level, .. })) => {
                let name = ["Main", "High", "Professional"].get(usize::from(*profile)).copied();
                let level = match level {
                    31 => String::new(),
                    level => format!(" {}.{}", 2 + level / 4, level % 4),
                };
                Some(format!("{}{level}", name.unwrap_or("reserved profile")))
            }
            Self::Vp9(Some(profile)) => Some(format!("profile {profile}")),
            _ => None,
        }
    }
}

impl Pcm {
    fn name(self) -> String {
        let order = if self.bits > 8 && !self.big_endian { " little-endian" } else { "" };
        let kind = match self.kind {
            PcmKind::Signed => "",
            PcmKind::Unsigned => " unsigned",
            PcmKind::Float => " float",
        };
        format!("PCM {} bit{kind}{order}", self.bits)
    }
}
