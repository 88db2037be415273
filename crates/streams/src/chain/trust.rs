//! Handlers of an output that are in force while its peer has less than some trust.

use super::{Chain, Change, Link, What};
use crate::handler::Reach;
use crate::trust::Trust;

/// Force of a handler.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Force {
    /// The handler is in force below this trust; always if there is none.
    pub(super) below: Option<Trust>,
    /// It is not in force: records pass it.
    pub(super) is_suspended: bool,
}

impl Link {
    fn is_wanted(&self, trust: Trust) -> bool {
        self.force.below.is_none_or(|below| trust < below)
    }
}

impl Chain {
    /// Puts the last handler in force only below this trust. No record has passed it.
    pub(crate) fn limit_last(&mut self, below: Trust) {
        let trust = self.trust;
        if let Some(link) = self.links.last_mut() {
            link.force.below = Some(below);
            link.force.is_suspended = !link.is_wanted(trust);
        }
    }

    /// Reaches of the handlers that come into force with this trust.
    pub(crate) fn reaches_wanted(&self, trust: Trust) -> Vec<Reach> {
        let come = |link: &&Link| link.force.is_suspended && link.is_wanted(trust);
        self.links.iter().filter(come).map(|link| link.handler.reach()).collect()
    }

    /// Changes the trust. Handlers come into force with the next record that begins, or with the next byte if
    /// the output has no records; they are suspended when the current record has ended.
    pub(crate) fn set_trust(&mut self, trust: Trust, has_records: bool) {
        self.trust = trust;
        // Those that still waited are decided upon again.
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
