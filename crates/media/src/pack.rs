//! Packing: turns a transport stream into the segments of a wire image or an index (RFC 2250, RFC 3551
//! section 5.7).
//!
//! Pure: the caller reads the asset and writes the file. Give a [`Packer`] the asset's bytes in any pieces,
//! take each segment as it comes out, have a [`Writer`](crate::image::Writer) lay it out and write its bytes
//! at its offset; then the table and, last of all, the header. Memory is bounded to a few megabytes: of
//! payload that waits for a clock reference only its place is kept, in so many pieces at most, and segments
//! are cut when they are taken.
//! ```
//! use wirepath_media::image::{
//!     self, Header, Identity, Layout, Plan, Recipe, Table, Writer, copy_payload,
//! };
//! use wirepath_media::pack::Packer;
//! use wirepath_media::ts::synthetic::Sample;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let asset = Sample::default().stream().bytes;
//! let plan = Plan {
//!     identity: Identity { size: asset.len() as u64, mtime_ns: 0, inode: 1, device: 1 },
//!     recipe: Recipe { ts_per_packet: 7, burst_us: 20_000 },
//!     ssrc: 1,
//!     sequence: 0,
//!     timestamp: 0,
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
mod payload_map;

use crate::image::{Description, End, NewSegment, Plan, PlanError};
use crate::ts::{Deframer, Event, NoClock, NotTransportStream, Packets, Survey, TICKS_PER_SECOND, Warnings};
use cutter::Cutter;
use payload_map::PayloadMap;

pub use estimate::{Estimate, estimate};

/// Longest input that is handled at once.
const PIECE_LENGTH: usize = 1 << 20;

/// Packs one asset.
#[derive(Debug)]
pub struct Packer {
    deframer: Deframer,
    packing: Packing,
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
}

impl Packer {
    /// A packer at the start of an asset.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.recipe.check()?;
        let packing = Packing {
            survey: Survey::new(),
            map: PayloadMap::default(),
            cutter: Cutter::new(plan),
            warnings: Warnings::default(),
        };
        Ok(Self { deframer: Deframer::new(), packing })
    }

    /// Takes the next bytes of the asset. Take the segments with [`Packer::pop`] after each call.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
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
        Ok(self.packing.cutter.finish(description))
    }

    /// Description of the asset, as far as it is known.
    pub fn description(&mut self) -> Description {
        let packing = &mut self.packing;
        packing.warnings.append(packing.survey.take_warnings());
        packing.warnings.sort();
        Description {
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
