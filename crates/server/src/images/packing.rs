//! Packs an asset's file into the file of an image or an index, by `wirepath_media::pack`.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use wirepath_datapath::MappedFile;
use wirepath_media::container::{Movie, MovieReader, is_movie};
use wirepath_media::image::{
    self, Description, Identity, Layout, MAX_SEGMENT_DATA, PAGE, PathLimits, Plan, Recipe, StreamPlan,
    Streams, TRAIN_RECORD_LENGTH, Writer,
};
use wirepath_media::mp4::{Mark, has_fragment_index};
use wirepath_media::pack::{
    Pack, Packed, PlayableMovie, Wanted, estimate as estimate_bytes, growing_packer, packer,
};
use wirepath_media::track::Next;
use wirepath_media::ts::PACKET_LENGTH;

use super::asset_reader::AssetReader;
use super::error::{StoreError, identity, io_error};
use super::follow::{Follow, LONGEST_QUIET, QUIET, age, quiet};
use super::image::Image;
use super::image_folder::Draft;
use super::memory_budget::MemoryBudget;
use super::segment::Files;
use super::summary::Summary;
use crate::played_as::PlayedAs;

/// Bytes at both ends of an asset for an estimate. The larger number is read only if the smaller one does not
/// suffice.
const ESTIMATE_LENGTHS: [usize; 2] = [1 << 17, 1 << 20];

/// Memory of an estimate for each byte at an end of an asset: for both ends, and for the results.
const ESTIMATE_FACTOR: u64 = 4;

/// Duration of a turn of packing; then other assets have their turn.
const TURN: Duration = Duration::from_millis(10);

thread_local! {
    /// Buffer for bytes of an asset, for the turns of a thread.
    static READER: RefCell<AssetReader> = RefCell::default();
}

/// Reason why packing ended before the end of the asset.
const CHANGED: &str = "the asset was changed while it was being packed";

/// Most segments of a recording: one for each growth, ten in a second if a recorder never rests, and for each at
/// most 250 bytes of memory.
const MOST_RECORDED_SEGMENTS: usize = 1 << 20;

/// Longest image of a recording, since it could not be mapped otherwise.
const MAX_RECORDED_IMAGE: u64 = 1 << 45;

/// Reason why an asset of no bytes is not packed.
const EMPTY: &str = "the file is empty";

/// Longest asset: an image of it could not be mapped.
const MAX_SIZE: u64 = 1 << 47;

/// First bytes of an asset, which tell its container.
const HEAD_LENGTH: usize = 12;

/// The recipe for an asset within the limits of a path, by its container.
pub(super) fn recipe(asset: &File, limits: PathLimits, played_as: PlayedAs) -> Result<Recipe, StoreError> {
    let head = read_at_most(asset, 0, HEAD_LENGTH)?;
    Ok(match (is_movie(&head), played_as) {
        (true, _) => limits.tracks(),
        (false, PlayedAs::Tracks) => limits.demuxed(),
        (false, PlayedAs::Stored) => limits.transport_stream(),
    })
}

/// An asset that is not packed yet.
pub(super) struct Examined {
    pub(super) summary: Summary,
    pub(super) streams: Streams,
    /// True if a recorder still appends to it. The duration is not known then.
    pub(super) is_recorded: bool,
}

/// Description and streams of an asset that is not packed yet. `follow`: recordings to recognize. Waits until memory
/// for the estimate is free.
pub(super) fn examine(
    asset: &File,
    identity: Identity,
    recipe: Recipe,
    memory: &MemoryBudget,
    follow: Follow,
) -> Result<Examined, StoreError> {
    let size = identity.size;
    check_size(size)?;
    if recipe.is_transport_stream() {
        let (ssrc, sequence, timestamp) = random_numbers()?;
        let streams = StreamPlan::transport_stream(ssrc, sequence, timestamp).into();
        let is_recorded = follow == Follow::Recent && age(identity) < QUIET;
        let estimate = estimate(asset, size, memory)?;
        let duration_us = estimate.duration_us.filter(|_| !is_recorded);
        return Ok(Examined { summary: Summary { duration_us, ..estimate }, streams, is_recorded });
    }
    let playable = playable_movie(asset, size, recipe, memory)?;
    let streams = playable.streams(random_numbers)?.ok_or_else(|| not_playable("it has no track"))?;
    let is_recorded = is_recorded(asset, identity, &playable.movie, memory, follow);
    let duration_us = match recipe.is_demuxed() {
        _ if is_recorded => None,
        // Its tracks do not say it, but its clock does, if there is one.
        true => estimate(asset, size, memory).ok().and_then(|estimate| estimate.duration_us),
        false => movie_duration_us(asset, &playable, memory)?,
    };
    let summary = Summary { duration_us, payload_bytes: size, description: playable.describe() };
    Ok(Examined { summary, streams, is_recorded })
}

