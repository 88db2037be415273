//! Wire images: whatever the file, reading refuses it or gives values that lie inside it.
//!
//! Bit 0 of the first byte says whether checksums are made right before they are looked at. Bit 1 says what
//! the rest is: the file itself, or the number of an image that is made and changes to it of three bytes
//! each, offset (little endian) and value. So an input is as small as what is special about it.

use std::sync::OnceLock;

use wirepath_media::image::{Header, PAGE, SegmentEntry, Table, TrainRecord};
use wirepath_media::inspect::ImageInspector;

use crate::seeds;

const HEADER_CRC_AT: usize = PAGE as usize - 4;

/// The target.
pub fn fuzz(data: &[u8]) {
    let Some((mode, file)) = data.split_first() else { return };
    let forge = mode & 1 == 1;
    let mut file = if mode & 2 == 0 { file.to_vec() } else { changed(file) };
    if forge && file.len() >= PAGE as usize {
        forge_checksums(&mut file);
    }
    let page = &file[..file.len().min(PAGE as usize)];
    let Ok(header) = Header::decode(page, file.len() as u64) else { return };
    assert_eq!(header, Header::decode(&header.encode(), file.len() as u64).expect("it was read before"));
    let Ok(mut table) = Table::decode(&file[header.table.offset as usize..], &header) else { return };
    assert_eq!(Table::decode(&file[header.table.offset as usize..], &header).as_ref(), Ok(&table));
    if forge {
        table.segments.iter_mut().for_each(|entry| entry.crc = crc32c::crc32c(bytes_of(&file, entry)));
    }
    let mut inspector = ImageInspector::new(&header, &table);
    for (index, entry) in table.segments.iter().enumerate() {
        let bytes = bytes_of(&file, entry);
        let trains = entry.trains(&header.plan, table.until_us(index, &header), bytes);
        assert_eq!(inspector.push(index, bytes).is_ok(), trains.is_ok());
        if let Ok(trains) = trains {
            check(&header, entry, &trains);
        }
    }
    let report = inspector.finish();
    assert!(report.starts_us.is_sorted());
}

fn bytes_of<'a>(file: &'a [u8], entry: &SegmentEntry) -> &'a [u8] {
    &file[entry.offset as usize..][..entry.length() as usize]
}

/// An image that is made, with these changes.
fn changed(changes: &[u8]) -> Vec<u8> {
    static IMAGES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let images = IMAGES.get_or_init(|| {
        let seeds = seeds::all().expect("streams that can be packed").into_iter();
        seeds.filter(|seed| seed.target == "image").map(|seed| seed.bytes[1..].to_vec()).collect()
    });
    let Some((number, changes)) = changes.split_first() else { return Vec::new() };
    let mut image = images[usize::from(*number) % images.len()].clone();
    for change in changes.as_chunks::<3>().0 {
        let offset = usize::from(u16::from_le_bytes([change[0], change[1]]));
        if let Some(byte) = image.get_mut(offset) {
            *byte = change[2];
        }
    }
    image
}

fn check(header: &Header, entry: &SegmentEntry, trains: &[TrainRecord]) {
    assert_eq!(trains.len() as u32, entry.records);
    let packets: u64 = trains.iter().map(|train| u64::from(train.packets())).sum();
    assert_eq!(packets, u64::from(entry.packets));
    assert!(entry.first_packet + packets <= header.packets);
    assert!(trains.iter().map(|train| train.departure_us).is_sorted());
    assert!(trains.iter().all(|train| train.departure_us <= header.duration_us));
}

/// Makes the checksums of header and table those of what is there.
fn forge_checksums(file: &mut [u8]) {
    let field = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    let (offset, length) = (field(88) as usize, field(96) as usize);
    let end = offset.saturating_add(length);
    if let Some(table) = file.get(offset..end) {
        let crc = crc32c::crc32c(table);
        file[104..108].copy_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c::crc32c(&file[..HEADER_CRC_AT]);
    file[HEADER_CRC_AT..PAGE as usize].copy_from_slice(&crc.to_le_bytes());
}
