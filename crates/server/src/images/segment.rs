//! Reading a segment of a wire image, which may be damaged.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use wirepath_datapath::{MappedFile, PageCache, Train};
use wirepath_engine::catch_panic;
use wirepath_media::image::{Plan, SegmentEntry, TRAIN_RECORD_LENGTH, TrainRecord};
use wirepath_playback::{Departure, Segment};

use super::read::ReadImageError;

/// Reads a segment's trains, checks all of it unless that was done before, and leaves its pages in memory. A
/// panic is an error too, since playbacks wait for an answer.
pub(super) fn read(
    mapped_file: &Arc<MappedFile>,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Segment, ReadImageError> {
    let trains = || trains(mapped_file.file(), plan, entry, until_us, verified);
    let trains = catch_panic(trains).unwrap_or(Err(ReadImageError::Panicked))?;
    let departures = trains.iter().map(|train| departure(plan, entry, train)).collect();
    Ok(Segment { mapped_file: Arc::clone(mapped_file), departures })
}

fn trains(
    file: &File,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Vec<TrainRecord>, ReadImageError> {
    let range = entry.offset..entry.offset + entry.length();
    let trains = if verified && PageCache::of(file, range) == PageCache::Warm {
        let records = entry.records as usize * TRAIN_RECORD_LENGTH;
        let records = bytes(file, entry.offset + u64::from(entry.data_length), records)?;
        entry.trains_of_records(plan, until_us, &records)
    } else {
        entry.trains(plan, until_us, &bytes(file, entry.offset, entry.length() as usize)?)
    };
    trains.map_err(|error| ReadImageError::Format(entry.offset, error))
}

fn bytes(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// A train as playbacks know it.
fn departure(plan: &Plan, entry: &SegmentEntry, record: &TrainRecord) -> Departure {
    let train = Train {
        offset: entry.offset + u64::from(record.offset),
        length: record.length,
        packet_size: record.packet_size,
        skip: 0,
        first: 0,
        run: record.run(plan),
    };
    Departure { at_us: record.departure_us, train }
}
