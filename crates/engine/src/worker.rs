//! Engine thread: runs due timers, gives turns, and then sleeps until something is ready.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use slab::Slab;

use crate::blocking_pool::BlockingPool;
use crate::clock::{now_us, thread_time_ns};
use crate::counters::{TaskUnit, ThreadCounters};
use crate::mailbox::{Command, Mailbox};
use crate::scheduler::{Cost, Next, Rate, Scheduler};
use crate::sharing::Sharing;
use crate::task::{Context, Core, Event, Task, parts};
use crate::timer_wheel::TimerWheel;

pub(crate) struct Worker {
    core: Core,
    tasks: Slab<Entry>,
    /// Key in `tasks` for each task identity; commands carry the identity.
    keys: HashMap<u64, usize>,
    /// True if turns are measured, which takes two system calls per turn.
    measures_turns: bool,
    /// Time since which the thread is awake, in microseconds of CLOCK_MONOTONIC.
    awake_since_us: u64,
}

struct Entry {
    id: u64,
    task: Box<dyn Task>,
    unit: TaskUnit,
}

/// Epoll data of the mailbox. Tasks use their key and a token.
const MAILBOX: u64 = u64::MAX;

/// Maximum number of bytes that a turn should move: about 50 microseconds of work, so that no task waits
/// long.
pub const TURN_BYTES: u64 = 256 * 1024;

/// Maximum number of turns before commands and events are handled again.
const TURNS: usize = 64;

/// Maximum number of events taken from epoll at a time.
const EVENTS: usize = 256;

impl Worker {
    pub(crate) fn new(
        sharing: Sharing,
        mailbox: Arc<Mailbox>,
        counters: Arc<ThreadCounters>,
        pool: BlockingPool,
    ) -> io::Result<Worker> {
        let epoll: Arc<OwnedFd> = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        epoll::add(&epoll, &mailbox.eventfd, epoll::EventData::new_u64(MAILBOX), epoll::EventFlags::IN)?;
        let measures_turns = sharing.is_of_processor_time();
        let scheduler = Scheduler::new(sharing.policy, sharing.classes, TURN_BYTES);
        let timers = TimerWheel::new(now_us());
        let core = Core { mailbox, epoll, timers, scheduler, pool, counters };
        Ok(Worker {
            core,
            tasks: Slab::new(),
            keys: HashMap::new(),
            measures_turns,
            awake_since_us: now_us(),
        })
    }

    /// Runs until the engine is dropped.
    pub(crate) fn run(mut self) {
        let mut commands = Vec::new();
        loop {
            self.fire_due();
            let next_turn_us = self.run_turns();
            if self.sleep(next_turn_us) {
                self.core.mailbox.take(&mut commands);
                for command in commands.drain(..) {
                    if matches!(command, Command::Quit) {
                        return self.quit();
                    }
                    self.handle(command);
                }
            }
        }
    }

    /// Fires the timers that are due now. Timers that become due meanwhile wait until commands and events are
    /// handled; otherwise an overloaded thread would never receive the command to stop.
    fn fire_due(&mut self) {
        let now_us = now_us();
        while let Some(key) = self.core.timers.pop(now_us) {
            self.call(key, |task, context| task.fire(context));
        }
    }

    /// Gives turns until commands and events must be handled. Returns the time of the next turn, in
    /// microseconds of CLOCK_MONOTONIC.
    fn run_turns(&mut self) -> Option<u64> {
        for _ in 0..TURNS {
            match self.core.scheduler.next(now_us()) {
                Next::Act { task, allowance } => self.run_turn(task, allowance),
                Next::At(at_us) => return Some(at_us),
                Next::Nothing => return None,
            }
            self.report_policy_failure();
            self.fire_due(); // timers have deadlines, so they go before turns
        }
        Some(0)
    }

    fn report_policy_failure(&mut self) {
        if let Some(cause) = self.core.scheduler.take_policy_failure() {
            self.core.counters.policy_failures.increment();
            tracing::error!(cause, "scheduling policy failed; using best effort");
        }
    }

