use super::*;
use crate::random::Random;
use proptest::prelude::*;

/// Output of a deframer, independent of the division into runs.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    packets: Vec<(u64, Vec<u8>)>,
    warnings: Vec<Warning>,
    refused: Option<NotTransportStream>,
}

impl Seen {
    fn note(&mut self, event: Event<'_>) {
        match event {
            Event::Packets(run) => {
                assert_eq!(run.count(), run.iter().count());
                let packets = run.iter().enumerate().map(|(i, bytes)| (run.offset(i), bytes.to_vec()));
                self.packets.extend(packets);
            }
            Event::Warning(warning) => self.warnings.push(warning),
        }
    }
}

fn deframe<'a>(inputs: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let (mut deframer, mut seen) = (Deframer::new(), Seen::default());
    for mut input in inputs {
        loop {
            match deframer.next(&mut input) {
                Ok(Some(event)) => seen.note(event),
                Ok(None) => break,
                Err(error) => return Seen { refused: Some(error), ..seen },
            }
        }
        assert!(input.is_empty() && deframer.carry.len() <= CARRY_BYTES);
    }
    loop {
        match deframer.finish() {
            Ok(Some(event)) => seen.note(event),
            Ok(None) => return seen,
            Err(error) => return Seen { refused: Some(error), ..seen },
        }
    }
}

fn file(framing: Framing, packets: usize) -> Vec<u8> {
    let mut random = Random::new(packets as u64);
    let mut bytes = Vec::new();
    for _ in 0..packets {
        let unit: Vec<u8> = (0..framing.stride()).map(|_| random.below(256) as u8).collect();
        bytes.extend(unit);
        let sync = bytes.len() - framing.stride() + framing.prefix();
        bytes[sync] = SYNC_BYTE;
    }
    bytes
}

/// Promise: Transport packets of 188, 192 and 204 bytes are read; 188 bytes are sent.
#[test]
fn gives_every_packet_of_every_framing() {
    for framing in Framing::ALL {
        let bytes = file(framing, 40);
        let seen = deframe([&bytes[..]]);
        assert_eq!(seen.packets.len(), 40);
        assert_eq!(seen.warnings, []);
        for (offset, packet) in seen.packets {
            assert_eq!(packet, &bytes[offset as usize..][..PACKET_LENGTH]);
        }
    }
}

#[test]
fn a_lost_sync_byte_costs_one_packet() {
    let mut bytes = file(Framing::Bare, 20);
    bytes[188 * 7] = 0;
    let seen = deframe([&bytes[..]]);
    assert_eq!(seen.packets.len(), 19);
    assert_eq!(seen.warnings, [Warning { offset: 1316, kind: WarningKind::Skipped { bytes: 188 } }]);
}

#[test]
fn foreign_bytes_are_skipped_wherever_they_are() {
    let (head, tail) = (file(Framing::Bare, 10), file(Framing::Bare, 11));
    let bytes = [&[1; 30][..], &head, &[2; 1000], &tail, &[3; 77]].concat();
    let seen = deframe([&bytes[..]]);
    assert_eq!(seen.packets.len(), 21);
    let skipped: Vec<_> = seen.warnings.iter().map(|warning| (warning.offset, &warning.kind)).collect();
    let expected = [(0, 30), (1910, 1000), (4978, 77)];
    let kinds = expected.map(|(_, bytes)| WarningKind::Skipped { bytes });
    assert_eq!(skipped, [(0, &kinds[0]), (1910, &kinds[1]), (4978, &kinds[2])]);
}

#[test]
fn a_truncated_packet_is_left_out() {
    let bytes = file(Framing::Timestamped, 10);
    let seen = deframe([&bytes[..bytes.len() - 88]]);
    assert_eq!(seen.packets.len(), 9);
    let kind = WarningKind::Truncated { bytes: 100 };
    assert_eq!(seen.warnings, [Warning { offset: 9 * 192 + 4, kind }]);
}

#[test]
fn a_file_without_packets_is_refused_where_the_search_ends() {
    for (length, searched) in [(0, 0), (100, 100), (65_536, 65_536), (200_000, 65_536)] {
        let bytes = vec![0x47 ^ 1; length];
        assert_eq!(deframe([&bytes[..]]).refused, Some(NotTransportStream { searched }));
        assert_eq!(deframe(bytes.chunks(999)).refused, Some(NotTransportStream { searched }));
    }
}

proptest! {
    #[test]
    fn how_the_input_is_split_makes_no_difference(
        framing in 0usize..3,
        lead in prop_oneof![Just(0usize), 0usize..3000, 65_000usize..66_000],
        packets in 0usize..60,
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<proptest::sample::Index>(),
        sizes in proptest::collection::vec(1usize..2000, 1..20),
    ) {
        let mut bytes = [vec![0; lead], file(Framing::ALL[framing], packets)].concat();
        for (at, length) in damage {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + usize::from(length)).min(bytes.len()));
            }
        }
        if !bytes.is_empty() {
            bytes.truncate(bytes.len() - cut.index(bytes.len()) % 400);
        }
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*size).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(deframe(pieces), deframe([&bytes[..]]));
    }
}
