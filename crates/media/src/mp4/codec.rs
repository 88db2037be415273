//! Sample descriptions (ISO/IEC 14496-12 section 8.5.2): the codec of a track and its configuration.

use super::boxes::{Children, Fields, MemoryBox};
use super::descriptor::{AudioConfig, descriptor};
use super::{Error, FourCc};

/// Codec of a track, with what a decoder has to know before the first sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264.
    H264(Avc),
    /// H.265.
    H265(Hevc),
    /// AV1.
    Av1,
    /// VP8.
    Vp8,
    /// VP9.
    Vp9,
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
    /// Linear PCM of so many bits.
    Pcm(u16),
    /// Encrypted samples, of whatever codec.
    Encrypted,
    /// A codec that is known only by its name.
    Other(FourCc),
}

/// Configuration of H.264 (`avcC`, ISO/IEC 14496-15 section 5.3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Avc {
    /// Profile, constraints and level: the bytes of `profile-level-id`.
    pub profile_level: [u8; 3],
    /// Bytes of the length before each NAL unit: 1, 2 or 4.
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
    /// Level, 30 for each whole number: 93 for 3.1.
    pub level: u8,
    /// Bytes of the length before each NAL unit: 1, 2 or 4.
    pub length_size: u8,
    /// Video parameter sets.
    pub video_sets: Vec<Vec<u8>>,
    /// Sequence parameter sets.
    pub sequence_sets: Vec<Vec<u8>>,
    /// Picture parameter sets.
    pub picture_sets: Vec<Vec<u8>>,
}

/// Channels and sample rate of audio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Number of channels.
    pub channels: u16,
    /// Sample rate in Hz.
    pub sample_rate: u32,
}

/// Sample description of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SampleEntry {
    pub(super) codec: Codec,
    /// Width and height in pixels.
    pub(super) picture: Option<(u16, u16)>,
    pub(super) sound: Option<Sound>,
    /// Number of the data reference, counted from 1.
    pub(super) reference: u16,
}

impl Codec {
    /// Name for people.
    pub fn name(&self) -> String {
        match self {
            Self::H264(_) => "H.264".to_owned(),
            Self::H265(_) => "H.265".to_owned(),
            Self::Av1 => "AV1".to_owned(),
            Self::Vp8 => "VP8".to_owned(),
            Self::Vp9 => "VP9".to_owned(),
            Self::Aac(config) => config.name().to_owned(),
            Self::MpegAudio => "MPEG audio".to_owned(),
            Self::Ac3 => "AC-3".to_owned(),
            Self::Eac3 => "E-AC-3".to_owned(),
            Self::Opus => "Opus".to_owned(),
            Self::G711A => "G.711 A-law".to_owned(),
            Self::G711Mu => "G.711 µ-law".to_owned(),
            Self::Pcm(bits) => format!("PCM {bits} bit"),
            Self::Encrypted => "encrypted".to_owned(),
            Self::Other(kind) => kind.to_string(),
        }
    }

    /// Profile and level for people, where the configuration has them.
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
            _ => None,
        }
    }

    /// Reads the first sample description of an `stsd` box.
    pub(super) fn read(stsd: &MemoryBox, sound: bool, video: bool) -> Result<SampleEntry, Error> {
        let entry = stsd.children_after(8).next();
        let entry = entry.ok_or_else(|| stsd.error("it has no sample description"))??;
        let reference = entry.fields(|fields| {
            fields.bytes(6)?;
            fields.u16()
        })?;
        let mut found = SampleEntry { codec: Self::Other(entry.kind), picture: None, sound: None, reference };
        if video {
            found.picture = Some(entry.fields(picture)?);
            found.codec = video_codec(&entry, entry.children_after(VISUAL_LENGTH))?;
        } else if sound {
            let (described, bits, length) = entry.fields(audio)?;
            // Version 1 of the box is ISO's, whose audio sample entries do not have QuickTime's fields.
            let (version, _) = stsd.fields(|fields| fields.version())?;
            let boxes = entry.children_after(if version == 1 { AUDIO_LENGTH } else { length });
            found.codec = audio_codec(&entry, boxes.clone(), bits)?;
            found.sound = Some(match &found.codec {
                Self::Ac3 => {
                    let dac3 = boxes.named(b"dac3")?;
                    dac3.and_then(|dac3| dac3.fields(ac3_sound).ok()).unwrap_or(described)
                }
                Self::Aac(config) => Sound {
                    channels: if config.channels > 0 { config.channels.into() } else { described.channels },
                    sample_rate: config.sample_rate,
                },
                _ => described,
            });
        }
        Ok(found)
    }
}

