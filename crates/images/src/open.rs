//! Reading the header of a stored picture.

use std::io;

use crate::picture::{Picture, PictureError};
use crate::{pnm, tiff};

/// Reads what a file of `size` bytes says of its picture. `read` fills a buffer from a place in the file.
///
/// # Errors
/// See [`PictureError`].
pub fn open_picture(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
) -> Result<Picture, PictureError> {
    let mut head = vec![0; size.min(pnm::HEADER_LIMIT as u64) as usize];
    read(&mut head, 0)?;
    if tiff::is_tiff(&head) { tiff::read(size, read) } else { pnm::read(&head, size) }
}
