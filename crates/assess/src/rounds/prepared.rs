//! A run that has only to be sent.

use crate::calls::{self, Calls};
use crate::case::Case;
use crate::error::Error;
use crate::send::Sending;
use crate::sent::Sent;
use crate::test_socket::Watch;
use crate::walk::Walk;

/// A run that has only to be sent.
pub(crate) struct Prepared<'a> {
    sending: Sending<'a>,
    walk: Walk,
    watch: &'a mut Watch,
}

impl<'a> Prepared<'a> {
    pub(super) fn new(sending: Sending<'a>, walk: Walk, watch: &'a mut Watch) -> Prepared<'a> {
        Prepared { sending, walk, watch }
    }

    /// Sends it.
    pub(crate) fn all(&mut self) -> Result<Sent, Error> {
        self.sending.all(self.walk, self.watch)
    }

    /// Sends it and counts the kernel calls of that, but for waiting until the network is done with it.
    ///
    /// # Errors
    /// [`Error::Faulty`] if they are not those of the path's table.
    pub(crate) fn counted(&mut self, case: &Case, calls: &mut Calls) -> Result<(Sent, u64), Error> {
        let (sent, count) = calls.during(|| self.sending.walk(self.walk, self.watch))?;
        let sent = sent?;
        let stretches = self.walk.stretches(self.watch.train_packets(case).into());
        calls::check(case, stretches, &sent, self.watch.reports(), count)?;
        Ok((self.sending.end(sent)?, count))
    }

    /// Limits the run to what may be under way without waiting, headers included.
    pub(crate) fn shorten(&mut self, case: &Case) {
        let packets = self.watch.window() / u64::from(case.packet_size());
        let fits = packets.saturating_mul(case.size.unwrap_or(u16::MAX).into());
        self.walk = self.walk.up_to(fits.max(1));
    }

    /// Limits the run to the beginning of a file, as if the file had no more.
    pub(crate) fn of_a_file_of(&mut self, bytes: u64, case: &Case) {
        self.walk = case.walk(bytes, bytes);
    }
}