/// Bytes of a visual sample entry before the boxes in it.
const VISUAL_LENGTH: usize = 78;

/// Bytes of an audio sample entry before the boxes in it.
const AUDIO_LENGTH: usize = 28;

fn picture(fields: &mut Fields<'_>) -> Option<(u16, u16)> {
    fields.bytes(24)?;
    Some((fields.u16()?, fields.u16()?))
}

/// Channels and rate, bits of a PCM sample, and the bytes before the boxes in an audio sample entry,
/// which are more in QuickTime's versions 1 and 2.
fn audio(fields: &mut Fields<'_>) -> Option<(Sound, u16, usize)> {
    fields.bytes(8)?;
    let version = fields.u16()?;
    fields.bytes(6)?;
    let (channels, bits) = (fields.u16()?, fields.u16()?);
    fields.bytes(4)?;
    let sample_rate = fields.u32()? >> 16;
    match version {
        2 => {
            fields.u32()?;
            let sample_rate = f64::from_bits(fields.u64()?) as u32;
            let channels = fields.u32()?.min(u16::MAX.into()) as u16;
            fields.u32()?;
            let bits = fields.u32()?.min(u16::MAX.into()) as u16;
            Some((Sound { channels, sample_rate }, bits, 64))
        }
        1 => Some((Sound { channels, sample_rate }, bits, 44)),
        _ => Some((Sound { channels, sample_rate }, bits, AUDIO_LENGTH)),
    }
}

fn video_codec(entry: &MemoryBox, boxes: Children) -> Result<Codec, Error> {
    Ok(match &entry.kind.0 {
        b"avc1" | b"avc3" => {
            let found = boxes.named(b"avcC")?;
            let found = found.ok_or_else(|| entry.error("no avcC box: H.264 has no configuration"))?;
            Codec::H264(found.fields(avc)?)
        }
        b"hvc1" | b"hev1" => {
            let found = boxes.named(b"hvcC")?;
            let found = found.ok_or_else(|| entry.error("no hvcC box: H.265 has no configuration"))?;
            Codec::H265(found.fields(hevc)?)
        }
        b"av01" => Codec::Av1,
        b"vp08" => Codec::Vp8,
        b"vp09" => Codec::Vp9,
        b"encv" => Codec::Encrypted,
        _ => Codec::Other(entry.kind),
    })
}

fn audio_codec(entry: &MemoryBox, boxes: Children, bits: u16) -> Result<Codec, Error> {
    Ok(match &entry.kind.0 {
        b"mp4a" => mpeg_audio(entry, boxes)?,
        b".mp3" => Codec::MpegAudio,
        b"ac-3" => Codec::Ac3,
        b"ec-3" => Codec::Eac3,
        b"Opus" => Codec::Opus,
        b"alaw" => Codec::G711A,
        b"ulaw" => Codec::G711Mu,
        b"raw " => Codec::Pcm(8),
        b"sowt" | b"twos" | b"lpcm" | b"ipcm" | b"fpcm" => Codec::Pcm(bits),
        b"in24" => Codec::Pcm(24),
        b"in32" | b"fl32" => Codec::Pcm(32),
        b"fl64" => Codec::Pcm(64),
        b"enca" => Codec::Encrypted,
        _ => Codec::Other(entry.kind),
    })
}

