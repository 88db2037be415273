//! Scheduler: decides which task has the next turn, and how many bytes it may move (KStreams' stream
//! scheduler, section 3.4).
//!
//! Pure: the inputs are time, readiness and costs, the outputs are actions. Classes share volume, as in the
//! paper, or processor time ([`Round`]).
//!
//! Each task belongs to a class. A [`Policy`] divides turns between classes. Within a class, tasks are served
//! first come, first served; with [`Policy::Deadline`], by earliest deadline. Classes and tasks may have a
//! [`Rate`] under any policy. Every policy, built-in or custom, is a [`TurnPolicy`].

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

/// Cost of a turn. Shares and rates may use different quantities: shares all bytes moved, and rates the bytes
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cost for the share of the class: in bytes, or under [`Round::ProcessorTime`] in nanoseconds, since
    /// many turns take less than a microsecond.
    pub shared: u64,
    /// Cost for the rates of the task and its class, in bytes.
    pub rated: u64,
}

impl From<u64> for Cost {
    fn from(cost: u64) -> Cost {
        Cost { shared: cost, rated: cost }
    }
}

/// Next action of the engine thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Gives this task a turn. Its cost must be reported with [`Scheduler::acted`].
    Act {
        /// Task with the turn.
        task: usize,
        /// Maximum number of bytes to move. Bytes beyond it are charged to later turns. So is processor time
        /// beyond the rest of the round, which is known only after the turn.
        allowance: u64,
    },
    /// No turn before this time, in microseconds.
    At(u64),
    /// No task is ready.
    Nothing,
}

/// Scheduler of the tasks of a thread. The caller chooses the numbers of tasks, which should be small, as
/// from a slab.
pub(crate) struct Scheduler {
    policy: GuardedPolicy,
    has_deadlines: bool,
    turn: u64,
    classes: Vec<Queue>,
    tasks: Vec<Option<TaskState>>,
    /// Tasks that wait for their rate, ordered by the time at which they may continue.
    held: BinaryHeap<Reverse<(u64, usize)>>,
    /// Next arrival number. Arrivals order tasks first come, first served.
    arrivals: u64,
}

/// Class with its ready tasks.
#[derive(Debug)]
struct Queue {
    priority: u8,
    bucket: Option<Bucket>,
    /// Ready tasks, ordered by deadline (equal for all if deadlines are not used), then by arrival. May
    /// contain stale entries of tasks that are no longer ready; the state of the task decides.
    ready: BinaryHeap<Reverse<Entry>>,
}

/// Deadline, arrival number and task.
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
    /// In the queue of the class, with this arrival number.
    Ready(u64),
    /// Waiting for the rate until this time, ready afterwards with this deadline.
    Held {
        deadline_us: u64,
        until_us: u64,
    },
    Acting,
}

/// Deadline of tasks without a deadline.
const NEVER: u64 = u64::MAX;

impl Scheduler {
    /// Scheduler of `classes`; if there are none, of a single class without limits. Allowances are at most
    /// `turn` bytes, so that other tasks do not wait long.
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

    /// Takes the reason why the policy was replaced, if it failed since the last call.
    pub(crate) fn take_policy_failure(&mut self) -> Option<String> {
        self.policy.failure.take()
    }

    /// Adds a task that is not ready. A class number beyond the end selects the last class.
    pub(crate) fn add(&mut self, task: usize, class: usize, rate: Option<Rate>) {
        if task >= self.tasks.len() {
            self.tasks.resize_with(task + 1, || None);
        }
        let class = class.min(self.classes.len() - 1);
        let bucket = rate.map(Bucket::new);
        self.tasks[task] = Some(TaskState { class, bucket, state: State::Idle });
    }

    /// Changes or removes the rate of a task. The bytes already spent count against the new rate, up to its
    /// burst.
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

    /// Removes a task. Its number may be used again.
    pub(crate) fn remove(&mut self, task: usize) {
        if let Some(entry) = self.tasks.get_mut(task) {
            *entry = None;
        }
    }

    /// Marks a task ready. Has no effect on a task that is already ready or has its turn: such a task reports
    /// in [acted](Scheduler::acted) whether it is still ready.
    pub(crate) fn ready(&mut self, task: usize) {
        self.ready_by(task, NEVER);
    }

    /// Like [`Scheduler::ready`], with a deadline in microseconds for [`Policy::Deadline`].
    pub(crate) fn ready_by(&mut self, task: usize, deadline_us: u64) {
        if matches!(self.tasks.get(task), Some(Some(known)) if known.state == State::Idle) {
            self.queue(task, deadline_us);
        }
    }

    /// Determines the next action at `now_us`.
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

    /// Charges a task for its turn. `more` is true if the task is still ready. Must be called before the task
    /// is removed, or the class is not charged.
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

    /// Moves tasks that their rate allows to continue back to their queues.
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

    /// Class with the next turn, among the classes that have a ready task and whose rate is not used up.
    fn choose(&mut self, now_us: u64) -> Option<usize> {
        for class in 0..self.classes.len() {
            self.forget_stale(class);
        }
        self.policy.next(&ReadyClasses::new(&self.classes, now_us))
    }

    /// Removes stale entries at the front of a class's queue.
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

    /// Next action if no turn is possible now: the time of the next turn, or nothing.
    fn wait(&self, now_us: u64) -> Next {
        let held = self.held.peek().map(|Reverse((until_us, _))| *until_us);
        let closed = self.classes.iter().filter(|queue| !queue.ready.is_empty());
        let opening = closed.filter_map(|queue| queue.bucket.as_ref()).map(Bucket::open_us);
        opening.chain(held).min().map_or(Next::Nothing, |at_us| Next::At(at_us.max(now_us + 1)))
    }
}

#[cfg(test)]
mod tests;
