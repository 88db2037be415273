//! Which way the next bytes go that nobody looks at: from which input, to which outputs, and how many of them belong together.

use std::ops::Range;

use super::{Input, Order, Output, Stream, Supply};
use crate::object::Kind;
use crate::pattern::Spread;

/// Records of fixed size and parts of stripes that are smaller than this are copied: many leave in one call then, which costs less
/// than two calls for each.
const LARGE: usize = 32 * 1024;

/// More records are put into a pipe while it holds no more than this: half of what it takes.
const GATHERED: usize = 512 * 1024;

/// The next bytes' way.
pub(super) struct Leg {
    /// The place of the input.
    pub(super) input: usize,
    /// The places of the outputs.
    pub(super) outputs: Range<usize>,
    /// So many bytes may go this way at most.
    pub(super) bytes: usize,
}

impl Stream {
    /// Whether nobody has to look at what comes next: when all that was read has left, it can be moved unseen.
    pub(super) fn will_move_unseen(&mut self) -> bool {
        self.settings.moves_unseen
            && self.chain.is_empty()
            && !self.skipping
            && matches!(self.order, Order::Turns(_) | Order::Arrival(_))
            && self.outputs_take_unseen()
            && self.inputs_move_unseen()
    }

    /// Thousands of inputs are not looked at for each record: not again while nothing has changed since all could be moved unseen, and
    /// no other while the one that could not still cannot.
    fn inputs_move_unseen(&mut self) -> bool {
        let is_alone = self.inputs.len() == 1;
        let cannot = |input: &Input| !input.can_be_moved_unseen(is_alone);
        if !self.inputs_unchanged {
            if self.inputs.get(self.obstacle).is_some_and(cannot) {
                return false;
            }
            let place = self.inputs.iter().position(cannot);
            #[cfg(test)]
            {
                self.inputs_looked_at += self.inputs.len();
            }
            self.inputs_unchanged = place.is_none();
            self.obstacle = place.unwrap_or(0);
        }
        debug_assert_eq!(
            self.inputs_unchanged,
            !self.inputs.iter().any(cannot),
            "an input changed unnoticed"
        );
        self.inputs_unchanged && !self.inputs.is_empty()
    }

    /// Whether there is one stream of bytes without framing. Beside other inputs it is not moved unseen.
    fn is_undivided(&self) -> bool {
        matches!(&self.inputs[..], [alone] if alone.is_endless())
    }

    /// Whether a record goes by: of the input whose turn it is, for no other's begins before its end.
    fn has_record_going_by(&self) -> bool {
        let place = match &self.order {
            Order::Turns(turns) => turns.drawn(),
            Order::Arrival(arrivals) => arrivals.within.and_then(|port| self.place_of_input(port)),
            Order::Tags { .. } | Order::Shares(_) => None,
        };
        let goes_by = place.is_some_and(|place| !self.inputs[place].splitter.at_boundary());
        debug_assert_eq!(goes_by, self.inputs.iter().any(|input| !input.splitter.at_boundary()));
        goes_by
    }

    fn outputs_take_unseen(&self) -> bool {
        let count = self.outputs.len();
        let is_divided = !self.is_undivided();
        let as_they_come = match &self.spread {
            // One that came in the middle of a record must not get the rest of it.
            Spread::Mirror if is_divided => {
                let goes_by = self.has_record_going_by();
                self.outputs.iter().all(|output| output.within == goes_by)
            }
            Spread::Mirror => true,
            Spread::Turns(_) | Spread::Capacity { .. } => is_divided || count == 1,
            Spread::Bytes { unit, .. } => *unit >= LARGE,
            Spread::Shares(_) => false,
        };
        as_they_come && count > 0 && self.outputs.iter().all(|output| output.takes_unseen(count))
    }

    /// The way of the next bytes; None if the input or an output whose turn it is has to be waited for.
    pub(super) fn next_leg(&mut self, now_us: u64) -> Option<Leg> {
        let (outputs, unit) = self.next_outputs(now_us)?;
        let input = self.next_input()?;
        let record = self.inputs[input].splitter.blind()?;
        Some(Leg { input, outputs, bytes: unit.min(record) })
    }

