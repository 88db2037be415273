use super::*;
use crate::picture::Rectangle;

/// A TIFF of a picture whose pixels count up, in blocks of this size; written by the rules, with nothing of what
/// reads it.
struct Written {
    is_little: bool,
    is_big: bool,
    tile: Option<(u32, u32)>,
    rows_per_strip: u32,
    channels: u16,
    changed: Change,
}

/// Tag, type and values of the fields.
type Fields = Vec<(u16, u16, Vec<u64>)>;
type Change = fn(&mut Fields);

const WIDTH: u32 = 37;
const HEIGHT: u32 = 21;

impl Default for Written {
    fn default() -> Written {
        let changed = |_: &mut Fields| {};
        Written {
            is_little: true,
            is_big: true,
            tile: Some((16, 16)),
            rows_per_strip: 4,
            channels: 3,
            changed,
        }
    }
}

/// A sample of the picture.
fn sample(x: u32, y: u32, channel: u32) -> u8 {
    (x * 7 + y * 31 + channel * 101) as u8
}

impl Written {
    fn number(&self, number: u64, width: usize) -> Vec<u8> {
        let mut bytes = number.to_le_bytes()[..width].to_vec();
        if !self.is_little {
            bytes.reverse();
        }
        bytes
    }

    fn write(&self) -> Vec<u8> {
        let mark = if self.is_little { b"II" } else { b"MM" };
        let mut file = [mark.to_vec(), self.number(if self.is_big { 43 } else { 42 }, 2)].concat();
        file.resize(16, 0);
        let (width, height) = self.tile.unwrap_or((WIDTH, self.rows_per_strip));
        let mut offsets = Vec::new();
        for top in (0..HEIGHT).step_by(height as usize) {
            for left in (0..WIDTH).step_by(width as usize) {
                offsets.push(file.len() as u64);
                let rows = if self.tile.is_some() { height } else { height.min(HEIGHT - top) };
                for (y, x) in (top..top + rows).flat_map(|y| (left..left + width).map(move |x| (y, x))) {
                    file.extend((0..u32::from(self.channels)).map(|channel| sample(x, y, channel)));
                }
                file.push(0); // blocks are not neighbours
            }
        }
        let colours = if self.channels == 1 { 1 } else { 2 };
        let mut fields = vec![
            (tag::WIDTH, 3, vec![WIDTH.into()]),
            (tag::HEIGHT, 4, vec![HEIGHT.into()]),
            (tag::BITS, 3, vec![8; self.channels.into()]),
            (tag::COMPRESSION, 3, vec![1]),
            (tag::PHOTOMETRIC, 3, vec![colours]),
            (tag::SAMPLES, 3, vec![self.channels.into()]),
        ];
        let places = if self.is_big { 16 } else { 4 };
        match self.tile {
            Some((width, height)) => fields.extend([
                (tag::TILE_WIDTH, 3, vec![width.into()]),
                (tag::TILE_HEIGHT, 3, vec![height.into()]),
                (tag::TILE_OFFSETS, places, offsets),
            ]),
            None => fields.extend([
                (tag::STRIP_OFFSETS, places, offsets),
                (tag::ROWS_PER_STRIP, 3, vec![self.rows_per_strip.into()]),
            ]),
        }
        (self.changed)(&mut fields);
        self.directory(file, &fields)
    }

    fn directory(&self, mut file: Vec<u8>, fields: &[(u16, u16, Vec<u64>)]) -> Vec<u8> {
        let place = if self.is_big { 8 } else { 4 };
        let mut directory = self.number(fields.len() as u64, if self.is_big { 8 } else { 2 });
        for (tag, kind, values) in fields {
            let width = match kind {
                3 => 2,
                4 => 4,
                _ => 8,
            };
            let mut bytes: Vec<u8> = values.iter().flat_map(|&value| self.number(value, width)).collect();
            if bytes.len() > place {
                let at = file.len() as u64;
                file.extend(bytes);
                bytes = self.number(at, place);
            }
            bytes.resize(place, 0);
            directory.extend(self.number(u64::from(*tag), 2));
            directory.extend(self.number(u64::from(*kind), 2));
            directory.extend(self.number(values.len() as u64, place));
            directory.extend(bytes);
        }
        let at = self.number(file.len() as u64, place);
        let (first, offset_size) = if self.is_big { (8, self.number(8, 2)) } else { (4, Vec::new()) };
        file[4..4 + offset_size.len()].copy_from_slice(&offset_size);
        file[first..first + place].copy_from_slice(&at);
        file.extend(directory);
        file.extend(vec![0; place]);
        file
    }
}

