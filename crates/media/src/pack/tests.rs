use super::testing::{Read, pack, pack_as, plan, read, read_with};
use super::*;
use crate::image::{Layout, MAX_SEGMENT_DATA, MAX_TRAIN_PACKETS, PAGE, PathLimits, Recipe, Writer};
use crate::rtp::Marker;
use crate::ts::synthetic::{Jump, Sample, SampleProgramme, SampleStream};
use crate::ts::{Framing, NOMINAL_TICKS_PER_PACKET, NULL_PID, PACKET_LENGTH, Pcr, WarningKind};
use proptest::prelude::*;

fn packed(asset: &[u8]) -> Read {
    let (file, _) = pack(asset, plan(asset.len()), 100_000).expect("an asset that can be packed");
    read(&file).expect("an image as it should be")
}

/// Returns the first transport stream packet of every RTP packet, with its RTP header as parsed by
/// `rtp_types`.
fn each_packet(image: &Read) -> impl Iterator<Item = (u64, rtp_types::RtpPacket<'_>)> {
    let per_packet = image.header.plan.recipe.payload_length() as u64 / PACKET_LENGTH as u64;
    (0..)
        .step_by(per_packet as usize)
        .zip(image.packets.iter().map(|packet| rtp_types::RtpPacket::parse(packet).expect("an RTP packet")))
}

fn check_timestamps(image: &Read, stream: &SampleStream) {
    for (first, packet) in each_packet(image) {
        let due = (stream.departures[first as usize] / 300) as u32;
        let error =
            packet.timestamp().wrapping_sub(image.header.plan.streams[0].timestamp).wrapping_sub(due) as i32;
        assert!(error.abs() <= 1, "packet {first} is {error} ticks off");
    }
}

fn check_trains(image: &Read) {
    let recipe = image.header.plan.recipe;
    for train in image.trains.iter().flatten() {
        let spread = (u64::from(train.packets() - 1) * u64::from(train.timestamp_step)) >> 16;
        assert!(spread <= u64::from(recipe.burst_us) * 9 / 100 + 1 && train.packets() <= MAX_TRAIN_PACKETS);
    }
    assert!(image.trains.iter().flatten().map(|train| train.departure_us).is_sorted());
}

/// Checks that every start begins a train and leads to the first byte of its transport packet.
fn check_starts(image: &Read, starts: &[u64], departures: &[u64]) {
    let per_packet = image.header.plan.recipe.payload_length() as u64 / PACKET_LENGTH as u64;
    let seen: Vec<u64> = image
        .table
        .starts
        .iter()
        .map(|start| {
            let trains = &image.trains[start.segment as usize];
            let before: u32 = trains[..start.train as usize].iter().map(|train| train.packets()).sum();
            assert!(trains[start.train as usize].start);
            let packet = image.table.segments[start.segment as usize].first_packet + u64::from(before);
            packet * per_packet + u64::from(start.skip) / PACKET_LENGTH as u64
        })
        .collect();
    assert_eq!(seen, starts);
    for (start, &packet) in image.table.starts.iter().zip(starts) {
        assert_eq!(start.departure_us, departures[packet as usize] / 27);
    }
    assert_eq!(image.trains.iter().flatten().filter(|train| train.start).count(), starts.len());
}

#[test]
fn a_constant_rate_stream_comes_out_whole_and_on_time() {
    for framing in Framing::ALL {
        let stream = Sample { framing, packets: 20_000, ..Sample::default() }.stream();
        let image = packed(&stream.bytes);
        assert_eq!(image.payload(), stream.payload);
        check_timestamps(&image, &stream);
        check_trains(&image);
        check_starts(&image, &stream.starts, &stream.departures);
        assert_eq!(image.header.duration_us, stream.departures[20_000] / 27);
        assert_eq!(
            usize::from(image.table.description.transport_stream().expect("one").stride),
            framing.stride()
        );
        assert!(image.table.description.warnings().is_empty());
        assert!(image.table.segments.len() > 3);
        assert!(image.table.segments.iter().all(|entry| entry.data_length <= MAX_SEGMENT_DATA));
    }
}

