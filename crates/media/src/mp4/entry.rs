//! Sample descriptions (ISO/IEC 14496-12 section 8.5.2): the codec of a track and its configuration.

use super::boxes::{Children, MemoryBox};
use super::descriptor::descriptor;
use super::{AudioConfig, Codec, Error, Pcm, PcmKind, Sound};
use crate::track::{Fields, av1, avc, hevc, vp9_profile};

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

/// Reads the first sample description of an `stsd` box.
pub(super) fn sample_entry(stsd: &MemoryBox, sound: bool, video: bool) -> Result<SampleEntry, Error> {
    let entry = stsd.children_after(8).next();
    let entry = entry.ok_or_else(|| stsd.error("it has no sample description"))??;
    let reference = entry.fields(|fields| {
        fields.bytes(6)?;
        fields.u16()
    })?;
    let mut found =
        SampleEntry { codec: Codec::Other(entry.kind.to_string()), picture: None, sound: None, reference };
    if video {
        found.picture = Some(entry.fields(picture)?);
        found.codec = video_codec(&entry, entry.children_after(VISUAL_LENGTH))?;
    } else if sound {
        let (described, pcm, length) = entry.fields(audio)?;
        // Version 1 of `stsd` is that of ISO, whose audio sample entries do not have the fields of QuickTime.
        let (version, _) = stsd.fields(|fields| fields.version())?;
        let boxes = entry.children_after(if version == 1 { AUDIO_LENGTH } else { length });
        found.codec = audio_codec(&entry, boxes.clone(), pcm)?;
        found.sound = Some(match &found.codec {
            Codec::Ac3 => {
                let dac3 = boxes.named(b"dac3")?;
                dac3.and_then(|dac3| dac3.fields(ac3_sound).ok()).unwrap_or(described)
            }
            Codec::Aac(config) => Sound {
                channels: if config.channels > 0 { config.channels.into() } else { described.channels },
                sample_rate: config.sample_rate,
            },
            _ => described,
        });
    }
    Ok(found)
}

/// Bytes of a visual sample entry before its child boxes.
const VISUAL_LENGTH: usize = 78;

/// Bytes of an audio sample entry before its child boxes.
const AUDIO_LENGTH: usize = 28;

fn picture(fields: &mut Fields<'_>) -> Option<(u16, u16)> {
    fields.bytes(24)?;
    Some((fields.u16()?, fields.u16()?))
}

/// Channels and sample rate, format of PCM, and bytes of an audio sample entry before its child boxes, which
/// are more in QuickTime's versions 1 and 2.
fn audio(fields: &mut Fields<'_>) -> Option<(Sound, Pcm, usize)> {
    fields.bytes(8)?;
    let version = fields.u16()?;
    fields.bytes(6)?;
    let (channels, bits) = (fields.u16()?, fields.u16()?);
    fields.bytes(4)?;
    let sample_rate = fields.u32()? >> 16;
    let pcm = Pcm { bits, big_endian: true, kind: PcmKind::Signed };
    match version {
        2 => {
            fields.u32()?;
            let sample_rate = f64::from_bits(fields.u64()?) as u32;
            let channels = fields.u32()?.min(u16::MAX.into()) as u16;
            fields.u32()?;
            let (bits, flags) = (fields.u32()?.min(u16::MAX.into()) as u16, fields.u32()?);
            // kAudioFormatFlagIsFloat, kAudioFormatFlagIsBigEndian, kAudioFormatFlagIsSignedInteger.
            let kind = match flags {
                flags if flags & 1 != 0 => PcmKind::Float,
                flags if flags & 4 != 0 => PcmKind::Signed,
                _ => PcmKind::Unsigned,
            };
            let pcm = Pcm { bits, big_endian: flags & 2 != 0, kind };
            Some((Sound { channels, sample_rate }, pcm, 64))
        }
        1 => Some((Sound { channels, sample_rate }, pcm, 44)),
        _ => Some((Sound { channels, sample_rate }, pcm, AUDIO_LENGTH)),
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
        b"av01" => Codec::Av1(boxes.named(b"av1C")?.and_then(|found| found.fields(av1).ok())),
        b"vp08" => Codec::Vp8,
        b"vp09" => Codec::Vp9(boxes.named(b"vpcC")?.and_then(|found| found.fields(vp9_profile).ok())),
        b"encv" => Codec::Encrypted,
        _ => Codec::Other(entry.kind.to_string()),
    })
}

