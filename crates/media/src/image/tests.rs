use std::sync::LazyLock;

use super::*;
use crate::pack::testing::{pack, plan, read};
use crate::ts::synthetic::Sample;
use proptest::prelude::*;

/// Makes an image of six segments with several starts.
fn image() -> (Vec<u8>, Header) {
    static IMAGE: LazyLock<(Vec<u8>, Header)> = LazyLock::new(make_image);
    IMAGE.clone()
}

fn make_image() -> (Vec<u8>, Header) {
    let stream = Sample { packets: 12_000, tables_every: 900, ..Sample::default() }.stream();
    let (file, summary) = pack(&stream.bytes, plan(stream.bytes.len()), 1 << 20).expect("it can be packed");
    (file, summary.header)
}

/// Applies `change` to the header and corrects its checksum, so that only the other checks can find the
/// change.
fn forge_header(file: &mut [u8], change: impl FnOnce(&mut [u8])) {
    let page = &mut file[..PAGE as usize];
    change(page);
    let crc = crc32c::crc32c(&page[..PAGE as usize - 4]);
    page[PAGE as usize - 4..].copy_from_slice(&crc.to_le_bytes());
}

fn forge_table(file: &mut [u8], offset: u64, change: impl FnOnce(&mut [u8])) {
    change(&mut file[offset as usize..]);
    let crc = crc32c::crc32c(&file[offset as usize..]);
    forge_header(file, |page| page[104..108].copy_from_slice(&crc.to_le_bytes()));
}

#[test]
fn what_is_written_is_read() {
    let (file, header) = image();
    let image = read(&file).expect("an image as it should be");
    assert_eq!(image.header, header);
    assert_eq!(Header::decode(&header.encode(), file.len() as u64), Ok(header));
    assert_eq!(Table::decode(&image.table.encode(), &header), Ok(image.table.clone()));
    assert_eq!((image.table.segments.len(), image.table.starts.len()), (6, 14));
}

#[test]
fn the_layout_is_the_one_in_the_documentation() {
    let (file, header) = image();
    assert_eq!(&file[..8], b"WIREPATH");
    assert_eq!(file[8..12], 7u32.to_le_bytes());
    assert_eq!(file[48..52], [1, 0, 0, 0]);
    assert_eq!(file[58..62], [7, 0, 0x30, 0x05]);
    assert_eq!(file[112..116], 0xdead_beef_u32.to_le_bytes());
    assert_eq!(file[120..128], [0x90, 0x5f, 1, 0, 220, 255, 33, 0]);
    assert_eq!(file[88..96], header.table.offset.to_le_bytes());
    let table = &file[header.table.offset as usize..];
    assert_eq!((&table[..4], &table[16..24]), (&6u32.to_le_bytes()[..], &PAGE.to_le_bytes()[..]));
    assert_eq!(&file[PAGE as usize..][..4], &[0x80, 33, 255, 220]);
}

#[test]
fn other_files_versions_and_lengths_are_refused() {
    let (mut file, header) = image();
    let length = file.len() as u64;
    let page = |file: &[u8]| file[..PAGE as usize].to_vec();
    assert_eq!(Header::decode(b"RIFF", 4), Err(Error::NotAnImage));
    assert_eq!(Header::decode(&[0; PAGE as usize], length), Err(Error::NotAnImage), "an unfinished one");
    let short = Error::Length { part: Part::Header, expected: PAGE, found: 100 };
    assert_eq!(Header::decode(&file[..100], length), Err(short));
    let field = Header::decode(&page(&file), length - 1).expect_err("the file was cut");
    assert!(matches!(field, Error::Field { field: "length of the table", offset: 96, .. }), "{field}");
    let table = &file[header.table.offset as usize..];
    assert!(matches!(Table::decode(&table[1..], &header), Err(Error::Length { part: Part::Table, .. })));
    forge_header(&mut file, |page| page[8] = 1);
    assert_eq!(Header::decode(&page(&file), length), Err(Error::Version { found: 1 }));
}

/// Promise: A damaged wire image is detected before any of its bytes is sent, and packed again.
#[test]
fn every_damaged_bit_of_header_and_table_is_noticed() {
    let (file, header) = image();
    for at in (0..128).chain(4092..4096).chain(header.table.offset as usize..file.len()) {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn a_damaged_segment_is_noticed_wherever_it_is() {
    let (file, header) = image();
    let table = Table::decode(&file[header.table.offset as usize..], &header).expect("it is whole");
    let entry = table.segments[1];
    let bytes = file[entry.offset as usize..][..entry.length() as usize].to_vec();
    for at in [0, 5000, entry.data_length as usize + 3, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        let error = entry.trains(&header.plan, u64::MAX, &damaged).expect_err("a damaged byte");
        assert!(matches!(error, Error::Checksum { part: Part::Segment, .. }), "{error}");
    }
}

#[test]
fn every_field_of_a_record_is_checked() {
    let (file, header) = image();
    let table = Table::decode(&file[header.table.offset as usize..], &header).expect("it is whole");
    let entry = table.segments[1];
    let bytes = &file[entry.offset as usize..][..entry.length() as usize];
    let record = entry.data_length as usize + 5 * TRAIN_RECORD_LENGTH;
    for (at, name) in [
        (1, "offset"),
        (6, "length"),
        (4, "length"),
        (8, "packet size"),
        (10, "sequence number"),
        (13, "timestamp"),
        (19, "timestamp step"),
        (22, "flags"),
        (26, "timestamp"),
    ] {
        let mut forged = bytes.to_vec();
        forged[record + at] ^= 0x40;
        let entry = SegmentEntry { crc: crc32c::crc32c(&forged), ..entry };
        let error = entry.trains(&header.plan, u64::MAX, &forged).expect_err(name);
        assert!(matches!(error, Error::Field { field, .. } if field == name), "{name}: {error}");
    }
    let early = entry.trains(&header.plan, entry.first_departure_us, bytes).expect_err("it departs too late");
    assert!(matches!(early, Error::Field { field: "departure", .. }), "{early}");
}

#[test]
fn an_error_says_what_and_where() {
    let (mut file, header) = image();
    let second = read(&file).expect("an image as it should be").table.segments[1].offset;
    forge_table(&mut file, header.table.offset, |table| table[16 + 48] ^= 1);
    let error = read(&file).err().map(|error| error.to_string());
    let expected = format!(
        "the table of the wire image, byte 64: offset of a segment is {}, but the one before ends elsewhere",
        second ^ 1
    );
    assert_eq!(error, Some(expected));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn forged_headers_and_tables_are_refused_or_harmless(
        in_header: bool, at in any::<proptest::sample::Index>(), bytes in proptest::collection::vec(any::<u8>(), 1..9),
    ) {
        let (mut file, header) = image();
        let forge = |part: &mut [u8], length: usize| {
            let at = at.index(length);
            for (byte, new) in part[at..].iter_mut().zip(&bytes) {
                *byte = *new;
            }
        };
        if in_header {
            forge_header(&mut file, |page| forge(page, 128));
        } else {
            forge_table(&mut file, header.table.offset, |table| { let length = table.len(); forge(table, length) });
        }
        if let Ok(image) = read(&file) {
            prop_assert_eq!(image.packets.len() as u64, header.packets);
        }
    }
}
