//! Access units: a picture, or a frame of sound, of one or more packets with one timestamp.

use super::Playhead;
use super::picture::is_last;
use crate::source::{Departure, numbers};
use crate::streams::Stream;

impl Playhead {
    /// Returns whether the next packet of a stream is of the access unit whose packets were sent last.
    ///
    /// A datagram of a transport stream is whole, and so are packets of sound in a run with different
    /// timestamps.
    pub(crate) fn is_within_unit(&self, stream: &Stream) -> bool {
        let Stream { number, numbering, .. } = stream;
        if !self.sends(*number) || !numbering.has_units() || !numbering.may_follow() {
            return false;
        }
        let is_of_stream = |departure: &Departure| departure.train.run.stream == *number;
        let here = self.segment.as_deref().map_or(&[][..], |segment| &segment.departures);
        let (sent, behind) = here.split_at_checked(self.index).unwrap_or((here, &[]));
        let left = self.left().into_iter().chain(behind.iter().skip(1).copied());
        let ahead = self.ahead.iter().flat_map(|segment| segment.departures.iter().copied());
        if let Some(next) = left.chain(ahead).find(is_of_stream) {
            return may_be_part(&next) && numbering.is_of_last(numbers(&next));
        }
        // Of an access unit, no whole segment is without a packet.
        if self.ahead.is_some() {
            return false;
        }
        // The next segment is not there yet. At the edge of a recording, segments end with whole access units.
        let segment = self.cursor().segment + u32::from(self.segment.is_some());
        if self.source().is_at_edge(segment) {
            return false;
        }
        match (sent.iter().rfind(|departure| is_of_stream(departure)), &self.segment) {
            (Some(last), _) => may_be_part(last) && !is_last(last, last.train.packets() - 1),
            (None, Some(_)) => false,
            (None, None) => true,
        }
    }
}

/// Returns whether a train may be a part of an access unit: its packets have one timestamp, which is not
/// their departure.
fn may_be_part(departure: &Departure) -> bool {
    departure.train.run.together && departure.train.run.step == 0
}
