//! Collecting shares: chooses the inputs to read and the records to hand on.
//!
//! A byte stream brings its shares in the order of their records, so the shares that it may still bring are
//! known, and it can be made to wait. When the window is full, only inputs that have not passed the next
//! record are read, until they pass it: no record is lost because one connection is ahead of another.
//! Datagrams come in any order and cannot wait: a record that only datagrams could complete is lost when the
//! bounds are exceeded.

use bytes::BytesMut;

use super::{Intake, Order};
use crate::record::Run;
use crate::secret::ShareError;
use crate::shared::Shared;

impl Intake {
    /// Returns whether another share of the input at `place` may wait, or is one that waiting records need.
    pub(super) fn wants_share_of(&self, place: usize) -> bool {
        let Order::Shares(collector) = &self.order else { return false };
        let input = &self.inputs[place];
        if input.object.has_records() {
            return !collector.is_overfull();
        }
        collector.has_room() || collector.first().is_none_or(|first| input.next_share <= first)
    }

    /// Adds a share. An invalid share, or a share with another threshold, ends its input; as a datagram it is
    /// dropped. An incomplete share at the end of an input is only counted.
    pub(super) fn collect_share(&mut self, place: usize, share: &Run<BytesMut>, shared: &mut Shared) {
        let Order::Shares(collector) = &mut self.order else { return };
        let input = &mut self.inputs[place];
        let is_datagram = input.object.has_records();
        // A byte stream brings one share of each record, in order.
        let least = if is_datagram { 0 } else { input.next_share };
        match collector.offer(&share.bytes, least) {
            Ok(number) => input.next_share = input.next_share.max(number + 1),
            Err(error) if is_datagram => input.note_malformed(share.bytes.len(), &error),
            // The sender died; the shares received before are whole.
            Err(ShareError::Cut { .. }) if input.is_used_up() => collector.note_cut(share.bytes.len()),
            Err(error) => {
                // The bytes after an invalid share are invalid, too.
                let rest: usize = input.ready.drain(..).map(|run| run.bytes.len()).sum();
                self.counts.dropped_bytes += (share.bytes.len() + rest) as u64;
                self.fail_input(place, error.into(), shared);
            }
        }
        self.tell_malformed(place, shared);
    }

    /// Drops and counts the incomplete share at the end of an input, by its framing. Returns false if there
    /// is none.
    pub(super) fn cut_share(&mut self, place: usize) -> bool {
        let Order::Shares(collector) = &mut self.order else { return false };
        let input = &mut self.inputs[place];
        collector.note_cut(input.buffer.len());
        input.buffer.clear();
        true
    }

    /// Takes the next record, if it is complete.
    pub(super) fn take_recovered(&mut self) -> Option<Run<BytesMut>> {
        let has_datagrams = self.inputs.iter().any(|input| input.object.has_records());
        let streams = self.inputs.iter().filter(|input| !input.object.has_records());
        let behind = |number| streams.clone().filter(|input| input.next_share <= number).count();
        let Order::Shares(collector) = &mut self.order else { return None };
        let record = collector.take(has_datagrams, behind)?;
        Some(Run::single(record.into(), true, true))
    }
}
