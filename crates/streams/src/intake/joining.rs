//! Joining portions of inputs: the inputs that are read, and the records that are handed on.

use bytes::BytesMut;

use super::{Intake, Order};
use crate::event::StreamEvent;
use crate::framing::LONGEST;
use crate::record::Run;
use crate::shared::Shared;

impl Intake {
    /// Returns whether another portion of the input at `place` may wait, or is one that waiting records need.
    pub(super) fn wants_portion_of(&self, place: usize) -> bool {
        let Order::Join(join) = &self.order else { return false };
        let input = &self.inputs[place];
        join.wants(input.port, input.object.has_records())
    }

    /// Adds a portion. The first record that is too long is reported.
    pub(super) fn join_portion(&mut self, place: usize, portion: &Run<BytesMut>, shared: &mut Shared) {
        let Order::Join(join) = &mut self.order else { return };
        let (input, longest) = (&self.inputs[place], self.needs.whole.unwrap_or(LONGEST));
        let too_long = join.counts.too_long;
        join.offer(input.port, &portion.bytes, longest);
        if too_long == 0 && join.counts.too_long > 0 {
            let error = format!("a joined record is longer than {longest} bytes and was dropped");
            shared.tell(StreamEvent::RecordRefused { by: "join".to_owned(), error });
        }
    }

    /// Takes the next complete record.
    pub(super) fn take_joined(&mut self) -> Option<Run<BytesMut>> {
        let Order::Join(join) = &mut self.order else { return None };
        join.take().map(|record| Run::single(record, true, true))
    }
}
