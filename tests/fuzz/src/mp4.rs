//! MP4 files.

use wirepath_media::container::MovieReader;

/// The target.
pub fn fuzz(file: &[u8]) {
    crate::movie::fuzz(file, |size| MovieReader::Mp4(wirepath_media::mp4::MovieReader::new(size)));
    crate::movie::grow(file);
}
