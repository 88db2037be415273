use super::*;
use crate::overview::DamagedOverview;
use crate::picture::Rectangle;

/// A TIFF of a picture whose pixels count up, in blocks of this size; written by the rules, with nothing of what
/// reads it.
struct Written {
    size: (u32, u32),
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
            size: (WIDTH, HEIGHT),
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
        write_all(&[self])
    }

    /// Bytes of a place in the file.
    fn place_bytes(&self) -> usize {
        if self.is_big { 8 } else { 4 }
    }

    /// Appends the picture to a file, whose link at `link` leads to it; returns the place of its own link.
    fn append(&self, file: &mut Vec<u8>, link: usize) -> usize {
        let (full_width, full_height) = self.size;
        let (width, height) = self.tile.unwrap_or((full_width, self.rows_per_strip));
        let mut offsets = Vec::new();
        for top in (0..full_height).step_by(height as usize) {
            for left in (0..full_width).step_by(width as usize) {
                offsets.push(file.len() as u64);
                let rows = if self.tile.is_some() { height } else { height.min(full_height - top) };
                for (y, x) in (top..top + rows).flat_map(|y| (left..left + width).map(move |x| (y, x))) {
                    file.extend((0..u32::from(self.channels)).map(|channel| sample(x, y, channel)));
                }
                file.push(0); // blocks are not neighbours
            }
        }
        let colours = if self.channels == 1 { 1 } else { 2 };
        let mut fields = vec![
            (tag::WIDTH, 3, vec![full_width.into()]),
            (tag::HEIGHT, 4, vec![full_height.into()]),
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
        self.directory(file, &fields, link)
    }

    fn directory(&self, file: &mut Vec<u8>, fields: &[(u16, u16, Vec<u64>)], link: usize) -> usize {
        let place = self.place_bytes();
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
        file[link..link + place].copy_from_slice(&at);
        file.extend(directory);
        file.extend(vec![0; place]);
        file.len() - place
    }
}

/// A file of several directories, in the byte order of the first.
fn write_all(pictures: &[&Written]) -> Vec<u8> {
    let first = pictures[0];
    let mark = if first.is_little { b"II" } else { b"MM" };
    let mut file = [mark.to_vec(), first.number(if first.is_big { 43 } else { 42 }, 2)].concat();
    if first.is_big {
        file.extend(first.number(8, 2));
    }
    file.resize(16, 0);
    pictures.iter().fold(first.place_bytes(), |link, picture| picture.append(&mut file, link));
    file
}

/// Reads from a file in memory.
fn reader(bytes: &[u8]) -> impl Fn(&mut [u8], u64) -> io::Result<()> {
    move |buffer: &mut [u8], at: u64| {
        buffer.copy_from_slice(&bytes[at as usize..at as usize + buffer.len()]);
        Ok(())
    }
}

fn open(bytes: &[u8]) -> Result<Picture, PictureError> {
    read(bytes.len() as u64, reader(bytes))
}

/// Overviews of the first picture.
fn find(bytes: &[u8]) -> Overviews {
    let picture = open(bytes).expect("a picture");
    overviews(bytes.len() as u64, reader(bytes), &picture).expect("a file that can be read")
}

/// Overviews of a picture none of whose overviews is damaged.
fn find_all(bytes: &[u8]) -> Vec<Overview> {
    let Overviews { usable, damaged } = find(bytes);
    assert!(damaged.is_empty(), "{damaged:?}");
    usable
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
        check_part(&bytes, &picture, Rectangle { x, y, width, height });
    }
}

