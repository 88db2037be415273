//! Packing: turns an asset into the segments of a wire image or an index. [`Packer`] packs a transport stream
//! (RFC 2250, RFC 3551 section 5.7), [`MoviePacker`] a movie. Both implement [`Pack`], which says which bytes
//! to read next.
//!
//! No I/O: the caller reads the asset and writes the file. Push the asset's bytes into a [`Packer`] in pieces
//! of any size, pop each finished segment, lay it out with a [`Writer`](crate::image::Writer) and write its
//! bytes at its offset; then write the table and, last of all, the header. Memory is bounded to a few
//! megabytes: payload that waits for a clock reference is kept as a limited number of file ranges, without
//! its bytes, and segments are cut when they are popped.
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
use crate::mp4::{Fragments, Mark};
use crate::track::Extent;
use crate::ts::{Deframer, Event, NoClock, NotTransportStream, Packets, Survey, TICKS_PER_SECOND, Warnings};
use cutter::Cutter;
use payload_map::PayloadMap;

pub use estimate::{Estimate, estimate};
pub use movie::{MoviePacker, NoTrack, PlayableMovie};

/// Longest piece of input that is processed at once.
const PIECE_LENGTH: usize = 1 << 20;

/// Bytes of a transport stream that are requested at a time, and the smaller number until the first segment
/// is complete, because a client may wait for it.
const WANTED_LENGTH: u64 = 1 << 18;
const FIRST_WANTED_LENGTH: u64 = 1 << 16;

/// Packer of an asset: requests bytes of the asset, takes them, and returns segments.
pub trait Pack: Send {
    /// Bytes to pass to the next [`Pack::take`].
    fn wanted(&self) -> Wanted;

    /// Takes the requested bytes. Call [`Pack::pop`] after each call until there are no more segments.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error>;

    /// Takes the requested bytes as a buffer, which is kept without a copy if the packer has to keep it. Use
    /// it for long buffers.
    fn take_owned(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.take(&bytes)
    }

    /// Removes and returns the next complete segment, if any.
    fn pop(&mut self) -> Result<Option<NewSegment>, Error>;

    /// Continues after [`Wanted::Growth`]: the asset has this length now. Trains and their numbers are the same as
    /// those of the finished asset; only segments may end earlier.
    fn grow(&mut self, _size: u64) {}

    /// The same for an asset that was not looked at for a while: what is found now was not written together.
    fn grow_after_rest(&mut self, size: u64) {
        self.grow(size);
    }

    /// Continues after [`Wanted::Growth`]: the asset is finished.
    fn end_growth(&mut self) {}

    /// Bytes of the asset that are in segments or about to be.
    fn packed_bytes(&self) -> u64;

    /// Bytes of heap memory that the packer holds.
    fn held_bytes(&self) -> usize;

    /// Ends the asset, once no more bytes are wanted. The last segments can be popped afterwards.
    fn finish(&mut self) -> Result<End, Error>;
}

/// Bytes that a packer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This range of the asset, which is not empty.
    Bytes(Extent),
    /// No bytes now: call [`Pack::pop`] to continue.
    Nothing,
    /// No bytes before the asset has grown: call [`Pack::grow`] or [`Pack::end_growth`] to continue. Everything that
    /// can be packed is in segments.
    Growth(Packed),
    /// No more bytes: the asset is read to its end.
    End,
}

/// Packed part of an asset that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Departure of the last train in microseconds.
    pub until_us: u64,
    /// Fragments that were read; of a transport stream, the parts that were found together.
    pub fragments: Fragments,
}

/// Returns the packer for the payload of a plan.
pub fn packer(plan: Plan) -> Result<Box<dyn Pack>, PlanError> {
    Ok(match plan.recipe.payload {
        PayloadRecipe::TransportStream { .. } => Box::new(Packer::new(plan)?),
        PayloadRecipe::Tracks { .. } => Box::new(MoviePacker::new(plan)?),
    })
}

/// Returns the packer for the payload of a plan of an asset that may still grow. Only transport streams, as they are
/// stored, and fragmented MP4 files grow.
pub fn growing_packer(plan: Plan) -> Result<Box<dyn Pack>, PlanError> {
    Ok(match plan.recipe.payload {
        PayloadRecipe::TransportStream { .. } => Box::new(Packer::growing(plan)?),
        PayloadRecipe::Tracks { .. } => Box::new(MoviePacker::growing(plan)?),
    })
}

/// Packs one transport stream.
#[derive(Debug)]
pub struct Packer {
    deframer: Deframer,
    packing: Packing,
    /// Length of the asset.
    size: u64,
    /// Bytes of the asset that were pushed.
    pushed: u64,
    /// True after the first segment.
    has_segment: bool,
    /// Present while the asset may grow.
    growth: Option<Growth>,
}