fn audio_codec(entry: &MemoryBox, boxes: Children, pcm: Pcm) -> Result<Codec, Error> {
    Ok(match &entry.kind.0 {
        b"mp4a" => mpeg_audio(entry, boxes)?,
        b".mp3" => Codec::MpegAudio,
        b"ac-3" => Codec::Ac3,
        b"ec-3" => Codec::Eac3,
        b"Opus" => Codec::Opus,
        b"alaw" => Codec::G711A,
        b"ulaw" => Codec::G711Mu,
        b"raw " => Codec::Pcm(Pcm { bits: 8, kind: PcmKind::Unsigned, ..pcm }),
        b"lpcm" | b"twos" => Codec::Pcm(pcm),
        b"sowt" => Codec::Pcm(Pcm { big_endian: false, ..pcm }),
        b"in24" => Codec::Pcm(Pcm { bits: 24, ..in_order(boxes, pcm)? }),
        b"in32" => Codec::Pcm(Pcm { bits: 32, ..in_order(boxes, pcm)? }),
        b"fl32" => Codec::Pcm(Pcm { bits: 32, kind: PcmKind::Float, ..in_order(boxes, pcm)? }),
        b"fl64" => Codec::Pcm(Pcm { bits: 64, kind: PcmKind::Float, ..in_order(boxes, pcm)? }),
        b"ipcm" => Codec::Pcm(iso_pcm(boxes, pcm)?),
        b"fpcm" => Codec::Pcm(Pcm { kind: PcmKind::Float, ..iso_pcm(boxes, pcm)? }),
        b"enca" => Codec::Encrypted,
        _ => Codec::Other(entry.kind.to_string()),
    })
}

/// Sets the byte order of PCM from QuickTime's `enda` box in a `wave` box; big-endian without it.
fn in_order(boxes: Children, pcm: Pcm) -> Result<Pcm, Error> {
    let enda = boxes.named(b"wave")?.map_or(Ok(None), |wave| wave.child(b"enda"))?;
    let little =
        enda.and_then(|enda| enda.fields(|fields| fields.u16()).ok()).is_some_and(|order| order == 1);
    Ok(Pcm { big_endian: !little, ..pcm })
}

/// Format of PCM from the `pcmC` box (ISO/IEC 23003-5 section 5.2).
fn iso_pcm(boxes: Children, pcm: Pcm) -> Result<Pcm, Error> {
    let configuration = boxes.named(b"pcmC")?.and_then(|found| {
        let read = found.fields(|fields| {
            fields.version()?;
            Some((fields.u8()?, fields.u8()?))
        });
        read.ok()
    });
    Ok(configuration.map_or(pcm, |(flags, bits)| Pcm {
        big_endian: flags & 1 == 0,
        bits: bits.into(),
        ..pcm
    }))
}

/// Codec of an `mp4a` entry. QuickTime puts its `esds` box into a `wave` box.
fn mpeg_audio(entry: &MemoryBox, boxes: Children) -> Result<Codec, Error> {
    let found = match boxes.clone().named(b"esds")? {
        None => boxes.named(b"wave")?.map_or(Ok(None), |wave| wave.child(b"esds"))?,
        found => found,
    };
    let Some(found) = found else { return Ok(Codec::Other(entry.kind.to_string())) };
    let descriptor = found.fields(|fields| {
        fields.version()?;
        descriptor(*fields)
    });
    let Ok(descriptor) = descriptor else { return Ok(Codec::Other(entry.kind.to_string())) };
    Ok(match descriptor.object_type {
        0x69 | 0x6b => Codec::MpegAudio,
        0xa5 => Codec::Ac3,
        0xa6 => Codec::Eac3,
        0xad => Codec::Opus,
        0x40 | 0x66..=0x68 => {
            AudioConfig::read(&descriptor.specific).map_or(Codec::Other(entry.kind.to_string()), Codec::Aac)
        }
        _ => Codec::Other(entry.kind.to_string()),
    })
}

/// Channels and sample rate from the `dac3` box (ETSI TS 102 366 section F.4). The channel count of the
/// sample entry is always 2.
fn ac3_sound(fields: &mut Fields<'_>) -> Option<Sound> {
    let bits = fields.u16()?;
    let mode = [2, 1, 2, 3, 3, 4, 4, 5][usize::from(bits >> 3 & 7)];
    let sample_rate = *[48_000, 44_100, 32_000].get(usize::from(bits >> 14))?;
    Some(Sound { channels: mode + (bits >> 2 & 1), sample_rate })
}
