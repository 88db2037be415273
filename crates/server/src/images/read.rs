//! Reading the header and the table of an image's file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use wirepath_media::image::{self, Header, Table};

/// An image, or a part of it, cannot be read. If `is_damage`, the file is at fault, and packing its asset
/// again makes a good one.
#[derive(Debug, thiserror::Error)]
pub enum ReadImageError {
    /// The part at this byte of the file is not as expected.
    #[error("at byte {0}: {1}")]
    Format(u64, image::Error),
    /// Reading failed.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// Reading the asset failed.
    #[error("the asset cannot be read: {0}")]
    Asset(io::Error),
    /// The asset from which payload is sent is not the indexed one.
    #[error("the asset was changed or truncated since it was indexed; play it again")]
    AssetChanged,
    /// The reader panicked.
    #[error("reading it panicked; the log says where")]
    Panicked,
}

impl ReadImageError {
    /// Returns whether the file has lost its contents. If not, a limit of this process or machine is at
    /// fault.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            ReadImageError::Format(..) => true,
            ReadImageError::Read(error) => is_lost(error),
            ReadImageError::Asset(_) | ReadImageError::AssetChanged | ReadImageError::Panicked => false,
        }
    }
}

/// Returns whether an error means that the written bytes are lost: the file is too short, the disk cannot
/// read it, or the file system finds that it is damaged (ext4 and XFS: EUCLEAN, EBADMSG). Errors because of
/// memory or descriptors say nothing about the file.
pub(super) fn is_lost(error: &io::Error) -> bool {
    let lost = [Errno::IO, Errno::UCLEAN, Errno::BADMSG];
    error.kind() == io::ErrorKind::UnexpectedEof
        || Errno::from_io_error(error).is_some_and(|errno| lost.contains(&errno))
}

/// Reads and checks the header of an image.
pub(super) fn read_header(file: &File) -> Result<Header, ReadImageError> {
    let length = file.metadata()?.len();
    let mut page = vec![0; length.min(image::PAGE) as usize];
    file.read_exact_at(&mut page, 0)?;
    Header::decode(&page, length).map_err(|error| ReadImageError::Format(0, error))
}

/// Reads and checks the header and the table of an image.
pub fn read_image(file: &File) -> Result<(Header, Table), ReadImageError> {
    let format = |offset| move |error| ReadImageError::Format(offset, error);
    let header = read_header(file)?;
    // The header was verified: the table ends with the file, so its size is limited by the file's.
    let mut bytes = vec![0; header.table.length as usize];
    file.read_exact_at(&mut bytes, header.table.offset)?;
    let table = Table::decode(&bytes, &header).map_err(format(header.table.offset))?;
    Ok((header, table))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: A damaged wire image is detected before any of its bytes is sent, and packed again.
    #[test]
    fn what_the_disk_cannot_read_is_damage_and_what_this_machine_lacks_is_not() {
        let read = |errno: Errno| ReadImageError::Read(errno.into());
        for errno in [Errno::IO, Errno::UCLEAN, Errno::BADMSG] {
            assert!(read(errno).is_damage(), "{errno}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INVAL, Errno::ACCESS, Errno::STALE] {
            assert!(!read(errno).is_damage(), "{errno}");
        }
        assert!(ReadImageError::Read(io::ErrorKind::UnexpectedEof.into()).is_damage());
    }
}