    fn run_turn(&mut self, key: usize, allowance: u64) {
        let begun_ns = self.measures_turns.then(thread_time_ns);
        self.call(key, |task, context| {
            let cost = task.turn(allowance, context);
            context.core.counters.turns.increment();
            context.core.counters.moved_bytes.add(cost.shared);
            // A turn costs at least 1 ns, even if the clock is coarse.
            let used_ns = begun_ns.map(|begun_ns| thread_time_ns().saturating_sub(begun_ns).max(1));
            let shared = used_ns.unwrap_or(cost.shared);
            context.core.scheduler.acted(key, Cost { shared, ..cost }, false, now_us());
            if let Some(used_ns) = used_ns {
                task.note_processor_time(used_ns);
            }
        });
    }

    /// Sleeps until a timer or a turn is due, or an event arrives. Returns whether there are commands.
    fn sleep(&mut self, next_turn_us: Option<u64>) -> bool {
        let due_us = [self.core.timers.next_us(), next_turn_us].into_iter().flatten().min();
        let now_us = now_us();
        self.core.counters.awake_seconds.add_us(now_us.saturating_sub(self.awake_since_us));
        let timeout = due_us.map(|due_us| duration(due_us.saturating_sub(now_us)));
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let waited = epoll::wait(&self.core.epoll, &mut events[..], timeout.as_ref());
        self.awake_since_us = crate::clock::now_us();
        let ready = match waited {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return false,
            Err(errno) => {
                // Cannot fail with a valid descriptor and buffer. The thread continues.
                tracing::error!(%errno, "epoll_wait failed");
                return false;
            }
        };
        self.core.counters.wakeups.increment();
        let mut has_commands = false;
        for event in ready.iter() {
            match event.data.u64() {
                MAILBOX => has_commands = true,
                data => {
                    let ((key, token), flags) = (parts(data), event.flags);
                    self.call(key, |task, context| task.ready(Event { token, flags }, context));
                }
            }
        }
        has_commands
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Add { id, task, unit, class, rate } => self.add(Entry { id, task, unit }, class, rate),
            Command::With { id, act } => self.call_by_id(id, act),
            Command::Wake { id, token } => self.call_by_id(id, |task, context| task.wake(token, context)),
            Command::Stop { id } => self.call_by_id(id, |task, context| task.stop(context)),
            Command::Quit => {}
        }
    }

    fn add(&mut self, entry: Entry, class: usize, rate: Option<Rate>) {
        let id = entry.id;
        let key = self.tasks.insert(entry);
        self.keys.insert(id, key);
        self.core.scheduler.add(key, class, rate);
        self.call(key, |task, context| task.start(context));
    }

    fn call_by_id(&mut self, id: u64, act: impl FnOnce(&mut dyn Task, &mut Context<'_>)) {
        if let Some(key) = self.keys.get(&id).copied() {
            self.call(key, act);
        }
    }

    /// Calls a task, and then executes its requests. Events of ended tasks are ignored.
    fn call(&mut self, key: usize, act: impl FnOnce(&mut dyn Task, &mut Context<'_>)) {
        let Some(Entry { id, task, .. }) = self.tasks.get_mut(key) else { return };
        let mut context =
            Context { core: &mut self.core, key, id: *id, requested_turn: None, has_ended: false };
        act(task.as_mut(), &mut context);
        let (requested_turn, has_ended) = (context.requested_turn, context.has_ended);
        if has_ended {
            return self.end(key);
        }
        match requested_turn {
            Some(Some(deadline_us)) => self.core.scheduler.ready_by(key, deadline_us),
            Some(None) => self.core.scheduler.ready(key),
            None => {}
        }
    }

    fn end(&mut self, key: usize) {
        self.core.timers.cancel(key);
        self.core.scheduler.remove(key);
        let Entry { id, task, unit } = self.tasks.remove(key);
        self.keys.remove(&id);
        self.core.conclude(task, unit);
    }

    fn quit(mut self) {
        let keys: Vec<usize> = self.tasks.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.end(key));
        for command in self.core.mailbox.close() {
            if let Command::Add { task, unit, .. } = command {
                self.core.conclude(task, unit);
            }
        }
    }
}

fn duration(us: u64) -> Timespec {
    Timespec { tv_sec: (us / 1_000_000) as i64, tv_nsec: (us % 1_000_000 * 1000) as i64 }
}
