//! Laying segments out in the file of an image or an index.

use super::header::{Header, TableExtent};
use super::plan::Plan;
use super::segment::{SegmentEntry, TrainRecord};
use super::table::{Description, Start, Table};
use super::{PAGE, padded};
use crate::rtp::HEADER_LENGTH;
use crate::ts::PACKET_LENGTH;

/// Place of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A wire image: packets are stored.
    Image,
    /// An index: payload stays in the asset where it lies without gaps; other packets are stored.
    Index,
}

/// A segment that is not written yet: its trains, and where their payload is in the asset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// Number of its first packet, counted from 0 through the image.
    pub first_packet: u64,
    /// Its trains; never empty.
    pub trains: Vec<TrainRecord>,
    /// The random access points in it.
    pub starts: Vec<Start>,
    /// The payload of all packets, in order.
    pub payload: Vec<PayloadRun>,
}

/// Transport stream packets at even distances in an asset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRun {
    /// Offset in the asset of the first packet's sync byte.
    pub offset: u64,
    /// Bytes from packet to packet: 188, 192 or 204.
    pub stride: u16,
    /// Number of packets of 188 bytes.
    pub packets: u64,
}

impl PayloadRun {
    /// Bytes of payload.
    pub fn length(&self) -> usize {
        self.packets as usize * PACKET_LENGTH
    }

    /// Bytes of the asset from the first packet to the end of the last one.
    pub fn span(&self) -> usize {
        match self.packets {
            0 => 0,
            packets => (packets as usize - 1) * usize::from(self.stride) + PACKET_LENGTH,
        }
    }

    /// Returns whether nothing lies between the packets.
    pub fn is_contiguous(&self) -> bool {
        usize::from(self.stride) == PACKET_LENGTH
    }

    /// Copies the payload out of `span`, the bytes of the asset from the first packet on.
    pub fn copy(&self, span: &[u8], payload: &mut [u8]) {
        let packets = span.chunks(usize::from(self.stride));
        for (packet, to) in packets.zip(payload.chunks_exact_mut(PACKET_LENGTH)) {
            to.copy_from_slice(&packet[..PACKET_LENGTH]);
        }
    }
}

impl NewSegment {
    /// Offset of the payload in the asset, if it lies there without gaps.
    fn asset_offset(&self) -> Option<u64> {
        match self.payload[..] {
            [run] if run.is_contiguous() => Some(run.offset),
            _ => None,
        }
    }

    fn data_length(&self) -> u32 {
        self.trains.iter().map(|train| train.length).sum()
    }
}

/// A segment as it is to be written.
#[derive(Clone, Debug)]
pub struct WrittenSegment {
    /// Its bytes: write them at `entry.offset`.
    pub bytes: Vec<u8>,
    /// Its place and its checksum.
    pub entry: SegmentEntry,
}

/// The end of an asset.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// From the first packet's departure to the end of the last one's payload, in microseconds.
    pub duration_us: u64,
    /// Description of the asset.
    pub description: Description,
}

/// Table and header, which are written after the last segment.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The header: write it at 0 when everything else is on the disk.
    pub header: Header,
    /// The table as values.
    pub table: Table,
    /// The table as bytes: write them at `header.table.offset`.
    pub table_bytes: Vec<u8>,
}

/// Lays out segments one after the other, then table and header.
#[derive(Debug)]
pub struct Writer {
    plan: Plan,
    layout: Layout,
    /// End of the last segment.
    offset: u64,
    packets: u64,
    payload_bytes: u64,
    segments: Vec<SegmentEntry>,
    starts: Vec<Start>,
}

impl Writer {
    /// A writer of a file without segments.
    pub fn new(plan: Plan, layout: Layout) -> Self {
        let (segments, starts) = (Vec::new(), Vec::new());
        Self { plan, layout, offset: PAGE, packets: 0, payload_bytes: 0, segments, starts }
    }

