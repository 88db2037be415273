//! Makes images in the background, of assets that are played from their index.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use wirepath_datapath::MappedFile;
use wirepath_media::image::{
    End, Layout, NewSegment, PAGE, PacketRun, PayloadRun, Start, Writer, WrittenSegment, padded,
};
use wirepath_media::ts::PACKET_LENGTH;

use super::{ImagePolicy, Store};
use crate::images::asset_reader::AssetReader;
use crate::images::error::{StoreError, identity, io_error};
use crate::images::image::{Image, WholeIndex};
use crate::images::image_folder::Draft;
use crate::images::key::Key;
use crate::images::packing::{self, writing};
use crate::images::segment::bytes;
use crate::thread_time::thread_time;

/// Interval of looking for an asset to make an image of.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time after which a failed attempt to make an image is repeated.
const RETRY: Duration = Duration::from_secs(600);

/// Longest wait before each segment of an image for packings that playbacks need.
const LONGEST_YIELD: Duration = Duration::from_secs(1);

/// Interval of checking for the end of these packings.
const YIELD: Duration = Duration::from_millis(10);

/// Processor time in nanoseconds for making a packet of an image, until it was measured.
const USUAL_COST_NS: f64 = 2000.0;

/// Factor for the cost of the disk and of writing to it, which is not part of a thread's time: as much again.
const COST_FACTOR: f64 = 2.0;

/// Number of plays that pay for an image, without measurements.
const USUAL_PLAYS: f64 = 20.0;

/// Costs and failures so far.
#[derive(Default)]
pub(super) struct Making {
    /// Measured cost of making a packet, in nanoseconds.
    cost_ns: Mutex<Option<f64>>,
    /// Images that could not be made or were found damaged, with the time.
    failed: Mutex<Vec<(Weak<Image>, Instant)>>,
}

impl Making {
    /// Has no image made for a while.
    pub(super) fn decline(&self, image: &Arc<Image>) {
        self.failed.lock().push((Arc::downgrade(image), Instant::now()));
    }
}

/// Starts the thread that makes images; it ends with the store.
pub(super) fn start(store: &Arc<Store>) -> io::Result<()> {
    let store = Arc::downgrade(store);
    thread::Builder::new().name("maker".to_owned()).spawn(move || run(&store)).map(drop)
}

fn run(store: &Weak<Store>) {
    if let Err(errno) = rustix::process::nice(10) {
        // On Linux, this affects the calling thread only.
        tracing::warn!(%errno, "nice(10) failed for a background thread");
    }
    while let Some(there) = store.upgrade() {
        if there.stop.load(Relaxed) {
            return;
        }
        let made = there.make_next();
        drop(there);
        if !made {
            thread::sleep(INTERVAL);
        }
    }
}

impl Store {
    /// Makes the image with the most demand; returns whether there was one.
    fn make_next(&self) -> bool {
        let Some((image, index)) = self.next_to_make() else { return false };
        let begun = thread_time();
        match self.make(&image, &index) {
            Ok(()) => {
                let packets: u64 = index.segments.iter().map(|entry| u64::from(entry.packets)).sum();
                let cost_ns = (thread_time() - begun).as_nanos() as f64 / packets.max(1) as f64;
                *self.making.cost_ns.lock() = Some(cost_ns);
                self.counters.packed.increment();
                tracing::info!(asset = image.name(), "made a wire image; playbacks move to it");
            }
            Err(StoreError::Stopped) => {}
            Err(error) => {
                let asset = image.name();
                tracing::warn!(asset, %error, "making a wire image failed: the asset is played without");
                self.counters.failed.increment();
                self.making.decline(&image);
            }
        }
        true
    }

    /// The open image with the most plays from the asset itself, relative to its length, if an image of it
    /// pays off.
    pub(in crate::images) fn next_to_make(&self) -> Option<(Arc<Image>, WholeIndex)> {
        let plays = self.plays_that_pay()?;
        let mut failed = self.making.failed.lock();
        failed.retain(|(image, at)| image.strong_count() > 0 && at.elapsed() < RETRY);
        let has_failed =
            |image: &Arc<Image>| failed.iter().any(|(failed, _)| std::ptr::eq(failed.as_ptr(), &**image));
        let played =
            |image: &Arc<Image>| image.asset_bytes_played() as f64 / image.plan().identity.size.max(1) as f64;
        let images = self.open_images().into_iter().filter(|image| !has_failed(image));
        let wanted =
            images.filter(|image| image.has_whole_index() && played(image) > 0.0 && played(image) >= plays);
        let most = wanted.max_by(|one, other| played(one).total_cmp(&played(other)))?;
        most.whole_index().map(|index| (most, index))
    }

    /// Number of plays after which the cost of playing without an image exceeds the cost of making one; none
    /// if no number does.
    fn plays_that_pay(&self) -> Option<f64> {
        match (self.options.images, (self.options.saved_ns_per_packet)()) {
            (ImagePolicy::All, _) => Some(0.0),
            (_, None) => Some(USUAL_PLAYS),
            (_, Some(saved_ns)) if saved_ns <= 0.0 => None,
            (_, Some(saved_ns)) => {
                Some(COST_FACTOR * self.making.cost_ns.lock().unwrap_or(USUAL_COST_NS) / saved_ns)
            }
        }
    }

