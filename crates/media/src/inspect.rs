//! What is in an asset or an image, for `wirepath inspect`: duration, programmes, PIDs, bit rate over time,
//! trains and random access points.

mod bit_rate;
mod pids;

use serde::Serialize;

use crate::image::{Description, Header, Identity, MAX_TRAIN_PACKETS, Plan, PlanError, Recipe, Table, Train};
use crate::pack::{Error, PackedSegment, Packer};
use crate::ts::{Deframer, Event};

pub use bit_rate::BitRate;
use pids::PidCounters;
pub use pids::PidReport;

/// Everything there is to say about an asset or an image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What is in it, and what is wrong with it.
    pub description: Description,
    /// Bytes of transport stream packets.
    pub payload_bytes: u64,
    /// RTP packets.
    pub packets: u64,
    /// Duration in microseconds.
    pub duration_us: u64,
    /// The PIDs in ascending order; `None` for an image, of which only header and table were read.
    pub pids: Option<Vec<PidReport>>,
    /// Bit rate over time.
    pub bit_rate: BitRate,
    /// The trains.
    pub trains: TrainReport,
    /// Media times at which a decoder can start, in microseconds.
    pub starts_us: Vec<u64>,
}

/// The trains of an asset or an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TrainReport {
    /// How many there are.
    pub count: u64,
    /// How many have so many packets: index 0 counts the trains of one packet. `None` where the records were not read.
    pub by_packets: Option<Vec<u64>>,
    /// How many start at a discontinuity of the clock; `None` where the records were not read.
    pub discontinuities: Option<u64>,
}

impl Report {
    /// Mean bit rate in bits per second; `None` for a duration of 0.
    pub fn mean_bits_per_second(&self) -> Option<u64> {
        let bits = u128::from(self.payload_bytes) * 8_000_000;
        bits.checked_div(u128::from(self.duration_us)).and_then(|rate| u64::try_from(rate).ok())
    }

    /// What header and table of an image tell. Trains are counted but not measured; the bit rate is that of segments.
    pub fn of_image(header: &Header, table: &Table) -> Self {
        let mut bit_rate = BitRate::default();
        for (index, entry) in table.segments.iter().enumerate() {
            bit_rate.spread(
                entry.first_departure_us,
                table.until_us(index, header),
                entry.data_length.into(),
            );
        }
        let count = table.segments.iter().map(|entry| u64::from(entry.records)).sum();
        Self {
            description: table.description.clone(),
            payload_bytes: header.payload_bytes,
            packets: header.packets,
            duration_us: header.duration_us,
            pids: None,
            bit_rate,
            trains: TrainReport { count, ..TrainReport::default() },
            starts_us: table.starts.iter().map(|start| start.departure_us).collect(),
        }
    }
}

/// Examines an asset as packing would see it.
#[derive(Debug)]
pub struct Inspector {
    plan: Plan,
    packer: Packer,
    deframer: Deframer,
    pids: PidCounters,
    bit_rate: BitRate,
    count: u64,
    by_packets: Vec<u64>,
    discontinuities: u64,
}

impl Inspector {
    /// An inspector at the start of an asset, which would be packed by `recipe`.
    ///
    /// # Errors
    /// [`PlanError`] where the recipe is out of range.
    pub fn new(recipe: Recipe) -> Result<Self, PlanError> {
        let identity = Identity { size: 0, mtime_ns: 0, inode: 0, device: 0 };
        let plan = Plan { identity, recipe, ssrc: 0, sequence: 0, timestamp: 0 };
        Ok(Self {
            plan,
            packer: Packer::new(plan)?,
            deframer: Deframer::new(),
            pids: PidCounters::default(),
            bit_rate: BitRate::default(),
            count: 0,
            by_packets: vec![0; MAX_TRAIN_PACKETS as usize],
            discontinuities: 0,
        })
    }

    /// Takes the next bytes of the asset.
    ///
    /// # Errors
    /// [`Error`] where the asset could not be packed.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut input = bytes;
        while let Some(event) = self.deframer.next(&mut input)? {
            if let Event::Packets(run) = event {
                self.pids.push(&run);
            }
        }
        self.packer.push(bytes)?;
        self.take_segments();
        Ok(())
    }

    /// Ends the asset.
    ///
    /// # Errors
    /// [`Error`] where the asset could not be packed.
    pub fn finish(mut self) -> Result<Report, Error> {
        while let Some(event) = self.deframer.finish()? {
            if let Event::Packets(run) = event {
                self.pids.push(&run);
            }
        }
        let summary = self.packer.finish()?;
        self.take_segments();
        let description = summary.table.description;
        let trains = TrainReport {
            count: self.count,
            by_packets: Some(self.by_packets),
            discontinuities: Some(self.discontinuities),
        };
        Ok(Report {
            payload_bytes: summary.header.payload_bytes,
            packets: summary.header.packets,
            duration_us: summary.header.duration_us,
            pids: Some(self.pids.report(&description.programmes)),
            description,
            bit_rate: self.bit_rate,
            trains,
            starts_us: summary.table.starts.iter().map(|start| start.departure_us).collect(),
        })
    }

    fn take_segments(&mut self) {
        while let Some(PackedSegment { bytes, entry, .. }) = self.packer.pop() {
            let trains = entry.trains(&self.plan, u64::MAX, &bytes[..entry.length() as usize]);
            trains
                .expect("the packer writes what the reader accepts")
                .iter()
                .for_each(|train| self.take(train));
        }
    }

    fn take(&mut self, train: &Train) {
        self.count += 1;
        self.by_packets[train.packets() as usize - 1] += 1;
        self.discontinuities += u64::from(train.discontinuity);
        self.bit_rate.spread(train.departure_us, train.departure_us, train.length.into());
    }
}

#[cfg(test)]
mod tests;
