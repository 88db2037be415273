//! Consecutive boxes of a file, of which only the headers are read.

use bytes::Bytes;

use super::boxes::{BoxHeader, MAX_HEADER_LENGTH};
use super::{Error, Extent, FourCc};

/// Most consecutive boxes that are not used. Files for playback do not have more.
const MAX_SKIPPED: u64 = 100_000;

/// Iterator over the boxes of a file.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// Offset of the next box.
    at: u64,
    size: u64,
    skipped: u64,
}

/// Box of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileBox {
    pub(super) kind: FourCc,
    /// Extent of the box, as far as the file contains it.
    pub(super) extent: Extent,
    /// True if the file ends within the box.
    pub(super) cut: bool,
}

impl Walk {
    /// Iterator from the beginning of a file of `size` bytes.
    pub(super) fn new(size: u64) -> Self {
        Self { at: 0, size, skipped: 0 }
    }

    /// Extent of the next header; `None` at the end of the file.
    pub(super) fn wanted(&self) -> Option<Extent> {
        let left = self.size.saturating_sub(self.at);
        (left >= 8).then(|| Extent { offset: self.at, length: left.min(MAX_HEADER_LENGTH as u64) })
    }

    /// Sets the length of the file, which has grown.
    pub(super) fn grow(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// Extent of the next header of a file that grows; `None` if the file may not have all of it.
    pub(super) fn wanted_of_growing(&self) -> Option<Extent> {
        self.wanted().filter(|wanted| wanted.length == MAX_HEADER_LENGTH as u64)
    }

    /// Takes the bytes of a header of a file that grows, and advances if the file has the whole box.
    pub(super) fn take_whole(&mut self, bytes: &Bytes) -> Result<Option<FileBox>, Error> {
        let length = BoxHeader::read(bytes, self.at)?.length;
        match length.is_some_and(|length| length <= self.size - self.at) {
            true => self.take(bytes).map(Some),
            false => Ok(None),
        }
    }

    /// Takes the bytes of a header, and advances to the next box.
    pub(super) fn take(&mut self, bytes: &Bytes) -> Result<FileBox, Error> {
        let BoxHeader { kind, length, .. } = BoxHeader::read(bytes, self.at)?;
        let left = self.size - self.at;
        let length = length.unwrap_or(left);
        let extent = Extent { offset: self.at, length: length.min(left) };
        self.at = extent.end();
        self.skipped += 1;
        if self.skipped > MAX_SKIPPED {
            return Err(Error::Limit { what: "more boxes in a row without media", limit: MAX_SKIPPED });
        }
        Ok(FileBox { kind, extent, cut: length > left })
    }

    /// Notes that the last box is used.
    pub(super) fn used(&mut self) {
        self.skipped = 0;
    }
}