#[test]
fn headers_are_of_one_stream() {
    let image = packed(&Sample { packets: 10_005, ..Sample::default() }.stream().bytes);
    for (index, (_, packet)) in each_packet(&image).enumerate() {
        assert_eq!((packet.payload_type(), packet.ssrc()), (33, 0xdead_beef));
        assert_eq!(packet.sequence_number(), 65_500u16.wrapping_add(index as u16));
        assert!(!packet.marker_bit());
    }
    assert_eq!(image.packets.last().map(Vec::len), Some(12 + 10_005 % 7 * 188));
}

/// Promise: The burst window limits the duration of a train.
#[test]
fn trains_fill_the_burst() {
    let stream = Sample { packets: 20_000, tables_every: 5000, ..Sample::default() }.stream();
    let image = packed(&stream.bytes);
    let fitting = 20_000 * 27 / (7 * 10_000);
    let full =
        image.trains.iter().flatten().filter(|train| (fitting..=fitting + 1).contains(&train.packets()));
    assert!(full.count() * 10 > image.trains.iter().flatten().count() * 9);
    let bursts: Vec<u64> = image.trains.iter().flatten().map(|train| train.departure_us / 20_000).collect();
    let repeated = bursts.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!(repeated < image.table.starts.len(), "a burst is one train, but where a decoder can start");
}

#[test]
fn the_marker_is_set_after_a_jump_of_the_clock() {
    let jumps = vec![Jump { packet: 1000, ticks: 999_999_999_999, flagged: false }];
    let stream = Sample { jumps, ..Sample::default() }.stream();
    let image = packed(&stream.bytes);
    let at = stream.references.iter().find(|&&packet| packet >= 1000).expect("a reference after the jump");
    let marked: Vec<_> =
        each_packet(&image).filter(|(_, packet)| packet.marker_bit()).map(|(first, _)| first).collect();
    assert_eq!(marked, [at.next_multiple_of(7)]);
    assert_eq!(image.trains.iter().flatten().filter(|train| train.marker == Marker::First).count(), 1);
    check_timestamps(&image, &stream);
}

/// Promise: A truncated or damaged file plays as far as possible, with a warning.
#[test]
fn damage_and_truncation_cost_only_what_is_damaged() {
    let stream = Sample { packets: 3000, ..Sample::default() }.stream();
    let mut bytes = stream.bytes.clone();
    bytes.truncate(bytes.len() - 50);
    bytes.drain(188 * 500 + 30..188 * 501 + 3);
    let image = packed(&bytes);
    let expected = [&stream.payload[..188 * 501], &stream.payload[188 * 502..188 * 2999]].concat();
    let kept = image.payload();
    assert_eq!(kept.len(), expected.len());
    assert_eq!(kept[188 * 501..], expected[188 * 501..]);
    let kinds: Vec<_> =
        image.table.description.warnings().first.iter().map(|warning| &warning.kind).collect();
    let expected = [WarningKind::Skipped { bytes: 27 }, WarningKind::Truncated { bytes: 138 }];
    assert_eq!(kinds[1], &expected[1], "{kinds:?}");
    assert!(matches!(kinds[0], WarningKind::Skipped { .. }) && kinds.len() == 2, "{kinds:?}");
}

#[test]
fn a_file_with_one_reference_is_sent_at_the_nominal_rate() {
    let stream = Sample { packets: 700, pcr_every: 10_000, ..Sample::default() }.stream();
    let image = packed(&stream.bytes);
    assert_eq!(image.header.duration_us, 700 * NOMINAL_TICKS_PER_PACKET / 27);
    assert_eq!(image.table.description.warnings().first.len(), 1);
}

