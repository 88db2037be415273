//! Packing an asset's file into an image's file; the thinking is done in `wirepath_media::pack`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use wirepath_media::image::{MAX_SEGMENT_DATA, PAGE, Plan, TRAIN_RECORD_LENGTH};
use wirepath_media::pack::{self, Packer, estimate as estimate_bytes};
use wirepath_media::ts::PACKET_LENGTH;
use wirepath_streams::datapath::Medium;

use super::cache::Draft;
use super::image::Image;
use super::store::{StoreError, identity, io_error};
use super::summary::Summary;

/// Bytes of the asset that are read at a time.
const READ_LENGTH: usize = 1 << 20;

/// What the first and last megabyte of an asset of `size` bytes say about it.
///
/// # Errors
/// [`StoreError::NotPlayable`] where it is no transport stream, [`StoreError::Io`] where it cannot be read.
pub(super) fn estimate(asset: &File, size: u64) -> Result<Summary, StoreError> {
    let head = read_at_most(asset, 0)?;
    let tail = read_at_most(asset, size.saturating_sub(READ_LENGTH as u64))?;
    let estimate =
        estimate_bytes(&head, &tail, size).map_err(|error| StoreError::NotPlayable(error.to_string()))?;
    Ok(Summary { duration_us: estimate.duration_us, payload_bytes: size, description: estimate.description })
}

/// The most bytes that an image by `plan` can take: every packet full, and in a train of its own.
pub(super) fn length_bound(plan: &Plan) -> u64 {
    let packet_size = u64::from(plan.recipe.packet_size());
    let packets =
        plan.identity.size.div_ceil(PACKET_LENGTH as u64).div_ceil(plan.recipe.ts_per_packet.into()).max(1);
    let data = packets * packet_size;
    let segments = data / (u64::from(MAX_SEGMENT_DATA) - packet_size) + 1;
    PAGE + data + packets * TRAIN_RECORD_LENGTH as u64 + segments * PAGE
}

/// Packs `asset` into `draft`, and has this generation of `image` grow as its segments are written, until all is done, or
/// `stop` says so, or the image started over meanwhile.
///
/// # Errors
/// [`StoreError`]; then the draft is removed.
pub(super) fn pack(
    asset: &File,
    draft: Draft,
    image: &Image,
    generation: u32,
    stop: impl Fn() -> bool,
) -> Result<Summary, StoreError> {
    let plan = image.plan();
    let file = draft.file().try_clone().map_err(writing)?;
    let medium =
        Medium::new(file, length_bound(plan)).map_err(|source| io_error("mapping the wire image", source))?;
    if !image.begin(generation, medium) {
        return Err(StoreError::Stopped);
    }

    let mut packer = Packer::new(*plan).map_err(|error| StoreError::NotPlayable(error.to_string()))?;
    let mut buffer = vec![0; READ_LENGTH];
    let mut offset = 0;
    loop {
        if stop() {
            return Err(StoreError::Stopped);
        }
        let length = asset.read_at(&mut buffer, offset).map_err(reading)?;
        if length == 0 {
            break;
        }
        packer.push(&buffer[..length]).map_err(not_playable)?;
        write_segments(&mut packer, &draft, image, generation)?;
        offset += length as u64;
        image.note_packed(offset);
    }
    let summary = packer.finish().map_err(not_playable)?;
    write_segments(&mut packer, &draft, image, generation)?;
    if identity(asset).map_err(reading)? != plan.identity {
        return Err(StoreError::NotPlayable("the asset was changed while it was being packed".to_owned()));
    }
    publish(draft, &summary)?;
    Ok(Summary {
        duration_us: Some(summary.header.duration_us),
        payload_bytes: summary.header.payload_bytes,
        description: summary.table.description,
    })
}

fn write_segments(
    packer: &mut Packer,
    draft: &Draft,
    image: &Image,
    generation: u32,
) -> Result<(), StoreError> {
    while let Some(segment) = packer.pop() {
        draft.file().write_all_at(&segment.bytes, segment.entry.offset).map_err(writing)?;
        if !image.grow(generation, &[segment.entry], &segment.starts, true) {
            return Err(StoreError::Stopped);
        }
    }
    Ok(())
}

/// Writes table and header, in this order, and gives the image its name.
fn publish(draft: Draft, summary: &pack::Summary) -> Result<(), StoreError> {
    let table = summary.header.table;
    draft.file().write_all_at(&summary.table_bytes, table.offset).map_err(writing)?;
    draft.file().write_all_at(&summary.header.encode(), 0).map_err(writing)?;
    draft.publish(table.offset + table.length).map_err(writing)
}

fn read_at_most(asset: &File, offset: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; READ_LENGTH];
    let mut length = 0;
    while length < bytes.len() {
        match asset.read_at(&mut bytes[length..], offset + length as u64).map_err(reading)? {
            0 => break,
            read => length += read,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn not_playable(error: pack::Error) -> StoreError {
    StoreError::NotPlayable(error.to_string())
}

fn reading(source: io::Error) -> StoreError {
    io_error("reading the asset", source)
}

fn writing(source: io::Error) -> StoreError {
    io_error("writing the wire image", source)
}
