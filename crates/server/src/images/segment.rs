//! Reading a segment of a wire image, which may be damaged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wirepath_datapath::{MappedFile, PageCache, Train};
use wirepath_media::image::{self, Plan, SegmentEntry, TRAIN_RECORD_LENGTH};
use wirepath_playback::{Departure, Segment};

use super::read::is_lost;

/// Reads a segment's trains, checks all of it unless that was done before, and leaves its pages in memory. A
/// panic is an error too, since playbacks wait for an answer.
///
/// # Errors
/// [`SegmentError`].
pub(super) fn read(
    medium: &Arc<MappedFile>,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Segment, SegmentError> {
    let trains = || trains(medium.file(), plan, entry, until_us, verified);
    let trains = catch_unwind(AssertUnwindSafe(trains)).unwrap_or(Err(SegmentError::Panicked))?;
    let departures = trains.iter().map(|train| departure(plan, entry, train)).collect();
    Ok(Segment { mapped_file: Arc::clone(medium), departures })
}
/// A segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SegmentError {
    #[error(transparent)]
    Format(#[from] image::Error),
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("what reads it panicked; the log says where")]
    Panicked,
}

impl SegmentError {
    /// Returns whether the file does not give back what was written. Else a limit of this process or machine
    /// is at fault, and packing again would not help.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            SegmentError::Format(_) => true,
            SegmentError::Panicked => false,
            SegmentError::Read(error) => is_lost(error),
        }
    }
}

fn trains(
    file: &File,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Vec<image::TrainRecord>, SegmentError> {
    let range = entry.offset..entry.offset + entry.length();
    if verified && PageCache::of(file, range) == PageCache::Warm {
        let records = entry.records as usize * TRAIN_RECORD_LENGTH;
        let records = bytes(file, entry.offset + u64::from(entry.data_length), records)?;
        return Ok(entry.trains_of_records(plan, until_us, &records)?);
    }
    Ok(entry.trains(plan, until_us, &bytes(file, entry.offset, entry.length() as usize)?)?)
}

fn bytes(file: &File, offset: u64, length: usize) -> Result<Vec<u8>, SegmentError> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// A train as the engine knows it.
fn departure(plan: &Plan, entry: &SegmentEntry, train: &image::TrainRecord) -> Departure {
    let train_in_medium = Train {
        offset: entry.offset + u64::from(train.offset),
        length: train.length,
        packet_size: train.packet_size,
        skip: 0,
        first: 0,
        run: train.run(plan),
    };
    Departure { at_us: train.departure_us, train: train_in_medium }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_the_disk_cannot_read_is_damaged() {
        assert!(SegmentError::Read(rustix::io::Errno::IO.into()).is_damage());
    }
}
