//! Packs an asset's file into the file of an image or an index, by `wirepath_media::pack`.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_datapath::{MappedFile, advise};
use wirepath_media::image::{
    self, Layout, MAX_SEGMENT_DATA, PAGE, PayloadRun, Plan, TRAIN_RECORD_LENGTH, Writer,
};
use wirepath_media::pack::{Packer, estimate as estimate_bytes};
use wirepath_media::ts::PACKET_LENGTH;

use super::error::{StoreError, identity, io_error};
use super::image::Image;
use super::image_folder::Draft;
use super::memory_budget::MemoryBudget;
use super::segment::Files;
use super::summary::Summary;

/// Bytes of the asset that are read at a time.
const READ_LENGTH: usize = 1 << 18;

/// The same until there is a first segment, which somebody waits for.
const FIRST_READ_LENGTH: usize = 1 << 16;

/// Bytes at both ends of an asset for an estimate: the more are read only if the fewer do not suffice.
const ESTIMATE_LENGTHS: [usize; 2] = [1 << 17, 1 << 20];

/// Memory that an estimate takes for each byte at an end of an asset: both ends, and what is found in them.
const ESTIMATE_FACTOR: u64 = 4;

/// Time that an asset is packed before others have their turn.
const TURN: Duration = Duration::from_millis(10);

thread_local! {
    /// Bytes of an asset, for the turns of a thread.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_LENGTH]);
}

/// Estimate from both ends of an asset of `size` bytes. Waits until there is memory for it.
pub(super) fn estimate(asset: &File, size: u64, memory: &MemoryBudget) -> Result<Summary, StoreError> {
    if size == 0 {
        return Err(StoreError::NotPlayable("the file is empty".to_owned()));
    }
    let mut summary = Summary::default();
    for length in ESTIMATE_LENGTHS {
        let _memory = memory.reserve(ESTIMATE_FACTOR * length as u64);
        let head = read_at_most(asset, 0, length)?;
        let tail = read_at_most(asset, size.saturating_sub(length as u64), length)?;
        let estimate = estimate_bytes(&head, &tail, size).map_err(not_playable)?;
        let description = estimate.description;
        summary = Summary { duration_us: estimate.duration_us, payload_bytes: size, description };
        if summary.duration_us.is_some() {
            break;
        }
    }
    Ok(summary)
}

