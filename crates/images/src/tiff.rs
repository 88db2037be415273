//! TIFF 6.0 and BigTIFF, of which COG is a form: uncompressed pictures of 8-bit samples in strips or tiles, whose
//! rows are extents of the file. Only the first picture of a file is read, and its overviews: the directories of
//! reduced pictures that follow its own.

use std::io;

use crate::overview::{Overview, Overviews};
use crate::picture::{Blocks, Format, Layout, MOST_PIXELS, Picture, PictureError, Samples};

/// Most fields of a directory.
const MOST_FIELDS: u64 = 1024;

/// Most strips or tiles: their places take 8 bytes each.
const MOST_BLOCKS: u64 = 1 << 18;

/// Most directories of a picture: it and its overviews, each with a mask.
const MOST_DIRECTORIES: usize = 64;

/// Bits of the tag [`tag::SUBFILE`].
const REDUCED: u64 = 1;
const MASK: u64 = 4;

/// Tags of the fields that are read (TIFF 6.0, sections 3 to 6 and 15).
mod tag {
    pub(super) const SUBFILE: u16 = 254;
    pub(super) const WIDTH: u16 = 256;
    pub(super) const HEIGHT: u16 = 257;
    pub(super) const BITS: u16 = 258;
    pub(super) const COMPRESSION: u16 = 259;
    pub(super) const PHOTOMETRIC: u16 = 262;
    pub(super) const FILL_ORDER: u16 = 266;
    pub(super) const STRIP_OFFSETS: u16 = 273;
    pub(super) const SAMPLES: u16 = 277;
    pub(super) const ROWS_PER_STRIP: u16 = 278;
    pub(super) const PLANAR: u16 = 284;
    pub(super) const TILE_WIDTH: u16 = 322;
    pub(super) const TILE_HEIGHT: u16 = 323;
    pub(super) const TILE_OFFSETS: u16 = 324;
    pub(super) const SAMPLE_FORMAT: u16 = 339;
}

/// Returns whether a file that begins so is a TIFF.
pub(crate) fn is_tiff(head: &[u8]) -> bool {
    matches!(head, [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..])
}

/// Reads what a file of `size` bytes says of its first picture. `read` fills a buffer from a place in the file.
///
/// # Errors
/// See [`PictureError`].
pub(crate) fn read(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Result<Picture, PictureError> {
    let (file, directory) = File::open(size, &read)?;
    Directory::read(&file, directory)?.picture(&file)
}

/// Reads which overviews of its first picture a file has: directories of reduced pictures that follow that of the
/// picture, up to one of another picture. Those of another shape, of other samples and compressed ones are left out.
/// A damaged one is told; so is a chain that has no end, or is too long, with those up to there.
///
/// # Errors
/// [`PictureError::Read`], or an error in the directory of the picture.
pub(crate) fn overviews(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    picture: &Picture,
) -> Result<Overviews, PictureError> {
    let (file, first) = File::open(size, &read)?;
    let mut places = vec![first];
    let mut link = Directory::read(&file, first)?.end;
    let mut overviews = Overviews::default();
    loop {
        let place = match file.follow(link, &places) {
            Ok(0) => return Ok(overviews),
            Ok(place) => place,
            Err(error) => return overviews.add_damaged(link, error).map(|()| overviews),
        };
        places.push(place);
        let directory = match Directory::read(&file, place) {
            Ok(directory) => directory,
            // It says neither what it is nor what follows.
            Err(error) => return overviews.add_damaged(place, error).map(|()| overviews),
        };
        link = directory.end;
        match directory.follower(&file, picture, place) {
            Ok(Follower::Overview(overview)) => overviews.usable.push(overview),
            Ok(Follower::Unused) => {}
            Ok(Follower::Picture) => return Ok(overviews),
            Err(error) => overviews.add_damaged(place, error)?,
        }
    }
}

/// Reads an overview of [`overviews`].
///
/// # Errors
/// See [`PictureError`].
pub(crate) fn read_overview(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    overview: &Overview,
) -> Result<Picture, PictureError> {
    let (file, _) = File::open(size, &read)?;
    Directory::read(&file, overview.directory)?.picture(&file)
}

/// The file, and how its numbers are written.
#[derive(Clone, Copy)]
struct File<'a> {
    size: u64,
    read: &'a dyn Fn(&mut [u8], u64) -> io::Result<()>,
    is_little: bool,
    /// BigTIFF: places have 8 bytes.
    is_big: bool,
}