/// Returns whether an asset is a recording to follow. Waits until memory is free.
pub(super) fn is_recording(
    asset: &File,
    identity: Identity,
    recipe: Recipe,
    memory: &MemoryBudget,
    follow: Follow,
) -> Result<bool, StoreError> {
    if identity.size == 0 || age(identity) >= LONGEST_QUIET {
        return Ok(false);
    }
    if recipe.is_transport_stream() {
        // Fails while too little is written to tell that it is one.
        estimate_of(asset, identity.size, ESTIMATE_LENGTHS[0], memory)?;
        return Ok(follow == Follow::Recent && age(identity) < QUIET);
    }
    let playable = playable_movie(asset, identity.size, recipe, memory)?;
    Ok(is_recorded(asset, identity, &playable.movie, memory, follow))
}

/// Returns whether a movie is a recording to follow, as far as the file shows it.
fn is_recorded(
    asset: &File,
    identity: Identity,
    movie: &Movie,
    memory: &MemoryBudget,
    follow: Follow,
) -> bool {
    let is_recent = || age(identity) < quiet(first_fragment_us(asset, movie, memory).unwrap_or(0));
    if follow == Follow::Nothing || !movie.may_grow() || age(identity) >= LONGEST_QUIET {
        return false;
    }
    let tail = read_at_most(asset, identity.size.saturating_sub(16), 16);
    let is_finished = tail.is_ok_and(|tail| has_fragment_index(&tail));
    (follow == Follow::Recent || !is_finished) && is_recent()
}

/// Length of the first fragment of a movie in microseconds; `None` if the file does not have one. Waits until
/// memory is free.
fn first_fragment_us(asset: &File, movie: &Movie, memory: &MemoryBudget) -> Option<u64> {
    let mut samples = movie.samples().growing();
    while samples.fragments().last.is_none() {
        let Next::Read(wanted) = samples.next().ok()? else { return None };
        let _memory = (wanted.length > PAGE).then(|| memory.reserve(wanted.length));
        let mut bytes = vec![0; usize::try_from(wanted.length).ok()?];
        asset.read_exact_at(&mut bytes, wanted.offset).ok()?;
        samples.take(bytes).ok()?;
    }
    Some(samples.fragments().longest_us)
}

/// Description of an asset that is not packed yet, without a search for its duration. Waits until memory is
/// free.
pub(super) fn describe(
    asset: &File,
    size: u64,
    recipe: Recipe,
    memory: &MemoryBudget,
) -> Result<Description, StoreError> {
    check_size(size)?;
    match recipe.is_transport_stream() {
        true => Ok(estimate_of(asset, size, ESTIMATE_LENGTHS[0], memory)?.description),
        false => playable_movie(asset, size, recipe, memory).map(PlayableMovie::describe),
    }
}

/// Fails if an asset is too long or empty.
fn check_size(size: u64) -> Result<(), StoreError> {
    match size {
        0 => Err(StoreError::NotPlayable(EMPTY.to_owned())),
        1..=MAX_SIZE => Ok(()),
        _ => Err(not_playable(format!("it has {size} bytes: at most {MAX_SIZE} are played"))),
    }
}

/// Tracks of an asset that are played. Waits until memory is free.
fn playable_movie(
    asset: &File,
    size: u64,
    recipe: Recipe,
    memory: &MemoryBudget,
) -> Result<PlayableMovie, StoreError> {
    let (mut reader, mut reserved) = (movie_reader(asset, size, recipe)?, None);
    while let Some(wanted) = reader.wanted() {
        if wanted.length > PAGE && reserved.is_none() {
            reserved = Some(memory.reserve(wanted.length));
        }
        let mut bytes = vec![0; usize::try_from(wanted.length).map_err(not_playable)?];
        asset.read_exact_at(&mut bytes, wanted.offset).map_err(reading)?;
        reader.take(bytes).map_err(not_playable)?;
    }
    PlayableMovie::of(reader.finish().map_err(not_playable)?).map_err(not_playable)
}

