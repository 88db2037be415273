//! Matroska and WebM files.

use wirepath_media::container::MovieReader;
use wirepath_media::matroska::SegmentReader;

/// The target.
pub fn fuzz(file: &[u8]) {
    crate::movie::fuzz(file, |size| MovieReader::Matroska(SegmentReader::new(size)));
}
