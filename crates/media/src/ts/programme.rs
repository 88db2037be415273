//! Programmes and their streams, from programme map tables (ISO/IEC 13818-1 section 2.4.4.8).

use serde::{Deserialize, Serialize};

use super::packet::NULL_PID;

/// Descriptor tags (ISO/IEC 13818-1 table 2-45; ETSI EN 300 468 table 12).
mod tag {
    pub(super) const REGISTRATION: u8 = 0x05;
    pub(super) const LANGUAGE: u8 = 0x0a;
    pub(super) const TELETEXT: u8 = 0x56;
    pub(super) const SUBTITLING: u8 = 0x59;
    pub(super) const AC3: u8 = 0x6a;
    pub(super) const ENHANCED_AC3: u8 = 0x7a;
    pub(super) const DTS: u8 = 0x7b;
    pub(super) const AAC: u8 = 0x7c;
    pub(super) const EXTENSION: u8 = 0x7f;
}

/// Programme: streams that belong together and share a clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Programme {
    /// Programme number in the association table, never 0.
    pub number: u16,
    /// PID of its map table.
    pub pmt_pid: u16,
    /// PID that carries the clock; `None` if the table announces none.
    pub pcr_pid: Option<u16>,
    /// Streams in the order of the table.
    pub streams: Vec<Stream>,
}

impl Programme {
    /// Returns the first video stream.
    pub fn video(&self) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.codec.is_video())
    }

    /// Reads the body of a programme map section; `None` if its lengths contradict each other.
    pub(super) fn read(number: u16, pmt_pid: u16, body: &[u8]) -> Option<Self> {
        let (head, rest) = body.split_at_checked(4)?;
        let (pcr_pid, information_length) = (pid(head[0], head[1]), length(head[2], head[3]));
        let (information, mut rest) = rest.split_at_checked(information_length)?;
        let programme_format = Descriptors(information).find_map(|(tag, body)| registration(tag, body));
        let mut streams = Vec::new();
        while !rest.is_empty() {
            let (head, after) = rest.split_at_checked(5)?;
            let (descriptors, after) = after.split_at_checked(length(head[3], head[4]))?;
            streams.push(Stream::read(head[0], pid(head[1], head[2]), descriptors, programme_format));
            rest = after;
        }
        Some(Self { number, pmt_pid, pcr_pid: (pcr_pid != NULL_PID).then_some(pcr_pid), streams })
    }
}

/// Elementary stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// PID of the stream's packets.
    pub pid: u16,
    /// Stream type in the table.
    pub stream_type: u8,
    /// Codec, by type and descriptors.
    pub codec: Codec,
    /// ISO 639-2 code of the language.
    pub language: Option<String>,
}

impl Stream {
    fn read(stream_type: u8, pid: u16, descriptors: &[u8], programme_format: Option<[u8; 4]>) -> Self {
        let codec = Codec::of(stream_type, Descriptors(descriptors), programme_format);
        Self { pid, stream_type, codec, language: Descriptors(descriptors).find_map(language) }
    }
}

/// Codec of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it all, and name() gives them in full")]
pub enum Codec {
    Mpeg1Video,
    Mpeg2Video,
    Mpeg4Video,
    H264,
    H265,
    H266,
    Av1,
    Vc1,
    Avs,
    Mpeg1Audio,
    Mpeg2Audio,
    Aac,
    AacLatm,
    Ac3,
    EnhancedAc3,
    Dts,
    TrueHd,
    Opus,
    Smpte302,
    Teletext,
    DvbSubtitles,
    Pgs,
    TimedMetadata,
    Splice,
    Private,
    Unknown,
}

impl Codec {
    /// Usual name of the codec.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mpeg1Video => "MPEG-1 video",
            Self::Mpeg2Video => "MPEG-2 video",
            Self::Mpeg4Video => "MPEG-4 video",
            Self::H264 => "H.264",
            Self::H265 => "H.265",
            Self::H266 => "H.266",
            Self::Av1 => "AV1",
            Self::Vc1 => "VC-1",
            Self::Avs => "AVS",
            Self::Mpeg1Audio => "MPEG-1 audio",
            Self::Mpeg2Audio => "MPEG-2 audio",
            Self::Aac => "AAC",
            Self::AacLatm => "AAC (LATM)",
            Self::Ac3 => "AC-3",
            Self::EnhancedAc3 => "E-AC-3",
            Self::Dts => "DTS",
            Self::TrueHd => "TrueHD",
            Self::Opus => "Opus",
            Self::Smpte302 => "SMPTE 302M audio",
            Self::Teletext => "teletext",
            Self::DvbSubtitles => "DVB subtitles",
            Self::Pgs => "PGS subtitles",
            Self::TimedMetadata => "timed metadata",
            Self::Splice => "SCTE-35",
            Self::Private => "private data",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether the codec is video, so that a decoder can start only at random access points.
    pub fn is_video(self) -> bool {
        use Codec::*;
        matches!(self, Mpeg1Video | Mpeg2Video | Mpeg4Video | H264 | H265 | H266 | Av1 | Vc1 | Avs)
    }

