//! Handlers of an output that are in force only while the trust in its peer is below a limit.

use super::{Chain, Change, Link, What};
use crate::handler::Reach;
use crate::trust::Trust;

/// State that decides whether a handler is in force.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Force {
    /// The handler is in force only below this trust; None if it always is.
    pub(super) below: Option<Trust>,
    /// The handler is not in force: records pass without it.
    pub(super) is_suspended: bool,
}

impl Link {
    fn is_wanted(&self, trust: Trust) -> bool {
        self.force.below.is_none_or(|below| trust < below)
    }
}

impl Chain {
    /// Limits the last handler to trust below this value. The handler must not have seen a record yet.
    pub(crate) fn limit_last(&mut self, below: Trust) {
        let trust = self.trust;
        if let Some(link) = self.links.last_mut() {
            link.force.below = Some(below);
            link.force.is_suspended = !link.is_wanted(trust);
        }
    }

    /// Reaches of the handlers that this trust puts in force.
    pub(crate) fn reaches_wanted(&self, trust: Trust) -> Vec<Reach> {
        let come = |link: &&Link| link.force.is_suspended && link.is_wanted(trust);
        self.links.iter().filter(come).map(|link| link.handler.reach()).collect()
    }

    /// Sets the trust. Handlers come into force at the beginning of the next record, or at the next byte if
    /// the output has no records; they are suspended at the end of the current record.
    pub(crate) fn set_trust(&mut self, trust: Trust, has_records: bool) {
        self.trust = trust;
        // Suspensions that are still deferred are decided again.
        self.changes.retain(|change| !matches!(change.what, What::Suspend));
        for link in &mut self.links {
            match (link.force.is_suspended, link.is_wanted(trust)) {
                (true, true) => {
                    link.force.is_suspended = false;
                    link.gate.is_dropping = false;
                    link.awaits_record = has_records;
                }
                (false, false) => self.changes.push_back(Change { id: link.id, what: What::Suspend }),
                (true, false) | (false, true) => {}
            }
        }
    }
}
