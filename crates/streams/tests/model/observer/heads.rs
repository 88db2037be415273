//! A handler that peeks, and the beginnings of records that it saw.

use std::sync::{Arc, Mutex, PoisonError};

use wirepath_streams::{Common, Handler, HandlerError, Peek, Verdict};

use crate::dice::Tally;

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
