//! Tests of all formats, with the table of cases and with samples of random lengths.

use proptest::prelude::*;

use super::cases::{CASES, Case};
use super::depacketize::{Packet, depacketize};
use super::nal::NalUnits;
use super::*;

/// Unit of a sample with a header of its format: a NAL unit, an OBU without a size field, or a complete
/// frame.
fn unit(format: Format, index: usize, length: usize) -> Vec<u8> {
    let header = match format {
        Format::H264 => [0x61 + (index as u8 & 3), 0],
        Format::Av1 => [[0x08, 0x30, 0x34, 0x2c][index & 3], 0x10],
        Format::Vp9 => [[0x82, 0x86][index & 1], 0],
        _ => [0x02, 0x01 + (index as u8 & 3)],
    };
    let body = (0..length).map(|at| (at * 7 + index) as u8);
    header.into_iter().take(length).chain(body.skip(2)).collect()
}

/// Samples of these units as an asset contains them: NAL units after lengths of four bytes, OBUs with size
/// fields after a temporal delimiter, or frames.
fn samples(format: Format, lengths: &[Vec<usize>]) -> Vec<Vec<u8>> {
    let in_asset = |unit: Vec<u8>| match format {
        Format::H264 | Format::H265 => sized(&unit),
        Format::Av1 => {
            let header = if unit[0] & 4 == 0 { 1 } else { 2 };
            let (header, body) = unit.split_at(header);
            let size = [0x80 | body.len() as u8, 0x80 | (body.len() >> 7) as u8, (body.len() >> 14) as u8];
            [&[header[0] | 2], &header[1..], &size, body].concat()
        }
        _ => unit,
    };
    let sample = |lengths: &Vec<usize>| {
        let units =
            lengths.iter().enumerate().flat_map(|(index, length)| in_asset(unit(format, index, *length)));
        let delimiter = if format == Format::Av1 { &[0x12, 0][..] } else { &[] };
        delimiter.iter().copied().chain(units).collect()
    };
    lengths.iter().map(sample).collect()
}

/// Samples of these units as a depacketizer returns them.
fn received(format: Format, lengths: &[Vec<usize>]) -> Vec<Vec<u8>> {
    let units = |lengths: &Vec<usize>| {
        let units = lengths.iter().enumerate().map(|(index, length)| unit(format, index, *length));
        units.flat_map(|unit| sized(&unit)).collect()
    };
    match format {
        Format::Av1 => lengths.iter().map(units).filter(|unit: &Vec<u8>| !unit.is_empty()).collect(),
        _ => samples(format, lengths),
    }
}

fn sized(unit: &[u8]) -> Vec<u8> {
    [&(unit.len() as u32).to_be_bytes(), unit].concat()
}

/// Codec of a payload format.
fn codec(format: Format) -> Codec {
    let (length_size, sets) = (4, Vec::new());
    match format {
        Format::H264 => Codec::H264(crate::track::Avc {
            profile_level: [0; 3],
            length_size,
            sequence_sets: sets.clone(),
            picture_sets: sets,
        }),
        Format::H265 => Codec::H265(crate::track::Hevc {
            profile: 1,
            level: 93,
            length_size,
            video_sets: sets.clone(),
            sequence_sets: sets.clone(),
            picture_sets: sets,
        }),
        Format::Av1 => Codec::Av1(None),
        Format::Vp9 => Codec::Vp9(None),
        _ => Codec::Opus,
    }
}

/// Reads the units of a sample: only their lengths and headers.
fn units(format: Format, asset: &[u8], sample: Extent) -> Vec<Unit> {
    let (mut walk, mut units) = (Units::new(&codec(format), sample), Vec::new());
    while let Some(wanted) = walk.wanted() {
        assert!(wanted.length <= 11);
        units.extend(walk.take(&asset[wanted.offset as usize..wanted.end() as usize]).unwrap());
    }
    units
}

fn packetize(
    format: Format,
    limit: usize,
    most: usize,
    samples: &[Vec<u8>],
) -> Result<(Payloads, Vec<Packet>), TooLong> {
    let asset = samples.concat();
    let (mut packetizer, mut payloads) = (Packetizer::new(format, limit, most), Payloads::default());
    let mut offset = 0;
    for (number, sample) in samples.iter().enumerate() {
        let extent = Extent { offset, length: sample.len() as u64 };
        offset = extent.end();
        let units = units(format, &asset, extent);
        packetizer.push(extent, &units, number as u64, &mut payloads)?;
    }
    packetizer.flush(&mut payloads);
    let packets = payloads.iter().map(|payload| (payload.copy(&asset), payload.marker)).collect();
    Ok((payloads, packets))
}

