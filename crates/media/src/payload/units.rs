//! Units of a sample of any codec, which formats read before they packetize the sample.

use super::nal::NalUnits;
use super::obu::Obus;
use super::unit::{Unit, UnitError};
use crate::track::{Codec, Extent};

/// Reader of the units of a sample. It reads only their lengths and headers. Formats that read no bytes have
/// no units.
#[derive(Clone, Copy, Debug)]
pub enum Units {
    /// H.264 and H.265.
    Nal(NalUnits),
    /// AV1.
    Obus(Obus),
    /// VP9 frame, of which the first byte is read; `None` afterwards.
    Frame(Option<Extent>),
    /// Other codecs.
    None,
}

impl Units {
    /// Reader of a sample of a track with this codec.
    pub fn new(codec: &Codec, sample: Extent) -> Self {
        match codec {
            Codec::H264(avc) => Self::Nal(NalUnits::new(sample, avc.length_size)),
            Codec::H265(hevc) => Self::Nal(NalUnits::new(sample, hevc.length_size)),
            Codec::Av1(_) => Self::Obus(Obus::new(sample)),
            Codec::Vp9(_) => Self::Frame(Some(sample).filter(|sample| sample.length > 0)),
            _ => Self::None,
        }
    }

    /// Bytes to read next; `None` at the end.
    pub fn wanted(&self) -> Option<Extent> {
        match self {
            Self::Nal(units) => units.wanted(),
            Self::Obus(obus) => obus.wanted(),
            Self::Frame(frame) => frame.map(|frame| Extent { length: 1, ..frame }),
            Self::None => None,
        }
    }

    /// Takes the requested bytes.
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
