//! Handlers made of one closure.

use super::{Common, Handler, HandlerError, Reach, Read, Verdict};
use crate::record::Piece;

struct Passing<F> {
    name: &'static str,
    limit: usize,
    passes: F,
}

impl Handler {
    /// A handler that sees whole records of at most `limit` bytes and passes those for which `passes` returns
    /// true.
    pub fn passing(
        name: &'static str,
        limit: usize,
        passes: impl FnMut(&[u8]) -> bool + Send + 'static,
    ) -> Handler {
        Handler::Read(Box::new(Passing { name, limit, passes }))
    }
}

impl<F: Send> Common for Passing<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reach(&self) -> Reach {
        Reach::Records { limit: self.limit }
    }
}

impl<F: FnMut(&[u8]) -> bool + Send> Read for Passing<F> {
    fn read(&mut self, record: Piece<'_>) -> Result<Verdict, HandlerError> {
        Ok(if (self.passes)(record.bytes) { Verdict::Pass } else { Verdict::Drop })
    }
}