/// Codec of an `mp4a` entry, whose `esds` box QuickTime puts into a `wave` box.
fn mpeg_audio(entry: &MemoryBox, boxes: Children) -> Result<Codec, Error> {
    let found = match boxes.clone().named(b"esds")? {
        None => boxes.named(b"wave")?.map_or(Ok(None), |wave| wave.child(b"esds"))?,
        found => found,
    };
    let Some(found) = found else { return Ok(Codec::Other(entry.kind)) };
    let descriptor = found.fields(|fields| {
        fields.version()?;
        descriptor(*fields)
    });
    let Ok(descriptor) = descriptor else { return Ok(Codec::Other(entry.kind)) };
    Ok(match descriptor.object_type {
        0x69 | 0x6b => Codec::MpegAudio,
        0xa5 => Codec::Ac3,
        0xa6 => Codec::Eac3,
        0xad => Codec::Opus,
        0x40 | 0x66..=0x68 => {
            AudioConfig::read(&descriptor.specific).map_or(Codec::Other(entry.kind), Codec::Aac)
        }
        _ => Codec::Other(entry.kind),
    })
}

/// Channels and rate by the `dac3` box (ETSI TS 102 366 section F.4); the sample entry says 2 always.
fn ac3_sound(fields: &mut Fields<'_>) -> Option<Sound> {
    let bits = fields.u16()?;
    let mode = [2, 1, 2, 3, 3, 4, 4, 5][usize::from(bits >> 3 & 7)];
    let sample_rate = *[48_000, 44_100, 32_000].get(usize::from(bits >> 14))?;
    Some(Sound { channels: mode + (bits >> 2 & 1), sample_rate })
}

fn avc(fields: &mut Fields<'_>) -> Option<Avc> {
    fields.u8()?;
    let profile_level = [fields.u8()?, fields.u8()?, fields.u8()?];
    let length_size = (fields.u8()? & 3) + 1;
    let count = fields.u8()? & 0x1f;
    let (mut sequence_sets, mut picture_sets) = (Vec::new(), Vec::new());
    sets(fields, count.into(), &mut sequence_sets)?;
    let count = fields.u8()?;
    sets(fields, count.into(), &mut picture_sets)?;
    Some(Avc { profile_level, length_size, sequence_sets, picture_sets })
}

fn hevc(fields: &mut Fields<'_>) -> Option<Hevc> {
    fields.u8()?;
    let profile = fields.u8()? & 0x1f;
    fields.bytes(10)?;
    let level = fields.u8()?;
    fields.bytes(8)?;
    let length_size = (fields.u8()? & 3) + 1;
    let (mut all, mut others) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for _ in 0..fields.u8()? {
        let kind = fields.u8()? & 0x3f;
        let count = fields.u16()?;
        let list = usize::from(kind).checked_sub(32).and_then(|index| all.get_mut(index));
        sets(fields, count, list.unwrap_or(&mut others))?;
    }
    let [video_sets, sequence_sets, picture_sets] = all;
    Some(Hevc { profile, level, length_size, video_sets, sequence_sets, picture_sets })
}

/// Most parameter sets of one kind: identifiers of picture parameter sets of H.264 are 0 to 255.
const MAX_SETS: usize = 256;

/// Adds parameter sets, each after its length in 16 bits, to a list. Empty ones are left out, and those that
/// are more than there can be: a list has more bytes of memory for each than the file.
fn sets(fields: &mut Fields<'_>, count: u16, list: &mut Vec<Vec<u8>>) -> Option<()> {
    for _ in 0..count {
        let length = fields.u16()?;
        let set = fields.bytes(length.into())?;
        if !set.is_empty() && list.len() < MAX_SETS {
            list.push(set.to_vec());
        }
    }
    Some(())
}