/// Duration of a movie in microseconds, if its description or its end tells it. Waits until memory is free.
fn movie_duration_us(
    asset: &File,
    playable: &PlayableMovie,
    memory: &MemoryBudget,
) -> Result<Option<u64>, StoreError> {
    let mut reader = playable.movie.duration();
    while let Some(wanted) = reader.wanted() {
        let _memory = (wanted.length > PAGE).then(|| memory.reserve(wanted.length));
        let mut bytes = vec![0; usize::try_from(wanted.length).map_err(not_playable)?];
        asset.read_exact_at(&mut bytes, wanted.offset).map_err(reading)?;
        reader.take(bytes);
    }
    Ok(reader.finish())
}

/// A reader of the tracks of an asset.
fn movie_reader(asset: &File, size: u64, recipe: Recipe) -> Result<MovieReader, StoreError> {
    if recipe.is_demuxed() {
        return Ok(MovieReader::of_transport_stream(size));
    }
    let head = read_at_most(asset, 0, HEAD_LENGTH)?;
    MovieReader::of(&head, size).ok_or_else(|| not_playable(CHANGED))
}

/// SSRC, first sequence number and timestamp of a stream.
fn random_numbers() -> Result<(u32, u16, u32), StoreError> {
    let random = |error: getrandom::Error| io_error("asking for random numbers", io::Error::other(error));
    let (ssrc, sequence) = (getrandom::u32().map_err(random)?, getrandom::u32().map_err(random)? as u16);
    Ok((ssrc, sequence, getrandom::u32().map_err(random)?))
}

/// Estimate from both ends of an asset of `size` bytes. Waits until memory for it is free.
fn estimate(asset: &File, size: u64, memory: &MemoryBudget) -> Result<Summary, StoreError> {
    let mut summary = Summary::default();
    for length in ESTIMATE_LENGTHS {
        summary = estimate_of(asset, size, length, memory)?;
        if summary.duration_us.is_some() {
            break;
        }
    }
    Ok(summary)
}

/// Estimate from `length` bytes at each end of an asset of `size` bytes. Waits until memory for it is free.
fn estimate_of(asset: &File, size: u64, length: usize, memory: &MemoryBudget) -> Result<Summary, StoreError> {
    let _memory = memory.reserve(ESTIMATE_FACTOR * length as u64);
    let head = read_at_most(asset, 0, length)?;
    let tail = read_at_most(asset, size.saturating_sub(length as u64), length)?;
    let estimate = estimate_bytes(&head, &tail, size).map_err(not_playable)?;
    let description = Description::TransportStream(estimate.description);
    Ok(Summary { duration_us: estimate.duration_us, payload_bytes: size, description })
}

/// The layout for the first play of an asset: an index if the payload is contiguous, according to the
/// estimate.
pub(super) fn first_layout(estimate: &Summary) -> Layout {
    match estimate.description.transport_stream() {
        Some(description) if usize::from(description.stride) == PACKET_LENGTH => Layout::Index,
        _ => Layout::Image,
    }
}

/// Bytes of an image by `plan` to reserve at first; for a transport stream the maximum.
pub(super) fn first_length(plan: &Plan) -> u64 {
    match plan.recipe.is_transport_stream() {
        true => length_bound(plan),
        false => PAGE + plan.identity.size + plan.identity.size / 8,
    }
}

/// Maximum bytes of an image by `plan`. For a transport stream: every packet is full and in its own train.
/// For tracks, samples may be so short that headers and records take more.
pub(super) fn length_bound(plan: &Plan) -> u64 {
    if !plan.recipe.is_transport_stream() {
        return plan.identity.size.saturating_add(MAX_SEGMENT_DATA.into()).saturating_mul(4);
    }
    let packet_size = u64::from(plan.recipe.packet_size());
    let packets = plan.identity.size.div_ceil(plan.recipe.payload_length() as u64).max(1);
    let data = packets * packet_size;
    let segments = data / (u64::from(MAX_SEGMENT_DATA) - packet_size) + 1;
    PAGE + data + packets * TRAIN_RECORD_LENGTH as u64 + segments * PAGE
}

