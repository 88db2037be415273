//! Reading the headers of a stored picture and its overviews.

use std::io;

use crate::overview::{Overview, Overviews};
use crate::picture::{Format, Picture, PictureError};
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

/// Reads which overviews of a picture its file has. `size` and `read` are those of [`open_picture`]. Damaged ones
/// are no error.
///
/// # Errors
/// [`PictureError::Read`], or an error in the picture itself.
pub fn find_overviews(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    picture: &Picture,
) -> Result<Overviews, PictureError> {
    match picture.format {
        Format::Tiff => tiff::overviews(size, read, picture),
        Format::Ppm | Format::Pgm => Ok(Overviews::default()),
    }
}

/// Reads an overview of [`find_overviews`] as a picture.
///
/// # Errors
/// See [`PictureError`].
pub fn open_overview(
    size: u64,
    read: impl Fn(&mut [u8], u64) -> io::Result<()>,
    overview: &Overview,
) -> Result<Picture, PictureError> {
    tiff::read_overview(size, read, overview)
}