/// Promise: An index does not contain payload: it is at most a fiftieth of the size of its asset.
#[test]
fn an_index_has_no_packets_but_where_the_asset_has_gaps() {
    let stream = Sample { packets: 30_000, ..Sample::default() }.stream();
    let (file, summary) =
        pack_as(Layout::Index, &stream.bytes, plan(stream.bytes.len()), 1 << 20).expect("it can be packed");
    let segments = &summary.table.segments;
    assert!(segments.iter().all(|entry| entry.asset_offset.is_some()));
    assert!(file.len() < stream.bytes.len() / 50 + 3 * PAGE as usize, "{} bytes", file.len());
    let sizes: Vec<u32> = segments.iter().map(|entry| entry.data_length).collect();
    assert!(sizes[0] <= 1 << 16 && sizes[1] <= 1 << 17, "{sizes:?}: what is needed first is short");

    let mut damaged = stream.bytes.clone();
    damaged.drain(188 * 9000 + 30..188 * 9001 + 3);
    let (_, summary) =
        pack_as(Layout::Index, &damaged, plan(damaged.len()), 1 << 20).expect("it can be packed");
    assert_eq!(summary.table.segments.iter().filter(|entry| entry.asset_offset.is_none()).count(), 1);
    let timestamped = Sample { framing: Framing::Timestamped, packets: 3000, ..Sample::default() }.stream();
    let (_, summary) =
        pack_as(Layout::Index, &timestamped.bytes, plan(timestamped.bytes.len()), 1 << 20).expect("the same");
    assert!(summary.table.segments.iter().all(|entry| entry.asset_offset.is_none()));
}

/// Promise: A file that is not a transport stream or has no PCR is refused with file, offset and reason.
#[test]
fn what_is_not_a_stream_or_has_no_clock_is_refused_with_the_place() {
    let text = b"plain text ".repeat(20_000);
    let error = pack(&text, plan(text.len()), 10_000).err().map(|error| error.to_string());
    let expected = "not an MPEG transport stream, MP4 or Matroska file: no run of sync bytes 0x47 at 188, 192 or 204 \
                    bytes in the first 65536 bytes";
    assert_eq!(error.as_deref(), Some(expected));
    let programme = SampleProgramme { ticks: false, pcr_pid: NULL_PID, ..SampleProgramme::numbered(1) };
    let stream = Sample { programmes: vec![programme], ..Sample::default() }.stream();
    let error = pack(&stream.bytes, plan(stream.bytes.len()), 10_000).err();
    assert!(matches!(error, Some(Error::NoClock(NoClock { offset: 376_000, .. }))), "{error:?}");
}

#[test]
fn a_clock_that_stops_does_not_hold_more_than_it_may() {
    let mut stream = Sample::default().stream().bytes;
    let silent = SampleProgramme { ticks: false, ..SampleProgramme::numbered(1) };
    let tail = Sample { programmes: vec![silent], ..Sample::default() }.stream().bytes;
    let mut packer = Packer::new(plan(usize::MAX)).expect("a plan that can be followed");
    packer.push(&stream).expect("a stream with a clock");
    let (mut pushed, mut popped, mut most) = (stream.len(), 0, 0);
    stream.clear();
    for _ in 0..400 {
        packer.push(&tail).expect("a stream with a clock");
        pushed += tail.len();
        while let Some(segment) = packer.pop() {
            popped += segment.trains.iter().map(|train| train.length as usize).sum::<usize>();
        }
        most = most.max(pushed.saturating_sub(popped));
    }
    assert!(popped > 100 << 20 && most < 70 << 20, "{most} bytes waited");
    let end = packer.finish().expect("a stream with a clock");
    let kinds: Vec<_> = end.description.warnings().first.iter().map(|warning| &warning.kind).collect();
    assert!(kinds.iter().any(|kind| matches!(kind, WarningKind::ClockGap { .. })), "{kinds:?}");
}

