//! Parts of departures: before a time, from a packet on, from a time on.

use wirepath_datapath::Train;

use crate::source::{Departure, Segment};

/// The part of a departure before a time; none if the whole departure is later.
pub(super) fn before(departure: Departure, end_us: u64) -> Option<Departure> {
    let left_us = end_us.checked_sub(departure.at_us).filter(|left_us| *left_us > 0)?;
    if departure.train.skip > 0 {
        // For a start inside a packet: this packet is sent alone, and the rest of the train follows.
        return Some(Departure { train: departure.train.up_to(1), ..departure });
    }
    let train = departure.train.up_to(departure.train.packets_within(left_us - 1));
    Some(Departure { train, ..departure })
}

/// Index and rest of the train at a packet.
pub(super) fn at_packet(
    segment: &Segment,
    index: usize,
    packet: u32,
    skip: u16,
) -> (usize, Option<Departure>) {
    let left = segment.departures.get(index).and_then(|departure| after(*departure, packet));
    (index, left.map(|left| Departure { train: Train { skip, ..left.train }, ..left }))
}

/// Index and rest of the train at a time.
pub(super) fn at_time(segment: &Segment, at_us: u64) -> (usize, Option<Departure>) {
    let index = segment.departures.partition_point(|departure| departure.at_us <= at_us).saturating_sub(1);
    let Some(departure) = segment.departures.get(index) else { return (index, None) };
    if departure.train.run.together {
        // All trains of the departure are of one time.
        return (segment.departures.partition_point(|before| before.at_us < departure.at_us), None);
    }
    if departure.train.run.step == 0 {
        return (index, None);
    }
    let late_us = at_us.saturating_sub(departure.at_us);
    (index, after(*departure, departure.train.packets_within(late_us) - 1))
}

/// The rest of a departure after its first packets.
pub(super) fn after(departure: Departure, packets: u32) -> Option<Departure> {
    let train = departure.train.after(packets)?;
    Some(Departure { at_us: departure.at_us + departure.train.delay_us(packets), train })
}
