//! The bytes that a handler saw, from the first record on whose beginning it saw; and what must not happen to
//! a handler that is replaced, removed, or not in force.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wirepath_streams::{Handler, Piece};

use crate::mask::Mask;

/// Records that a handler saw. Handlers that replace it continue them.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pieces: Arc<Mutex<Pieces>>,
    /// Change that the handler makes to the bytes after it has seen them.
    pub(crate) mask: Mask,
}

#[derive(Debug)]
struct Pieces {
    bytes: Vec<u8>,
    /// True if the beginning of a record was seen but not yet its end; None before the first piece.
    within: Option<bool>,
    /// The first piece was the beginning of a record.
    from_beginning: bool,
    /// Number of the handler that is in the chain; None after it was removed.
    handler: Option<u64>,
    /// Number of records that began while the handler was not in force; None while it is.
    suspended: Option<u32>,
    /// Bytes that were seen each time before the handler came into force.
    starts: Vec<usize>,
    /// The first thing that must not have happened.
    fault: Option<&'static str>,
}

impl Seen {
    /// Nothing yet, of the handler with this number.
    pub(super) fn new(number: u64, mask: Mask) -> Seen {
        let pieces = Pieces {
            bytes: Vec::new(),
            within: None,
            from_beginning: false,
            handler: Some(number),
            suspended: None,
            starts: vec![0],
            fault: None,
        };
        Seen { pieces: Arc::new(Mutex::new(pieces)), mask }
    }

    /// Bytes of the records that the handler saw.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let pieces = self.lock();
        assert_eq!(pieces.fault, None, "of a handler");
        pieces.bytes.clone()
    }

    /// Returns whether the handler was not shown the rest of a record whose beginning it had not seen.
    pub(crate) fn is_from_beginning(&self) -> bool {
        let pieces = self.lock();
        pieces.from_beginning || pieces.within.is_none()
    }

    /// Bytes that were seen each time before the handler came into force; 0 for the first time.
    pub(crate) fn starts(&self) -> Vec<usize> {
        self.lock().starts.clone()
    }

    /// Returns whether the handler was returned by its removal.
    pub(crate) fn is_removed(&self) -> bool {
        self.lock().handler.is_none()
    }

    pub(super) fn is_within_record(&self) -> bool {
        self.lock().within == Some(true)
    }

    /// Notes that the stream has returned a handler, which must be the one that was in the chain, and the
    /// number of the handler that has its place now.
    pub(crate) fn note_removed(&self, handler: &Handler, successor: Option<u64>) {
        let number = handler.report().first().map(|(_, number)| *number);
        let pieces = &mut *self.lock();
        pieces.check(pieces.handler.is_some() && pieces.handler == number, "another handler was removed");
        pieces.handler = successor;
    }

    /// Notes that the handler is in force from the next record on, or no longer after the current record.
    pub(crate) fn set_in_force(&self, is_in_force: bool) {
        let pieces = &mut *self.lock();
        if !is_in_force {
            pieces.suspended.get_or_insert(0);
        } else if pieces.suspended.take().is_some() {
            pieces.starts.push(pieces.bytes.len());
        }
    }

    /// Notes a piece that a handler sees. A handler that `gathers` sees a record only at its end.
    pub(super) fn note(&self, number: u64, piece: Piece<'_>, gathers: bool) {
        let pieces = &mut *self.lock();
        pieces.check(pieces.handler == Some(number), "it saw bytes after its removal");
        let follows = pieces.within.is_none_or(|within| within != piece.begins);
        pieces.check(follows, "it was given parts of records that do not belong together");
        if let Some(begun) = pieces.suspended.as_mut().filter(|_| piece.begins) {
            *begun += 1;
            let may_see = *begun <= u32::from(gathers);
            pieces.check(may_see, "it saw a record while it was not in force");
        }
        pieces.from_beginning |= pieces.within.is_none() && piece.begins;
        pieces.within = Some(!piece.ends);
        pieces.bytes.extend(piece.slices().flatten());
    }

    fn lock(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pieces {
    fn check(&mut self, holds: bool, fault: &'static str) {
        if !holds {
            self.fault.get_or_insert(fault);
        }
    }
}