    /// Lays out the next segment. If its packets are to be stored, `read` fills a buffer with their payload.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn add<E>(
        &mut self,
        segment: &NewSegment,
        read: impl FnOnce(&[PayloadRun], &mut [u8]) -> Result<(), E>,
    ) -> Result<WrittenSegment, E> {
        let asset_offset = segment.asset_offset().filter(|_| self.layout == Layout::Index);
        let mut entry = SegmentEntry {
            offset: 0,
            data_length: segment.data_length(),
            records: segment.trains.len() as u32,
            first_packet: segment.first_packet,
            first_departure_us: segment.trains.first().map_or(0, |train| train.departure_us),
            crc: 0,
            asset_offset,
        };
        let mut bytes = Vec::with_capacity(padded(entry.length()) as usize);
        if asset_offset.is_none() {
            let mut payload = vec![0; segment.payload.iter().map(PayloadRun::length).sum()];
            read(&segment.payload, &mut payload)?;
            put_packets(&mut bytes, &segment.trains, &self.plan, &payload);
        }
        for train in &segment.trains {
            bytes.extend_from_slice(&train.encode());
        }
        entry.crc = crc32c::crc32c(&bytes);
        Ok(self.place(entry, bytes, &segment.starts))
    }

    /// Lays out the next segment, whose packets and records are `bytes`, as another file has them.
    pub fn add_stored(&mut self, entry: SegmentEntry, bytes: Vec<u8>, starts: &[Start]) -> WrittenSegment {
        self.place(entry, bytes, starts)
    }

    fn place(&mut self, mut entry: SegmentEntry, mut bytes: Vec<u8>, starts: &[Start]) -> WrittenSegment {
        entry.offset = entry.begin_after(self.offset);
        self.offset = entry.offset + entry.length();
        if entry.asset_offset.is_none() {
            bytes.resize(padded(entry.length()) as usize, 0);
        }
        self.packets += entry.packets(&self.plan);
        self.payload_bytes += entry.payload_length(&self.plan);
        self.segments.push(entry);
        self.starts.extend_from_slice(starts);
        WrittenSegment { bytes, entry }
    }

    /// Bytes of memory that the writer holds beside itself: the table grows with the asset.
    pub fn held_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<SegmentEntry>() + self.starts.capacity() * size_of::<Start>()
    }

    /// Table and header after the last segment.
    pub fn finish(self, end: End) -> Summary {
        let table = Table { segments: self.segments, starts: self.starts, description: end.description };
        let table_bytes = table.encode();
        let extent: TableExtent = Table::extent(&table_bytes, padded(self.offset));
        let header = Header {
            plan: self.plan,
            packets: self.packets,
            payload_bytes: self.payload_bytes,
            duration_us: end.duration_us,
            table: extent,
        };
        Summary { header, table, table_bytes }
    }
}

/// Puts the packets of `trains` behind `bytes`: each header, then its part of `payload`.
fn put_packets(bytes: &mut Vec<u8>, trains: &[TrainRecord], plan: &Plan, mut payload: &[u8]) {
    for train in trains {
        let run = train.run(plan);
        let (size, mut left) = (usize::from(train.packet_size), train.length as usize);
        for index in 0..train.packets() {
            let length = size.min(left) - HEADER_LENGTH;
            let (fitting, rest) = payload.split_at(length);
            bytes.extend_from_slice(&run.header(index).to_bytes());
            bytes.extend_from_slice(fitting);
            (payload, left) = (rest, left - length - HEADER_LENGTH);
        }
    }
}

/// Reads the payload of runs from an asset that is in memory, for [`Writer::add`].
pub fn copy_payload(
    asset: &[u8],
) -> impl Fn(&[PayloadRun], &mut [u8]) -> Result<(), std::convert::Infallible> {
    |runs, mut payload| {
        for run in runs {
            let (to, rest) = payload.split_at_mut(run.length());
            run.copy(&asset[run.offset as usize..][..run.span()], to);
            payload = rest;
        }
        Ok(())
    }
}
