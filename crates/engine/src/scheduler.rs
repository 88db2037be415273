//! Which stream acts next, and how much it may move: the KStreams paper's stream scheduler (section 3.4).
//!
//! Pure: time, readiness and what was done come in, actions go out; whoever calls has the clocks and the
//! sockets. What classes share is volume, as in the paper, or processor time ([`Round`]).
//!
//! Streams belong to classes. A [`Policy`] divides between classes; within a class it is first come, first
//! served (with [`Policy::Deadline`]: earliest deadline first). Classes and streams may have a [`Rate`] under
//! any policy.

mod bucket;
mod policy;
mod share;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use policy::{Class, Policy, Rate, Round};

use bucket::Bucket;
use share::Shares;

/// What a turn cost. Shares and rates may be of different things: of all that was moved, and of what came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// For the share of the class: in bytes, or under [`Round::ProcessorTime`] in nanoseconds, since many a
    /// turn takes less than a microsecond.
    pub shared: u64,
    /// For the rates of the stream and its class, in bytes.
    pub rated: u64,
}

impl From<u64> for Cost {
    fn from(cost: u64) -> Cost {
        Cost { shared: cost, rated: cost }
    }
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Let this stream act, and say with [`Scheduler::acted`] what came of it.
    Act {
        /// The stream.
        stream: usize,
        /// What it should move at most, in bytes. Moving more is an error of the stream's, which is made up
        /// for later; so is processor time beyond what is left of the round, since nobody knows what a turn
        /// takes before it was taken.
        allowance: u64,
    },
    /// Nothing may act before this time, in microseconds.
    At(u64),
    /// Nothing has anything to do.
    Nothing,
}

/// Decides which stream acts next. Streams have small numbers that the caller gives, as from a slab.
#[derive(Debug)]
pub struct Scheduler {
    policy: Policy,
    turn: u64,
    classes: Vec<Queue>,
    shares: Shares,
    streams: Vec<Option<Stream>>,
    /// Streams that a rate keeps waiting, by when it lets them go on.
    held: BinaryHeap<Reverse<(u64, usize)>>,
    /// Numbers what becomes ready, so that first come is first served.
    arrivals: u64,
}

/// A class and its streams that are ready.
#[derive(Debug)]
struct Queue {
    priority: u8,
    bucket: Option<Bucket>,
    /// By deadline (the same for all where deadlines do not matter), then by arrival. May have entries of
    /// streams that are not ready any more; the stream knows.
    ready: BinaryHeap<Reverse<Entry>>,
}

/// Deadline, arrival, stream.
type Entry = (u64, u64, usize);

#[derive(Debug)]
struct Stream {
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
    /// Was told to act.
    Acting,
}

/// The deadline of what has none.
const NEVER: u64 = u64::MAX;

impl Scheduler {
    /// A scheduler of `classes` (without any, one that has no limits), which gives a stream allowances of at
    /// most `turn` bytes, so that others do not wait long.
    pub fn new(policy: Policy, mut classes: Vec<Class>, turn: u64) -> Scheduler {
        if classes.is_empty() {
            classes.push(Class { name: "default".to_owned(), priority: 0, share: 1, rate: None });
        }
        let shares = match policy {
            Policy::FairShare { round, carry_percent } => {
                Shares::new(classes.iter().map(|class| class.share), round.cost(), carry_percent)
            }
            _ => Shares::new(classes.iter().map(|_| 1), 1, 0),
        };
        let classes = classes
            .iter()
            .map(|class| Queue {
                priority: class.priority,
                bucket: class.rate.map(Bucket::new),
                ready: BinaryHeap::new(),
            })
            .collect();
        let (streams, held) = (Vec::new(), BinaryHeap::new());
        Scheduler { policy, turn: turn.max(1), classes, shares, streams, held, arrivals: 0 }
    }

    /// Makes a stream known; it has nothing to do yet. A class that is not there stands for the last.
    pub fn add(&mut self, stream: usize, class: usize, rate: Option<Rate>) {
        if stream >= self.streams.len() {
            self.streams.resize_with(stream + 1, || None);
        }
        let class = class.min(self.classes.len() - 1);
        let bucket = rate.map(Bucket::new);
        self.streams[stream] = Some(Stream { class, bucket, state: State::Idle });
    }

    /// Gives a stream another rate, or none. Of what it spent, no more than the new burst counts against
    /// that.
    pub fn set_rate(&mut self, stream: usize, rate: Option<Rate>, now_us: u64) {
        let Some(Some(known)) = self.streams.get_mut(stream) else { return };
        let before = known.bucket.take();
        known.bucket =
            rate.map(|rate| before.map_or_else(|| Bucket::new(rate), |bucket| bucket.with(rate, now_us)));
        // Whom the rate before kept waiting has a turn when the new one lets him.
        if let State::Held { deadline_us, .. } = known.state {
            self.held.retain(|Reverse((_, held))| *held != stream);
            self.queue(stream, deadline_us);
        }
    }

    /// Forgets a stream; its number may be used again.
    pub fn remove(&mut self, stream: usize) {
        if let Some(entry) = self.streams.get_mut(stream) {
            *entry = None;
        }
    }

    /// A stream has something to do. Without effect on one that is ready already, or acting: that one says so
    /// when it has
    /// [acted](Scheduler::acted).
    pub fn ready(&mut self, stream: usize) {
        self.ready_by(stream, NEVER);
    }

    /// Like [`Scheduler::ready`], and under [`Policy::Deadline`] what it has to do should be done by this
    /// time, in microseconds.
    pub fn ready_by(&mut self, stream: usize, deadline_us: u64) {
        if matches!(self.streams.get(stream), Some(Some(known)) if known.state == State::Idle) {
            self.queue(stream, deadline_us);
        }
    }

