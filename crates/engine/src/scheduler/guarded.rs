//! Built-in policies, and the guard that replaces a failed policy.

use std::cmp::Reverse;

use super::Cost;
use super::policy::{Class, Policy, Round};
use super::share::Shares;
use super::turn_policy::{ReadyClasses, TurnPolicy};
use crate::panic::catch_panic;

/// First come, first served, or earliest deadline first. Ignores classes.
struct FirstCome;

impl TurnPolicy for FirstCome {
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize {
        let first = ready.iter().min_by_key(|class| (class.deadline_us, class.arrival));
        first.map_or(usize::MAX, |class| class.class)
    }
}

struct Priority;

impl TurnPolicy for Priority {
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize {
        let first = ready.iter().min_by_key(|class| (Reverse(class.priority), class.arrival));
        first.map_or(usize::MAX, |class| class.class)
    }
}

struct FairShare {
    shares: Shares,
    /// True if the rest of the round limits a turn, since the cost is known before the turn.
    limits_turns: bool,
}

impl TurnPolicy for FairShare {
    fn next(&mut self, ready: &ReadyClasses<'_>) -> usize {
        self.shares.next(|class| ready.get(class).is_some()).unwrap_or(usize::MAX)
    }

    fn allowance(&self, class: usize) -> u64 {
        if self.limits_turns { self.shares.left(class) } else { u64::MAX }
    }

    fn acted(&mut self, class: usize, cost: Cost) {
        self.shares.spend(class, cost.shared);
    }
}

impl Policy {
    /// Makes the policy of an engine thread.
    fn for_thread(&self, classes: &[Class]) -> Box<dyn TurnPolicy> {
        match self {
            Policy::BestEffort | Policy::Deadline => Box::new(FirstCome),
            Policy::Priority => Box::new(Priority),
            Policy::FairShare { round, carry_percent } => {
                let shares = classes.iter().map(|class| class.share);
                let shares = Shares::new(shares, round.cost(), *carry_percent);
                Box::new(FairShare { shares, limits_turns: matches!(round, Round::Volume(_)) })
            }
            Policy::Custom(custom) => custom.make(classes),
        }
    }

    /// Returns whether the tasks of a class are ordered by deadline.
    pub(super) fn has_deadlines(&self) -> bool {
        matches!(self, Policy::Deadline | Policy::Custom(_))
    }
}

/// Policy that is replaced by first come, first served when it fails.
pub(super) struct GuardedPolicy {
    policy: Box<dyn TurnPolicy>,
    /// Reason of the failure, until it is reported.
    pub(super) failure: Option<String>,
}

impl GuardedPolicy {
    pub(super) fn new(policy: &Policy, classes: &[Class]) -> GuardedPolicy {
        GuardedPolicy { policy: policy.for_thread(classes), failure: None }
    }

    /// Class with the next turn; None if no class is ready.
    pub(super) fn next(&mut self, ready: &ReadyClasses<'_>) -> Option<usize> {
        ready.iter().next()?;
        match catch_panic(|| self.policy.next(ready)) {
            Ok(class) if ready.get(class).is_some() => return Some(class),
            Ok(class) => self.fail(format!("it chose class {class}, which is not ready")),
            Err(message) => self.fail(format!("it panicked: {message}")),
        }
        Some(FirstCome.next(ready))
    }

    pub(super) fn allowance(&mut self, class: usize) -> u64 {
        catch_panic(|| self.policy.allowance(class)).unwrap_or_else(|message| {
            self.fail(format!("it panicked: {message}"));
            u64::MAX
        })
    }

    pub(super) fn acted(&mut self, class: usize, cost: Cost) {
        if let Err(message) = catch_panic(|| self.policy.acted(class, cost)) {
            self.fail(format!("it panicked: {message}"));
        }
    }

    fn fail(&mut self, cause: String) {
        let failed = std::mem::replace(&mut self.policy, Box::new(FirstCome));
        self.failure.get_or_insert(cause);
        if let Err(message) = catch_panic(|| drop(failed)) {
            tracing::error!(message, "dropping a failed scheduling policy panicked");
        }
    }
}
