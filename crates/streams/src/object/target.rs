//! Where something is written that may take long: files and mappings. Not on an engine thread.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_datapath::{Mapping, Pipe};

use super::{Kind, Object, PARTS, Provisional};
use crate::record::Run;

/// Runs to be written where that may take long.
#[derive(Debug)]
pub(crate) struct Batch {
    target: Target,
    runs: Vec<Run>,
}

/// Where something is written that may take long.
#[derive(Debug)]
pub(crate) enum Target {
    /// At this offset, or where the descriptor is. It is not to be removed before this is done.
    File {
        file: Arc<File>,
        offset: Option<u64>,
        /// Only to be dropped.
        _provisional: Option<Arc<Provisional>>,
    },
    /// What is left of a mapping.
    Mapping(Arc<Mapping>, Range<usize>),
}

impl Object {
    /// Where it is written, if that may take long.
    pub(crate) fn target(&self) -> Option<Target> {
        match &self.kind {
            Kind::File(file) => {
                let offset = (!file.shares_place).then_some(file.offset);
                Some(Target::File {
                    file: Arc::clone(&file.file),
                    offset,
                    _provisional: file.provisional.clone(),
                })
            }
            Kind::Mapping(mapped) => Some(Target::Mapping(Arc::clone(&mapped.mapping), mapped.rest())),
            _ => None,
        }
    }

    /// So many bytes were written elsewhere.
    pub(crate) fn note_written(&mut self, bytes: usize) {
        match &mut self.kind {
            Kind::File(file) => file.offset += bytes as u64,
            Kind::Mapping(mapped) => mapped.offset = mapped.end.min(mapped.offset + bytes),
            _ => {}
        }
    }
}

impl Batch {
    pub(super) fn new(target: Target, runs: Vec<Run>) -> Batch {
        Batch { target, runs }
    }

    /// Bytes of all of it.
    pub(crate) fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes.len()).sum()
    }

    /// Writes all of it; answers how many bytes were written, and what went wrong if that is not all. May
    /// block.
    pub(crate) fn write(self) -> (u64, io::Result<()>) {
        let mut slices: Vec<IoSlice<'_>> = self.runs.iter().map(|run| IoSlice::new(&run.bytes)).collect();
        self.target.write(&mut slices)
    }
}

impl Target {
    /// Writes all of it, of a file that is only appended to behind its end; answers how many bytes were
    /// written, and what went wrong if that is not all. May block.
    fn write(&self, mut slices: &mut [IoSlice<'_>]) -> (u64, io::Result<()>) {
        let mut total = 0;
        IoSlice::advance_slices(&mut slices, 0); // what is empty would look like a file that takes nothing
        while !slices.is_empty() {
            match self.write_some(total, &slices[..slices.len().min(PARTS)]) {
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

    /// As much as one call does, behind so many bytes.
    fn write_some(&self, behind: u64, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(match self {
            Target::File { file, offset: Some(offset), .. } => {
                rustix::io::pwritev(file, slices, offset + behind)?
            }
            Target::File { file, offset: None, .. } => rustix::io::writev(file, slices)?,
            Target::Mapping(mapping, range) => mapping.write(left(range, behind)?, slices)?,
        })
    }

    /// Writes all that is in a pipe; answers how many bytes were written, and what went wrong if that is not
    /// all. May block.
    pub(crate) fn drain(&self, pipe: &mut Pipe) -> (u64, io::Result<()>) {
        let mut total = 0;
        while pipe.held() > 0 {
            match self.drain_some(total, pipe) {
                Ok(bytes) => total += bytes as u64,
                // A file that is only appended to, or of a file system that takes only what is copied.
                Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    let (written, result) = match (pipe.take(), self) {
                        (Ok(bytes), Target::File { file, offset, .. }) => {
                            let behind = offset.map(|offset| offset + total);
                            (Target::File { file: Arc::clone(file), offset: behind, _provisional: None })
                                .write(&mut [IoSlice::new(&bytes)])
                        }
                        (Ok(_), Target::Mapping(..)) => (0, Err(error)),
                        (Err(errno), _) => (0, Err(errno.into())),
                    };
                    return (total + written, result);
                }
                Err(error) => return (total, Err(error)),
            }
        }
        (total, Ok(()))
    }

    /// As much as one call does, behind so many bytes.
    fn drain_some(&self, behind: u64, pipe: &mut Pipe) -> io::Result<usize> {
        Ok(match self {
            Target::File { file, offset, .. } => {
                let mut offset = offset.map(|offset| offset + behind);
                pipe.drain(file, offset.as_mut(), false)?
            }
            Target::Mapping(mapping, range) => pipe.drain_to(mapping, left(range, behind)?)?,
        })
    }
}

/// What of a range is behind so many bytes.
fn left(range: &Range<usize>, behind: u64) -> io::Result<Range<usize>> {
    let left = range.start + behind as usize..range.end;
    if left.is_empty() { Err(Errno::NOSPC.into()) } else { Ok(left) }
}