#[test]
fn cases_make_the_packets_of_the_table() {
    for Case { name, format, limit, most, samples: lengths, payloads, trains } in CASES {
        let lengths: Vec<Vec<usize>> = lengths.iter().map(|sample| sample.to_vec()).collect();
        let samples = samples(*format, &lengths);
        let (found, packets) = packetize(*format, *limit, *most, &samples).unwrap();
        let found_lengths: Vec<usize> = found.iter().map(|payload| payload.length).collect();
        assert_eq!(found_lengths, *payloads, "{name}");
        assert_eq!(found.trains().collect::<Vec<_>>(), *trains, "{name}");
        assert!(packets.iter().zip(*payloads).all(|((bytes, _), length)| bytes.len() == *length), "{name}");
        let read = depacketize(*format, &packets).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        assert_eq!(read.concat(), received(*format, &lengths).concat(), "{name}");
    }
}

/// Packets of samples with as much padding as possible, without it. Checks the padding of each.
fn padded(format: Format, limit: usize, samples: &[Vec<u8>]) -> (Payloads, Vec<Packet>) {
    let asset = samples.concat();
    let (mut packetizer, mut payloads) = (Packetizer::new(format, limit, 1), Payloads::default());
    payloads.permit_padding(usize::MAX);
    let mut offset = 0;
    for (number, sample) in samples.iter().enumerate() {
        let extent = Extent { offset, length: sample.len() as u64 };
        offset = extent.end();
        packetizer.push(extent, &units(format, &asset, extent), number as u64, &mut payloads).unwrap();
    }
    let packets = payloads.iter().map(|payload| {
        let (mut bytes, padding) = (payload.copy(&asset), usize::from(payload.padding));
        assert_eq!(bytes.len(), payload.length);
        if padding > 0 {
            assert_eq!(
                (bytes.last(), bytes.len()),
                (Some(&payload.padding), limit),
                "padding fills a packet"
            );
            bytes.truncate(bytes.len() - padding);
        }
        (bytes, payload.marker)
    });
    let packets = packets.collect();
    (payloads, packets)
}

/// Promise: With padding, all packets of a picture have the full length, and no packet more than 255 bytes of it.
#[test]
fn padding_fills_the_packets_of_a_picture() {
    for format in [Format::H264, Format::H265, Format::Av1, Format::Vp8, Format::Vp9] {
        for length in (2_000..40_000).step_by(61) {
            let samples = samples(format, &[vec![length]]);
            let (payloads, _) = padded(format, 1448, &samples);
            let padding: Vec<u8> = payloads.iter().map(|payload| payload.padding).collect();
            let full = payloads.iter().all(|payload| payload.length == 1448);
            let least = padding.iter().min().copied().unwrap_or_default();
            let most = padding.iter().max().copied().unwrap_or_default();
            let all: usize = padding.iter().map(|padding| usize::from(*padding)).sum();
            assert!(full || length < 6 * 1448, "{format:?}, {length} bytes: a shorter packet");
            assert!((least > 0) == (most > 0), "{format:?}, {length} bytes: {padding:?}");
            assert!(all <= 1448 + padding.len(), "{format:?}, {length} bytes: {all} bytes of padding");
            assert!(format == Format::Av1 || most - least <= 1, "{format:?}, {length} bytes: {padding:?}");
            assert!(!full || payloads.trains().count() == 1);
        }
    }
}

#[test]
fn padding_ends_where_it_is_not_permitted_any_more() {
    let samples = samples(Format::H264, &[vec![14_000]]);
    let mut payloads = Payloads::default();
    let extent = Extent { offset: 0, length: samples[0].len() as u64 };
    let units = units(Format::H264, &samples[0], extent);
    // 10 packets of 1448 bytes have 461 bytes more than the NAL unit of 14,000 bytes and the headers.
    for (permitted, padded) in [(460, 0), (461, 461)] {
        payloads.clear();
        payloads.permit_padding(permitted);
        Packetizer::new(Format::H264, 1448, 1).push(extent, &units, 0, &mut payloads).unwrap();
        let padding: usize = payloads.iter().map(|payload| usize::from(payload.padding)).sum();
        assert_eq!((padding, payloads.padding_left()), (padded, permitted - padded));
    }
}