    fn next_input(&mut self) -> Option<usize> {
        let count = self.inputs.len();
        match &mut self.order {
            Order::Turns(turns) => {
                Some(turns.current(count)).filter(|place| self.inputs[*place].may_be_asked())
            }
            Order::Arrival(_) => self.next_arrived(),
            Order::Tags { .. } | Order::Shares(_) => None,
        }
    }

    /// Whose turn it is, if they have sent what they got before or may get more, and how many bytes are theirs.
    fn next_outputs(&mut self, now_us: u64) -> Option<(Range<usize>, usize)> {
        let count = self.outputs.len();
        let (places, unit) = match &mut self.spread {
            Spread::Mirror => (0..count, usize::MAX),
            Spread::Turns(turns) => (one(turns.current(count)), usize::MAX),
            Spread::Bytes { turns, left, .. } => (one(turns.current(count)), *left),
            Spread::Capacity { chosen: Some(port) } => {
                let port = *port;
                (one(self.outputs.iter().position(|output| output.port.0 == port)?), usize::MAX)
            }
            Spread::Capacity { chosen: None } => (one(self.soonest(now_us)?), usize::MAX),
            Spread::Shares(_) => return None,
        };
        // To several outputs bytes go by `tee`, which takes all that a pipe has. One that is not divided fills a pipe at once.
        let one_by_one = places.len() == 1 && !self.is_undivided();
        let may_wait = if one_by_one { GATHERED } else { 0 };
        let is_free = |output: &Output| output.held() <= may_wait && !output.busy;
        self.outputs[places.clone()].iter().all(is_free).then_some((places, unit))
    }

    /// So many bytes went this way: whose turn it is next. Answers whether it is another's: a record, or
    /// a part of a stripe, has ended.
    pub(super) fn note_passed(&mut self, leg: &Leg, bytes: usize) -> bool {
        let mut part_ends = false;
        if let Spread::Bytes { turns, unit, left } = &mut self.spread {
            *left -= bytes;
            part_ends = *left == 0;
            if part_ends {
                turns.taken();
                *left = *unit;
            }
            self.outputs[leg.outputs.start].within = !part_ends;
        }
        let input = &mut self.inputs[leg.input];
        let Some(passed) = input.splitter.pass(bytes) else { return part_ends };
        input.records += u64::from(passed.begins);
        self.counts.records_in += u64::from(passed.begins);
        match &mut self.order {
            Order::Turns(turns) if passed.ends => turns.taken(),
            Order::Arrival(arrivals) => arrivals.gave(input.port, passed.ends),
            _ => {}
        }
        self.note_given(leg, passed.ends);
        passed.ends || part_ends
    }

    /// The outputs have a record, or a part of it that is not the last.
    fn note_given(&mut self, leg: &Leg, ends: bool) {
        match &mut self.spread {
            Spread::Turns(turns) if ends => turns.taken(),
            Spread::Capacity { chosen } => {
                *chosen = (!ends).then(|| self.outputs[leg.outputs.start].port.0);
            }
            Spread::Bytes { .. } => return, // its parts are records of their own
            _ => {}
        }
        self.outputs[leg.outputs.clone()].iter_mut().for_each(|output| output.within = !ends);
    }
}

fn one(place: usize) -> Range<usize> {
    place..place + 1
}

impl Input {
    /// Bytes of a stream that is not divided go nowhere else than those before: there must be no other input then.
    fn can_be_moved_unseen(&self, is_alone: bool) -> bool {
        let movable = match &self.object.kind {
            Kind::Stream(connection) => !connection.has_urgent,
            Kind::Listening(_) | Kind::Mapping(_) | Kind::Parts(_) => true,
            Kind::File(file) => !file.shares_place,
            _ => false,
        };
        let nothing_seen = self.buffer.is_empty() && self.ready.is_empty() && self.object.unread.is_empty();
        let is_blind = self.splitter.blind_size().is_some_and(|bytes| bytes >= LARGE);
        let goes_by = is_blind && (is_alone || !self.is_endless());
        movable && nothing_seen && goes_by && self.supply == Supply::Open && self.detach.is_none()
    }
}
