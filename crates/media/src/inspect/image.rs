//! Inspection of images.

use super::{Examined, Report};
use crate::image::{Error, Header, Table};
use crate::rtp::HEADER_LENGTH;
use crate::ts::PACKET_LENGTH;

/// Inspector of an image whose header and table were read: examines and checks its segments.
#[derive(Debug)]
pub struct ImageInspector<'a> {
    header: &'a Header,
    table: &'a Table,
    examined: Examined,
}

impl<'a> ImageInspector<'a> {
    /// Inspector before the first segment.
    pub fn new(header: &'a Header, table: &'a Table) -> Self {
        Self { header, table, examined: Examined::default() }
    }

    /// Examines the bytes of segment `index`. Segments of an index have no packets to examine. A damaged
    /// segment is counted by its entry in the table.
    ///
    /// # Panics
    /// If the table has no segment `index`.
    pub fn push(&mut self, index: usize, bytes: &[u8]) -> Result<(), Error> {
        let entry = &self.table.segments[index];
        let until_us = self.table.until_us(index, self.header);
        match entry.trains(&self.header.plan, until_us, bytes) {
            Ok(trains) => {
                let size = usize::from(self.header.plan.recipe.packet_size());
                let payloads = bytes[..entry.stored_length() as usize].chunks(size);
                let payloads = payloads.filter_map(|packet| packet.get(HEADER_LENGTH..));
                let packets = payloads.flat_map(|payload| payload.as_chunks::<PACKET_LENGTH>().0);
                if self.header.plan.recipe.is_transport_stream() {
                    self.examined.push_all(packets);
                }
                trains.iter().for_each(|train| self.examined.measures.take(train));
                Ok(())
            }
            Err(error) => {
                let payload = entry.payload_length();
                self.examined.measures.bit_rate.spread(entry.first_departure_us, until_us, payload);
                Err(error)
            }
        }
    }

    /// Ends the image, and returns the report.
    pub fn finish(self) -> Report {
        let mut report = self.examined.report(self.header, self.table);
        report.trains.count = self.table.segments.iter().map(|entry| u64::from(entry.records)).sum();
        report
    }
}