/// The layout that an asset is played from at first: an index if its payload lies without gaps, as far as an
/// estimate says.
pub(super) fn first_layout(estimate: &Summary) -> Layout {
    match usize::from(estimate.description.stride) {
        PACKET_LENGTH => Layout::Index,
        _ => Layout::Image,
    }
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

/// The most bytes that an index by `plan` takes whose asset has no gaps.
pub(super) fn index_length_bound(plan: &Plan) -> u64 {
    let segments = plan.identity.size / u64::from(MAX_SEGMENT_DATA) + 1;
    let packets = plan.identity.size / plan.recipe.payload_length() as u64 + 1;
    2 * PAGE + packets * TRAIN_RECORD_LENGTH as u64 + segments * PAGE
}

/// The store that an asset is packed for.
pub(super) trait PackingStore {
    /// Returns whether packing stops.
    fn stops(&self) -> bool;

    /// Makes room for `length` bytes of a draft.
    fn extend(&self, draft: &mut Draft, length: u64) -> Result<(), StoreError>;
}

/// An asset's packing that has begun.
pub(super) struct Packing {
    draft: Draft,
    packer: Packer,
    /// Gone when all is packed.
    writer: Option<Writer>,
    /// Bytes of the asset that have been read.
    offset: u64,
    /// True if its first segment is there: playbacks can begin.
    has_segment: bool,
}

impl Packing {
    /// Begins to pack into `draft`, which is removed on errors, for this generation of `image`.
    pub(super) fn begin(
        draft: Draft,
        layout: Layout,
        asset: &Arc<File>,
        image: &Image,
        generation: u32,
    ) -> Result<Box<Packing>, StoreError> {
        let plan = image.plan();
        if !image.begin(generation, files(Arc::clone(draft.file()), layout, asset, plan, length_bound(plan))?)
        {
            return Err(StoreError::Stopped);
        }
        let packer = Packer::new(*plan).map_err(not_playable)?;
        let writer = Some(Writer::new(*plan, layout));
        Ok(Box::new(Packing { draft, packer, writer, offset: 0, has_segment: false }))
    }

    /// Packs until a turn's time is over, or there is another segment, and has the image grow as segments are
    /// written; ends early when the store stops it, or the image started over meanwhile. Returns a summary
    /// when all is packed, and to be published.
    pub(super) fn turn(
        &mut self,
        asset: &File,
        image: &Image,
        generation: u32,
        store: &impl PackingStore,
    ) -> Result<Option<image::Summary>, StoreError> {
        let begun = Instant::now();
        loop {
            if store.stops() {
                return Err(StoreError::Stopped);
            }
            let length = BUFFER.with_borrow_mut(|buffer| self.read(asset, buffer))?;
            if length == 0 {
                let end = self.packer.finish().map_err(not_playable)?;
                self.write_segments(asset, image, generation, store)?;
                if identity(asset)? != image.plan().identity {
                    let reason = "the asset was changed while it was being packed".to_owned();
                    return Err(StoreError::NotPlayable(reason));
                }
                return Ok(self.writer.take().map(|writer| writer.finish(end)));
            }
            let wrote = self.write_segments(asset, image, generation, store)?;
            image.note_packed(self.offset);
            self.has_segment |= wrote;
            if wrote || begun.elapsed() >= TURN {
                return Ok(None);
            }
        }
    }

    /// Reads some of the asset; returns how much, 0 at its end.
    fn read(&mut self, asset: &File, buffer: &mut [u8]) -> Result<usize, StoreError> {
        let wanted = if self.has_segment { READ_LENGTH } else { FIRST_READ_LENGTH };
        let length = asset.read_at(&mut buffer[..wanted], self.offset).map_err(reading)?;
        self.packer.push(&buffer[..length]).map_err(not_playable)?;
        self.offset += length as u64;
        // While this is packed, storage reads on.
        advise(asset, self.offset..self.offset + READ_LENGTH as u64);
        Ok(length)
    }

    /// Writes the segments that are ready; returns whether there were some.
    fn write_segments(
        &mut self,
        asset: &File,
        image: &Image,
        generation: u32,
        store: &impl PackingStore,
    ) -> Result<bool, StoreError> {
        let mut wrote = false;
        while let Some(segment) = self.packer.pop() {
            let Some(writer) = &mut self.writer else { break };
            wrote = true;
            let written = writer.add(&segment, |runs, payload| read_payload(asset, runs, payload))?;
            // Of a damaged asset, an index has packets itself: it may take as much as an image.
            store.extend(&mut self.draft, written.entry.offset + written.bytes.len() as u64)?;
            self.draft.file().write_all_at(&written.bytes, written.entry.offset).map_err(writing)?;
            if !image.grow(generation, &[written.entry], &segment.starts, true) {
                return Err(StoreError::Stopped);
            }
        }
        Ok(wrote)
    }

    /// Bytes of memory that it holds between its turns.
    pub(super) fn held_bytes(&self) -> u64 {
        let writer = self.writer.as_ref().map_or(0, Writer::held_bytes);
        (size_of::<Packing>() + self.packer.held_bytes() + writer) as u64
    }

    pub(super) fn into_draft(self: Box<Self>) -> Draft {
        self.draft
    }
}

/// Writes table and header, in this order, and gives the image its name. Takes as long as the disk needs for
/// all of it. On errors the draft is removed.
pub(super) fn publish(draft: Draft, summary: image::Summary) -> Result<Summary, StoreError> {
    let table = summary.header.table;
    draft.file().write_all_at(&summary.table_bytes, table.offset).map_err(writing)?;
    draft.file().write_all_at(&summary.header.encode(), 0).map_err(writing)?;
    draft.publish(table.offset + table.length).map_err(writing)?;
    Ok(Summary::of(&summary.header, summary.table.description))
}

/// The files to play from by an image or an index that may still grow to `length` bytes.
pub(super) fn files(
    stored: Arc<File>,
    layout: Layout,
    asset: &Arc<File>,
    plan: &Plan,
    length: u64,
) -> Result<Files, StoreError> {
    let mapping = |source| io_error("mapping the wire image", source);
    let stored = MappedFile::new(stored, length).map_err(mapping)?;
    let asset = match layout {
        Layout::Index => Some(MappedFile::of_asset(Arc::clone(asset), plan.identity.size).map_err(mapping)?),
        Layout::Image => None,
    };
    [Some(&stored), asset.as_ref()].into_iter().flatten().for_each(MappedFile::read_only_as_told);
    Ok(Files { stored: Arc::new(stored), asset: asset.map(Arc::new) })
}

/// Reads payload of an asset.
pub(super) fn read_payload(
    asset: &File,
    runs: &[PayloadRun],
    mut payload: &mut [u8],
) -> Result<(), StoreError> {
    for run in runs {
        let (part, rest) = payload.split_at_mut(run.length());
        if run.is_contiguous() {
            asset.read_exact_at(part, run.offset).map_err(reading)?;
        } else {
            let mut span = vec![0; run.span()];
            asset.read_exact_at(&mut span, run.offset).map_err(reading)?;
            run.copy(&span, part);
        }
        payload = rest;
    }
    Ok(())
}

fn read_at_most(asset: &File, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; length];
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

pub(super) fn reading(source: io::Error) -> StoreError {
    io_error("reading the asset", source)
}

pub(super) fn writing(source: io::Error) -> StoreError {
    io_error("writing the wire image", source)
}