/// Maximum bytes of an index by `plan` for an asset without gaps.
pub(super) fn index_length_bound(plan: &Plan) -> u64 {
    let segments = plan.identity.size / u64::from(MAX_SEGMENT_DATA) + 1;
    let packets = plan.identity.size / plan.recipe.payload_length() as u64 + 1;
    2 * PAGE + packets * TRAIN_RECORD_LENGTH as u64 + segments * PAGE
}

/// The store that requested the packing.
pub(super) trait PackingStore {
    /// Returns whether packing stops.
    fn stops(&self) -> bool;

    /// Makes room for `length` bytes of a draft.
    fn extend(&self, draft: &mut Draft, length: u64) -> Result<(), StoreError>;
}

/// A packing in progress.
pub(super) struct Packing {
    draft: Draft,
    packer: Box<dyn Pack>,
    /// Gone when all is packed.
    writer: Option<Writer>,
    /// Bytes that the file may have.
    length_bound: u64,
    /// Mark of the last fragment of a recording, or of the last bytes of a transport stream, as the packer read them.
    mark: Option<Mark>,
}

/// Result of a turn of packing.
pub(super) enum Turned {
    /// There is more to do.
    More,
    /// All that a recorder has written is packed.
    AllRecorded(Packed),
    /// Everything is packed, and the image can be published.
    Complete(image::Summary),
    /// Everything is packed, but the recording has changed after its end: the image is that of no version.
    Outdated(image::Summary),
}

impl Packing {
    /// Begins to pack into `draft`, which is removed on errors, for this generation of `image`. The image of a
    /// recording may become as long as the `budget` of the cache.
    pub(super) fn begin(
        draft: Draft,
        layout: Layout,
        asset: &Arc<File>,
        image: &Image,
        generation: u32,
        budget: u64,
    ) -> Result<Box<Packing>, StoreError> {
        let (plan, is_recorded) = (image.plan(), image.is_recorded());
        let length_bound = match is_recorded {
            true => length_bound(plan).max(budget.min(MAX_RECORDED_IMAGE)),
            false => length_bound(plan),
        };
        if !image.begin(generation, files(Arc::clone(draft.file()), layout, asset, plan, length_bound)?) {
            return Err(StoreError::Stopped);
        }
        let packer = if is_recorded { growing_packer(*plan) } else { packer(*plan) };
        let packer = packer.map_err(not_playable)?;
        let writer = Some(Writer::new(*plan, layout));
        Ok(Box::new(Packing { draft, packer, writer, length_bound, mark: None }))
    }

    /// Continues with a recording that has grown to `size` bytes.
    pub(super) fn grow(&mut self, size: u64) {
        self.packer.grow(size);
    }

    /// The same after nobody looked at the recording for a while.
    pub(super) fn grow_after_rest(&mut self, size: u64) {
        self.packer.grow_after_rest(size);
    }

    /// Continues with a recording that is finished.
    pub(super) fn end_growth(&mut self) {
        self.packer.end_growth();
    }

    /// Returns whether the last fragment, or before the first the description of the tracks, or the last bytes of a
    /// transport stream, are where they were: a file that was written anew has other bytes there.
    pub(super) fn has_same_bytes(&self, asset: &File) -> Result<bool, StoreError> {
        let Some(mark) = &self.mark else { return Ok(true) };
        Ok(mark.is_of(&read_at_most(asset, mark.extent.offset, mark.extent.length as usize)?))
    }

    /// Packs until a turn's time is over or another segment is ready. The image grows as segments are
    /// written. Ends early if the store stops it or the image started over meanwhile.
    pub(super) fn turn(
        &mut self,
        asset: &File,
        image: &Image,
        generation: u32,
        store: &impl PackingStore,
    ) -> Result<Turned, StoreError> {
        READER.with_borrow_mut(|reader| {
            reader.clear();
            self.turn_with(reader, asset, image, generation, store)
        })
    }