    /// Returns whether [`demux`](crate::demux) reads frames of this codec.
    pub fn is_demuxed(self) -> bool {
        use Codec::*;
        matches!(self, H264 | H265 | Mpeg1Audio | Mpeg2Audio | Aac | Ac3 | Opus)
    }

    /// Codec of a stream type. Types of ISO/IEC 13818-1 table 2-34; above 0x7f those of ATSC A/53 and, if the
    /// programme is registered as "HDMV", of Blu-ray.
    fn of(stream_type: u8, descriptors: Descriptors<'_>, programme_format: Option<[u8; 4]>) -> Self {
        let blu_ray = programme_format == Some(*b"HDMV");
        match stream_type {
            0x01 => Self::Mpeg1Video,
            0x02 => Self::Mpeg2Video,
            0x03 => Self::Mpeg1Audio,
            0x04 => Self::Mpeg2Audio,
            0x0f => Self::Aac,
            0x10 => Self::Mpeg4Video,
            0x11 => Self::AacLatm,
            0x15 => Self::TimedMetadata,
            0x1b => Self::H264,
            0x24 => Self::H265,
            0x33 => Self::H266,
            0x42 | 0xd2 | 0xd4 => Self::Avs,
            0x81 => Self::Ac3,
            0x82 | 0x85 | 0x8a if blu_ray || stream_type == 0x8a => Self::Dts,
            0x83 if blu_ray => Self::TrueHd,
            0x86 if blu_ray => Self::Dts,
            0x86 => Self::Splice,
            0x84 | 0x87 | 0xa1 => Self::EnhancedAc3,
            0x90 if blu_ray => Self::Pgs,
            0xea => Self::Vc1,
            0x05 | 0x06 | 0x80.. => Self::described(descriptors),
            _ => Self::Unknown,
        }
    }

    /// Codec of private data, from the first descriptor that names a codec.
    fn described(mut descriptors: Descriptors<'_>) -> Self {
        let named = descriptors.find_map(|(tag, body)| match (tag, body) {
            (tag::AC3, _) => Some(Self::Ac3),
            (tag::ENHANCED_AC3, _) => Some(Self::EnhancedAc3),
            (tag::DTS, _) => Some(Self::Dts),
            (tag::AAC, _) => Some(Self::Aac),
            (tag::TELETEXT, _) => Some(Self::Teletext),
            (tag::SUBTITLING, _) => Some(Self::DvbSubtitles),
            (tag::EXTENSION, [0x80, ..]) => Some(Self::Opus), // provisional mapping of muxers
            _ => registration(tag, body).and_then(Self::registered),
        });
        named.unwrap_or(Self::Private)
    }

    fn registered(format: [u8; 4]) -> Option<Self> {
        Some(match &format {
            b"AC-3" => Self::Ac3,
            b"EAC3" => Self::EnhancedAc3,
            b"AV01" => Self::Av1,
            b"BSSD" => Self::Smpte302,
            b"CUEI" => Self::Splice,
            b"DTS1" | b"DTS2" | b"DTS3" => Self::Dts,
            b"HEVC" => Self::H265,
            b"ID3 " | b"KLVA" => Self::TimedMetadata,
            b"Opus" => Self::Opus,
            b"VC-1" => Self::Vc1,
            _ => return None,
        })
    }
}

/// Iterator over the descriptors of a loop; ends at the first descriptor that exceeds the loop.
#[derive(Clone, Copy)]
pub(super) struct Descriptors<'a>(pub(super) &'a [u8]);

impl<'a> Iterator for Descriptors<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_at_checked(2)?;
        let (body, rest) = rest.split_at_checked(usize::from(head[1]))?;
        self.0 = rest;
        Some((head[0], body))
    }
}

fn registration(tag: u8, body: &[u8]) -> Option<[u8; 4]> {
    (tag == tag::REGISTRATION).then(|| body.first_chunk().copied()).flatten()
}

/// Language of a descriptor, if it has one of three letters.
fn language((tag, body): (u8, &[u8])) -> Option<String> {
    let code = body.get(..3).filter(|code| code.iter().all(u8::is_ascii_alphabetic))?;
    matches!(tag, tag::LANGUAGE | tag::TELETEXT | tag::SUBTITLING)
        .then(|| code.iter().map(|&letter| char::from(letter.to_ascii_lowercase())).collect())
}

fn pid(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high & 0x1f, low])
}

fn length(high: u8, low: u8) -> usize {
    usize::from(u16::from_be_bytes([high & 0x0f, low]))
}
