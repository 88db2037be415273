//! Packing: turns an asset into the segments of a wire image or an index: a transport stream (RFC 2250, RFC 3551
//! section 5.7) by [`Packer`], a movie by [`MoviePacker`]. Both are a [`Pack`], which says what it wants to read.
//!
//! Pure: the caller reads the asset and writes the file. Give a [`Packer`] the asset's bytes in any pieces,
//! take each segment as it comes out, have a [`Writer`](crate::image::Writer) lay it out and write its bytes
//! at its offset; then the table and, last of all, the header. Memory is bounded to a few megabytes: of
//! payload that waits for a clock reference only its place is kept, in so many pieces at most, and segments
//! are cut when they are taken.
//! ```
//! use wirepath_media::image::{
//!     self, Header, Identity, Layout, Plan, Recipe, StreamPlan, Table, Writer, copy_payload,
//! };
//! use wirepath_media::pack::Packer;
//! use wirepath_media::ts::synthetic::Sample;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let asset = Sample::default().stream().bytes;
//! let plan = Plan {
//!     identity: Identity { size: asset.len() as u64, mtime_ns: 0, inode: 1, device: 1 },
//!     recipe: Recipe::transport_stream(7, 20_000),
//!     streams: StreamPlan::transport_stream(1, 0, 0).into(),
//! };
//! let mut packer = Packer::new(plan)?;
//! packer.push(&asset)?;
//! let end = packer.finish()?;
//!
//! let (mut file, mut writer) = (vec![0; image::PAGE as usize], Writer::new(plan, Layout::Image));
//! while let Some(segment) = packer.pop() {
//!     file.extend(writer.add(&segment, copy_payload(&asset))?.bytes);
//! }
//! let summary = writer.finish(end);
//! file.extend(summary.table_bytes);
//! file[..image::PAGE as usize].copy_from_slice(&summary.header.encode());
//!
//! // The same file, read back and checked.
//! let header = Header::decode(&file[..image::PAGE as usize], file.len() as u64)?;
//! let table = Table::decode(&file[header.table.offset as usize..], &header)?;
//! let segment = &table.segments[0];
//! let bytes = &file[segment.offset as usize..][..segment.length() as usize];
//! let trains = segment.trains(&header.plan, table.until_us(0, &header), bytes)?;
//! assert_eq!(trains[0].packet_size, 12 + 7 * 188);
//! # Ok(())
//! # }
//! ```

mod cutter;
mod estimate;
mod movie;
mod payload_map;

use crate::container;
use crate::image::{
    Description, End, NewSegment, PayloadRecipe, Plan, PlanError, TransportStreamDescription,
};
use crate::track::Extent;
use crate::ts::{Deframer, Event, NoClock, NotTransportStream, Packets, Survey, TICKS_PER_SECOND, Warnings};
use cutter::Cutter;
use payload_map::PayloadMap;

pub use estimate::{Estimate, estimate};
pub use movie::{MoviePacker, NoTrack, PlayableMovie};

/// Longest input that is handled at once.
const PIECE_LENGTH: usize = 1 << 20;

/// Bytes of a transport stream that are wanted at a time, and those until there is a first segment, for which
/// somebody waits.
const WANTED_LENGTH: u64 = 1 << 18;
const FIRST_WANTED_LENGTH: u64 = 1 << 16;

/// Packer of an asset: says which bytes of it are wanted, takes them, and gives segments.
pub trait Pack: Send {
    /// Bytes that are wanted next.
    fn wanted(&self) -> Wanted;

    /// Takes the bytes that were wanted; take segments with [`Pack::pop`] after each call.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// The same, with bytes that are kept without a copy where they are kept at all: for long ones.
    fn take_owned(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.take(&bytes)
    }

    /// The next segment, if it is there.
    fn pop(&mut self) -> Result<Option<NewSegment>, Error>;

    /// Bytes of the asset that are packed, or are on their way into segments.
    fn packed_bytes(&self) -> u64;

    /// Bytes of memory that it holds beside itself.
    fn held_bytes(&self) -> usize;

    /// Ends the asset, of which no more bytes are wanted: the last segments can be taken then.
    fn finish(&mut self) -> Result<End, Error>;
}

/// Bytes that a packer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These, at least one.
    Bytes(Extent),
    /// None: [`Pack::pop`] goes on without.
    Nothing,
    /// None any more.
    End,
}

/// A packer for a plan.
pub fn packer(plan: Plan) -> Result<Box<dyn Pack>, PlanError> {
    Ok(match plan.recipe.payload {
        PayloadRecipe::TransportStream { .. } => Box::new(Packer::new(plan)?),
        PayloadRecipe::Tracks { .. } => Box::new(MoviePacker::new(plan)?),
    })
}

/// Packs one transport stream.
#[derive(Debug)]
pub struct Packer {
    deframer: Deframer,
    packing: Packing,
    /// Length of the asset.
    size: u64,
    /// Bytes of it that were pushed.
    pushed: u64,
    /// True after the first segment.
    has_segment: bool,
}

