//! Handlers of both streams: two that change bytes and undo it, and others that are added, controlled,
//! replaced and removed.

use wirepath_streams::{Handler, HandlerChangeError, HandlerId, StreamBuilder};

use super::Weave;
use crate::carrier::Carrier;
use crate::dice::{Dice, Tally};
use crate::mask::Mask;
use crate::observer::{self, Seen};
use crate::record::{in_front, masked};

/// Most bytes of a record, or of a part of a stripe, that may be in progress when a handler is added.
const LONGEST: usize = 60_000;

pub(super) struct Watcher {
    /// Place of the handler's stream.
    place: usize,
    id: HandlerId,
    seen: Seen,
    /// The handler sees the change of the first handler.
    sees_masked: bool,
    /// Upper bound of the bytes made before the handler was added.
    before: usize,
    /// The handler stays until the end.
    stays: bool,
    /// The handler is to be removed.
    is_leaving: bool,
}

/// A handler that changes bytes, and one that undoes it, for the two streams.
pub(super) struct Pair {
    handlers: [(Handler, Seen); 2],
}

impl Pair {
    pub(super) fn new(mask: Mask, dice: &mut Dice, tally: &mut Tally) -> Pair {
        tally.note("handler: one that undoes the change of another");
        Pair { handlers: [(); 2].map(|()| observer::masker(mask, dice, tally)) }
    }

    /// Adds the handlers to the streams; returns what they see.
    pub(super) fn add(self, builders: [StreamBuilder; 2]) -> ([StreamBuilder; 2], [Seen; 2]) {
        let [(first, seen), (second, seen_there)] = self.handlers;
        let [spread, merge] = builders;
        ([spread.handler(first), merge.handler(second)], [seen, seen_there])
    }
}

/// The handlers of a pair, which are the last handlers of their streams.
pub(super) fn of_pair(seen: [Seen; 2], carriers: &mut [Carrier; 2]) -> Vec<Watcher> {
    let ids = carriers.iter_mut().map(|carrier| carrier.status().unwrap().handlers.last().unwrap().id);
    let watchers = ids.zip(seen).enumerate().map(|(place, (id, seen))| Watcher {
        place,
        id,
        seen,
        sees_masked: place == 1,
        before: 0,
        stays: true,
        is_leaving: false,
    });
    watchers.collect()
}

impl Weave<'_> {
    pub(super) fn add_handler(&mut self) {
        let place = self.dice.below(2);
        let (handler, seen) = observer::any(Mask::Nothing, &mut self.dice, &mut self.tally);
        let Some(id) = self.carriers[place].ask(move |stream| stream.add_handler(handler)) else { return };
        let longest = self.joined().map_or(LONGEST, |links| LONGEST * links);
        self.watchers.push(Watcher {
            place,
            id,
            seen,
            sees_masked: place == 0 && self.mask.is_some(),
            before: self.sent.len() + longest,
            stays: false,
            is_leaving: false,
        });
        self.tally.note("operation: add a handler");
    }

    /// Controls a handler, which must get the message between two records.
    pub(super) fn control_handler(&mut self) {
        let Some(number) = self.any_watcher() else { return };
        let Watcher { place, id, .. } = self.watchers[number];
        let accepted = self.carriers[place].ask(move |stream| stream.control_handler(id, &b"?"[..], drop));
        if is_accepted(accepted) {
            self.tally.note("operation: control a handler");
        }
    }

    pub(super) fn replace_handler(&mut self) {
        let Some(number) = self.any_watcher() else { return };
        let Watcher { place, id, seen, .. } = &self.watchers[number];
        let (id, seen) = (*id, seen.clone());
        let (handler, successor) = observer::successor(&seen, &mut self.dice, &mut self.tally);
        let replaced = self.carriers[*place].ask(move |stream| {
            stream.replace_handler(id, handler, move |old| seen.note_removed(&old, Some(successor)))
        });
        if is_accepted(replaced) {
            self.tally.note("operation: replace a handler");
        }
    }

    pub(super) fn remove_handler(&mut self) {
        let Some(number) = self.any_watcher().filter(|number| !self.watchers[*number].stays) else { return };
        let Watcher { place, id, seen, .. } = &self.watchers[number];
        let (id, seen) = (*id, seen.clone());
        let removed = self.carriers[*place]
            .ask(move |stream| stream.remove_handler(id, move |handler| seen.note_removed(&handler, None)));
        if is_accepted(removed) {
            self.watchers[number].is_leaving = true;
            self.tally.note("operation: remove a handler");
        }
    }

    fn any_watcher(&mut self) -> Option<usize> {
        let number = self.dice.below(self.watchers.len().max(1));
        self.watchers.get(number).filter(|watcher| !watcher.is_leaving).map(|_| number)
    }

    /// Checks that handlers saw the bytes of their streams, from some byte on to the end or to their removal.
    pub(super) fn check_watchers(&self) {
        let masked = self.masked();
        for watcher in &self.watchers {
            let Watcher { seen, sees_masked, before, is_leaving, .. } = watcher;
            let (all, bytes) = (if *sees_masked { &masked } else { &self.sent }, seen.bytes());
            assert!(seen.is_from_beginning(), "a handler saw the rest of a record");
            assert_eq!(seen.is_removed(), *is_leaving, "a handler was removed, or is still there");
            if *is_leaving {
                let is_part = bytes.is_empty() || all.windows(bytes.len()).any(|part| part == bytes);
                assert!(is_part, "a handler that was removed saw other bytes");
                continue;
            }
            assert!(all.ends_with(&bytes), "a handler saw other bytes");
            let begin = all.len() - bytes.len();
            assert!(
                begin <= *before,
                "a handler saw nothing of {begin} bytes, of which it had to from {before} on"
            );
        }
    }

    /// All bytes as the first handler of the pair leaves them.
    fn masked(&self) -> Vec<u8> {
        match self.mask {
            Some(Mask::Payload) => in_front(&self.sent).flat_map(masked).collect(),
            mask => {
                let mut bytes = self.sent.clone();
                mask.into_iter().for_each(|mask| mask.apply(&mut bytes, 0));
                bytes
            }
        }
    }
}

/// Returns whether a change was accepted; it is refused only if too many wait.
fn is_accepted(changed: Option<Result<(), HandlerChangeError>>) -> bool {
    if let Some(Err(error)) = changed {
        assert!(matches!(error, HandlerChangeError::Busy(_)), "{error}");
    }
    matches!(changed, Some(Ok(())))
}