impl<'a> File<'a> {
    /// Reads the header: how numbers are written, and the place of the first directory.
    fn open(
        size: u64,
        read: &'a dyn Fn(&mut [u8], u64) -> io::Result<()>,
    ) -> Result<(File<'a>, u64), PictureError> {
        let file = File { size, read, is_little: true, is_big: false };
        let [order, _, first, second] = file.bytes(0)?;
        let is_little = order == b'I';
        let is_big = if is_little { first } else { second } == 43;
        let file = File { is_little, is_big, ..file };
        let directory = if is_big { file.number(8, 8)? } else { file.number(4, 4)? };
        Ok((file, directory))
    }

    fn invalid(&self, at: u64, why: impl Into<String>) -> PictureError {
        PictureError::Invalid { format: "TIFF", at, why: why.into() }
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), PictureError> {
        match at.checked_add(bytes.len() as u64) {
            Some(end) if end <= self.size => Ok((self.read)(bytes, at)?),
            end => Err(PictureError::Truncated { file: self.size, needed: end.unwrap_or(u64::MAX) }),
        }
    }

    fn bytes<const LENGTH: usize>(&self, at: u64) -> Result<[u8; LENGTH], PictureError> {
        let mut bytes = [0; LENGTH];
        self.read(&mut bytes, at)?;
        Ok(bytes)
    }

    /// The number of these bytes, at most 8.
    fn value(&self, bytes: &[u8]) -> u64 {
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.is_little { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) }
    }

    /// Place of the directory to which a link leads; 0 at the end of the chain. `places` are those before it.
    fn follow(&self, link: u64, places: &[u64]) -> Result<u64, PictureError> {
        let place = self.number(link, if self.is_big { 8 } else { 4 })?;
        if places.contains(&place) {
            let why = format!("the directory at byte {place} follows itself: expected a chain with an end");
            return Err(self.invalid(link, why));
        }
        if place != 0 && places.len() == MOST_DIRECTORIES {
            let why = format!("more than {MOST_DIRECTORIES} directories of a picture and its overviews");
            return Err(self.invalid(link, why));
        }
        Ok(place)
    }

    /// A number of `width` bytes.
    fn number(&self, at: u64, width: usize) -> Result<u64, PictureError> {
        let mut bytes = [0; 8];
        self.read(&mut bytes[..width], at)?;
        Ok(self.value(&bytes[..width]))
    }
}

/// Kind of a directory behind that of the picture.
enum Follower {
    /// An overview of the picture.
    Overview(Overview),
    /// A mask, or an overview that cannot be served.
    Unused,
    /// Another picture.
    Picture,
}

/// A field of a directory.
#[derive(Clone, Copy)]
struct Field {
    tag: u16,
    /// Bytes of a value: of SHORT, LONG or LONG8; 0 of other types.
    width: usize,
    count: u64,
    /// Place of the values.
    at: u64,
}

/// The fields of a picture.
struct Directory {
    fields: Vec<Field>,
    /// Place of the link to the next directory.
    end: u64,
}

impl Directory {
    fn read(file: &File<'_>, at: u64) -> Result<Directory, PictureError> {
        let (count_bytes, places) = if file.is_big { (8, 8) } else { (2, 4) };
        let count = file.number(at, count_bytes)?;
        if count == 0 || count > MOST_FIELDS {
            return Err(file.invalid(at, format!("{count} fields: expected 1 to {MOST_FIELDS}")));
        }
        let field_bytes = 4 + 2 * places;
        let mut bytes = vec![0; count as usize * field_bytes];
        let first = at.saturating_add(count_bytes as u64);
        file.read(&mut bytes, first)?;
        let end = first + bytes.len() as u64;
        let fields = bytes.chunks_exact(field_bytes).enumerate().map(|(index, field)| {
            let width = match file.value(&field[2..4]) {
                3 => 2,
                4 => 4,
                16 => 8,
                _ => 0,
            };
            let count = file.value(&field[4..4 + places]);
            let is_inside = count.saturating_mul(width as u64) <= places as u64;
            let inside = first + (index * field_bytes + 4 + places) as u64;
            let at = if is_inside { inside } else { file.value(&field[4 + places..]) };
            Field { tag: file.value(&field[..2]) as u16, width, count, at }
        });
        Ok(Directory { fields: fields.collect(), end })
    }

