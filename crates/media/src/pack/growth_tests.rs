//! Packing of transport streams to which a recorder still appends.

use proptest::prelude::*;

use super::testing::{Read, pack, pack_growing, plan, read};
use super::*;
use crate::image::TrainRecord;
use crate::ts::synthetic::Sample;
use crate::ts::{Framing, PACKET_LENGTH};

/// Packs a stream that is found with these lengths. Returns its image, and the number of bytes that were read.
fn packed_growing(asset: &[u8], lengths: &[usize]) -> (Read, u64) {
    let (first, later) = lengths.split_first().expect("a first length");
    let mut plan = plan(asset.len());
    plan.identity.size = *first as u64;
    let packer = growing_packer(plan).expect("a plan that can be followed");
    let (image, _, bytes_read) = pack_growing(asset, plan, packer, later).expect("it can be packed");
    (read(&image).expect("an image as it should be"), bytes_read)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Promise: A transport stream packed while it grows has the same packets as the finished one, wherever it was cut.
    #[test]
    fn growth_changes_no_packet(
        packets in 500_u64..4000, framing in prop::sample::select(Framing::ALL.to_vec()),
        cuts in proptest::collection::vec(0.0..1.0_f64, 1..12),
    ) {
        let asset = Sample { packets, framing, ..Sample::default() }.stream().bytes;
        let whole = read(&pack(&asset, plan(asset.len()), 100_000).expect("it can be packed").0);
        let whole = whole.expect("an image as it should be");
        let mut lengths: Vec<usize> = cuts.iter().map(|part| 1 + (asset.len() as f64 * part) as usize).collect();
        lengths.sort_unstable();
        let (grown, bytes_read) = packed_growing(&asset, &lengths);
        prop_assert_eq!(bytes_read, asset.len() as u64, "each byte is read once");
        prop_assert_eq!(&grown.packets, &whole.packets);
        prop_assert_eq!(grown.trains_without_places(), whole.trains_without_places());
        prop_assert_eq!(grown.starts_us(), whole.starts_us());
        prop_assert_eq!(grown.header.duration_us, whole.header.duration_us);
        prop_assert_eq!(&grown.table.description, &whole.table.description);
    }
}

/// Packs on until all that the asset has is packed.
fn pack_on(packer: &mut Box<dyn Pack>, asset: &[u8]) -> (Vec<NewSegment>, Packed) {
    let mut segments = Vec::new();
    loop {
        while let Some(segment) = packer.pop().expect("a good stream") {
            segments.push(segment);
        }
        match packer.wanted() {
            Wanted::Bytes(wanted) => {
                let bytes = &asset[wanted.offset as usize..wanted.end() as usize];
                packer.take(bytes).expect("it is good");
            }
            Wanted::Nothing => {}
            Wanted::Growth(packed) => return (segments, packed),
            Wanted::End => panic!("it still grows"),
        }
    }
}

/// Promise: A recording is played from now on, also after a time without viewers.
#[test]
fn what_was_written_in_a_rest_is_no_part() {
    let bytes = Sample { packets: 8000, ..Sample::default() }.stream().bytes;
    let mut plan = plan(bytes.len());
    plan.identity.size = 0;
    let mut packer = growing_packer(plan).expect("a plan that can be followed");
    let mut grow = |part: usize, after_rest: bool| {
        let size = (bytes.len() * part / 16) as u64;
        match after_rest {
            true => packer.grow_after_rest(size),
            false => packer.grow(size),
        }
        pack_on(&mut packer, &bytes).1
    };
    let (first, second) = (grow(1, false), grow(2, false));
    let longest_us = first.until_us.max(second.until_us - first.until_us);
    let rested = grow(14, true);
    assert!(rested.until_us - second.until_us > 10 * longest_us, "much was written meanwhile");
    assert_eq!((rested.fragments.last_us, rested.fragments.longest_us), (longest_us, longest_us));
    let next = grow(15, false);
    assert_eq!(next.fragments.last_us, next.until_us - rested.until_us);
}

/// Promise: What a recorder has written of a transport stream is played, but for what follows the last clock reference.
#[test]
fn the_edge_is_near_the_end() {
    let stream = Sample { packets: 8000, ..Sample::default() }.stream();
    let mut plan = plan(stream.bytes.len());
    plan.identity.size = 0;
    let mut packer = growing_packer(plan).expect("a plan that can be followed");
    let (mut packets, mut before_us) = (0, 0);
    for length in (1..=8).map(|part| part * stream.bytes.len() / 8) {
        packer.grow(length as u64);
        let (segments, packed) = pack_on(&mut packer, &stream.bytes);
        packets += segments.iter().flat_map(|segment| &segment.trains).map(TrainRecord::packets).sum::<u32>();
        let last = u64::from(packets) * 7;
        let end_us = stream.departures[(length / PACKET_LENGTH).min(7999)] / 27;
        assert!(packed.until_us <= end_us && end_us - packed.until_us < 200_000, "{packed:?} of {end_us}");
        assert!(stream.departures[last as usize - 7] / 27 - packed.until_us < 20_000, "{packed:?}");
        assert_eq!(packed.fragments.last_us, packed.until_us - before_us);
        let mark = packed.fragments.mark.expect("bytes were read");
        assert!(mark.is_of(&stream.bytes[mark.extent.offset as usize..mark.extent.end() as usize]));
        assert_eq!(mark.extent.end(), length as u64);
        before_us = packed.until_us;
    }
}
