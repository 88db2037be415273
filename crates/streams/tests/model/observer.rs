//! A handler that changes nothing and keeps the bytes that it saw, from the first record on whose beginning
//! it saw.

use std::sync::{Arc, Mutex, PoisonError};

use wirepath_streams::{
    Common, Frame, Handler, HandlerError, Peek, Piece, Reach, Read, Rewrite, Select, Verdict,
};

use crate::dice::{Dice, Tally};

/// Most bytes of a record for handlers of whole records: more than is ever sent.
const LONGEST: usize = 16 << 20;

/// Records that an observer saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Pieces>>);

#[derive(Debug, Default)]
struct Pieces {
    bytes: Vec<u8>,
    /// True if the beginning of a record was seen but not yet its end; None before the first piece.
    within: Option<bool>,
    /// The first piece was the beginning of a record.
    from_beginning: bool,
    /// A piece did not continue the previous one.
    is_torn: bool,
}

impl Seen {
    /// Bytes of the records that the handler saw.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!pieces.is_torn, "a handler was given parts of records that do not belong together");
        pieces.bytes.clone()
    }

    /// Returns whether the handler was not shown the rest of a record whose beginning it had not seen.
    pub(crate) fn is_from_beginning(&self) -> bool {
        let pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.from_beginning || pieces.within.is_none()
    }

    fn note(&self, piece: Piece<'_>) {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pieces.from_beginning |= pieces.within.is_none() && piece.begins;
        pieces.is_torn |= pieces.within.is_some_and(|within| within == piece.begins);
        pieces.within = Some(!piece.ends);
        pieces.bytes.extend(piece.slices().flatten());
    }
}

/// A handler of any kind, and a handle to what it sees.
pub(crate) fn any(dice: &mut Dice, tally: &mut Tally) -> (Handler, Seen) {
    let reach = match dice.below(4) {
        0 | 1 => Reach::Pieces,
        2 => Reach::Records { limit: LONGEST },
        _ => Reach::Slices { limit: LONGEST },
    };
    let seen = Seen::default();
    let observer = Box::new(Observer { reach, seen: seen.clone() });
    tally.note(match reach {
        Reach::Pieces => "handler: of records in pieces",
        Reach::Records { .. } => "handler: of whole records",
        Reach::Slices { .. } => "handler: of records in slices",
    });
    let (what, handler) = match dice.below(3) {
        0 => ("handler: one that reads", Handler::Read(observer)),
        1 => ("handler: one that selects", Handler::Select(observer)),
        _ => ("handler: one that rewrites", Handler::Rewrite(observer)),
    };
    tally.note(what);
    (handler, seen)
}

/// A handler that reads pieces as they arrive, and a handle to what it sees.
pub(crate) fn reader(tally: &mut Tally) -> (Handler, Seen) {
    let seen = Seen::default();
    tally.note("handler: one that was there from the beginning");
    (Handler::Read(Box::new(Observer { reach: Reach::Pieces, seen: seen.clone() })), seen)
}

/// A handler that peeks at so many bytes of each record, and a handle to what it sees.
pub(crate) fn peeker(length: usize, tally: &mut Tally) -> (Handler, Heads) {
    let heads = Heads { length, seen: Arc::default() };
    tally.note("handler: one that peeks");
    (Handler::Peek(Box::new(heads.clone())), heads)
}

/// First bytes of records that an observer saw.
#[derive(Clone)]
pub(crate) struct Heads {
    length: usize,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Heads {
    /// Checks that the handler saw the first bytes of each of these records once, in order.
    pub(crate) fn check<'a>(&self, records: impl Iterator<Item = &'a [u8]>) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut count = 0;
        for (place, record) in records.enumerate() {
            let head = &record[..self.length.min(record.len())];
            assert!(seen.get(place).is_some_and(|seen| seen == head), "another head of record {place}");
            count += 1;
        }
        assert_eq!(seen.len(), count, "it saw heads of what is no record");
    }

    /// Checks that the handler saw the first bytes of a byte stream, which may have been cut into several
    /// records.
    pub(crate) fn check_first(&self, sent: &[u8], may_be_cut: bool) {
        if !may_be_cut {
            return self.check(Some(sent).filter(|sent| !sent.is_empty()).into_iter());
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(seen.first().is_none_or(|head| sent.starts_with(head)), "another beginning");
    }
}

impl Common for Heads {
    fn name(&self) -> &'static str {
        "heads"
    }
}

impl Peek for Heads {
    fn length(&self) -> usize {
        self.length
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(head.to_vec());
        Ok(Verdict::Pass)
    }
}

struct Observer {
    reach: Reach,
    seen: Seen,
}

impl Common for Observer {
    fn name(&self) -> &'static str {
        "observer"
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn control(&mut self, _message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        let pieces = self.seen.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(pieces.within != Some(true), "a control message came within a record");
        Ok(Vec::new())
    }
}

impl Read for Observer {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        self.seen.note(piece);
        Ok(Verdict::Pass)
    }
}

impl Select for Observer {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        self.seen.note(piece);
        frame.keep_all();
        Ok(())
    }
}

impl Rewrite for Observer {
    fn room(&self, length: usize) -> usize {
        length
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        self.seen.note(piece);
        Ok(Some(piece.copy_to(0, out)))
    }
}
