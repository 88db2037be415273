//! Scheduler: which task has the next turn, and how much it may move (KStreams' stream scheduler, section
//! 3.4).
//!
//! Pure: time, readiness and costs come in, actions go out. Classes share volume, as in the paper, or
//! processor time ([`Round`]).
//!
//! Tasks belong to classes. A [`Policy`] divides between classes; within a class it is first come, first
//! served (with [`Policy::Deadline`]: earliest deadline first). Classes and tasks may have a [`Rate`] under
//! any policy. A policy is a [`TurnPolicy`], the engine's own as well as those of others.

mod bucket;
mod guarded;
mod policy;
mod share;
mod turn_policy;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use policy::{Class, CustomPolicy, Policy, Rate, Round};
pub use turn_policy::{ReadyClass, ReadyClasses, TurnPolicy};

use bucket::Bucket;
use guarded::GuardedPolicy;

/// Cost of a turn. Shares and rates may be of different quantities: of all that was moved, and of what came
/// in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// For the share of the class: in bytes, or under [`Round::ProcessorTime`] in nanoseconds, since many a
    /// turn takes less than a microsecond.
    pub shared: u64,
    /// For the rates of the task and its class, in bytes.
    pub rated: u64,
}

impl From<u64> for Cost {
    fn from(cost: u64) -> Cost {
        Cost { shared: cost, rated: cost }
    }
}

/// Next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Give this task a turn, and report its cost with [`Scheduler::acted`].
    Act {
        /// The task.
        task: usize,
        /// Most bytes to move. What is moved beyond that is charged to later turns, and so is processor time
        /// beyond what is left of the round, which is known only after the turn.
        allowance: u64,
    },
    /// No turn before this time, in microseconds.
    At(u64),
    /// No task is ready.
    Nothing,
}

/// Decides which task has the next turn. Tasks have small numbers that the caller gives, as from a slab.
pub(crate) struct Scheduler {
    policy: GuardedPolicy,
    has_deadlines: bool,
    turn: u64,
    classes: Vec<Queue>,
    tasks: Vec<Option<TaskState>>,
    /// Tasks that a rate holds back, by the time when it lets them continue.
    held: BinaryHeap<Reverse<(u64, usize)>>,
    /// Numbers what becomes ready, for first come, first served.
    arrivals: u64,
}

/// A class and its tasks that are ready.
#[derive(Debug)]
struct Queue {
    priority: u8,
    bucket: Option<Bucket>,
    /// By deadline (the same for all where deadlines do not matter), then by arrival. May have entries of
    /// tasks that are no longer ready; the task knows.
    ready: BinaryHeap<Reverse<Entry>>,
}

/// Deadline, arrival, task.
type Entry = (u64, u64, usize);

#[derive(Debug)]
struct TaskState {
    class: usize,
    bucket: Option<Bucket>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// In its class's queue, under this arrival.
    Ready(u64),
    /// Would be ready with this deadline, but for its rate, until this time.
    Held {
        deadline_us: u64,
        until_us: u64,
    },
    Acting,
}

/// Deadline of tasks without one.
const NEVER: u64 = u64::MAX;

impl Scheduler {
    /// Scheduler of `classes` (without any: one class without limits), with allowances of at most `turn`
    /// bytes, so that others do not wait long.
    pub(crate) fn new(policy: Policy, mut classes: Vec<Class>, turn: u64) -> Scheduler {
        if classes.is_empty() {
            classes.push(Class { name: "default".to_owned(), priority: 0, share: 1, rate: None });
        }
        let has_deadlines = policy.has_deadlines();
        let policy = GuardedPolicy::new(&policy, &classes);
        let classes = classes
            .iter()
            .map(|class| Queue {
                priority: class.priority,
                bucket: class.rate.map(Bucket::new),
                ready: BinaryHeap::new(),
            })
            .collect();
        let (tasks, held) = (Vec::new(), BinaryHeap::new());
        Scheduler { policy, has_deadlines, turn: turn.max(1), classes, tasks, held, arrivals: 0 }
    }

    /// Takes the cause for which the policy was replaced, if it failed since the last call.
    pub(crate) fn take_policy_failure(&mut self) -> Option<String> {
        self.policy.failure.take()
    }

    /// Adds a task that is not ready. A class beyond the end stands for the last.
    pub(crate) fn add(&mut self, task: usize, class: usize, rate: Option<Rate>) {
        if task >= self.tasks.len() {
            self.tasks.resize_with(task + 1, || None);
        }
        let class = class.min(self.classes.len() - 1);
        let bucket = rate.map(Bucket::new);
        self.tasks[task] = Some(TaskState { class, bucket, state: State::Idle });
    }

    /// Gives a task another rate, or none. Of what it spent, no more than the new burst counts against the
    /// new rate.
    pub(crate) fn set_rate(&mut self, task: usize, rate: Option<Rate>, now_us: u64) {
        let Some(Some(known)) = self.tasks.get_mut(task) else { return };
        let before = known.bucket.take();
        known.bucket =
            rate.map(|rate| before.map_or_else(|| Bucket::new(rate), |bucket| bucket.with(rate, now_us)));
        // A raised rate wakes tasks that waited for the old one.
        if let State::Held { deadline_us, .. } = known.state {
            self.held.retain(|Reverse((_, held))| *held != task);
            self.queue(task, deadline_us);
        }
    }

