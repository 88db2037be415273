//! Parameter sets in front of random access points (RFC 6184 section 8.4, RFC 7798 section 7.1): MP4 and
//! Matroska have them in the configuration of the track, and samples often have none.
//!
//! Receivers can then begin at any random access point without the session description, and images of
//! different parameters can follow each other in one stream. AV1, VP8 and VP9 need nothing: their containers
//! require a sequence header in each random access point, or frames have their parameters themselves.

use std::sync::Arc;

use super::MAX_SET_BYTES;
use super::unit::Unit;
use crate::track::{Avc, Codec, Extent, Hevc};

/// Offset of extents of the bytes of parameter sets. Offsets of files are less (`off_t`).
pub(super) const IN_CONFIGURATION: u64 = 1 << 63;

/// Most bytes of parameter sets in front of a picture, as in SDP. Encoders write some dozen bytes.
const MAX_BYTES: u64 = MAX_SET_BYTES as u64;

/// Most parameter sets of a kind that are kept of a sample.
const MAX_SETS: usize = 256;

/// Bytes of sets that may be added before as many bytes of samples: a hostile file of small random access points
/// cannot be made many times as long.
const FIRST_CREDIT: u64 = 1 << 16;

/// Parameter sets of a track of H.264 or H.265.
#[derive(Clone, Debug)]
pub struct ParameterSets {
    syntax: Syntax,
    /// Sets of the configuration.
    bytes: Arc<[u8]>,
    /// Sets for the next random access point by [`Kind`]: those of the configuration, or the last ones of a sample.
    sets: [Vec<Unit>; 3],
    /// Bytes of sets that may be added.
    credit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    H264,
    H265,
}

/// Kind of a NAL unit. Parameter sets are sent in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    VideoSet = 0,
    SequenceSet = 1,
    PictureSet = 2,
    Delimiter,
    Other,
}

/// Kinds of parameter sets.
const SETS: [Kind; 3] = [Kind::VideoSet, Kind::SequenceSet, Kind::PictureSet];

impl Syntax {
    /// ITU-T H.264 table 7-1 and H.265 table 7-1.
    fn kind(self, unit: &Unit) -> Kind {
        let [first, _] = unit.header;
        match (self, first & 0x1f, first >> 1 & 0x3f) {
            (Self::H264, 9, _) | (Self::H265, _, 35) => Kind::Delimiter,
            (Self::H265, _, 32) => Kind::VideoSet,
            (Self::H264, 7, _) | (Self::H265, _, 33) => Kind::SequenceSet,
            (Self::H264, 8, _) | (Self::H265, _, 34) => Kind::PictureSet,
            _ => Kind::Other,
        }
    }
}

impl ParameterSets {
    /// Parameter sets of the configuration of a codec; `None` if its samples need none.
    pub fn of(codec: &Codec) -> Option<Self> {
        let (syntax, lists): (_, [&[Vec<u8>]; 3]) = match codec {
            Codec::H264(Avc { sequence_sets, picture_sets, .. }) => {
                (Syntax::H264, [&[], sequence_sets, picture_sets])
            }
            Codec::H265(Hevc { video_sets, sequence_sets, picture_sets, .. }) => {
                (Syntax::H265, [video_sets, sequence_sets, picture_sets])
            }
            _ => return None,
        };
        let mut all = Self { syntax, bytes: Arc::default(), sets: Default::default(), credit: FIRST_CREDIT };
        let bytes: Vec<u8> = lists.into_iter().flatten().flatten().copied().collect();
        if bytes.len() as u64 <= MAX_BYTES {
            let mut offset = IN_CONFIGURATION;
            all.sets = lists.map(|list| {
                let units = list.iter().map(|set| {
                    let extent = Extent { offset, length: set.len() as u64 };
                    offset = extent.end();
                    let byte = |index: usize| set.get(index).copied().unwrap_or_default();
                    Unit { extent, header: [byte(0), byte(1)], first: 0 }
                });
                units.collect()
            });
            all.bytes = bytes.into();
        }
        Some(all)
    }

