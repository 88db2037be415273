//! Complete images and their copies.

use std::io;
use std::sync::Arc;

use wirepath_datapath::interleaved::FRAMING_LENGTH;
use wirepath_datapath::{CopyLayout, MappedFile, Region};
use wirepath_media::image::{SegmentEntry, TrainRecord};

use crate::images::image::{Image, WholeImage};
use crate::images::read::ReadImageError;
use crate::images::segment::from_image;

/// A complete image, to be copied in a layout.
pub(super) struct CompleteImage {
    /// Dropped before the image, whose file is closed on another thread.
    pub(super) mapped_file: Arc<MappedFile>,
    pub(super) image: Arc<Image>,
    pub(super) layout: CopyLayout,
    /// Bytes and packets of the image.
    stored_length: u64,
    packets: u64,
    /// Bytes of the copy.
    pub(super) length: u64,
}

impl CompleteImage {
    /// An image, if it is complete and not empty.
    pub(super) fn of(image: Arc<Image>, layout: CopyLayout) -> Option<CompleteImage> {
        let WholeImage { mapped_file, length: stored_length, packets } = image.whole()?;
        let framing = match layout {
            CopyLayout::Packets => 0,
            CopyLayout::Frames => FRAMING_LENGTH as u64 * packets,
        };
        let length = stored_length + framing;
        Some(CompleteImage { mapped_file, image, layout, stored_length, packets, length })
    }

    /// Copies all segments, each verified as before it is sent from the file. If the image starts over
    /// meanwhile, the copy belongs to an older generation and is released.
    pub(super) fn copy(&self) -> Result<Region, ReadImageError> {
        match self.layout {
            CopyLayout::Packets => self.copy_packets(),
            CopyLayout::Frames => self.copy_frames(),
        }
    }

    fn copy_packets(&self) -> Result<Region, ReadImageError> {
        self.mapped_file.copy(self.stored_length, |bytes| {
            for (entry, until_us) in self.segments() {
                let range = entry.offset as usize..(entry.offset + entry.length()) as usize;
                let segment =
                    bytes.get(range).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
                self.trains(&entry, until_us, segment)?;
            }
            Ok(())
        })
    }

    fn copy_frames(&self) -> Result<Region, ReadImageError> {
        self.mapped_file.copy_framed(self.stored_length, self.packets, |copy| {
            for (entry, until_us) in self.segments() {
                let segment = copy.read(entry.offset..entry.offset + entry.length())?;
                let trains = self.trains(&entry, until_us, segment)?;
                for departure in from_image(self.image.plan(), &entry, &trains) {
                    copy.add(&departure.train)?;
                }
            }
            Ok(())
        })
    }

    /// All segments, each with the time until which its trains depart.
    fn segments(&self) -> impl Iterator<Item = (SegmentEntry, u64)> {
        let segments = self.image.segments();
        let ends: Vec<u64> = segments.iter().skip(1).map(|next| next.first_departure_us).collect();
        segments.into_iter().zip(ends.into_iter().chain([u64::MAX]))
    }

    /// The verified trains of a segment.
    fn trains(
        &self,
        entry: &SegmentEntry,
        until_us: u64,
        segment: &[u8],
    ) -> Result<Vec<TrainRecord>, ReadImageError> {
        let trains = entry.trains(self.image.plan(), until_us, segment);
        trains.map_err(|error| ReadImageError::Format(entry.offset, error))
    }
}