fn check_part(bytes: &[u8], picture: &Picture, part: Rectangle) {
    let Rectangle { x, y, width, height } = part;
    let taken =
        picture.extents(part).flat_map(|range| bytes[range.start as usize..range.end as usize].to_vec());
    let pixels = (y..y + height).flat_map(|y| (x..x + width).map(move |x| (x, y)));
    let channels = picture.samples.channels as u32;
    let expected = pixels.flat_map(|(x, y)| (0..channels).map(move |channel| sample(x, y, channel)));
    assert!(taken.eq(expected), "{part:?}");
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
    let cases: [(Change, &str); 12] = [
        (
            |fields| fields[3].2 = vec![5],
            "its TIFF compression is LZW (5); this server reads none (1): convert",
        ),
        (
            |fields| fields[3].2 = vec![32_773],
            "is PackBits (32773); this server reads none (1): convert it with",
        ),
        (|fields| fields[4].2 = vec![6], "its TIFF colour space is YCbCr (6); this server reads RGB (2)"),
        (|fields| fields[5].2 = vec![4], "its TIFF has 4 samples for each pixel"),
        (|fields| fields[2].2 = vec![16; 3], "its TIFF samples have other than 8 bits"),
        (|fields| fields[2].2 = vec![8; 2], "tag 258 has 2 values: expected 3"),
        (|fields| fields[0].2 = vec![0], "tag 256 is 0: expected 1 to"),
        (|fields| fields[8].2[1] = 0, "strip or tile 1 of its TIFF is not stored"),
        (|fields| fields[8].2[1] = 1 << 40, "truncated picture"),
        (|fields| drop(fields.remove(6)), "tag 322 is missing"),
        (|fields| fields.push((tag::SAMPLE_FORMAT, 3, vec![2; 3])), "no unsigned integers"),
        (|fields| fields.push((tag::FILL_ORDER, 3, vec![2])), "order of bits is lsb2msb (2)"),
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

/// An overview of the picture: a directory of this kind and size.
fn reduced(size: (u32, u32), changed: Change) -> Written {
    Written { size, changed, ..Written::default() }
}

const OVERVIEW: Change = |fields| fields.insert(0, (tag::SUBFILE, 4, vec![1]));

/// Makes the fields those of an overview, of which one has these values.
fn set(fields: &mut Fields, tag: u16, values: Vec<u64>) {
    OVERVIEW(fields);
    fields.iter_mut().filter(|field| field.0 == tag).for_each(|field| field.2 = values.clone());
}

/// Promise: Overviews of the first picture of a TIFF are found, without masks, thumbnails and those of other
/// pictures.
#[test]
fn overviews_are_those_of_the_first_picture() {
    let mask: Change = |fields| fields.insert(0, (tag::SUBFILE, 4, vec![5]));
    let compressed: Change = |fields| {
        fields[3].2 = vec![5];
        fields.insert(0, (tag::SUBFILE, 4, vec![1]));
    };
    for (is_little, is_big) in [(true, true), (true, false), (false, true), (false, false)] {
        let pictures = [
            reduced((WIDTH, HEIGHT), |_| ()),
            reduced((WIDTH, HEIGHT), |fields| fields.insert(0, (tag::SUBFILE, 4, vec![4]))),
            reduced((19, 11), OVERVIEW),
            reduced((19, 11), mask),
            reduced((16, 16), OVERVIEW),
            reduced((5, 3), compressed),
            Written { channels: 1, ..reduced((5, 3), OVERVIEW) },
            Written { tile: None, ..reduced((10, 6), OVERVIEW) },
            reduced((WIDTH, HEIGHT), |_| ()),
            reduced((3, 2), OVERVIEW),
        ];
        let pictures = pictures.map(|picture| Written { is_little, is_big, ..picture });
        let bytes = write_all(&pictures.each_ref());
        let found = find_all(&bytes);
        let sizes: Vec<_> = found.iter().map(|found| (found.factor, found.width, found.height)).collect();
        assert_eq!(sizes, [(2, 19, 11), (4, 10, 6)]);
        for overview in &found {
            let picture =
                read_overview(bytes.len() as u64, reader(&bytes), overview).expect("it can be read");
            assert_eq!((picture.width, picture.height), (overview.width, overview.height));
            check_part(&bytes, &picture, picture.whole());
            check_part(&bytes, &picture, Rectangle { x: 1, y: 2, width: 9, height: 3 });
        }
    }
    assert!(find_all(&Written::default().write()).is_empty());
}

/// Promise: A cycle of TIFF directories, too many or a truncated one are told; the overviews before are served.
#[test]
fn chains_without_an_end_are_told() {
    let (full, half, quarter) = (Written::default(), reduced((19, 11), OVERVIEW), reduced((10, 6), OVERVIEW));
    let bytes = write_all(&[&full, &half, &quarter]);
    let all = find_all(&bytes);
    let places: Vec<u64> = all.iter().map(|overview| overview.directory).collect();
    let first = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    let link = bytes.len() - 8;
    let told = |bytes: &[u8], usable: &[Overview], at: u64, words: &str| {
        let found = find(bytes);
        assert_eq!(found.usable, usable, "{words}");
        let [DamagedOverview { at: told, error }] = &found.damaged[..] else { panic!("{found:?}") };
        assert!(*told == at && error.to_string().contains(words), "{at}: {error}, not {words}");
    };
    let with_link = |place: u64| {
        let mut bytes = bytes.clone();
        bytes[link..].copy_from_slice(&place.to_le_bytes());
        bytes
    };
    for place in [first, places[0], places[1]] {
        let words = format!("invalid TIFF at byte {link}: the directory at byte {place} follows itself");
        told(&with_link(place), &all, link as u64, &words);
    }
    for (place, words) in
        [(link as u64 + 4, "truncated"), (u64::MAX, "truncated"), (3, "fields: expected 1 to")]
    {
        told(&with_link(place), &all, place, words);
    }
    for length in places[1] as usize..bytes.len() {
        let Overviews { usable, damaged } = find(&bytes[..length]);
        let expected = if length < link { &all[..1] } else { &all[..] };
        assert!(usable == expected && damaged.len() == 1, "{length} bytes: {usable:?}, {damaged:?}");
    }
    let of = |overviews: usize| {
        let pictures: Vec<&Written> = std::iter::once(&full).chain(vec![&half; overviews]).collect();
        write_all(&pictures)
    };
    assert_eq!(find_all(&of(63)).len(), 63);
    let Overviews { usable, damaged } = find(&of(64));
    let said = damaged[0].error.to_string();
    assert!(said.contains("more than 64 directories of a picture and its overviews"), "{said}");
    assert_eq!((usable.len(), damaged.len()), (63, 1));
}

/// Promise: A damaged overview of a TIFF does not hide those behind it; a file that cannot be read is an error.
#[test]
fn a_damaged_overview_is_left_out() {
    let damages: [(Change, &str); 4] = [
        (|fields| set(fields, tag::WIDTH, vec![0]), "tag 256 is 0"),
        (|fields| set(fields, tag::SUBFILE, vec![1, 1]), "tag 254 has 2 values"),
        (|fields| set(fields, tag::HEIGHT, vec![]), "tag 257 has 0 values"),
        (|fields| set(fields, tag::BITS, vec![8; 2]), "tag 258 has 2 values"),
    ];
    for (damage, words) in damages {
        let (full, quarter) = (Written::default(), reduced((10, 6), OVERVIEW));
        let bytes = write_all(&[&full, &reduced((19, 11), damage), &quarter]);
        let found = find(&bytes);
        assert_eq!(found.usable.iter().map(|found| found.factor).collect::<Vec<_>>(), [4], "{words}");
        assert_eq!(found.damaged.len(), 1, "{found:?}");
        let said = found.damaged[0].error.to_string();
        assert!(said.contains(words), "{said}, not {words}");
        let fails = |buffer: &mut [u8], at: u64| match at == found.damaged[0].at {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => reader(&bytes)(buffer, at),
        };
        let picture = open(&bytes).expect("a picture");
        let error = overviews(bytes.len() as u64, fails, &picture).expect_err("a failure");
        assert!(matches!(error, PictureError::Read(_)), "{error}");
    }
}
