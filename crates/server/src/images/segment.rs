//! Reading a segment of a wire image, which may be damaged, or of an index, whose asset may have changed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;
use wirepath_datapath::{MappedFile, PageCache, Train};
use wirepath_engine::catch_panic;
use wirepath_media::image::{Plan, SegmentEntry, TRAIN_RECORD_LENGTH, TrainRecord};
use wirepath_media::rtp::HEADER_LENGTH;
use wirepath_playback::{Departure, Segment};

use super::error::identity;
use super::read::ReadImageError;

/// The files from which an image is sent.
#[derive(Clone, Debug)]
pub(super) struct Files {
    /// The image or the index.
    pub(super) stored: Arc<MappedFile>,
    /// The asset, whose payload an index refers to.
    pub(super) asset: Option<Arc<MappedFile>>,
}

/// Reads a segment's trains, verifies the whole segment unless that was done before, and leaves its pages in
/// memory. A panic becomes an error, since playbacks wait for an answer.
pub(super) fn read(
    files: &Files,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Segment, ReadImageError> {
    let read = || read_trains(files, plan, entry, until_us, verified);
    catch_panic(read).unwrap_or(Err(ReadImageError::Panicked))
}

fn read_trains(
    files: &Files,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Segment, ReadImageError> {
    let trains = trains(&files.stored, plan, entry, until_us, verified)?;
    let (mapped_file, departures) = match (entry.asset_offset, &files.asset) {
        (Some(offset), Some(asset)) => {
            read_ahead(asset, plan, offset..offset + entry.payload_length())?;
            (asset, trains.iter().map(|train| from_asset(plan, offset, train)).collect())
        }
        (Some(_), None) => return Err(ReadImageError::AssetChanged),
        (None, _) => {
            // Trains may be sent from the mapping, and engine threads should take no page faults for them. A send
            // reports what is wrong with the file.
            if let Err(error) = files.stored.map_pages(entry.offset..entry.offset + entry.stored_length()) {
                tracing::debug!(%error, "the pages of a segment were not mapped");
            }
            (&files.stored, from_image(plan, entry, &trains).collect())
        }
    };
    Ok(Segment { mapped_file: Arc::clone(mapped_file), departures, original: None, clock: None })
}

fn trains(
    stored: &MappedFile,
    plan: &Plan,
    entry: &SegmentEntry,
    until_us: u64,
    verified: bool,
) -> Result<Vec<TrainRecord>, ReadImageError> {
    let (file, range) = (stored.file(), entry.offset..entry.offset + entry.length());
    let trains = if verified && PageCache::of(file, range.clone()) == PageCache::Warm {
        let records = entry.records as usize * TRAIN_RECORD_LENGTH;
        let records = bytes(file, entry.offset + entry.stored_length(), records)?;
        entry.trains_of_records(plan, until_us, &records)
    } else {
        stored.advise(range);
        entry.trains(plan, until_us, &bytes(file, entry.offset, entry.length() as usize)?)
    };
    trains.map_err(|error| ReadImageError::Format(entry.offset, error))
}

/// Reads payload of an asset into memory, unless the asset is not the indexed one. If it is truncated later,
/// a send fails with `EFAULT`.
fn read_ahead(asset: &MappedFile, plan: &Plan, range: std::ops::Range<u64>) -> Result<(), ReadImageError> {
    if identity(asset.file()).ok() != Some(plan.identity) {
        return Err(ReadImageError::AssetChanged);
    }
    asset.read_ahead(range).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::FAULT) => ReadImageError::AssetChanged,
        _ => ReadImageError::Asset(error),
    })
}

pub(super) fn bytes(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Trains of stored packets, in the form for playbacks.
pub(super) fn from_image(
    plan: &Plan,
    entry: &SegmentEntry,
    records: &[TrainRecord],
) -> impl Iterator<Item = Departure> {
    records.iter().scan(entry.first_packet as u32, move |packets_before, record| {
        let train = Train {
            offset: entry.offset + u64::from(record.offset),
            length: record.length,
            packet_size: record.packet_size,
            skip: 0,
            first: 0,
            packets_before: *packets_before,
            run: record.run(plan),
        };
        *packets_before = packets_before.wrapping_add(record.packets());
        Some(Departure { at_us: record.departure_us, train })
    })
}

/// The same train if the segment's payload begins at `offset` of the asset.
fn from_asset(plan: &Plan, offset: u64, record: &TrainRecord) -> Departure {
    let payload_length = plan.recipe.payload_length() as u64;
    let packets_before = u64::from(record.offset / u32::from(record.packet_size));
    let train = Train {
        offset: offset + packets_before * payload_length,
        length: record.length - record.packets() * HEADER_LENGTH as u32,
        packet_size: payload_length as u16,
        skip: 0,
        first: 0,
        packets_before: 0,
        run: record.run(plan),
    };
    Departure { at_us: record.departure_us, train }
}