    fn find(&self, tag: u16) -> Option<Field> {
        self.fields.iter().copied().find(|field| field.tag == tag && field.width > 0)
    }

    /// All values of a field, of which there must be `count`.
    fn values(&self, file: &File<'_>, tag: u16, count: u64) -> Result<Vec<u64>, PictureError> {
        let field = self.find(tag).ok_or_else(|| file.invalid(0, format!("tag {tag} is missing")))?;
        if field.count != count {
            let why = format!("tag {tag} has {} values: expected {count}", field.count);
            return Err(file.invalid(field.at, why));
        }
        let mut bytes = vec![0; count as usize * field.width];
        file.read(&mut bytes, field.at)?;
        Ok(bytes.chunks_exact(field.width).map(|bytes| file.value(bytes)).collect())
    }

    /// The one value of a field.
    fn value(&self, file: &File<'_>, tag: u16) -> Result<u64, PictureError> {
        Ok(self.values(file, tag, 1)?[0])
    }

    fn value_or(&self, file: &File<'_>, tag: u16, default: u64) -> Result<u64, PictureError> {
        if self.find(tag).is_some() { self.value(file, tag) } else { Ok(default) }
    }

    /// A number of pixels.
    fn pixels(&self, file: &File<'_>, tag: u16) -> Result<u32, PictureError> {
        let value = self.value(file, tag)?;
        u32::try_from(value)
            .ok()
            .filter(|pixels| (1..=MOST_PIXELS).contains(pixels))
            .ok_or_else(|| file.invalid(0, format!("tag {tag} is {value}: expected 1 to {MOST_PIXELS}")))
    }

    fn picture(&self, file: &File<'_>) -> Result<Picture, PictureError> {
        let samples = self.samples(file)?;
        let (width, height) = (self.pixels(file, tag::WIDTH)?, self.pixels(file, tag::HEIGHT)?);
        let blocks = self.blocks(file, width, height, samples)?;
        Ok(Picture { format: Format::Tiff, width, height, samples, layout: Layout::Blocks(blocks) })
    }

    /// Kind of this directory, behind the picture.
    fn follower(&self, file: &File<'_>, picture: &Picture, place: u64) -> Result<Follower, PictureError> {
        let kind = self.value_or(file, tag::SUBFILE, 0)?;
        if kind & (REDUCED | MASK) == 0 {
            return Ok(Follower::Picture);
        }
        if kind & MASK != 0 {
            return Ok(Follower::Unused);
        }
        let size = (self.pixels(file, tag::WIDTH)?, self.pixels(file, tag::HEIGHT)?);
        let is_alike = match self.samples(file) {
            Err(PictureError::Unsupported(_)) => false,
            samples => samples? == picture.samples,
        };
        let overview = Overview::new((picture.width, picture.height), size, place).filter(|_| is_alike);
        Ok(overview.map_or(Follower::Unused, Follower::Overview))
    }

