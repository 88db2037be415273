//! Parameter sets of the first picture, which determine the parameters of a track of H.264 or H.265.

use h264_reader::nal::sps::{FrameMbsFlags, SeqParameterSet};
use h264_reader::nal::{Nal, RefNal};

use super::nal_unit::Syntax;
use crate::track::{Avc, Codec, Hevc};

/// Most parameter sets of a kind, and most bytes of a set. Encoders write a few sets of some dozen bytes.
const MAX_SETS: usize = 32;
const MAX_SET: usize = 1 << 12;

/// Parameter sets without duplicates, up to the first picture for which all kinds were received.
#[derive(Clone, Debug)]
pub(super) struct ParameterSets {
    syntax: Syntax,
    video: Vec<Vec<u8>>,
    sequence: Vec<Vec<u8>>,
    picture: Vec<Vec<u8>>,
    is_closed: bool,
    format: Option<Format>,
}

/// Values of the first sequence parameter set of H.264.
#[derive(Clone, Copy, Debug)]
struct Format {
    size: Option<(u16, u16)>,
    frame_rate: Option<f64>,
    has_fields: bool,
}

impl ParameterSets {
    pub(super) fn new(syntax: Syntax) -> Self {
        let (video, sequence, picture) = (Vec::new(), Vec::new(), Vec::new());
        Self { syntax, video, sequence, picture, is_closed: false, format: None }
    }

    /// Adds a parameter set, unless the first picture is complete.
    pub(super) fn add(&mut self, set: &[u8]) {
        let (Some(first), false) = (set.first(), self.is_closed || set.len() > MAX_SET) else { return };
        let list = match (self.syntax, first & 0x1f, first >> 1 & 0x3f) {
            (Syntax::H264, 7, _) | (Syntax::H265, _, 33) => &mut self.sequence,
            (Syntax::H264, 8, _) | (Syntax::H265, _, 34) => &mut self.picture,
            (Syntax::H265, _, 32) => &mut self.video,
            _ => return,
        };
        if list.len() < MAX_SETS && !list.iter().any(|known| known == set) {
            list.push(set.to_vec());
        }
    }

    /// Ends a picture. No sets are added after the first picture for which all kinds were received.
    pub(super) fn close(&mut self) {
        let has_video = self.syntax == Syntax::H264 || !self.video.is_empty();
        if self.is_closed || !has_video || self.picture.is_empty() {
            return;
        }
        let Some(set) = self.sequence.first() else { return };
        if self.syntax == Syntax::H264 {
            self.format = Format::of(set);
        }
        self.is_closed = true;
    }

    /// Codec with its parameter sets, once a picture had all kinds of sets.
    pub(super) fn codec(&self) -> Option<Codec> {
        let set = self.sequence.first().filter(|_| self.is_closed)?;
        let (sequence_sets, picture_sets) = (self.sequence.clone(), self.picture.clone());
        Some(match self.syntax {
            Syntax::H264 => {
                let profile_level = *set.get(1..)?.first_chunk()?;
                Codec::H264(Avc { profile_level, length_size: 4, sequence_sets, picture_sets })
            }
            Syntax::H265 => {
                // ITU-T H.265 section 7.3.3: general_profile_idc and general_level_idc.
                let bytes = without_emulation_prevention(set);
                let (profile, level) = (bytes.get(3)? & 0x1f, *bytes.get(14)?);
                let video_sets = self.video.clone();
                Codec::H265(Hevc { profile, level, length_size: 4, video_sets, sequence_sets, picture_sets })
            }
        })
    }

    /// Picture size, if known.
    pub(super) fn size(&self) -> Option<(u16, u16)> {
        self.format?.size
    }

    /// Frames per second, if known.
    pub(super) fn frame_rate(&self) -> Option<f64> {
        self.format?.frame_rate
    }

    /// Returns whether two access units can be the fields of one frame.
    pub(super) fn has_fields(&self) -> bool {
        self.format.is_some_and(|format| format.has_fields)
    }
}

impl Format {
    fn of(set: &[u8]) -> Option<Self> {
        let set = SeqParameterSet::from_bits(RefNal::new(set, &[], true).rbsp_bits()).ok()?;
        let size = set.pixel_dimensions().ok();
        let size = size.and_then(|(width, height)| Some((width.try_into().ok()?, height.try_into().ok()?)));
        let frame_rate = set.fps().filter(|rate| rate.is_finite() && (0.1..=1000.0).contains(rate));
        let has_fields = matches!(set.frame_mbs_flags, FrameMbsFlags::Fields { .. });
        Some(Self { size, frame_rate, has_fields })
    }
}

/// Returns the bytes of a NAL unit without emulation prevention bytes (section 7.3.1.1).
fn without_emulation_prevention(unit: &[u8]) -> Vec<u8> {
    let mut zeros = 0;
    let kept = unit.iter().filter(|byte| {
        let dropped = zeros >= 2 && **byte == 3;
        zeros = if **byte == 0 { zeros + 1 } else { 0 };
        !dropped
    });
    kept.copied().collect()
}