/// Fault of an asset that cannot be packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a transport stream.
    #[error(transparent)]
    NotTransportStream(#[from] NotTransportStream),
    /// No clock.
    #[error(transparent)]
    NoClock(#[from] NoClock),
    /// Not a movie that can be read.
    #[error(transparent)]
    Container(#[from] container::Error),
    /// Another kind of file.
    #[error("neither an MP4 nor a Matroska file")]
    NotMovie,
    /// A movie without a track that can be played.
    #[error(transparent)]
    NoTrack(#[from] NoTrack),
    /// A movie without samples.
    #[error("no samples in the tracks of this file that can be played")]
    NothingPlayable,
    /// Samples at impossible times.
    #[error("track {track} has samples more than ten years after its beginning")]
    Times {
        /// Identifier of the track.
        track: u32,
    },
    /// A movie with other tracks than those of the plan.
    #[error("the tracks of this file have changed")]
    OtherTracks,
}

impl Pack for Packer {
    fn wanted(&self) -> Wanted {
        let most = if self.has_segment { WANTED_LENGTH } else { FIRST_WANTED_LENGTH };
        match self.size.saturating_sub(self.pushed) {
            0 => Wanted::End,
            left => Wanted::Bytes(Extent { offset: self.pushed, length: left.min(most) }),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.push(bytes)
    }

    fn pop(&mut self) -> Result<Option<NewSegment>, Error> {
        Ok(Self::pop(self))
    }

    fn packed_bytes(&self) -> u64 {
        self.pushed
    }

    fn held_bytes(&self) -> usize {
        Self::held_bytes(self)
    }

    fn finish(&mut self) -> Result<End, Error> {
        Self::finish(self)
    }
}

impl Packer {
    /// A packer at the start of an asset.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.recipe.check()?;
        let PayloadRecipe::TransportStream { ts_per_packet } = plan.recipe.payload else {
            return Err(PlanError::Kind);
        };
        let packing = Packing {
            survey: Survey::new(),
            map: PayloadMap::default(),
            cutter: Cutter::new(plan, ts_per_packet),
            warnings: Warnings::default(),
        };
        let size = plan.identity.size;
        Ok(Self { deframer: Deframer::new(), packing, size, pushed: 0, has_segment: false })
    }

    /// Takes the next bytes of the asset. Take the segments with [`Packer::pop`] after each call.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.pushed += bytes.len() as u64;
        for mut piece in bytes.chunks(PIECE_LENGTH) {
            while let Some(event) = self.deframer.next(&mut piece)? {
                self.packing.take(event)?;
            }
            self.packing.note_timed();
        }
        Ok(())
    }

    /// The next finished segment. Segments are cut one at a time: after a long stretch without a clock
    /// reference there are many.
    pub fn pop(&mut self) -> Option<NewSegment> {
        let segment = self.packing.cutter.cut(&mut self.packing.map);
        if segment.is_none() {
            self.packing.shrink();
        }
        self.has_segment |= segment.is_some();
        segment
    }

    /// Bytes of memory that the packer holds beside itself; a few megabytes at most, whatever the asset is,
    /// once there is no segment to pop.
    pub fn held_bytes(&self) -> usize {
        let Packing { survey, map, cutter, .. } = &self.packing;
        survey.held_bytes() + map.held_bytes() + cutter.held_bytes()
    }

    /// Ends the asset: the last segments can be taken with [`Packer::pop`] then.
    pub fn finish(&mut self) -> Result<End, Error> {
        while let Some(event) = self.deframer.finish()? {
            self.packing.take(event)?;
        }
        self.packing.survey.finish()?;
        self.packing.note_timed();
        let description = self.description();
        Ok(self.packing.cutter.finish(Description::TransportStream(description)))
    }

    /// Description of the asset, as far as it is known.
    pub fn description(&mut self) -> TransportStreamDescription {
        let packing = &mut self.packing;
        packing.warnings.append(packing.survey.take_warnings());
        packing.warnings.sort();
        TransportStreamDescription {
            stride: self.deframer.framing().map_or(0, |framing| framing.stride() as u16),
            programmes: packing.survey.programmes(),
            played: packing.survey.played(),
            warnings: packing.warnings.clone(),
        }
    }
}

#[derive(Debug)]
struct Packing {
    survey: Survey,
    map: PayloadMap,
    cutter: Cutter,
    warnings: Warnings,
}

impl Packing {
    fn take(&mut self, event: Event<'_>) -> Result<(), Error> {
        match event {
            Event::Packets(run) => Ok(self.packets(&run)?),
            Event::Warning(warning) => {
                self.warnings.push(warning);
                Ok(())
            }
        }
    }

    fn packets(&mut self, run: &Packets<'_>) -> Result<(), NoClock> {
        self.survey.push(run)?;
        self.map.append(run);
        Ok(())
    }

    /// Tells the cutter what is timed by now.
    fn note_timed(&mut self) {
        while let Some(start) = self.survey.next_start() {
            self.cutter.add_start(start);
        }
        while let Some(stretch) = self.survey.next_stretch() {
            self.cutter.add_stretch(stretch);
        }
    }

    fn shrink(&mut self) {
        self.survey.shrink();
        self.map.shrink();
        self.cutter.shrink();
    }
}

/// Ticks of 27 MHz in microseconds, rounded down.
fn microseconds(ticks: u64) -> u64 {
    ticks / (TICKS_PER_SECOND / 1_000_000)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
