//! Reordering depth: the largest number of frames that precede a frame in decode order and follow it in
//! presentation order.

use std::num::NonZeroUsize;

use h264_reader::nal::sps::SeqParameterSet;
use h264_reader::nal::{Nal, RefNal};
use h264_reader::rbsp::{BitRead, BitReader, ByteReader};

use crate::track::Codec;

/// Most frames that a decoder of H.264 or H.265 reorders.
pub(super) const MAX_DEPTH: usize = 16;

/// Depth from the codec or its configuration; `None` if they do not determine it.
pub(super) fn stated(codec: &Codec) -> Option<usize> {
    let depth = match codec {
        Codec::H264(avc) => avc.sequence_sets.iter().map(|set| h264(set)).reduce(both)?,
        Codec::H265(hevc) => hevc.sequence_sets.iter().map(|set| h265(set)).reduce(both)?,
        Codec::Other(_) | Codec::Unconfigured(_) => None,
        _ => Some(0),
    };
    depth.filter(|depth| *depth <= MAX_DEPTH)
}

/// Maximum of two depths, if both are known.
fn both(first: Option<usize>, second: Option<usize>) -> Option<usize> {
    Some(first?.max(second?))
}

/// Depth from a sequence parameter set (ITU-T H.264 section E.2.1). The Baseline profile has no B-frames.
fn h264(set: &[u8]) -> Option<usize> {
    let set = SeqParameterSet::from_bits(RefNal::new(set, &[], true).rbsp_bits()).ok()?;
    let restrictions = set.vui_parameters.and_then(|vui| vui.bitstream_restrictions);
    match restrictions {
        Some(restrictions) => Some(restrictions.max_num_reorder_frames as usize),
        None => (u8::from(set.profile_idc) == 66).then_some(0),
    }
}

/// Depth of the highest sub-layer from a sequence parameter set (ITU-T H.265 section 7.3.2.2).
fn h265(set: &[u8]) -> Option<usize> {
    let mut bits = BitReader::new(ByteReader::skipping_bytes(set, NonZeroUsize::new(2)?));
    bits.skip(4, "sps_video_parameter_set_id").ok()?;
    let layers = bits.read::<3, u8>("sps_max_sub_layers_minus1").ok()?;
    bits.skip(1 + 88 + 8, "profile_tier_level").ok()?;
    profiles_of_layers(&mut bits, layers)?;
    bits.read_ue("sps_seq_parameter_set_id").ok()?;
    if bits.read_ue("chroma_format_idc").ok()? == 3 {
        bits.skip(1, "separate_colour_plane_flag").ok()?;
    }
    bits.read_ue("pic_width_in_luma_samples").ok()?;
    bits.read_ue("pic_height_in_luma_samples").ok()?;
    if bits.read_bit("conformance_window_flag").ok()? {
        for _ in 0..4 {
            bits.read_ue("conf_win_offset").ok()?;
        }
    }
    for _ in 0..3 {
        bits.read_ue("bit_depths_and_log2_max_pic_order_cnt_lsb").ok()?;
    }
    let each = bits.read_bit("sps_sub_layer_ordering_info_present_flag").ok()?;
    let mut depth = None;
    for _ in if each { 0 } else { layers }..=layers {
        bits.read_ue("sps_max_dec_pic_buffering_minus1").ok()?;
        depth = Some(bits.read_ue("sps_max_num_reorder_pics").ok()? as usize);
        bits.read_ue("sps_max_latency_increase_plus1").ok()?;
    }
    depth
}

/// Skips profiles and levels of sub-layers (section 7.3.3).
fn profiles_of_layers(bits: &mut impl BitRead, layers: u8) -> Option<()> {
    let mut present = [(false, false); 8];
    for layer in present.iter_mut().take(layers.into()) {
        *layer = (bits.read_bit("sub_layer_profile").ok()?, bits.read_bit("sub_layer_level").ok()?);
    }
    if layers > 0 {
        bits.skip(2 * (8 - u32::from(layers)), "reserved_zero_2bits").ok()?;
    }
    for (profile, level) in present {
        bits.skip(if profile { 88 } else { 0 } + if level { 8 } else { 0 }, "sub_layer").ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::{Avc, Hevc};

    /// Parameter sets written by x264 and x265: pyramid of B-frames, depth 2.
    const H265: [u8; 43] = [
        0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x1e, 0xa0, 0x14, 0x20, 0x20, 0x7c, 0xb9, 0x65, 0x66, 0x4a, 0x4c, 0x2f, 0x01, 0x68, 0x08, 0x00, 0x00,
        0x03, 0x00, 0x08, 0x00, 0x00, 0x03, 0x00, 0xc8, 0x40,
    ];
    const H264: [u8; 25] = [
        0x67, 0x64, 0x00, 0x0b, 0xac, 0xd9, 0x42, 0x84, 0x7e, 0x5c, 0x04, 0x40, 0x00, 0x00, 0x03, 0x00, 0x40,
        0x00, 0x00, 0x0c, 0x83, 0xc5, 0x0a, 0x65, 0x80,
    ];
    /// Parameter set of the Baseline profile, without B-frames.
    const BASELINE: [u8; 24] = [
        0x67, 0x42, 0xc0, 0x0b, 0xda, 0x0a, 0x11, 0xf9, 0x70, 0x11, 0x00, 0x00, 0x03, 0x00, 0x01, 0x00, 0x00,
        0x03, 0x00, 0x32, 0x0f, 0x14, 0x2a, 0xa0,
    ];

    fn of_h264(sets: &[&[u8]]) -> Option<usize> {
        let sequence_sets = sets.iter().map(|set| set.to_vec()).collect();
        stated(&Codec::H264(Avc {
            profile_level: [0; 3],
            length_size: 4,
            sequence_sets,
            picture_sets: Vec::new(),
        }))
    }

    fn of_h265(sets: &[&[u8]]) -> Option<usize> {
        let sequence_sets = sets.iter().map(|set| set.to_vec()).collect();
        stated(&Codec::H265(Hevc {
            profile: 1,
            level: 30,
            length_size: 4,
            video_sets: Vec::new(),
            sequence_sets,
            picture_sets: Vec::new(),
        }))
    }

    #[test]
    fn sequence_parameter_sets_state_the_depth() {
        assert_eq!((of_h264(&[&H264]), of_h264(&[&BASELINE])), (Some(2), Some(0)));
        assert_eq!(of_h264(&[&BASELINE, &H264]), Some(2));
        assert_eq!((of_h265(&[&H265]), of_h265(&[&H265, &H265])), (Some(2), Some(2)));
    }

    #[test]
    fn a_set_that_cannot_be_read_leaves_it_unknown() {
        assert_eq!((of_h264(&[]), of_h265(&[])), (None, None));
        assert_eq!(of_h264(&[&BASELINE, &H264[..6]]), None);
        assert_eq!(of_h264(&[&H264[..6], &BASELINE]), None);
        assert_eq!((of_h265(&[&H265, &H265[..20]]), of_h265(&[&H265[..20]])), (None, None));
    }
}