    /// Bytes of the sets of the configuration, for [`Payloads::permit_parameter_sets`](super::Payloads).
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// Notes the parameter sets of a sample of `length` bytes. A random access point gets the last sets of the kinds
    /// that it lacks before its picture, behind the access unit delimiter.
    pub fn complete(&mut self, is_random_access: bool, length: u64, units: &mut Vec<Unit>) {
        self.credit = self.credit.saturating_add(length);
        let syntax = self.syntax;
        let mut has = [false; 3];
        for ((has, sets), kind) in has.iter_mut().zip(&mut self.sets).zip(SETS) {
            let mut own = units.iter().filter(|unit| syntax.kind(unit) == kind).peekable();
            if own.peek().is_some() {
                *has = true;
                sets.clear();
                sets.extend(own.take(MAX_SETS).copied());
            }
        }
        let lacking = || self.sets.iter().zip(SETS).zip(has).filter(|(_, has)| !has);
        let bytes: u64 = lacking().flat_map(|((sets, _), _)| sets).map(|set| set.extent.length).sum();
        if !is_random_access || units.is_empty() || bytes > MAX_BYTES.min(self.credit) {
            return;
        }
        self.credit -= bytes;
        for ((sets, kind), _) in lacking() {
            // Sets of a kind refer to those of the kinds before.
            let is_before = |unit: &Unit| (syntax.kind(unit) as u8) < kind as u8;
            let delimiters = units.iter().take_while(|unit| syntax.kind(unit) == Kind::Delimiter).count();
            let at = units.iter().rposition(is_before).map_or(delimiters, |last| last + 1);
            units.splice(at..at, sets.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::depacketize::depacketize;
    use super::super::{Format, Packetizer, Payloads};
    use super::*;

    fn unit(offset: u64, first: u8) -> Unit {
        Unit { extent: Extent { offset, length: 10 }, header: [first, 1], first: 0 }
    }

    fn avc() -> ParameterSets {
        let avc = Avc {
            profile_level: [66, 0xc0, 30],
            length_size: 4,
            sequence_sets: vec![vec![0x67, 66, 0xc0, 30]],
            picture_sets: vec![vec![0x68, 1]],
        };
        ParameterSets::of(&Codec::H264(avc)).expect("H.264 has parameter sets")
    }

    fn completed(sets: &mut ParameterSets, is_random_access: bool, units: &[Unit]) -> Vec<Unit> {
        let mut units = units.to_vec();
        sets.complete(is_random_access, 1000, &mut units);
        units
    }

    fn types(units: &[Unit]) -> Vec<u8> {
        units.iter().map(|unit| unit.header[0] & 0x1f).collect()
    }

    #[test]
    fn sets_precede_the_picture_of_a_random_access_point() {
        let mut sets = avc();
        assert_eq!(**sets.bytes(), [0x67, 66, 0xc0, 30, 0x68, 1]);
        let units = completed(&mut sets, true, &[unit(100, 0x09), unit(110, 0x06), unit(120, 0x65)]);
        assert_eq!(types(&units), [9, 7, 8, 6, 5]);
        assert_eq!(units[1].extent, Extent { offset: IN_CONFIGURATION, length: 4 });
        assert_eq!(units[2].extent, Extent { offset: IN_CONFIGURATION + 4, length: 2 });
        assert_eq!(types(&completed(&mut sets, false, &[unit(130, 0x41)])), [1]);
        assert!(completed(&mut sets, true, &[]).is_empty(), "a sample without units is not sent");
    }

    /// Promise: A random access point of a movie gets the parameter sets that it lacks: the last ones of a sample, by kind.
    #[test]
    fn sets_of_samples_replace_those_of_the_configuration() {
        let mut sets = avc();
        let own = [unit(100, 0x67), unit(110, 0x68), unit(120, 0x65)];
        assert_eq!(completed(&mut sets, true, &own), own);
        let units = completed(&mut sets, true, &[unit(200, 0x65)]);
        assert_eq!(units, [own[0], own[1], unit(200, 0x65)]);
        // A new picture parameter set alone replaces the one before.
        let other = completed(&mut sets, false, &[unit(300, 0x68), unit(310, 0x41)]);
        assert_eq!(other.len(), 2);
        let units = completed(&mut sets, true, &[unit(400, 0x65)]);
        assert_eq!(units, [own[0], unit(300, 0x68), unit(400, 0x65)]);
        // A sample with one kind gets the others, behind those to which they refer.
        let units = completed(&mut sets, true, &[unit(500, 0x09), unit(510, 0x67), unit(520, 0x65)]);
        assert_eq!(units, [unit(500, 0x09), unit(510, 0x67), unit(300, 0x68), unit(520, 0x65)]);
    }

    /// Promise: Parameter sets make the image of a hostile movie at most twice as long, apart from the first 64 KiB.
    #[test]
    fn sets_are_not_longer_than_the_samples() {
        let sequence_sets = vec![vec![0x67; 4000]];
        let avc = Avc { profile_level: [0; 3], length_size: 4, sequence_sets, picture_sets: Vec::new() };
        let mut sets = ParameterSets::of(&Codec::H264(avc)).expect("H.264 has parameter sets");
        let mut added = 0;
        for _ in 0..10_000 {
            let mut units = vec![unit(100, 0x65)];
            sets.complete(true, 10, &mut units);
            added += 4000 * (units.len() - 1);
        }
        assert!((100_000..=10 * 10_000 + (1 << 16)).contains(&added), "{added} bytes");
    }

    #[test]
    fn sets_of_h265_are_in_order() {
        let (video_sets, sequence_sets) = (vec![vec![0x40, 1, 9]], vec![vec![0x42, 1, 8]]);
        let picture_sets = vec![vec![0x44, 1, 7]];
        let hevc = Hevc { profile: 1, level: 93, length_size: 4, video_sets, sequence_sets, picture_sets };
        let mut sets = ParameterSets::of(&Codec::H265(hevc)).expect("H.265 has parameter sets");
        let units = completed(&mut sets, true, &[unit(100, 35 << 1), unit(110, 19 << 1)]);
        let types: Vec<u8> = units.iter().map(|unit| unit.header[0] >> 1).collect();
        assert_eq!(types, [35, 32, 33, 34, 19]);
        let own = [unit(200, 33 << 1), unit(210, 34 << 1), unit(220, 19 << 1)];
        let units = completed(&mut sets, true, &own);
        let types: Vec<u8> = units.iter().map(|unit| unit.header[0] >> 1).collect();
        assert_eq!(types, [32, 33, 34, 19], "the video parameter set of the configuration");
        assert!(ParameterSets::of(&Codec::Vp8).is_none());
    }

    /// Promise: Parameter sets of a configuration arrive as they are, also in fragments and in packets with others.
    #[test]
    fn sets_of_the_configuration_are_in_packets() {
        let picture: Vec<u8> = std::iter::once(0x65).chain(0..200).collect();
        for length in [4, 50, 300] {
            let set = |first: u8| std::iter::once(first).chain((1..length).map(|at| at as u8)).collect();
            let (sequence, other): (Vec<u8>, Vec<u8>) = (set(0x67), set(0x68));
            let (sequence_sets, picture_sets) = (vec![sequence.clone()], vec![other.clone()]);
            let avc = Avc { profile_level: [0; 3], length_size: 4, sequence_sets, picture_sets };
            let mut sets = ParameterSets::of(&Codec::H264(avc)).expect("H.264 has parameter sets");
            let extent = Extent { offset: 0, length: picture.len() as u64 };
            let units = completed(&mut sets, true, &[Unit { extent, header: [0x65, 0], first: 0 }]);
            let mut payloads = Payloads::default();
            payloads.permit_parameter_sets(&sets);
            let mut packetizer = Packetizer::new(Format::H264, 64, 1);
            packetizer.push(extent, &units, 0, &mut payloads).expect("a picture");
            let packets: Vec<_> =
                payloads.iter().map(|payload| (payload.copy(&picture), payload.marker)).collect();
            assert!(packets.iter().all(|(bytes, _)| bytes.len() <= 64));
            let units = [&sequence, &other, &picture];
            let expected: Vec<u8> = units
                .into_iter()
                .flat_map(|unit| [&(unit.len() as u32).to_be_bytes()[..], unit].concat())
                .collect();
            assert_eq!(depacketize(Format::H264, &packets), Ok(vec![expected]), "sets of {length} bytes");
        }
    }

    #[test]
    fn giant_sets_stay_in_the_description() {
        let sequence_sets = vec![vec![0x67; MAX_BYTES as usize]];
        let avc =
            Avc { profile_level: [0; 3], length_size: 4, sequence_sets, picture_sets: vec![vec![0x68]] };
        let mut sets = ParameterSets::of(&Codec::H264(avc)).expect("H.264 has parameter sets");
        assert_eq!(types(&completed(&mut sets, true, &[unit(100, 0x65)])), [5]);
    }
}
