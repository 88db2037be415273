use super::*;
use crate::ts::packet::{PACKET_LENGTH, SYNC_BYTE};
use crate::ts::programme::Codec;
use crate::ts::synthetic::{Sample, SampleProgramme, section};
use proptest::prelude::*;

fn push_all(psi: &mut Psi, bytes: &[u8]) -> usize {
    bytes
        .chunks_exact(PACKET_LENGTH)
        .filter_map(|chunk| Packet::new(chunk.first_chunk().expect("188 bytes")))
        .filter(|packet| psi.reads(packet.pid()) && psi.push(*packet))
        .count()
}

/// Divides a section into packets of one PID, with `room` bytes of payload each.
fn packets(pid: u16, section: &[u8], room: usize) -> Vec<u8> {
    let bytes = [&[0], section].concat();
    let mut packets = Vec::new();
    for (index, part) in bytes.chunks(room).enumerate() {
        let start = if index == 0 { 0x40 } else { 0 };
        packets.extend([SYNC_BYTE, start | (pid >> 8) as u8, pid as u8, 0x30 | index as u8 & 0x0f]);
        let stuffing = PACKET_LENGTH - 5 - part.len();
        packets.push(stuffing as u8);
        packets.extend(vec![0; stuffing]);
        packets.extend(part);
    }
    packets
}

#[test]
fn reads_programmes_streams_codecs_and_languages() {
    let streams = vec![
        (0x100, 0x1b, vec![]),
        (0x101, 0x0f, vec![0x0a, 4, b'D', b'e', b'u', 0]),
        (0x102, 0x06, vec![0x6a, 0, 0x0a, 4, b'e', b'n', b'g', 0]),
        (0x103, 0x06, vec![0x05, 4, b'O', b'p', b'u', b's', 0x7f, 2, 0x80, 2]),
        (0x104, 0x06, vec![0x56, 5, b'f', b'r', b'a', 8, 0]),
        (0x105, 0x87, vec![]),
        (0x106, 0x24, vec![]),
        (0x107, 0x06, vec![0xff, 200]),
    ];
    let programme = SampleProgramme { streams, ..SampleProgramme::numbered(7) };
    let stream = Sample { programmes: vec![programme], ..Sample::default() }.stream();
    let mut psi = Psi::new();
    assert_eq!(push_all(&mut psi, &stream.bytes), 2, "one change for each of the two tables");
    let programmes: Vec<_> = psi.programmes().collect();
    let [programme] = programmes[..] else { panic!("{programmes:?}") };
    assert_eq!((programme.number, programme.pmt_pid, programme.pcr_pid), (7, 0x1007, Some(0x700)));
    let seen: Vec<_> =
        programme.streams.iter().map(|stream| (stream.codec, stream.language.as_deref())).collect();
    let expected = [
        (Codec::H264, None),
        (Codec::Aac, Some("deu")),
        (Codec::Ac3, Some("eng")),
        (Codec::Opus, None),
        (Codec::Teletext, Some("fra")),
        (Codec::EnhancedAc3, None),
        (Codec::H265, None),
        (Codec::Private, None),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_section_may_span_packets_and_lose_one() {
    let entries: Vec<u8> =
        (1..=200u16).flat_map(|number| [number, 0xf000 + number]).flat_map(u16::to_be_bytes).collect();
    let spread = packets(0, &section(0, 1, &entries), 60);
    let mut psi = Psi::new();
    assert_eq!(push_all(&mut psi, &spread), 1);
    assert_eq!(psi.current_programmes().count(), 200);
    assert!(psi.reads(0x1001) && psi.reads(0x10c8) && !psi.reads(0x10c9));

    let damaged = [&spread[..PACKET_LENGTH * 3], &spread[PACKET_LENGTH * 4..]].concat();
    assert_eq!(push_all(&mut Psi::new(), &damaged), 0);
}

#[test]
fn a_wrong_checksum_is_not_believed() {
    let mut bad = section(0, 1, &[0, 1, 0xf0, 1]);
    bad[9] ^= 1;
    let mut psi = Psi::new();
    assert_eq!(push_all(&mut psi, &packets(0, &bad, 100)), 0);
    assert!(!psi.has_association());
}

#[test]
fn programmes_are_bounded() {
    let mut psi = Psi::new();
    for number in 0..10u8 {
        let entries: Vec<u8> = (0..250u16)
            .flat_map(|index| [u16::from(number) * 250 + index + 1, 0xe100 + index])
            .flat_map(u16::to_be_bytes)
            .collect();
        let mut part = section(0, 1, &entries);
        part.truncate(part.len() - 4);
        (part[6], part[7]) = (number, 9);
        part.extend(crate::ts::crc::crc32_mpeg(&part).to_be_bytes());
        push_all(&mut psi, &packets(0, &part, 180));
    }
    assert_eq!(psi.current_programmes().count(), MAX_PROGRAMMES);
    assert!(psi.overflowed());
}

#[test]
fn a_new_version_of_the_association_replaces_the_old() {
    let mut psi = Psi::new();
    push_all(&mut psi, &packets(0, &section(0, 1, &[0, 1, 0xe1, 0]), 100));
    let mut newer = section(0, 1, &[0, 2, 0xe2, 0]);
    newer.truncate(newer.len() - 4);
    newer[5] = 0xc3;
    newer.extend(crate::ts::crc::crc32_mpeg(&newer).to_be_bytes());
    push_all(&mut psi, &packets(0, &newer, 100));
    assert!(!psi.reads(0x100) && psi.reads(0x200));
}

proptest! {
    #[test]
    fn garbage_is_bounded_and_harmless(
        garbage in proptest::collection::vec((0u16..4, any::<bool>(), proptest::collection::vec(any::<u8>(), 184)), 0..50),
    ) {
        let mut psi = Psi::new();
        push_all(&mut psi, &packets(0, &section(0, 1, &[0, 1, 0xe0, 1, 0, 2, 0xe0, 2]), 100));
        for (index, (pid, start, payload)) in garbage.into_iter().enumerate() {
            let start = if start { 0x40 } else { 0 };
            let head = [SYNC_BYTE, start, pid as u8, 0x10 | index as u8 & 0x0f];
            push_all(&mut psi, &[&head[..], &payload].concat());
        }
        prop_assert!(psi.assemblers.len() <= 3);
    }
}
