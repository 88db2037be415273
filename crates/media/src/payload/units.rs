//! Units of a sample of any codec: what a format reads of a sample before it cuts it.

use super::nal::NalUnits;
use super::obu::Obus;
use super::unit::{Unit, UnitError};
use crate::track::{Codec, Extent};

/// Walk over the units of a sample: reads their lengths and headers, and nothing else. Formats that read
/// nothing have no units.
#[derive(Clone, Copy, Debug)]
pub enum Units {
    /// H.264 and H.265.
    Nal(NalUnits),
    /// AV1.
    Obus(Obus),
    /// VP9, of whose frame the first byte is read; `None` when it was.
    Frame(Option<Extent>),
    /// Other codecs.
    None,
}

impl Units {
    /// A walk over a sample of a track with this codec.
    pub fn new(codec: &Codec, sample: Extent) -> Self {
        match codec {
            Codec::H264(avc) => Self::Nal(NalUnits::new(sample, avc.length_size)),
            Codec::H265(hevc) => Self::Nal(NalUnits::new(sample, hevc.length_size)),
            Codec::Av1(_) => Self::Obus(Obus::new(sample)),
            Codec::Vp9(_) => Self::Frame(Some(sample).filter(|sample| sample.length > 0)),
            _ => Self::None,
        }
    }

    /// Bytes that are to be read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self {
            Self::Nal(units) => units.wanted(),
            Self::Obus(obus) => obus.wanted(),
            Self::Frame(frame) => frame.map(|frame| Extent { length: 1, ..frame }),
            Self::None => None,
        }
    }

    /// Takes the bytes that were wanted.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Unit>, UnitError> {
        match self {
            Self::Nal(units) => units.take(bytes),
            Self::Obus(obus) => obus.take(bytes),
            Self::Frame(frame) => {
                let first = bytes.first().copied().unwrap_or_default();
                Ok(frame.take().map(|extent| Unit { extent, header: [first, 0], first: 0 }))
            }
            Self::None => Ok(None),
        }
    }
}