    /// Removes a task; its number may be used again.
    pub(crate) fn remove(&mut self, task: usize) {
        if let Some(entry) = self.tasks.get_mut(task) {
            *entry = None;
        }
    }

    /// Marks a task ready. Without effect on one that is ready already or has its turn, which says so when it
    /// has [acted](Scheduler::acted).
    pub(crate) fn ready(&mut self, task: usize) {
        self.ready_by(task, NEVER);
    }

    /// As [`Scheduler::ready`], with a deadline in microseconds for [`Policy::Deadline`].
    pub(crate) fn ready_by(&mut self, task: usize, deadline_us: u64) {
        if matches!(self.tasks.get(task), Some(Some(known)) if known.state == State::Idle) {
            self.queue(task, deadline_us);
        }
    }

    /// Next action at `now_us`.
    pub(crate) fn next(&mut self, now_us: u64) -> Next {
        self.let_go_on(now_us);
        loop {
            let Some(class) = self.choose(now_us) else { return self.wait(now_us) };
            let Some((deadline_us, task)) = self.take(class) else { continue };
            let until_us = self.tasks[task]
                .as_ref()
                .and_then(|known| known.bucket.as_ref())
                .map(|bucket| bucket.open_us());
            if let Some(until_us) = until_us.filter(|until_us| *until_us > now_us) {
                self.set_state(task, State::Held { deadline_us, until_us });
                self.held.push(Reverse((until_us, task)));
                continue;
            }
            self.set_state(task, State::Acting);
            return Next::Act { task, allowance: self.allowance(task, class, now_us) };
        }
    }

    /// Charges a task for its turn; `more` says that it is still ready. Call it before the task is removed,
    /// or its class is not charged.
    pub(crate) fn acted(&mut self, task: usize, cost: impl Into<Cost>, more: bool, now_us: u64) {
        let cost: Cost = cost.into();
        let Some(Some(known)) = self.tasks.get_mut(task) else { return };
        known.state = State::Idle;
        self.policy.acted(known.class, cost);
        let buckets = [known.bucket.as_mut(), self.classes[known.class].bucket.as_mut()];
        buckets.into_iter().flatten().for_each(|bucket| bucket.spend(cost.rated, now_us));
        if more {
            self.ready(task);
        }
    }

    fn queue(&mut self, task: usize, deadline_us: u64) {
        let deadline_us = if self.has_deadlines { deadline_us } else { NEVER };
        let arrival = self.arrivals;
        self.arrivals += 1;
        if let Some(Some(known)) = self.tasks.get_mut(task) {
            known.state = State::Ready(arrival);
            self.classes[known.class].ready.push(Reverse((deadline_us, arrival, task)));
        }
    }

    fn set_state(&mut self, task: usize, state: State) {
        if let Some(Some(known)) = self.tasks.get_mut(task) {
            known.state = state;
        }
    }

    /// Puts tasks whose rate allows them to continue back into their queues.
    fn let_go_on(&mut self, now_us: u64) {
        while let Some(Reverse((until_us, task))) = self.held.peek().copied() {
            if until_us > now_us {
                return;
            }
            self.held.pop();
            let state = self.tasks[task].as_ref().map(|known| known.state);
            if let Some(State::Held { deadline_us, until_us: held_until_us }) = state
                && held_until_us == until_us
            {
                self.queue(task, deadline_us);
            }
        }
    }

    /// The class with the next turn, of those that have a ready task and whose rate is not used up.
    fn choose(&mut self, now_us: u64) -> Option<usize> {
        for class in 0..self.classes.len() {
            self.forget_stale(class);
        }
        self.policy.next(&ReadyClasses::new(&self.classes, now_us))
    }

    /// Drops stale entries in front of a class's queue.
    fn forget_stale(&mut self, class: usize) {
        while let Some(Reverse((_, arrival, task))) = self.classes[class].ready.peek() {
            let state = self.tasks[*task].as_ref().map(|known| known.state);
            if state == Some(State::Ready(*arrival)) {
                return;
            }
            self.classes[class].ready.pop();
        }
    }

    fn take(&mut self, class: usize) -> Option<(u64, usize)> {
        self.classes[class].ready.pop().map(|Reverse((deadline_us, _, task))| (deadline_us, task))
    }

    fn allowance(&mut self, task: usize, class: usize, now_us: u64) -> u64 {
        let of_task = self.tasks[task].as_ref().and_then(|known| known.bucket.as_ref());
        let buckets = [of_task, self.classes[class].bucket.as_ref()];
        let allowed = buckets.iter().flatten().map(|bucket| bucket.level(now_us)).fold(self.turn, u64::min);
        allowed.min(self.policy.allowance(class)).max(1)
    }

    /// Time of the next turn when none is possible now.
    fn wait(&self, now_us: u64) -> Next {
        let held = self.held.peek().map(|Reverse((until_us, _))| *until_us);
        let closed = self.classes.iter().filter(|queue| !queue.ready.is_empty());
        let opening = closed.filter_map(|queue| queue.bucket.as_ref()).map(Bucket::open_us);
        opening.chain(held).min().map_or(Next::Nothing, |at_us| Next::At(at_us.max(now_us + 1)))
    }
}

#[cfg(test)]
mod tests;
