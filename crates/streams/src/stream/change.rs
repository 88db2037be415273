//! Changes of a running stream: other options of an output.
//!
//! Order, pattern and other settings of the builder are fixed: records that wait for their turn, for other
//! shares or for the rest of a stripe would have no place under other settings.

use super::Stream;
use crate::framing::LONGEST;
use crate::outbox::WhenFull;
use crate::port::Port;

impl Stream {
    /// Changes the rule and limit of an output's outbox (`setstreamoption`; see
    /// [`OutputOptions`](crate::OutputOptions)), from the next record on. The new rule applies to waiting
    /// records, too, but only when more records come. If the new rule drops records, inputs are divided into
    /// whole records from their next record on. Until then the stream waits for the rest of a current record
    /// in pieces as before, because nothing would bound its size. Returns false if there is no such output.
    pub fn set_output_options(&mut self, port: Port, when_full: WhenFull, waiting_bytes: usize) -> bool {
        if let Some((options, _)) = self.listening.output(port) {
            (options.when_full, options.waiting_bytes) = (when_full, waiting_bytes);
            return true;
        }
        if self.outputs.get_mut(port).is_none() {
            return false;
        }
        if when_full.drops_records() {
            self.settle_seen();
            self.intake.need_whole(LONGEST);
        }
        let goes_by = self.intake.is_within_record();
        let Some(output) = self.outputs.get_mut(port) else { return false };
        if when_full.drops_records() && output.within_record && goes_by {
            output.outbox.limit_later_to(waiting_bytes, when_full);
        } else {
            output.outbox.limit_to(waiting_bytes, when_full);
        }
        true
    }
}