/// Compares with RFC 6184 sections 5.8 and 5.7.1, byte by byte.
#[test]
fn headers_are_those_of_the_specifications() {
    let first = |format, lengths: &[usize]| {
        let samples = samples(format, &[lengths.to_vec()]);
        let (_, packets) = packetize(format, 64, 8, &samples).unwrap();
        packets.iter().map(|(payload, marker)| (payload[..4].to_vec(), *marker)).collect::<Vec<_>>()
    };
    let fragments = first(Format::H264, &[130]);
    assert_eq!((fragments[0].0[..2].to_vec(), fragments[0].1), (vec![0x7c, 0x81], false));
    assert_eq!((fragments[1].0[1], fragments[2].0[1], fragments[2].1), (0x01, 0x41, true));
    assert_eq!(first(Format::H264, &[5, 6])[0].0[..3], [0x78, 0, 5]);
    assert_eq!(first(Format::H265, &[130])[0].0[..3], [0x62, 0x01, 0x81]);
    assert_eq!(first(Format::H265, &[5, 6])[0].0, [0x60, 0x01, 0, 5]);
    assert_eq!(first(Format::Aac, &[5])[0], (vec![0, 16, 0, 40], true));
    assert_eq!(first(Format::MpegAudio, &[70])[1].0, [0, 0, 0, 60]);
    assert_eq!(first(Format::Ac3, &[70])[0].0[..2], [1, 2]);
    assert_eq!(first(Format::Ac3, &[130])[0].0[..2], [2, 3]);
    // Three packets: a sequence header of 5 bytes and the beginning of a frame; its middle; its end.
    let packets = first(Format::Av1, &[5, 150]);
    assert_eq!(packets[0].0, [0x68, 5, 0x08, 0x10]);
    assert_eq!(packets.iter().map(|(bytes, _)| bytes[0]).collect::<Vec<_>>(), [0x68, 0xd0, 0x90]);
    assert_eq!(
        first(Format::Vp8, &[130]).iter().map(|(bytes, _)| bytes[0]).collect::<Vec<_>>(),
        [0x10, 0, 0]
    );
    assert_eq!(first(Format::Vp9, &[130]).iter().map(|(bytes, _)| bytes[0]).collect::<Vec<_>>(), [8, 0, 4]);
}

/// Checks AV1 RTP payload format section 5: OBUs with extensions in one packet have the same layer.
#[test]
fn layers_do_not_share_a_packet() {
    let obu = |extension: u8| vec![0x36, extension, 3, extension, 7, 8];
    let plain = vec![0x32, 3, 1, 7, 8];
    for (obus, expected) in [
        (vec![obu(0x20), obu(0x20), plain.clone()], vec![1 + 6 + 6 + 4]),
        (vec![obu(0x20), obu(0x28)], vec![1 + 5, 1 + 5]),
        (vec![obu(0x20), plain.clone(), obu(0x40), obu(0x40)], vec![1 + 6 + 4, 1 + 6 + 5]),
    ] {
        let (_, packets) = packetize(Format::Av1, 100, 1, &[obus.concat()]).unwrap();
        assert_eq!(packets.iter().map(|(bytes, _)| bytes.len()).collect::<Vec<_>>(), expected);
        assert!(depacketize(Format::Av1, &packets).is_ok());
    }
    let mixed = vec![0x20, 3, 0x34, 0x20, 1, 0x34, 0x28, 1];
    let refused = depacketize(Format::Av1, &[(mixed, true)]);
    assert_eq!(refused, Err("OBUs of different layers in a packet"));
}

/// Checks AV1 specification section 7.5: a coded video sequence begins with a sequence header and a shown key
/// frame.
#[test]
fn a_coded_video_sequence_begins_with_a_key_frame() {
    let (sequence, reduced) = (&[0x0a, 1, 0x00][..], &[0x0a, 1, 0x18][..]);
    let frame = |first| vec![0x32, 2, first, 9];
    for (temporal_unit, begins) in [
        ([sequence, &frame(0x10)].concat(), true),
        ([sequence, &frame(0x10), &frame(0x30)].concat(), true),
        ([sequence, &frame(0x30), &frame(0x10)].concat(), false),
        ([sequence, &frame(0x00)].concat(), false),
        ([sequence, &frame(0x90)].concat(), false),
        ([reduced, &frame(0x77)].concat(), true),
        (sequence.to_vec(), false),
        (frame(0x10), false),
        ([sequence, &[0x32, 0]].concat(), false),
    ] {
        let (_, packets) = packetize(Format::Av1, 100, 1, std::slice::from_ref(&temporal_unit)).unwrap();
        assert_eq!(packets[0].0[0] & 8 != 0, begins, "{temporal_unit:?}");
    }
}

