//! A stored picture: its size, its samples, and where its rows are in the file.

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Most pixels of a row, and most rows: any length in bytes fits 64 bits.
pub(crate) const MOST_PIXELS: u32 = 1 << 28;

/// Samples of a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Samples of a pixel: 1 for gray, 3 for red, green and blue.
    pub channels: usize,
    /// Value of white, 1 to 65535. Above 255, a sample has two bytes, the more significant one first.
    pub maximum: u16,
}

impl Samples {
    /// Bytes of a sample.
    pub fn depth(self) -> usize {
        if self.maximum > 255 { 2 } else { 1 }
    }

    /// Bytes of a pixel.
    pub fn pixel_bytes(self) -> usize {
        self.channels * self.depth()
    }

    /// The same in gray.
    pub fn gray(self) -> Samples {
        Samples { channels: 1, ..self }
    }
}

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Binary PPM.
    Ppm,
    /// Binary PGM.
    Pgm,
    /// TIFF or BigTIFF.
    Tiff,
}

impl Format {
    /// Its content type. Those of PPM and PGM are not registered, but in use.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Ppm => "image/x-portable-pixmap",
            Format::Pgm => "image/x-portable-graymap",
            Format::Tiff => "image/tiff",
        }
    }

    /// Format of an answer with so many samples for each pixel.
    pub fn of_channels(channels: usize) -> Format {
        if channels == 1 { Format::Pgm } else { Format::Ppm }
    }
}

/// A stored picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Format of the file.
    pub format: Format,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Samples of each pixel.
    pub samples: Samples,
    /// Place of the pixels.
    pub layout: Layout,
}

/// Place of the pixels in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Row behind row, from this byte on.
    Rows(u64),
    /// Strips or tiles.
    Blocks(Blocks),
}

/// Strips or tiles, from left to right and then down. A strip is a tile as wide as the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Pixels of a row of each.
    pub width: u32,
    /// Rows of each.
    pub height: u32,
    /// Number of them side by side.
    pub columns: u32,
    /// Place of each in the file.
    pub offsets: Arc<[u64]>,
}

impl Blocks {
    /// Extents of a row of a part of the picture.
    fn row(self, row: u32, part: Rectangle, pixel: u64) -> impl Iterator<Item = Range<u64>> + Send {
        let (left, right) = (part.x, part.x + part.width);
        let above = u64::from(row % self.height) * u64::from(self.width);
        (left / self.width..=(right - 1) / self.width).map(move |column| {
            let offset = self.offsets[(row / self.height * self.columns + column) as usize];
            let start = column * self.width;
            let at = |x: u32| offset + (above + u64::from(x - start)) * pixel;
            at(left.max(start))..at(right.min(start + self.width))
        })
    }

    /// Fails if one of them is not in the file. All rows of the last tile are there, not all of the last strip.
    pub(crate) fn check(
        &self,
        are_tiles: bool,
        rows: u32,
        pixel: u64,
        file: u64,
    ) -> Result<(), PictureError> {
        let row_bytes = u64::from(self.width) * pixel;
        for (number, &offset) in (0u32..).zip(&self.offsets[..]) {
            let left = if are_tiles { self.height } else { rows - number * self.height };
            let needed = offset.saturating_add(u64::from(left.min(self.height)) * row_bytes);
            if offset == 0 {
                let why = format!("strip or tile {number} of its TIFF is not stored; store all of them");
                return Err(PictureError::Unsupported(why));
            }
            if needed > file {
                return Err(PictureError::Truncated { file, needed });
            }
        }
        Ok(())
    }
}

/// Part of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    /// Pixels left of it.
    pub x: u32,
    /// Rows above it.
    pub y: u32,
    /// Pixels of a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A file that is no picture that can be served.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// Another format, or a form of it.
    #[error("unsupported picture: {0}")]
    Unsupported(String),
    /// A header that breaks the rules of its format.
    #[error("invalid {format} at byte {at}: {why}; store the picture again")]
    Invalid {
        /// Name of the format.
        format: &'static str,
        /// Place of the error.
        at: u64,
        /// The reason.
        why: String,
    },
    /// A file that is shorter than its header says.
    #[error(
        "truncated picture: the file has {file} bytes, its header says {needed}; store the picture again"
    )]
    Truncated {
        /// Bytes of the file.
        file: u64,
        /// Bytes that the header says.
        needed: u64,
    },
    /// A file that cannot be read.
    #[error("reading the picture failed: {0}")]
    Read(#[from] io::Error),
}

impl Picture {
    /// All of it.
    pub fn whole(&self) -> Rectangle {
        Rectangle { x: 0, y: 0, width: self.width, height: self.height }
    }

    /// Returns whether a rectangle lies in it and is not empty.
    pub fn holds(&self, part: Rectangle) -> bool {
        let fits = |start: u32, length: u32, most: u32| {
            length > 0 && start.checked_add(length).is_some_and(|end| end <= most)
        };
        fits(part.x, part.width, self.width) && fits(part.y, part.height, self.height)
    }

    /// Extents of the file that are the rows of a part of it, one behind the other.
    pub fn extents(&self, part: Rectangle) -> Box<dyn Iterator<Item = Range<u64>> + Send> {
        let pixel = self.samples.pixel_bytes() as u64;
        let row_bytes = u64::from(self.width) * pixel;
        let (left, length) = (u64::from(part.x) * pixel, u64::from(part.width) * pixel);
        let rows = part.y..part.y + part.height;
        match &self.layout {
            &Layout::Rows(start) => Box::new(rows.map(move |row| {
                let at = start + u64::from(row) * row_bytes + left;
                at..at + length
            })),
            Layout::Blocks(blocks) => {
                let blocks = blocks.clone();
                Box::new(rows.flat_map(move |row| blocks.clone().row(row, part, pixel)))
            }
        }
    }
}
