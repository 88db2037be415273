//! Reading what an image's file says about it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use wirepath_media::image::{self, Header, Table};

/// An image's header and table cannot be used. Where [`ReadImageError::is_damage`], the file is at fault: packing its asset
/// again makes a good one.
#[derive(Debug, thiserror::Error)]
pub enum ReadImageError {
    /// They are not what they should be.
    #[error("at byte {offset}: {error}")]
    Format {
        /// Byte of the file at which the part that is wrong begins.
        offset: u64,
        /// What is wrong.
        error: image::Error,
    },
    /// They cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
}

impl ReadImageError {
    /// Whether the file is not what was written. Else the disk, or a limit of this process, is at fault.
    pub fn is_damage(&self) -> bool {
        match self {
            ReadImageError::Format { .. } => true,
            ReadImageError::Read(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        }
    }
}

/// Reads and checks the header and the table of an image.
///
/// # Errors
/// [`ReadImageError`].
pub fn read_image(file: &File) -> Result<(Header, Table), ReadImageError> {
    let format = |offset| move |error| ReadImageError::Format { offset, error };
    let length = file.metadata()?.len();
    let mut page = vec![0; length.min(image::PAGE) as usize];
    file.read_exact_at(&mut page, 0)?;
    let header = Header::decode(&page, length).map_err(format(0))?;
    // The header was checked: the table ends with the file, so this asks for no more than there is.
    let mut bytes = vec![0; header.table.length as usize];
    file.read_exact_at(&mut bytes, header.table.offset)?;
    let table = Table::decode(&bytes, &header).map_err(format(header.table.offset))?;
    Ok((header, table))
}
