//! Writes that may block, to files and mappings; they run on storage threads.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_datapath::{Mapping, Pipe};

use super::{Kind, Object, Provisional};
use crate::record::Run;

/// Most slices in one call.
pub(super) const MOST_SLICES: usize = 64;

#[derive(Debug)]
pub(crate) struct Batch {
    target: WriteTarget,
    runs: Vec<Run>,
}

/// File or mapping to write.
#[derive(Debug)]
pub(crate) enum WriteTarget {
    /// File, written at this offset, or at that of the descriptor.
    File {
        file: Arc<File>,
        offset: Option<u64>,
        /// Prevents the file from being removed before the write is done.
        _provisional: Option<Arc<Provisional>>,
    },
    /// The rest of a mapping's range.
    Mapping(Arc<Mapping>, Range<usize>),
}

impl Object {
    /// Target of writes that may block; None for other objects.
    pub(crate) fn target(&self) -> Option<WriteTarget> {
        match &self.kind {
            Kind::File(file) => {
                let offset = (!file.shares_place).then_some(file.offset);
                Some(WriteTarget::File {
                    file: Arc::clone(&file.file),
                    offset,
                    _provisional: file.provisional.clone(),
                })
            }
            Kind::Mapping(mapped) => Some(WriteTarget::Mapping(Arc::clone(&mapped.mapping), mapped.rest())),
            _ => None,
        }
    }

    pub(crate) fn note_written(&mut self, bytes: usize) {
        match &mut self.kind {
            Kind::File(file) => file.offset += bytes as u64,
            Kind::Mapping(mapped) => mapped.offset = mapped.end.min(mapped.offset + bytes),
            _ => {}
        }
    }
}

impl Batch {
    pub(super) fn new(target: WriteTarget, runs: Vec<Run>) -> Batch {
        Batch { target, runs }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes.len()).sum()
    }

    /// Writes all runs; returns the bytes written, and the error if not all were written. May block.
    pub(crate) fn write(self) -> (u64, io::Result<()>) {
        let mut slices: Vec<IoSlice<'_>> = self.runs.iter().map(|run| IoSlice::new(&run.bytes)).collect();
        self.target.write(&mut slices)
    }
}

impl WriteTarget {
    /// Writes all slices, to a file in append mode at its end; returns the bytes written, and the error if
    /// not all were written. May block.
    fn write(&self, mut slices: &mut [IoSlice<'_>]) -> (u64, io::Result<()>) {
        let mut total = 0;
        IoSlice::advance_slices(&mut slices, 0); // empty slices would look like a file that takes nothing
        while !slices.is_empty() {
            match self.write_some(total, &slices[..slices.len().min(MOST_SLICES)]) {
                Ok(0) => return (total, Err(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => {
                    total += bytes as u64;
                    IoSlice::advance_slices(&mut slices, bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (total, Err(error)),
            }
        }
        (total, Ok(()))
    }

    /// Writes by one call, at `behind` bytes after the beginning.
    fn write_some(&self, behind: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(match self {
            WriteTarget::File { file, offset: Some(offset), .. } => {
                rustix::io::pwritev(file, slices, offset + behind)?
            }
            WriteTarget::File { file, offset: None, .. } => rustix::io::writev(file, slices)?,
            WriteTarget::Mapping(mapping, range) => mapping.write(left(range, behind)?, slices)?,
        })
    }

    /// Writes all bytes of a pipe; returns the bytes written, and the error if not all were written. May
    /// block.
    pub(crate) fn drain(&self, pipe: &mut Pipe) -> (u64, io::Result<()>) {
        let mut total = 0;
        while pipe.held() > 0 {
            match self.drain_some(total, pipe) {
                Ok(bytes) => total += bytes as u64,
                // A file in append mode, or a file system without `splice`.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    let (written, result) = match (pipe.take(), self) {
                        (Ok(bytes), WriteTarget::File { file, offset, .. }) => {
                            let behind = offset.map(|offset| offset + total);
                            (WriteTarget::File { file: Arc::clone(file), offset: behind, _provisional: None })
                                .write(&mut [IoSlice::new(&bytes)])
                        }
                        (Ok(_), WriteTarget::Mapping(..)) => (0, Err(error)),
                        (Err(errno), _) => (0, Err(errno.into())),
                    };
                    return (total + written, result);
                }
                Err(error) => return (total, Err(error)),
            }
        }
        (total, Ok(()))
    }

    /// Writes by one call, at `behind` bytes after the beginning.
    fn drain_some(&self, behind: u64, pipe: &mut Pipe) -> io::Result<usize> {
        Ok(match self {
            WriteTarget::File { file, offset, .. } => {
                let mut offset = offset.map(|offset| offset + behind);
                pipe.drain(file, offset.as_mut(), false)?
            }
            WriteTarget::Mapping(mapping, range) => pipe.drain_to(mapping, left(range, behind)?)?,
        })
    }
}

/// The rest of a range after `behind` bytes.
fn left(range: &Range<usize>, behind: u64) -> io::Result<Range<usize>> {
    let left = range.start + behind as usize..range.end;
    if left.is_empty() { Err(Errno::NOSPC.into()) } else { Ok(left) }
}