#[test]
fn an_estimate_from_both_ends_is_close() {
    let stream =
        Sample { packets: 100_000, first_pcr: Pcr::MODULUS - 1_000_000, ..Sample::default() }.stream();
    let bytes = &stream.bytes;
    let duration = stream.departures[100_000] / 27;
    let estimate = |length: usize| {
        estimate(&bytes[..length], &bytes[bytes.len() - length..], bytes.len() as u64)
            .expect("a transport stream")
    };
    for length in [100_000, 999_999, bytes.len()] {
        let estimate = estimate(length);
        let seen = estimate.duration_us.expect("a clock at both ends");
        assert!(seen.abs_diff(duration) < duration / 1000, "{seen} for {duration}");
        assert_eq!(estimate.description.programmes.len(), 1);
    }
}

#[test]
fn small_packets_make_another_image_of_the_same_asset() {
    let stream = Sample { packets: 5000, ..Sample::default() }.stream();
    for (mtu, expected) in [(1500, 7), (1400, 7), (1300, 6), (576, 2), (300, 1), (9000, 47)] {
        let recipe = PathLimits::for_mtu(mtu, 20, 20_000).expect("a packet fits").transport_stream();
        assert_eq!(recipe, Recipe::transport_stream(expected, 20_000));
        let plan = Plan { recipe, ..plan(stream.bytes.len()) };
        let (file, _) = pack(&stream.bytes, plan, 65_536).expect("an asset that can be packed");
        let image = read(&file).expect("an image as it should be");
        assert_eq!(image.payload(), stream.payload);
        assert!(image.packets.iter().all(|packet| packet.len() + 28 <= usize::from(mtu)));
        check_timestamps(&image, &stream);
        check_trains(&image);
    }
    assert_eq!(PathLimits::for_mtu(200, 20, 0), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Promise: A transport stream is sent as RTP by RFC 2250: payload type 33, 90 kHz, whole transport
    /// packets.
    #[test]
    fn any_stream_comes_out_whole_and_in_time(
        seed: u64,
        packets in 1u64..6000,
        ticks in proptest::collection::vec(50u64..200_000, 1..8),
        pcr_every in 1u64..400,
        tables_every in 3u64..800,
        framing in 0usize..3,
        ts_per_packet in 1u16..12,
        burst_us in 0u32..100_000,
        jump in proptest::option::of((0u64..6000, any::<u64>(), any::<bool>())),
        piece in 1usize..300_000,
    ) {
        let rates = ticks.iter().enumerate().map(|(index, &ticks)| (index as u64 * 700, ticks)).collect();
        let jumps = jump.map(|(packet, ticks, flagged)| Jump { packet, ticks, flagged }).into_iter().collect();
        let sample = Sample {
            seed, packets, rates, pcr_every, tables_every, jumps, framing: Framing::ALL[framing], ..Sample::default()
        };
        let stream = sample.stream();
        prop_assume!(!stream.references.is_empty());
        let recipe = Recipe::transport_stream(ts_per_packet, burst_us);
        let plan = Plan { recipe, ..plan(stream.bytes.len()) };
        let (file, summary) = pack(&stream.bytes, plan, piece).expect("an asset that can be packed");
        let image = read(&file).expect("an image as it should be");
        prop_assert_eq!(image.header, summary.header);
        prop_assert_eq!(&image.table, &summary.table);
        prop_assert!(image.payload() == stream.payload);
        check_trains(&image);
        let (again, _) = pack(&stream.bytes, plan, stream.bytes.len()).expect("an asset that can be packed");
        prop_assert!(again == file, "the image depends on how the asset is read");
    }

    /// Promise: An asset without a wire image plays from its own bytes, with the same packets as from an
    /// image.
    ///
    /// Packets made from the index and the asset are byte for byte those of the image, wherever the asset is
    /// damaged. The trains are the same, so that a playback can change from index to image between any two
    /// trains.
    #[test]
    fn an_index_and_its_asset_make_the_packets_of_the_image(
        seed: u64,
        packets in 1u64..12_000,
        tables_every in 3u64..800,
        framing in 0usize..3,
        ts_per_packet in 1u16..12,
        burst_us in 0u32..100_000,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), 1usize..500), 0..3),
        lead in 0usize..100,
        piece in 1usize..300_000,
    ) {
        let sample = Sample { seed, packets, tables_every, framing: Framing::ALL[framing], ..Sample::default() };
        let mut bytes = vec![0; lead];
        bytes.extend(sample.stream().bytes);
        for (at, length) in damage {
            let at = at.index(bytes.len());
            bytes.drain(at..bytes.len().min(at + length));
        }
        let plan = Plan { recipe: Recipe::transport_stream(ts_per_packet, burst_us), ..plan(bytes.len()) };
        let Ok((image, _)) = pack(&bytes, plan, piece) else { return Ok(()) };
        let (index, summary) = pack_as(Layout::Index, &bytes, plan, piece).expect("it can be packed");
        let (image, index) = (read(&image).expect("an image"), read_with(&index, &bytes).expect("an index"));
        prop_assert!(index.packets == image.packets, "packets differ");
        prop_assert_eq!(&index.trains, &image.trains);
        prop_assert_eq!(&index.table.starts, &image.table.starts);
        prop_assert_eq!(&index.table, &summary.table);
        let length = |read: &Read| (read.header.packets, read.header.payload_bytes, read.header.duration_us);
        prop_assert_eq!(length(&index), length(&image));
    }
}