/// Checks RFC 6184 table 1 and RFC 7798 section 4.4: receivers would read these types as aggregation packets
/// or fragments.
#[test]
fn nal_units_of_types_that_rtp_uses_itself_are_left_out() {
    for (format, headers) in
        [(Format::H264, [[0x78, 0], [0x7c, 0], [0x60, 0]]), (Format::H265, [[0x60, 1], [0x62, 1], [0x64, 1]])]
    {
        let good = samples(format, &[vec![300]]).concat();
        let bad = |length: usize| {
            headers.map(|header| [&(length as u32).to_be_bytes()[..], &header, &vec![9; length - 2]].concat())
        };
        let sample = [bad(20).concat(), good.clone(), bad(200).concat()].concat();
        let (_, packets) = packetize(format, 100, 1, &[sample, bad(5).concat()]).unwrap();
        assert_eq!(depacketize(format, &packets), Ok(vec![good]));
    }
}

#[test]
fn headers_of_access_units_are_counted_in_16_bits() {
    let empty = vec![Vec::new(); 5000];
    let (_, packets) = packetize(Format::Aac, 65_535, 5000, &empty).unwrap();
    assert!(depacketize(Format::Aac, &packets).is_ok_and(|read| read == empty));
}

#[test]
fn frames_that_no_packet_takes_are_refused() {
    for (format, length, limit) in [
        (Format::Aac, 8192, 8191),
        (Format::Opus, 101, 100),
        (Format::Ac3, 24_991, 24_990),
        (Format::MpegAudio, 65_537, 65_536),
    ] {
        let error = packetize(format, 100, 1, &samples(format, &[vec![length]])).unwrap_err();
        assert_eq!((error.length, error.limit), (length as u64, limit));
        assert!(packetize(format, 100, 1, &samples(format, &[vec![length - 1]])).is_ok());
    }
}

#[test]
fn a_nal_unit_ends_in_its_sample() {
    for bytes in [&[0, 0, 0, 9, 1][..], &[0, 0, 0], &[0xff, 0xff, 0xff, 0xff, 1, 2, 3]] {
        let mut walk = NalUnits::new(Extent { offset: 7, length: bytes.len() as u64 }, 4);
        let wanted = walk.wanted().unwrap();
        assert_eq!(
            walk.take(&bytes[..wanted.length as usize]),
            Err(UnitError { what: "NAL unit", offset: 7, reason: "it ends after its sample" })
        );
    }
}