fn open(bytes: &[u8]) -> Result<Picture, PictureError> {
    read(bytes.len() as u64, |buffer, at| {
        buffer.copy_from_slice(&bytes[at as usize..at as usize + buffer.len()]);
        Ok(())
    })
}

fn check(written: &Written) {
    let bytes = written.write();
    let picture = open(&bytes).expect("it can be read");
    assert_eq!(
        (picture.width, picture.height, picture.samples.channels),
        (WIDTH, HEIGHT, written.channels.into())
    );
    let parts = [(0, 0, WIDTH, HEIGHT), (15, 3, 2, 18), (16, 16, 16, 4), (36, 20, 1, 1), (1, 0, 35, 1)];
    for (x, y, width, height) in parts {
        let part = Rectangle { x, y, width, height };
        let taken =
            picture.extents(part).flat_map(|range| bytes[range.start as usize..range.end as usize].to_vec());
        let pixels = (y..y + height).flat_map(|y| (x..x + width).map(move |x| (x, y)));
        let channels = u32::from(written.channels);
        let expected = pixels.flat_map(|(x, y)| (0..channels).map(move |channel| sample(x, y, channel)));
        assert!(taken.eq(expected), "{part:?}");
    }
}

/// Promise: A part of a TIFF or BigTIFF in strips or tiles is sent as extents of its file.
#[test]
fn parts_of_strips_and_tiles_are_extents() {
    for (is_little, is_big) in [(true, true), (true, false), (false, true), (false, false)] {
        for tile in [None, Some((16, 16)), Some((64, 8))] {
            for channels in [1, 3] {
                check(&Written { is_little, is_big, tile, channels, ..Written::default() });
            }
        }
    }
    check(&Written { tile: None, rows_per_strip: HEIGHT, ..Written::default() });
}

/// Promise: An unsupported TIFF is refused with the reason.
#[test]
fn what_cannot_be_served_is_refused() {
    let cases: [(Change, &str); 11] = [
        (|fields| fields[3].2 = vec![5], "its TIFF compression is 5; this server reads 1"),
        (|fields| fields[4].2 = vec![6], "its TIFF colour space is 6; this server reads 2"),
        (|fields| fields[5].2 = vec![4], "its TIFF has 4 samples for each pixel"),
        (|fields| fields[2].2 = vec![16; 3], "its TIFF samples have other than 8 bits"),
        (|fields| fields[2].2 = vec![8; 2], "tag 258 has 2 values: expected 3"),
        (|fields| fields[0].2 = vec![0], "tag 256 is 0: expected 1 to"),
        (|fields| fields[8].2[1] = 0, "strip or tile 1 of its TIFF is not stored"),
        (|fields| fields[8].2[1] = 1 << 40, "truncated picture"),
        (|fields| drop(fields.remove(6)), "tag 322 is missing"),
        (|fields| fields.push((tag::SAMPLE_FORMAT, 3, vec![2; 3])), "no unsigned integers"),
        (|fields| fields.push((tag::FILL_ORDER, 3, vec![2])), "order of bits is 2"),
    ];
    for (changed, words) in cases {
        let error = open(&Written { changed, ..Written::default() }.write()).expect_err(words).to_string();
        assert!(error.contains(words), "{error}: {words}");
    }
    let huge: Change = |fields| {
        fields[0] = (tag::WIDTH, 4, vec![1 << 28]);
        fields[1] = (tag::HEIGHT, 4, vec![1 << 28]);
    };
    let error =
        open(&Written { changed: huge, ..Written::default() }.write()).expect_err("too many").to_string();
    assert!(error.contains("strips or tiles; this server reads up to 262144"), "{error}");
}

/// Promise: A TIFF truncated at any byte is an error, never a panic.
#[test]
fn a_file_that_is_cut_is_an_error() {
    let bytes = Written::default().write();
    for length in 4..bytes.len() - 8 {
        assert!(open(&bytes[..length]).is_err(), "{length} bytes");
    }
}
