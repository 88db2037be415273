//! Looking at the next bytes of an input before they move on the zero-copy route.

use super::Intake;
use crate::chain::{Chain, ChainError, Look};
use crate::handler::Verdict;
use crate::object::{Awaited, ObjectError, ReadOutcome};
use crate::record::Piece;

/// Result of looking.
pub(crate) enum Looked {
    /// At most so many bytes may move.
    Passes(usize),
    /// So many bytes of a record that goes no further were read.
    Dropped(usize),
    /// The input has nothing now.
    Nothing,
    Blocked(Awaited),
    End,
    /// The next bytes have to be copied.
    MustBeRead,
    Refused(ChainError),
}

impl Intake {
    /// Sets what handlers look at from now on.
    pub(crate) fn set_look(&mut self, look: Look) {
        self.look = look;
        self.zero_copy.note_change();
    }

    /// Has handlers see the next bytes of the input at `place`, of which at most `bytes` are to move: of one
    /// record.
    pub(crate) fn look(
        &mut self,
        place: usize,
        chain: &mut Chain,
        bytes: usize,
    ) -> Result<Looked, ObjectError> {
        let input = &mut self.inputs[place];
        let begins = input.splitter.at_boundary();
        let look = self.look;
        let may_move = |seen: usize| if look == Look::All { seen.min(bytes) } else { bytes };
        if let Some((port, seen)) = self.seen
            && port == input.port
        {
            return Ok(Looked::Passes(may_move(seen)));
        }
        if !begins && chain.is_dropping() {
            return self.drop_next(place, bytes);
        }
        let wanted = chain.view_bytes(begins).min(bytes);
        if wanted == 0 {
            return Ok(Looked::Passes(bytes));
        }
        self.view.clear();
        let there = match input.object.view(&mut self.view, wanted)? {
            ReadOutcome::Bytes(there) => there,
            ReadOutcome::Nothing => return Ok(Looked::Nothing),
            ReadOutcome::Blocked(awaited) => return Ok(Looked::Blocked(awaited)),
            _ => return Ok(Looked::End),
        };
        if begins && there < chain.head_bytes().min(bytes) {
            input.must_be_read = true;
            return Ok(Looked::MustBeRead);
        }
        let is_unframed = input.is_unframed();
        let piece =
            Piece { bytes: &self.view, begins, ends: !is_unframed && there == input.splitter.awaited() };
        let verdict = match chain.look(piece) {
            Ok(verdict) => verdict,
            Err(error) => return Ok(Looked::Refused(error)),
        };
        if is_unframed && begins {
            self.begin_unframed(place);
        }
        if verdict == Verdict::Drop {
            return self.drop_next(place, bytes);
        }
        self.seen = Some((self.inputs[place].port, there));
        Ok(Looked::Passes(may_move(there)))
    }

    /// Notes that the record without end has begun, of which handlers will see the end.
    fn begin_unframed(&mut self, place: usize) {
        let input = &mut self.inputs[place];
        input.splitter.begin_unframed();
        input.records += 1;
        self.counts.records += 1;
        self.last_is_unframed = true;
        self.took(place, false);
    }

    /// Reads up to `bytes` bytes of a record that goes no further.
    fn drop_next(&mut self, place: usize, bytes: usize) -> Result<Looked, ObjectError> {
        let input = &mut self.inputs[place];
        self.view.clear();
        let read = match input.object.read_into(&mut self.view, bytes.min(super::input::READ))? {
            ReadOutcome::Bytes(read) => read,
            ReadOutcome::Nothing => return Ok(Looked::Nothing),
            ReadOutcome::Blocked(awaited) => return Ok(Looked::Blocked(awaited)),
            _ => return Ok(Looked::End),
        };
        input.bytes += read as u64;
        self.counts.bytes += read as u64;
        self.pass(place, read);
        Ok(Looked::Dropped(read))
    }

    /// Notes that bytes that were seen have moved.
    pub(super) fn note_seen_moved(&mut self, place: usize, bytes: usize) {
        let port = self.inputs[place].port;
        if let Some((of, seen)) = &mut self.seen
            && *of == port
        {
            *seen = seen.saturating_sub(bytes);
        }
        self.seen = self.seen.filter(|(_, seen)| *seen > 0);
    }

    /// Number of the next `length` bytes of the input at `place` that handlers have seen.
    pub(super) fn take_seen(&mut self, place: usize, length: usize) -> usize {
        let Some((_, seen)) = self.seen.filter(|(port, _)| *port == self.inputs[place].port) else {
            return 0;
        };
        self.note_seen_moved(place, length);
        seen.min(length)
    }
}
