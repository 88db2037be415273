//! Elementary stream descriptors (ISO/IEC 14496-1 section 7.2.6.5) and what they configure
//! (ISO/IEC 14496-3 section 1.6.2).

use super::boxes::Fields;

/// Contents of an `esds` box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) object_type: u8,
    /// Decoder specific information: for AAC, its configuration.
    pub(super) specific: Vec<u8>,
}

/// Configuration of MPEG-4 audio (`AudioSpecificConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioConfig {
    /// Its bytes, as a decoder and SDP want them.
    pub bytes: Vec<u8>,
    /// Audio object type: 2 for AAC-LC, 5 for HE-AAC, 29 for HE-AAC with parametric stereo.
    pub object_type: u8,
    /// Sample rate of what is played, in Hz.
    pub sample_rate: u32,
    /// Number of channels; 0 if the stream itself says it.
    pub channels: u8,
}

/// Reads the body of an `esds` box after version and flags.
pub(super) fn descriptor(mut fields: Fields<'_>) -> Option<Descriptor> {
    let mut stream = tagged(&mut fields, 3)?;
    stream.u16()?;
    let flags = stream.u8()?;
    if flags & 0x80 != 0 {
        stream.u16()?;
    }
    if flags & 0x40 != 0 {
        let length = stream.u8()?;
        stream.bytes(length.into())?;
    }
    if flags & 0x20 != 0 {
        stream.u16()?;
    }
    let mut decoder = tagged(&mut stream, 4)?;
    let object_type = decoder.u8()?;
    decoder.bytes(12)?;
    let specific = tagged(&mut decoder, 5).map_or(Vec::new(), |specific| specific.0.to_vec());
    Some(Descriptor { object_type, specific })
}

/// The next descriptor, if it has this tag.
fn tagged<'a>(fields: &mut Fields<'a>, tag: u8) -> Option<Fields<'a>> {
    if fields.u8()? != tag {
        return None;
    }
    let mut length = 0usize;
    for _ in 0..4 {
        let byte = fields.u8()?;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    fields.bytes(length).map(Fields)
}

impl AudioConfig {
    /// Reads the configuration; `None` if it ends early or has a reserved rate.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut bits = Bits { bytes, at: 0 };
        let object_type = object_type(&mut bits)?;
        let mut sample_rate = rate(&mut bits)?;
        let channels = bits.take(4)? as u8;
        if matches!(object_type, 5 | 29) {
            sample_rate = rate(&mut bits)?;
        }
        let channels = match channels {
            7 | 12 | 14 => 8,
            11 => 7,
            other => other,
        };
        (sample_rate > 0).then(|| Self { bytes: bytes.to_vec(), object_type, sample_rate, channels })
    }

    /// Name of the codec.
    pub fn name(&self) -> &'static str {
        match self.object_type {
            1 => "AAC Main",
            2 => "AAC-LC",
            3 => "AAC-SSR",
            4 => "AAC-LTP",
            5 => "HE-AAC",
            29 => "HE-AAC v2",
            23 => "AAC-LD",
            39 => "AAC-ELD",
            42 => "xHE-AAC",
            _ => "MPEG-4 audio",
        }
    }
}

fn object_type(bits: &mut Bits<'_>) -> Option<u8> {
    match bits.take(5)? as u8 {
        31 => Some(32 + bits.take(6)? as u8),
        short => Some(short),
    }
}

fn rate(bits: &mut Bits<'_>) -> Option<u32> {
    const RATES: [u32; 13] =
        [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350];
    match bits.take(4)? as usize {
        15 => bits.take(24),
        index => RATES.get(index).copied(),
    }
}

/// Bits, the highest of a byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next bits as a number, at most 32.
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut number = 0;
        for at in self.at..self.at + count {
            let byte = self.bytes.get(at / 8)?;
            number = number << 1 | u32::from(byte >> (7 - at % 8) & 1);
        }
        self.at += count;
        Some(number)
    }
}
