//! Pictures that can be decoded alone, of a stream that plays forward.

use crate::replay::IntraPictures;
use crate::source::Departure;

/// The pictures that are sent.
#[derive(Debug)]
pub(super) struct Intra {
    pictures: IntraPictures,
    /// Timestamp of the current picture.
    unit: Option<u32>,
    /// Departure from which the next picture may follow.
    next_us: u64,
    /// True from the first packet of a picture until that was noticed.
    pub(super) is_new: bool,
}

impl Intra {
    pub(super) fn new(pictures: IntraPictures) -> Intra {
        Intra { pictures, unit: None, next_us: 0, is_new: false }
    }

    /// Sends other pictures from the next one on: the current one is sent to its end if it is of the same stream.
    pub(super) fn change(&mut self, pictures: IntraPictures) {
        if pictures.stream != self.pictures.stream {
            self.leave();
        }
        self.pictures = pictures;
    }

    /// Notes that play continues elsewhere.
    pub(super) fn leave(&mut self) {
        *self = Intra::new(self.pictures);
    }

    /// Returns whether a departure is sent: it belongs to the current picture, or begins the next one.
    pub(super) fn holds(&self, departure: &Departure) -> bool {
        let run = departure.train.run;
        run.stream == self.pictures.stream
            && (self.unit == Some(timestamp(departure))
                || run.start && departure.train.first == 0 && departure.at_us >= self.next_us)
    }

    /// Enters a departure that is sent.
    pub(super) fn enter(&mut self, departure: &Departure) {
        if self.unit.replace(timestamp(departure)) != Some(timestamp(departure)) {
            self.next_us = departure.at_us.saturating_add(self.pictures.interval_us);
            self.is_new = true;
        }
    }
}

fn timestamp(departure: &Departure) -> u32 {
    departure.train.run.header(departure.train.first).timestamp
}
