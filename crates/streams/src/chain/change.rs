//! Changes of handlers between two records: control messages, removal and replacement.

use bytes::Bytes;

use super::{Chain, ChainError, Link};
use crate::handler::{Handler, HandlerError, HandlerId, Reach, WaitingChange};

/// Most changes of a chain that are deferred to the end of a record.
pub(crate) const MAX_WAITING_CHANGES: usize = 16;

/// Receiver of the answer to a control message.
pub(crate) type OnAnswer = Box<dyn FnOnce(Result<Vec<u8>, HandlerError>) + Send>;

/// Receiver of a handler that was removed.
pub(crate) type OnRemoved = Box<dyn FnOnce(Handler) + Send>;

/// Change of a handler.
pub(crate) struct Change {
    pub(crate) id: HandlerId,
    pub(crate) what: What,
}

pub(crate) enum What {
    Control(Bytes, OnAnswer),
    Remove(OnRemoved),
    Replace(Box<Handler>, OnRemoved),
    /// Suspends the handler.
    Suspend,
}

impl What {
    fn kind(&self) -> WaitingChange {
        match self {
            What::Control(..) => WaitingChange::Control,
            What::Remove(_) => WaitingChange::Remove,
            What::Replace(..) => WaitingChange::Replace,
            What::Suspend => WaitingChange::Suspend,
        }
    }
}

impl std::fmt::Debug for Change {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Change").field(&self.id).finish()
    }
}

impl Chain {
    pub(crate) fn has(&self, id: HandlerId) -> bool {
        self.links.iter().any(|link| link.id == id)
    }

    /// Returns whether changes are deferred to the end of a record.
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Changes of a handler that are deferred to the end of a record.
    pub(super) fn waiting_changes(&self, id: HandlerId) -> Vec<WaitingChange> {
        self.changes.iter().filter(|change| change.id == id).map(|change| change.what.kind()).collect()
    }

    /// Adds a change. Returns false if too many changes are deferred.
    pub(crate) fn add_change(&mut self, change: Change) -> bool {
        let has_room = self.changes.len() < MAX_WAITING_CHANGES;
        if has_room {
            self.changes.push_back(change);
        }
        has_room
    }

    /// Makes the changes that are possible now: between two records all of them; within an endless record
    /// (`is_endless`) only changes of a handler that holds no part of the record and lets it pass.
    pub(crate) fn make_changes(&mut self, is_endless: bool) -> Result<(), ChainError> {
        while let Some(change) = self.changes.front() {
            let place = self.links.iter().position(|link| link.id == change.id);
            let may_change = match place {
                _ if !self.within_record || self.is_empty() => true,
                Some(place) => is_endless && self.links[place].is_between(),
                None => true,
            };
            if !may_change {
                break;
            }
            let Some(Change { what, .. }) = self.changes.pop_front() else { break };
            self.make(place, what)?;
        }
        Ok(())
    }

    fn make(&mut self, place: Option<usize>, what: What) -> Result<(), ChainError> {
        match (place, what) {
            (Some(place), What::Control(message, on_answer)) => {
                let link = &mut self.links[place];
                let answer = link.handler.control(&message);
                let checked = match &answer {
                    Err(error @ HandlerError::Failed(_)) => Err(error.clone()),
                    _ => link.check_state(),
                };
                on_answer(checked.clone().and(answer));
                let handler = link.handler.name();
                self.has_failed |= checked.is_err();
                return checked.map_err(|error| ChainError { handler, error });
            }
            (Some(place), What::Remove(on_removed)) => on_removed(self.links.remove(place).handler),
            (Some(place), What::Replace(handler, on_removed)) => {
                let Link { id, force, mut awaits_record, .. } = self.links[place];
                // For a handler of whole records, an endless record ends here. Its end is still to come.
                awaits_record |= handler.reach() != Reach::Pieces;
                let link = Link { force, awaits_record, ..Link::new(id, *handler, self.drops_refused) };
                on_removed(std::mem::replace(&mut self.links[place], link).handler);
            }
            (Some(place), What::Suspend) => self.links[place].force.is_suspended = true,
            (None, What::Control(_, on_answer)) => {
                on_answer(Err(HandlerError::Refused("the handler was removed".to_owned())));
            }
            (None, What::Remove(_) | What::Replace(..) | What::Suspend) => {} // removed by an earlier change
        }
        Ok(())
    }
}

impl Link {
    /// Returns whether the handler holds nothing of the current record and lets the record pass.
    fn is_between(&self) -> bool {
        self.gathered_bytes() == 0 && !self.gate.is_dropping && !self.gate.is_within_head
    }
}
