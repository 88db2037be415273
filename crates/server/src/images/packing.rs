//! Packs an asset's file into an image's file, by `wirepath_media::pack`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use wirepath_datapath::MappedFile;
use wirepath_media::image::{MAX_SEGMENT_DATA, PAGE, Plan, TRAIN_RECORD_LENGTH};
use wirepath_media::pack::{self, Packer, estimate as estimate_bytes};
use wirepath_media::ts::PACKET_LENGTH;

use super::error::{StoreError, identity, io_error};
use super::image::Image;
use super::image_folder::Draft;
use super::summary::Summary;

/// Bytes of the asset that are read at a time.
const READ_LENGTH: usize = 1 << 20;

/// Time that an asset is packed before others have their turn.
const TURN: Duration = Duration::from_millis(100);

/// Estimate from the first and last megabyte of an asset of `size` bytes.
pub(super) fn estimate(asset: &File, size: u64) -> Result<Summary, StoreError> {
    if size == 0 {
        return Err(StoreError::NotPlayable("the file is empty".to_owned()));
    }
    let head = read_at_most(asset, 0)?;
    let tail = read_at_most(asset, size.saturating_sub(READ_LENGTH as u64))?;
    let estimate = estimate_bytes(&head, &tail, size).map_err(not_playable)?;
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

/// An asset's packing that has begun.
pub(super) struct Packing {
    draft: Draft,
    packer: Packer,
    /// Bytes of the asset that have been read.
    offset: u64,
    /// True if its first segment is there: playbacks can begin.
    has_segment: bool,
}

impl Packing {
    /// Begins to pack into `draft`, which is removed on errors, for this generation of `image`.
    pub(super) fn begin(draft: Draft, image: &Image, generation: u32) -> Result<Box<Packing>, StoreError> {
        let plan = image.plan();
        let file = draft.file().try_clone().map_err(writing)?;
        let mapped_file = MappedFile::new(file, length_bound(plan))
            .map_err(|source| io_error("mapping the wire image", source))?;
        if !image.begin(generation, mapped_file) {
            return Err(StoreError::Stopped);
        }
        let packer = Packer::new(*plan).map_err(not_playable)?;
        Ok(Box::new(Packing { draft, packer, offset: 0, has_segment: false }))
    }

    /// Packs until a turn's time is over, or there is a first segment, and has the image grow as segments are
    /// written; ends early when `stop` returns true, or the image started over meanwhile. Returns a summary
    /// when all is packed, and to be published.
    pub(super) fn turn(
        &mut self,
        asset: &File,
        image: &Image,
        generation: u32,
        stop: impl Fn() -> bool,
    ) -> Result<Option<pack::Summary>, StoreError> {
        let begun = Instant::now();
        let mut buffer = vec![0; READ_LENGTH];
        loop {
            if stop() {
                return Err(StoreError::Stopped);
            }
            let length = asset.read_at(&mut buffer, self.offset).map_err(reading)?;
            if length == 0 {
                let summary = self.packer.finish().map_err(not_playable)?;
                self.write_segments(image, generation)?;
                if identity(asset)? != image.plan().identity {
                    let reason = "the asset was changed while it was being packed".to_owned();
                    return Err(StoreError::NotPlayable(reason));
                }
                return Ok(Some(summary));
            }
            self.packer.push(&buffer[..length]).map_err(not_playable)?;
            let wrote = self.write_segments(image, generation)?;
            self.offset += length as u64;
            image.note_packed(self.offset);
            let is_first = wrote && !self.has_segment;
            self.has_segment |= wrote;
            if is_first || begun.elapsed() >= TURN {
                return Ok(None);
            }
        }
    }

    /// Writes the segments that are ready; returns whether there were some.
    fn write_segments(&mut self, image: &Image, generation: u32) -> Result<bool, StoreError> {
        let mut wrote = false;
        while let Some(segment) = self.packer.pop() {
            wrote = true;
            self.draft.file().write_all_at(&segment.bytes, segment.entry.offset).map_err(writing)?;
            if !image.grow(generation, &[segment.entry], &segment.starts, true) {
                return Err(StoreError::Stopped);
            }
        }
        Ok(wrote)
    }

    pub(super) fn into_draft(self: Box<Self>) -> Draft {
        self.draft
    }
}

/// Writes table and header, in this order, and gives the image its name. Takes as long as the disk needs for
/// all of it. On errors the draft is removed.
pub(super) fn publish(draft: Draft, summary: pack::Summary) -> Result<Summary, StoreError> {
    let table = summary.header.table;
    draft.file().write_all_at(&summary.table_bytes, table.offset).map_err(writing)?;
    draft.file().write_all_at(&summary.header.encode(), 0).map_err(writing)?;
    draft.publish(table.offset + table.length).map_err(writing)?;
    Ok(Summary::of(&summary.header, summary.table.description))
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

fn not_playable(error: impl std::fmt::Display) -> StoreError {
    StoreError::NotPlayable(error.to_string())
}

fn reading(source: io::Error) -> StoreError {
    io_error("reading the asset", source)
}

fn writing(source: io::Error) -> StoreError {
    io_error("writing the wire image", source)
}