/// Growth of an asset.
#[derive(Debug, Default)]
struct Growth {
    /// Mark of the bytes that were pushed last.
    mark: Option<Mark>,
    /// Departure of the last train before the asset grew last, in microseconds; none if that was not written together.
    begin_us: Option<u64>,
    /// Longest part that was found together, except the first one, in microseconds.
    longest_us: u64,
}

impl Growth {
    /// Length of the part that was found last, whose last train departs at this time; that of the longest one before if
    /// it is not known.
    fn last_us(&self, until_us: u64) -> u64 {
        self.begin_us.map_or(self.longest_us, |begin_us| until_us.saturating_sub(begin_us))
    }

    /// All that the asset has is packed, up to a train that departs at this time.
    fn packed(&self, until_us: u64) -> Packed {
        let last_us = self.last_us(until_us);
        let longest_us = self.longest_us.max(last_us);
        Packed { until_us, fragments: Fragments { last: None, mark: self.mark, last_us, longest_us } }
    }
}

/// Error of an asset that cannot be packed.
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
    /// File that is neither an MP4 nor a Matroska file.
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
    /// A movie whose tracks differ from those of the plan.
    #[error("the tracks of this file have changed")]
    OtherTracks,
}

impl Pack for Packer {
    fn wanted(&self) -> Wanted {
        let most = if self.has_segment { WANTED_LENGTH } else { FIRST_WANTED_LENGTH };
        match (self.size.saturating_sub(self.pushed), &self.growth) {
            (0, Some(growth)) => Wanted::Growth(growth.packed(self.packing.cutter.until_us())),
            (0, None) => Wanted::End,
            (left, _) => Wanted::Bytes(Extent { offset: self.pushed, length: left.min(most) }),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.push(bytes)
    }

    fn pop(&mut self) -> Result<Option<NewSegment>, Error> {
        Ok(Self::pop(self))
    }

    fn grow(&mut self, size: u64) {
        let until_us = self.packing.cutter.until_us();
        if let Some(growth) = self.growth.as_mut().filter(|_| size > self.size) {
            growth.longest_us = growth.longest_us.max(growth.last_us(until_us));
            growth.begin_us = Some(until_us);
            self.size = size;
        }
    }

    fn grow_after_rest(&mut self, size: u64) {
        self.grow(size);
        if let Some(growth) = &mut self.growth {
            growth.begin_us = None;
        }
    }

    fn end_growth(&mut self) {
        self.growth = None;
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
    /// Packer at the start of an asset.
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
        Ok(Self { deframer: Deframer::new(), packing, size, pushed: 0, has_segment: false, growth: None })
    }

    /// Packer at the start of an asset to which a recorder may still append. The plan has the length that the asset
    /// has so far.
    pub fn growing(plan: Plan) -> Result<Self, PlanError> {
        Ok(Self { growth: Some(Growth::default()), ..Self::new(plan)? })
    }

    /// Takes the next bytes of the asset. Call [`Packer::pop`] after each call until there are no more
    /// segments.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if let Some(growth) = &mut self.growth {
            growth.mark = Some(Mark::of_last(bytes, self.pushed));
        }
        self.pushed += bytes.len() as u64;
        for mut piece in bytes.chunks(PIECE_LENGTH) {
            while let Some(event) = self.deframer.next(&mut piece)? {
                self.packing.take(event)?;
            }
            self.packing.note_timed();
        }
        Ok(())
    }

    /// Removes and returns the next finished segment. Segments are cut one at a time, because a long stretch
    /// without a clock reference leaves many of them to cut.
    pub fn pop(&mut self) -> Option<NewSegment> {
        let Packing { cutter, map, .. } = &mut self.packing;
        let is_at_edge = self.growth.is_some() && self.pushed >= self.size;
        let segment = match cutter.cut(map) {
            None if is_at_edge => cutter.cut_early(map),
            segment => segment,
        };
        if segment.is_none() {
            self.packing.shrink();
        }
        self.has_segment |= segment.is_some();
        segment
    }

    /// Bytes of heap memory that the packer holds: at most a few megabytes for any asset, once there is no
    /// segment to pop.
    pub fn held_bytes(&self) -> usize {
        let Packing { survey, map, cutter, .. } = &self.packing;
        survey.held_bytes() + map.held_bytes() + cutter.held_bytes()
    }

    /// Ends the asset. The last segments can be popped afterwards with [`Packer::pop`].
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

    /// Passes new random access points and timed stretches to the cutter.
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

/// Converts ticks of 27 MHz to microseconds, rounded down.
fn microseconds(ticks: u64) -> u64 {
    ticks / (TICKS_PER_SECOND / 1_000_000)
}

#[cfg(test)]
mod growth_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
