//! Inspection of assets.

use std::convert::Infallible;

use super::{Examined, Report};
use crate::image::{Identity, Layout, Plan, PlanError, Recipe, StreamPlan, Writer};
use crate::pack::{Error, Packer};
use crate::ts::{Deframer, Event};

/// Inspector of an asset: examines it in the same way as packing.
/// ```
/// use wirepath_media::image::Recipe;
/// use wirepath_media::inspect::AssetInspector;
/// use wirepath_media::ts::synthetic::Sample;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut inspector = AssetInspector::new(Recipe::transport_stream(7, 20_000))?;
/// inspector.push(&Sample { packets: 2000, ..Sample::default() }.stream().bytes)?;
/// let report = inspector.finish()?;
/// assert_eq!(report.payload_bytes, 2000 * 188);
/// assert_eq!(report.description.programmes.len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AssetInspector {
    packer: Packer,
    writer: Writer,
    deframer: Deframer,
    examined: Examined,
}

impl AssetInspector {
    /// Inspector at the start of an asset. `recipe`: recipe for packing it.
    pub fn new(recipe: Recipe) -> Result<Self, PlanError> {
        let identity = Identity { size: 0, mtime_ns: 0, inode: 0, device: 0 };
        let plan = Plan { identity, recipe, streams: StreamPlan::transport_stream(0, 0, 0).into() };
        let (packer, writer) = (Packer::new(plan)?, Writer::new(plan, Layout::Index));
        Ok(Self { packer, writer, deframer: Deframer::new(), examined: Examined::default() })
    }

    /// Takes the next bytes of the asset.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut input = bytes;
        while let Some(event) = self.deframer.next(&mut input)? {
            if let Event::Packets(run) = event {
                self.examined.push_all(run.iter());
            }
        }
        self.packer.push(bytes)?;
        self.take_segments();
        Ok(())
    }

    /// Ends the asset, and returns the report.
    pub fn finish(mut self) -> Result<Report, Error> {
        while let Some(event) = self.deframer.finish()? {
            if let Event::Packets(run) = event {
                self.examined.push_all(run.iter());
            }
        }
        let end = self.packer.finish()?;
        self.take_segments();
        let summary = self.writer.finish(end);
        Ok(self.examined.report(&summary.header, &summary.table))
    }

    fn take_segments(&mut self) {
        while let Some(segment) = self.packer.pop() {
            segment.trains.iter().for_each(|train| self.examined.measures.take(train));
            // Only the table of the file is used, so payload is not read.
            let Ok(_) = self.writer.add(&segment, |_, _| Ok::<(), Infallible>(()));
        }
    }
}
