//! Inspection of assets and images, for `wirepath inspect`.

mod asset;
mod bit_rate;
mod details;
mod image;
mod movie;
mod pids;
mod trains;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::image::{Header, Table, TransportStreamDescription};
use crate::ts::{PACKET_LENGTH, Packet, Service, VideoFormat};
use details::Details;
use pids::PidCounters;
use trains::Measures;

pub use asset::AssetInspector;
pub use bit_rate::{BitRate, Peak};
pub use image::ImageInspector;
pub use movie::{MovieError, MovieInspector, MovieReport, TrackReport};
pub use pids::PidReport;
pub use trains::{PacketsPerTrain, TrainReport};

/// Report about an asset or an image.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Description with warnings.
    pub description: TransportStreamDescription,
    /// Bytes of transport stream packets.
    pub payload_bytes: u64,
    /// Number of RTP packets.
    pub packets: u64,
    /// Duration in microseconds.
    pub duration_us: u64,
    /// Services by programme number.
    pub services: BTreeMap<u16, Service>,
    /// Video formats by PID, from H.264 and MPEG-2 headers.
    pub videos: BTreeMap<u16, VideoFormat>,
    /// PIDs in ascending order; for an image, those of its intact segments.
    pub pids: Vec<PidReport>,
    /// Bit rate of the transport stream over time.
    pub bit_rate: BitRate,
    /// Statistics of trains.
    pub trains: TrainReport,
    /// Media times at which a decoder can start, in microseconds.
    pub starts_us: Vec<u64>,
}

/// Statistics of packets and trains for a report.
#[derive(Debug, Default)]
struct Examined {
    pids: PidCounters,
    details: Details,
    measures: Measures,
}

impl Examined {
    fn push_all<'a>(&mut self, packets: impl Iterator<Item = &'a [u8; PACKET_LENGTH]>) {
        for packet in packets.filter_map(Packet::new) {
            self.pids.push(packet);
            self.details.push(packet);
        }
    }

    fn report(mut self, header: &Header, table: &Table) -> Report {
        let (services, videos) = self.details.finish();
        // The image of a movie only contributes its warnings.
        let description =
            table.description.transport_stream().cloned().unwrap_or_else(|| TransportStreamDescription {
                warnings: table.description.warnings().clone(),
                ..TransportStreamDescription::default()
            });
        Report {
            payload_bytes: header.payload_bytes,
            packets: header.packets,
            duration_us: header.duration_us,
            services,
            videos,
            pids: self.pids.report(&description.programmes),
            description,
            trains: self.measures.report(),
            bit_rate: self.measures.bit_rate,
            starts_us: table.starts.iter().map(|start| start.departure_us).collect(),
        }
    }
}

impl Report {
    /// Mean bit rate in bits per second; `None` for a duration of 0.
    pub fn mean_bits_per_second(&self) -> Option<u64> {
        mean(self.payload_bytes, self.duration_us)
    }

    /// Mean distance between random access points in microseconds; `None` for less than two.
    pub fn mean_start_distance_us(&self) -> Option<u64> {
        mean_distance(&self.starts_us)
    }
}

fn mean(bytes: u64, duration_us: u64) -> Option<u64> {
    let bits = u128::from(bytes) * 8_000_000;
    bits.checked_div(u128::from(duration_us)).and_then(|rate| u64::try_from(rate).ok())
}

fn mean_distance(times_us: &[u64]) -> Option<u64> {
    let (first, last) = (times_us.first()?, times_us.last()?);
    last.saturating_sub(*first).checked_div(times_us.len() as u64 - 1)
}

#[cfg(test)]
mod tests;
