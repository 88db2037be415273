//! Configuration of MPEG-4 audio (ISO/IEC 14496-3 section 1.6.2).

/// Configuration of MPEG-4 audio (`AudioSpecificConfig`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioConfig {
    /// Encoded bytes, for decoders and SDP.
    pub bytes: Vec<u8>,
    /// Audio object type: 2 for AAC-LC, 5 for HE-AAC, 29 for HE-AAC with parametric stereo.
    pub object_type: u8,
    /// Output sample rate in Hz.
    pub sample_rate: u32,
    /// Number of channels; 0 if only the stream contains it.
    pub channels: u8,
}

impl AudioConfig {
    /// Reads a configuration; `None` if it ends early or its sample rate is reserved.
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

    /// Samples per frame at the output sample rate (ISO/IEC 14496-3 table 1.15); `None` if the configuration
    /// does not determine it.
    pub fn frame_length(&self) -> Option<u64> {
        let mut bits = Bits { bytes: &self.bytes, at: 0 };
        let mut object_type = object_type(&mut bits)?;
        let core_rate = u64::from(rate(&mut bits)?);
        bits.take(4)?;
        let extended = matches!(object_type, 5 | 29);
        if extended {
            rate(&mut bits)?;
            object_type = self::object_type(&mut bits)?;
        }
        // frameLengthFlag is the first bit of GASpecificConfig (section 4.4.1) and of ELDSpecificConfig.
        let short = bits.take(1)? == 1;
        let core = match object_type {
            1..=4 | 6 | 7 | 17 | 19..=22 => {
                if short {
                    960
                } else {
                    1024
                }
            }
            23 | 39 => {
                if short {
                    480
                } else {
                    512
                }
            }
            _ => return None,
        };
        // Spectral band replication doubles the core's sample rate, or keeps it if downsampled.
        Some(if extended { core * u64::from(self.sample_rate) / core_rate.max(1) } else { core })
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

/// Bit reader, most significant bit first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// Reads the next bits, at most 32, as a number.
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
