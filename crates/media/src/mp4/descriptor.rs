//! Elementary stream descriptors (ISO/IEC 14496-1 section 7.2.6.5).

use crate::track::Fields;

/// Contents of an `esds` box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) object_type: u8,
    /// Decoder specific information: the configuration of AAC.
    pub(super) specific: Vec<u8>,
}

/// Reads the body of an `esds` box, after version and flags.
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

/// Reads the next descriptor, if it has this tag.
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
