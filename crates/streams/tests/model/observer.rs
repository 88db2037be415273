//! A handler that keeps the bytes that it sees and passes all of them, changed by a mask if it modifies.

mod heads;
mod seen;

use std::sync::atomic::{AtomicU64, Ordering};

use wirepath_streams::{
    Common, Frame, Handler, HandlerError, Modify, Piece, PieceMut, Reach, Read, Rewrite, Select, Verdict,
};

use crate::dice::{Dice, Tally};
use crate::mask::Mask;
pub(crate) use heads::{Heads, peeker};
pub(crate) use seen::Seen;

/// Most bytes of a record for handlers of whole records: more than is ever sent.
const LONGEST: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Select,
    Modify,
    Rewrite,
}

const KINDS: [Kind; 4] = [Kind::Read, Kind::Select, Kind::Modify, Kind::Rewrite];

/// A handler of any kind, and a handle to what it sees. A handler that modifies applies the mask.
pub(crate) fn any(mask: Mask, dice: &mut Dice, tally: &mut Tally) -> (Handler, Seen) {
    let kind = any_kind(dice);
    new(kind, if kind == Kind::Modify { mask } else { Mask::Nothing }, dice, tally)
}

/// A handler that applies a mask, and a handle to what it sees.
pub(crate) fn masker(mask: Mask, dice: &mut Dice, tally: &mut Tally) -> (Handler, Seen) {
    new(Kind::Modify, mask, dice, tally)
}

/// A handler that takes the place of another, makes the same change and continues what that one saw; and its
/// number.
pub(crate) fn successor(seen: &Seen, dice: &mut Dice, tally: &mut Tally) -> (Handler, u64) {
    let kind = if seen.mask == Mask::Nothing { any_kind(dice) } else { Kind::Modify };
    let number = next_number();
    (Observer::handler(kind, any_reach(dice, tally), seen, number, tally), number)
}

/// A handler that reads pieces as they arrive, and a handle to what it sees.
pub(crate) fn reader(tally: &mut Tally) -> (Handler, Seen) {
    tally.note("handler: one that was there from the beginning");
    let number = next_number();
    let seen = Seen::new(number, Mask::Nothing);
    (Observer::handler(Kind::Read, Reach::Pieces, &seen, number, tally), seen)
}

fn new(kind: Kind, mask: Mask, dice: &mut Dice, tally: &mut Tally) -> (Handler, Seen) {
    let number = next_number();
    let seen = Seen::new(number, mask);
    tally.add("handler: one that changes bytes in place", u64::from(mask != Mask::Nothing));
    (Observer::handler(kind, any_reach(dice, tally), &seen, number, tally), seen)
}

fn any_kind(dice: &mut Dice) -> Kind {
    KINDS[dice.below(KINDS.len())]
}

fn any_reach(dice: &mut Dice, tally: &mut Tally) -> Reach {
    let (what, reach) = match dice.below(4) {
        0 | 1 => ("handler: of records in pieces", Reach::Pieces),
        2 => ("handler: of whole records", Reach::Records { limit: LONGEST }),
        _ => ("handler: of records in slices", Reach::Slices { limit: LONGEST }),
    };
    tally.note(what);
    reach
}

/// A number that no other handler of any round has.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

struct Observer {
    reach: Reach,
    seen: Seen,
    number: u64,
    /// Bytes of the current record so far.
    offset: usize,
}

impl Observer {
    fn handler(kind: Kind, reach: Reach, seen: &Seen, number: u64, tally: &mut Tally) -> Handler {
        let observer = Box::new(Observer { reach, seen: seen.clone(), number, offset: 0 });
        let (what, handler) = match kind {
            Kind::Read => ("handler: one that reads", Handler::Read(observer)),
            Kind::Select => ("handler: one that selects", Handler::Select(observer)),
            Kind::Modify => ("handler: one that modifies", Handler::Modify(observer)),
            Kind::Rewrite => ("handler: one that rewrites", Handler::Rewrite(observer)),
        };
        tally.note(what);
        handler
    }

    fn note(&self, piece: Piece<'_>) {
        self.seen.note(self.number, piece, self.reach != Reach::Pieces);
    }
}

impl Common for Observer {
    fn name(&self) -> &'static str {
        "observer"
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        vec![("number", self.number)]
    }

    fn control(&mut self, _message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        assert!(!self.seen.is_within_record(), "a control message came within a record");
        Ok(Vec::new())
    }
}

impl Read for Observer {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.note(piece);
        Ok(Verdict::Pass)
    }
}

impl Select for Observer {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        self.note(piece);
        frame.keep_all();
        Ok(())
    }
}

impl Modify for Observer {
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
        self.note(Piece::part(piece.bytes, piece.begins, piece.ends));
        if piece.begins {
            self.offset = 0;
        }
        self.seen.mask.apply(piece.bytes, self.offset);
        self.offset += piece.bytes.len();
        Ok(Verdict::Pass)
    }
}

impl Rewrite for Observer {
    fn room(&self, length: usize) -> usize {
        length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        self.note(piece);
        Ok(Some(piece.copy_to(0, out)))
    }
}