    fn turn_with(
        &mut self,
        reader: &mut AssetReader,
        asset: &File,
        image: &Image,
        generation: u32,
        store: &impl PackingStore,
    ) -> Result<Turned, StoreError> {
        let begun = Instant::now();
        if store.stops() {
            return Err(StoreError::Stopped);
        }
        loop {
            match self.packer.wanted() {
                Wanted::Bytes(extent) if AssetReader::is_long(extent) => {
                    let bytes = AssetReader::read_long(asset, extent).map_err(reading_on)?;
                    self.packer.take_owned(bytes).map_err(not_playable)?;
                }
                Wanted::Bytes(extent) => {
                    let bytes = reader.read(asset, extent).map_err(reading_on)?;
                    self.packer.take(bytes).map_err(not_playable)?;
                }
                Wanted::Nothing => {}
                Wanted::Growth(packed) => {
                    if image.segment_count() > MOST_RECORDED_SEGMENTS {
                        return Err(not_playable("it was recorded in too many fragments"));
                    }
                    self.mark = packed.fragments.mark;
                    image.note_packed(self.packer.packed_bytes());
                    return Ok(Turned::AllRecorded(packed));
                }
                Wanted::End => {
                    let end = self.packer.finish().map_err(not_playable)?;
                    self.write_segments(reader, asset, image, generation, store)?;
                    let (now, known) = (identity(asset)?, image.identity());
                    if now != known && !image.is_recorded() {
                        return Err(not_playable(CHANGED));
                    }
                    image.note_packed(self.packer.packed_bytes());
                    let Some(mut writer) = self.writer.take() else { return Err(StoreError::Stopped) };
                    writer.set_identity(known);
                    let summary = writer.finish(end);
                    return Ok(if now == known {
                        Turned::Complete(summary)
                    } else {
                        Turned::Outdated(summary)
                    });
                }
            }
            let wrote = self.write_segments(reader, asset, image, generation, store)?;
            if wrote || begun.elapsed() >= TURN {
                image.note_packed(self.packer.packed_bytes());
                return Ok(Turned::More);
            }
        }
    }

    /// Writes the segments that are ready; returns whether there were any.
    fn write_segments(
        &mut self,
        reader: &mut AssetReader,
        asset: &File,
        image: &Image,
        generation: u32,
        store: &impl PackingStore,
    ) -> Result<bool, StoreError> {
        let mut wrote = false;
        while let Some(segment) = self.packer.pop().map_err(not_playable)? {
            let Some(writer) = &mut self.writer else { break };
            wrote = true;
            let written = writer.add(&segment, |runs, payload| reader.read_payload(asset, runs, payload));
            let written = written.map_err(reading_on)?;
            // The index of a damaged asset contains packets itself, so it may become as long as an image.
            let end = written.entry.offset + written.bytes.len() as u64;
            if end > self.length_bound {
                return Err(not_playable("its samples are so short that its wire image is too long"));
            }
            store.extend(&mut self.draft, end)?;
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

/// Writes the table, then the header, and gives the image its name. Takes as long as syncing to the disk. On
/// errors the draft is removed.
pub(super) fn publish(draft: Draft, summary: image::Summary) -> Result<Summary, StoreError> {
    let table = summary.header.table;
    draft.file().write_all_at(&summary.table_bytes, table.offset).map_err(writing)?;
    draft.file().write_all_at(&summary.header.encode(), 0).map_err(writing)?;
    draft.publish(table.offset + table.length).map_err(writing)?;
    Ok(Summary::of(&summary.header, summary.table.description))
}

/// The files from which an image or an index is played that may still grow to `length` bytes.
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

/// Error for an asset that became shorter than it was.
fn reading_on(source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => not_playable(CHANGED),
        _ => reading(source),
    }
}

pub(super) fn reading(source: io::Error) -> StoreError {
    io_error("reading the asset", source)
}

pub(super) fn writing(source: io::Error) -> StoreError {
    io_error("writing the wire image", source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wirepath_media::image::{Identity, USUAL_BURST_US};

    /// Promise: Files that are too long for any image are refused without an overflow.
    #[test]
    fn endless_assets_are_refused() {
        let size = 1 << 62;
        let limits = PathLimits { payload: 1440, burst_us: USUAL_BURST_US };
        let identity = Identity { size, mtime_ns: 1, inode: 2, device: 3 };
        let streams = StreamPlan::transport_stream(1, 0, 0).into();
        let asset = tempfile::tempfile().unwrap();
        for recipe in [limits.tracks(), limits.demuxed(), limits.transport_stream()] {
            assert!(length_bound(&Plan { identity, recipe, streams }) > size);
            match examine(&asset, identity, recipe, &MemoryBudget::new(1 << 20), Follow::Growing) {
                Err(StoreError::NotPlayable(reason)) => assert!(reason.contains("are played"), "{reason}"),
                other => panic!("{:?}", other.map(|examined| examined.summary)),
            }
        }
    }
}
