//! A single picture: packets of a stream with one timestamp, up to the packet with the marker.

use crate::source::Departure;

/// The picture at a playhead's cursor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picture {
    /// Its stream.
    pub(super) stream: u8,
    /// Its timestamp, once its first packet is known.
    timestamp: Option<u32>,
    /// True if the picture is complete.
    pub(super) is_over: bool,
}

impl Picture {
    /// The next picture of a stream.
    pub(super) fn of(stream: u8) -> Picture {
        Picture { stream, timestamp: None, is_over: false }
    }

    /// Returns whether the next departure of the stream belongs to the picture, as the first one does;
    /// otherwise the picture is complete.
    pub(super) fn enter(&mut self, departure: &Departure) -> bool {
        self.is_over |= *self.timestamp.get_or_insert(timestamp(departure)) != timestamp(departure);
        !self.is_over
    }

    /// Returns whether a departure belongs to another picture.
    pub(super) fn is_other(&self, departure: &Departure) -> bool {
        self.timestamp.is_some_and(|own| own != timestamp(departure))
    }
}

/// Returns whether a packet of a departure, counted from 0, is the last one of its picture.
pub(super) fn is_last(departure: &Departure, packet: u32) -> bool {
    departure.train.run.header(departure.train.first + packet).marker
}

fn timestamp(departure: &Departure) -> u32 {
    departure.train.run.header(departure.train.first).timestamp
}