    /// Samples, if they are such as this server reads.
    fn samples(&self, file: &File<'_>) -> Result<Samples, PictureError> {
        let channels = self.value_or(file, tag::SAMPLES, 1)?;
        let colours = self.value(file, tag::PHOTOMETRIC)?;
        let named = [
            ("compression", self.value_or(file, tag::COMPRESSION, 1)?, 1),
            ("planar configuration", if channels == 1 { 1 } else { self.value_or(file, tag::PLANAR, 1)? }, 1),
            ("colour space", colours, if channels == 1 { 1 } else { 2 }),
            ("order of bits", self.value_or(file, tag::FILL_ORDER, 1)?, 1),
        ];
        for (name, value, expected) in named {
            if value != expected {
                return Err(PictureError::Unsupported(unsupported(name, value, expected)));
            }
        }
        if !matches!(channels, 1 | 3) {
            let why = format!("its TIFF has {channels} samples for each pixel; this server reads 1 or 3");
            return Err(PictureError::Unsupported(why));
        }
        if self.values(file, tag::BITS, channels)?.iter().any(|&bits| bits != 8) {
            let why =
                "its TIFF samples have other than 8 bits; this server reads samples of 8 bits".to_owned();
            return Err(PictureError::Unsupported(why));
        }
        let is_unsigned = |formats: Vec<u64>| formats.iter().all(|format| *format == 1);
        if self.find(tag::SAMPLE_FORMAT).is_some()
            && !is_unsigned(self.values(file, tag::SAMPLE_FORMAT, channels)?)
        {
            let why = "its TIFF samples are no unsigned integers; this server reads those".to_owned();
            return Err(PictureError::Unsupported(why));
        }
        Ok(Samples { channels: channels as usize, maximum: 255 })
    }

    /// Places of strips or tiles, all of which lie in the file.
    fn blocks(
        &self,
        file: &File<'_>,
        width: u32,
        height: u32,
        samples: Samples,
    ) -> Result<Blocks, PictureError> {
        let is_tiled = self.find(tag::TILE_OFFSETS).is_some();
        let (across, down, offsets) = if is_tiled {
            let size = (self.pixels(file, tag::TILE_WIDTH)?, self.pixels(file, tag::TILE_HEIGHT)?);
            (size.0, size.1, tag::TILE_OFFSETS)
        } else {
            // The default is one strip.
            let rows = self.value_or(file, tag::ROWS_PER_STRIP, u64::from(height))?;
            (width, rows.clamp(1, u64::from(height)) as u32, tag::STRIP_OFFSETS)
        };
        let columns = width.div_ceil(across);
        let count = u64::from(columns) * u64::from(height.div_ceil(down));
        if count > MOST_BLOCKS {
            let why = format!("its TIFF has {count} strips or tiles; this server reads up to {MOST_BLOCKS}");
            return Err(PictureError::Unsupported(why));
        }
        let offsets = self.values(file, offsets, count)?;
        let blocks = Blocks { width: across, height: down, columns, offsets: offsets.into() };
        blocks.check(is_tiled, height, samples.pixel_bytes() as u64, file.size)?;
        Ok(blocks)
    }
}

/// Why a TIFF is not read, in the words of its specification, and how to convert it.
fn unsupported(field: &str, value: u64, expected: u64) -> String {
    let word = |value| match (field, value) {
        ("compression", 1) => "none",
        ("compression", 2..=4) => "CCITT",
        ("compression", 5) => "LZW",
        ("compression", 6 | 7) => "JPEG",
        ("compression", 8 | 32_946) => "Deflate",
        ("compression", 32_773) => "PackBits",
        ("compression", 50_000) => "Zstandard",
        ("planar configuration", 1) => "chunky",
        ("planar configuration", 2) => "planar",
        ("colour space", 0) => "white is zero",
        ("colour space", 1) => "black is zero",
        ("colour space", 2) => "RGB",
        ("colour space", 3) => "palette",
        ("colour space", 5) => "CMYK",
        ("colour space", 6) => "YCbCr",
        ("order of bits", 1) => "msb2lsb",
        ("order of bits", 2) => "lsb2msb",
        _ => "unknown",
    };
    let remedy = match field {
        "compression" => "convert it with tiffcp -c none IN OUT",
        "planar configuration" => "convert it with tiffcp -p contig IN OUT",
        "order of bits" => "convert it with tiffcp -f msb2lsb IN OUT",
        _ => "convert it",
    };
    let (is, reads) = (word(value), word(expected));
    format!("its TIFF {field} is {is} ({value}); this server reads {reads} ({expected}): {remedy}")
}

#[cfg(test)]
mod tests;