/// Packets of the sample's video, each a random access point, with the given adaptation field flags and
/// fields.
fn hostile_packets(flags: u8, fields: &[u8], packets: usize) -> Vec<u8> {
    let mut packet = [0xff; PACKET_LENGTH];
    packet[..6].copy_from_slice(&[0x47, 0x41, 0x00, 0x30, 1 + fields.len() as u8, flags]);
    packet[6..6 + fields.len()].copy_from_slice(fields);
    packet.repeat(packets)
}

/// Packs an asset completely, and returns the most bytes that the packer held meanwhile.
fn most_held(asset: &[u8]) -> usize {
    let mut packer = Packer::new(plan(asset.len())).unwrap();
    let mut writer = Writer::new(plan(asset.len()), Layout::Index);
    let mut take = |packer: &mut Packer| {
        while let Some(segment) = packer.pop() {
            assert!(segment.starts.len() <= 128, "{} starts", segment.starts.len());
            writer.add(&segment, |_, _| Ok::<(), ()>(())).unwrap();
        }
        assert!(packer.held_bytes() < 1 << 20, "it still holds {}", packer.held_bytes());
    };
    let mut most = 0;
    for piece in asset.chunks(1 << 18) {
        packer.push(piece).unwrap();
        most = most.max(packer.held_bytes());
        take(&mut packer);
    }
    let end = packer.finish().unwrap();
    take(&mut packer);
    assert_eq!(writer.finish(end).header.payload_bytes, asset.len() as u64);
    most
}

/// Promise: Packing an asset takes bounded memory, even if clock references are missing or useless.
#[test]
fn a_packing_holds_little_whatever_waits_for_a_clock() {
    const RANDOM_ACCESS: u8 = 0x40;
    const FLAGGED_REFERENCE: u8 = 0xd0;
    let mut without_references = Sample { packets: 3000, ..Sample::default() }.stream().bytes;
    without_references.extend(hostile_packets(RANDOM_ACCESS, &[], 80_000));
    let silent = SampleProgramme { ticks: false, ..SampleProgramme::default() };
    let mut discontinuous = Sample { programmes: vec![silent], ..Sample::default() }.stream().bytes;
    discontinuous.extend(hostile_packets(FLAGGED_REFERENCE, &[1, 2, 3, 4, 5, 6], 80_000));
    for asset in [without_references, discontinuous] {
        let most = most_held(&asset);
        assert!((1 << 16..4 << 20).contains(&most), "it held {most} bytes");
    }
}
