//! Codec configurations as stored in containers.

use super::Fields;
use super::{Av1, Avc, Hevc};

/// Reads the configuration of H.264.
pub(crate) fn avc(fields: &mut Fields<'_>) -> Option<Avc> {
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

/// Reads the configuration of H.265.
pub(crate) fn hevc(fields: &mut Fields<'_>) -> Option<Hevc> {
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

/// Reads parameter sets, each after its length in 16 bits, into a list. Empty sets and sets beyond the limit
/// are skipped: each set uses more bytes of memory in the list than in the file.
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

/// Reads the configuration of AV1.
pub(crate) fn av1(fields: &mut Fields<'_>) -> Option<Av1> {
    fields.u8()?;
    let (profile_level, tier) = (fields.u8()?, fields.u8()? >> 7);
    Some(Av1 { profile: profile_level >> 5, level: profile_level & 0x1f, tier })
}

/// Reads the profile of VP9 from a `vpcC` box.
pub(crate) fn vp9_profile(fields: &mut Fields<'_>) -> Option<u8> {
    fields.version()?;
    fields.u8()
}