/// Lengths from 0 to 1 MiB, mostly short.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![0usize..40, 0usize..3000, 0usize..1 << 20]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Promise: H.264 and H.265 samples from 0 bytes to MiB are restored from RTP packets byte for byte.
    #[test]
    fn video_comes_back(
        lengths in proptest::collection::vec(proptest::collection::vec(length(), 0..6), 1..4),
        limit in 64usize..9000,
        h265: bool,
    ) {
        let format = if h265 { Format::H265 } else { Format::H264 };
        let least = if h265 { 2 } else { 1 };
        let lengths: Vec<Vec<usize>> =
            lengths.iter().map(|units| units.iter().map(|length| (*length).max(least)).collect()).collect();
        let samples = samples(format, &lengths);
        let (payloads, packets) = packetize(format, limit, 1, &samples).unwrap();
        let expected: Vec<Vec<u8>> = samples.iter().filter(|sample| !sample.is_empty()).cloned().collect();
        prop_assert_eq!(depacketize(format, &packets), Ok(expected));
        prop_assert!(packets.iter().all(|(payload, _)| payload.len() <= limit));
        let pieces = payloads.iter().flat_map(|payload| payload.pieces);
        let generated = pieces.filter(|piece| matches!(piece, Piece::Generated(_)));
        prop_assert!(generated.count() <= packets.len() + lengths.iter().flatten().count());
        prop_assert_eq!(payloads.trains().sum::<usize>(), packets.len());
        let plain = depacketize(format, &packets);
        prop_assert_eq!(depacketize(format, &padded(format, limit, &samples).1), plain);
    }

    /// Promise: AV1, VP8 and VP9 samples from 0 bytes to MiB are restored from RTP packets byte for byte.
    #[test]
    fn video_without_nal_units_comes_back(
        lengths in proptest::collection::vec(proptest::collection::vec(length(), 0..6), 1..4),
        limit in 64usize..9000,
        format in proptest::sample::select(vec![Format::Av1, Format::Vp8, Format::Vp9]),
    ) {
        // The header of an OBU with an extension has two bytes. Frames of other formats are not divided.
        let lengths: Vec<Vec<usize>> = match format {
            Format::Av1 => lengths.iter().map(|units| units.iter().map(|length| length + 2).collect()).collect(),
            _ => lengths.into_iter().flatten().map(|length| vec![length]).collect(),
        };
        let samples = samples(format, &lengths);
        let (payloads, packets) = packetize(format, limit, 1, &samples).unwrap();
        let expected: Vec<Vec<u8>> =
            received(format, &lengths).into_iter().filter(|sample| !sample.is_empty()).collect();
        prop_assert_eq!(depacketize(format, &packets), Ok(expected));
        prop_assert!(packets.iter().all(|(payload, _)| payload.len() <= limit));
        prop_assert_eq!(payloads.trains().sum::<usize>(), packets.len());
        let plain = depacketize(format, &packets);
        prop_assert_eq!(depacketize(format, &padded(format, limit, &samples).1), plain);
    }

    /// Promise: G.711 and linear PCM are restored from RTP packets byte for byte, at the times of their
    /// samples.
    #[test]
    fn sound_that_is_sent_as_it_is_comes_back(
        frames in proptest::collection::vec(prop_oneof![0usize..40, 0usize..20_000], 1..6),
        channels in 1u8..=21,
        rate in prop_oneof![Just(8000u32), Just(44_100), 1u32..400_000],
        limit in 64usize..9000,
        most in 1usize..9,
        encoding in proptest::sample::select(
            vec![PcmEncoding::Pcma, PcmEncoding::Pcmu, PcmEncoding::L16, PcmEncoding::L24],
        ),
    ) {
        let sound = PcmFormat { encoding, channels, sample_rate: rate };
        let format = Format::Pcm(sound);
        let lengths: Vec<Vec<usize>> =
            frames.iter().map(|frames| vec![frames * sound.frame_length()]).collect();
        let samples = samples(format, &lengths);
        let (payloads, packets) = packetize(format, limit, most, &samples).unwrap();
        prop_assert_eq!(depacketize(format, &packets).map(|read| read.concat()), Ok(samples.concat()));
        prop_assert!(packets.iter().all(|(payload, _)| payload.len() <= limit));
        // The numbers of the samples are their timestamps.
        let times = frames.iter().enumerate().flat_map(|(number, frames)| (number..).take(*frames));
        let mut times = times.map(|time| time as u64);
        for payload in payloads.iter() {
            prop_assert_eq!(times.next(), Some(payload.timestamp));
            times.by_ref().take(payload.length / sound.frame_length() - 1).for_each(drop);
        }
        prop_assert_eq!(times.next(), None);
    }

    /// Promise: AAC, AC-3, MPEG audio and Opus frames are restored from RTP packets byte for byte.
    #[test]
    fn audio_comes_back(
        lengths in proptest::collection::vec(prop_oneof![1usize..40, 1usize..8000], 1..12),
        limit in 64usize..9000,
        most in 1usize..9,
        format in proptest::sample::select(vec![Format::Aac, Format::Opus, Format::MpegAudio, Format::Ac3]),
    ) {
        let lengths: Vec<Vec<usize>> = lengths.into_iter().map(|length| vec![length]).collect();
        let samples = samples(format, &lengths);
        match packetize(format, limit, most, &samples) {
            Ok((_, packets)) => {
                let read = depacketize(format, &packets);
                prop_assert_eq!(read.map(|read| read.concat()), Ok(samples.concat()));
                prop_assert!(packets.iter().all(|(payload, _)| payload.len() <= limit));
                prop_assert!(packets.len() >= samples.len().div_ceil(most));
            }
            Err(error) => prop_assert!(error.length > error.limit),
        }
    }
}