    /// Makes an image by an index.
    fn make(&self, image: &Arc<Image>, index: &WholeIndex) -> Result<(), StoreError> {
        let plan = image.plan();
        let key = Key::of(plan.identity, plan.recipe);
        let length = PAGE
            + index
                .segments
                .iter()
                .map(|entry| padded(entry.length() + u64::from(entry.data_length)))
                .sum::<u64>()
            + padded(index.files.stored.file().metadata().map_or(0, |facts| facts.len()));
        let draft = self.with_room(|| self.folder.begin(&key.name(), length))?;
        self.write(draft, image, index).map_err(|error| self.name_full_disk(error, length))
    }

    /// Writes an image into `draft`, publishes it, and moves the index's playbacks to it.
    fn write(&self, draft: Draft, image: &Arc<Image>, index: &WholeIndex) -> Result<(), StoreError> {
        let plan = image.plan();
        let mut writer = Writer::new(*plan, Layout::Image);
        let mut entries = Vec::with_capacity(index.segments.len());
        let mut pace = WritePace::new(self.options.image_bytes_per_second, Instant::now());
        for number in 0..index.segments.len() {
            self.yield_to_playbacks();
            if self.stop.load(Relaxed) || Arc::strong_count(image) == 1 {
                return Err(StoreError::Stopped);
            }
            let written = index.segment(number, image, &mut writer)?;
            draft.file().write_all_at(&written.bytes, written.entry.offset).map_err(writing)?;
            entries.push(written.entry);
            thread::sleep(pace.note_written(written.bytes.len() as u64, Instant::now()));
            if let (Some(offset), Some(asset)) = (index.segments[number].asset_offset, &index.files.asset) {
                let length = index.segments[number].payload_length();
                self.page_memory.note_packed(asset, offset..offset + length);
            }
        }
        let asset = index.asset()?;
        if identity(asset)? != plan.identity {
            return Err(StoreError::NotPlayable("the asset was changed".to_owned()));
        }
        let file = Arc::clone(draft.file());
        let end = writer.finish(index.end());
        let table_offset = end.header.table.offset;
        packing::publish(draft, end)?;
        let mapped_file = MappedFile::new(file, table_offset);
        let mapped_file = mapped_file.map_err(|source| io_error("mapping the wire image", source))?;
        image.adopt(index.generation, Arc::new(mapped_file), &entries);
        Ok(())
    }

    /// Waits while assets are packed for playbacks.
    fn yield_to_playbacks(&self) {
        let begun = Instant::now();
        while !self.packers.is_idle() && begun.elapsed() < LONGEST_YIELD && !self.stop.load(Relaxed) {
            thread::sleep(YIELD);
        }
    }
}

/// Pace of writing an image. Time without writes is not saved up for a later burst.
struct WritePace {
    bytes_per_second: u64,
    /// Time from which the next write counts: the end of the last write's pause.
    from: Instant,
}

impl WritePace {
    fn new(bytes_per_second: u64, now: Instant) -> WritePace {
        WritePace { bytes_per_second: bytes_per_second.max(1), from: now }
    }

    /// Notes a finished write; returns the pause after it.
    fn note_written(&mut self, bytes: u64, now: Instant) -> Duration {
        let due = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let pause = due.saturating_sub(now.saturating_duration_since(self.from));
        self.from = now + pause;
        pause
    }
}

impl WholeIndex {
    fn asset(&self) -> Result<&File, StoreError> {
        let asset = self.files.asset.as_ref().ok_or(StoreError::Stopped)?;
        Ok(asset.file())
    }

    fn end(&self) -> End {
        let duration_us = self.summary.duration_us.unwrap_or_default();
        End { duration_us, description: self.summary.description.clone() }
    }

    /// Reads a segment and its payload from the asset, in the form of a segment of an image.
    fn segment(
        &self,
        number: usize,
        image: &Image,
        writer: &mut Writer,
    ) -> Result<WrittenSegment, StoreError> {
        let (plan, entry) = (image.plan(), self.segments[number]);
        let reading = |source| io_error("reading the index", source);
        let stored =
            bytes(self.files.stored.file(), entry.offset, entry.length() as usize).map_err(reading)?;
        let trains = entry
            .trains(plan, u64::MAX, &stored)
            .map_err(|error| reading(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let starts = self.starts_of(number as u32);
        let Some(offset) = entry.asset_offset else {
            return Ok(writer.add_stored(entry, stored, starts));
        };
        let packets = entry.payload_length() / PACKET_LENGTH as u64;
        let payload = vec![PayloadRun::Packets(PacketRun { offset, stride: PACKET_LENGTH as u16, packets })];
        let starts = starts.to_vec();
        let segment = NewSegment { first_packet: entry.first_packet, trains, starts, payload };
        let asset = self.asset()?;
        writer.add(&segment, |runs, payload| {
            AssetReader::default().read_payload(asset, runs, payload).map_err(packing::reading)
        })
    }

    /// Random access points of a segment.
    fn starts_of(&self, segment: u32) -> &[Start] {
        let first = self.starts.partition_point(|start| start.segment < segment);
        let end = self.starts.partition_point(|start| start.segment <= segment);
        &self.starts[first..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: Images are written at `--image-rate` at most, also after a wait for playbacks.
    #[test]
    fn time_without_a_write_is_no_credit() {
        let begun = Instant::now();
        let after = |ms| begun + Duration::from_millis(ms);
        let mut pace = WritePace::new(1000, begun);
        assert_eq!(pace.note_written(100, after(30)), Duration::from_millis(70));
        // The pause lasts until 100 ms. The next segment comes after a wait of two seconds.
        assert_eq!(pace.note_written(100, after(2100)), Duration::ZERO);
        assert_eq!(pace.note_written(100, after(2101)), Duration::from_millis(99));
    }
}