    /// What to do at `now_us`.
    pub fn next(&mut self, now_us: u64) -> Next {
        self.let_go_on(now_us);
        loop {
            let Some(class) = self.choose(now_us) else { return self.wait(now_us) };
            let Some((deadline_us, stream)) = self.take(class) else { continue };
            let until_us = self.streams[stream]
                .as_ref()
                .and_then(|known| known.bucket.as_ref())
                .map(|bucket| bucket.open_us());
            if let Some(until_us) = until_us.filter(|until_us| *until_us > now_us) {
                self.set_state(stream, State::Held { deadline_us, until_us });
                self.held.push(Reverse((until_us, stream)));
                continue;
            }
            self.set_state(stream, State::Acting);
            return Next::Act { stream, allowance: self.allowance(stream, class, now_us) };
        }
    }

    /// What came of letting a stream act: its cost, and whether it has more to do at once. To be said before
    /// the stream is removed, or its class has moved for nothing.
    pub fn acted(&mut self, stream: usize, cost: impl Into<Cost>, more: bool, now_us: u64) {
        let Cost { shared, rated } = cost.into();
        let Some(Some(known)) = self.streams.get_mut(stream) else { return };
        known.state = State::Idle;
        self.shares.spend(known.class, shared);
        let buckets = [known.bucket.as_mut(), self.classes[known.class].bucket.as_mut()];
        buckets.into_iter().flatten().for_each(|bucket| bucket.spend(rated, now_us));
        if more {
            self.ready(stream);
        }
    }

    /// Puts a stream into its class's queue.
    fn queue(&mut self, stream: usize, deadline_us: u64) {
        let deadline_us = if self.policy == Policy::Deadline { deadline_us } else { NEVER };
        let arrival = self.arrivals;
        self.arrivals += 1;
        if let Some(Some(known)) = self.streams.get_mut(stream) {
            known.state = State::Ready(arrival);
            self.classes[known.class].ready.push(Reverse((deadline_us, arrival, stream)));
        }
    }

    fn set_state(&mut self, stream: usize, state: State) {
        if let Some(Some(known)) = self.streams.get_mut(stream) {
            known.state = state;
        }
    }

    /// Puts those whose rate kept them waiting until now back into their queues.
    fn let_go_on(&mut self, now_us: u64) {
        while let Some(Reverse((until_us, stream))) = self.held.peek().copied() {
            if until_us > now_us {
                return;
            }
            self.held.pop();
            let state = self.streams[stream].as_ref().map(|known| known.state);
            if let Some(State::Held { deadline_us, until_us: held_until_us }) = state
                && held_until_us == until_us
            {
                self.queue(stream, deadline_us);
            }
        }
    }

    /// The class whose turn it is, of those that have something ready and whose rate is not used up.
    fn choose(&mut self, now_us: u64) -> Option<usize> {
        for class in 0..self.classes.len() {
            self.forget_stale(class);
        }
        let open = |queue: &Queue| {
            !queue.ready.is_empty() && queue.bucket.as_ref().is_none_or(|bucket| bucket.open_us() <= now_us)
        };
        let first = |queue: &Queue| {
            queue.ready.peek().map(|Reverse((deadline_us, arrival, _))| (*deadline_us, *arrival))
        };
        let classes = self.classes.iter().enumerate().filter(|(_, queue)| open(queue));
        match self.policy {
            Policy::BestEffort | Policy::Deadline => {
                classes.min_by_key(|(_, queue)| first(queue)).map(|(class, _)| class)
            }
            Policy::Priority => classes
                .min_by_key(|(_, queue)| (Reverse(queue.priority), first(queue)))
                .map(|(class, _)| class),
            Policy::FairShare { .. } => {
                let classes = &self.classes;
                self.shares.next(|class| open(&classes[class]))
            }
        }
    }

    /// Drops entries in front of a class's queue whose streams are not waiting there any more.
    fn forget_stale(&mut self, class: usize) {
        while let Some(Reverse((_, arrival, stream))) = self.classes[class].ready.peek() {
            let state = self.streams[*stream].as_ref().map(|known| known.state);
            if state == Some(State::Ready(*arrival)) {
                return;
            }
            self.classes[class].ready.pop();
        }
    }

    fn take(&mut self, class: usize) -> Option<(u64, usize)> {
        self.classes[class].ready.pop().map(|Reverse((deadline_us, _, stream))| (deadline_us, stream))
    }

    fn allowance(&self, stream: usize, class: usize, now_us: u64) -> u64 {
        let of_stream = self.streams[stream].as_ref().and_then(|known| known.bucket.as_ref());
        let buckets = [of_stream, self.classes[class].bucket.as_ref()];
        let allowed = buckets.iter().flatten().map(|bucket| bucket.level(now_us)).fold(self.turn, u64::min);
        let of_round = match self.policy {
            Policy::FairShare { round: Round::Volume(_), .. } => self.shares.left(class),
            _ => u64::MAX,
        };
        allowed.min(of_round).max(1)
    }

    /// Nothing can act: until when?
    fn wait(&self, now_us: u64) -> Next {
        let held = self.held.peek().map(|Reverse((until_us, _))| *until_us);
        let closed = self.classes.iter().filter(|queue| !queue.ready.is_empty());
        let opening = closed.filter_map(|queue| queue.bucket.as_ref()).map(Bucket::open_us);
        opening.chain(held).min().map_or(Next::Nothing, |at_us| Next::At(at_us.max(now_us + 1)))
    }
}

#[cfg(test)]
mod tests;
