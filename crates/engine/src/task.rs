//! Tasks, and their requests to the engine thread.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::blocking_pool::BlockingPool;
use crate::counters::{LoadUnit, TaskUnit, ThreadCounters};
use crate::mailbox::{Handle, Mailbox, Waker};
use crate::scheduler::{Cost, Rate, Scheduler};
use crate::timer_wheel::TimerWheel;

/// Work on an engine thread. Callbacks must not block.
pub trait Task: Any + Send {
    /// Called once on the task's thread, before all other callbacks.
    fn start(&mut self, context: &mut Context<'_>);

    /// Called when the task's timer is due.
    fn fire(&mut self, _context: &mut Context<'_>) {}

    /// Called when a descriptor that the task [watches](Watcher) is ready or has failed.
    fn ready(&mut self, _event: Event, _context: &mut Context<'_>) {}

    /// Called after [`Waker::wake`](crate::Waker::wake), with the token of the waker.
    fn wake(&mut self, _token: u64, _context: &mut Context<'_>) {}

    /// Called when the task has its turn, after a [request](Context::request_turn). The task should move at
    /// most `allowance` bytes. Returns the cost of the turn.
    fn turn(&mut self, _allowance: u64, _context: &mut Context<'_>) -> Cost {
        Cost::default()
    }

    /// Reports the processor time of the last turn in nanoseconds, if classes share processor time
    /// ([`Round::ProcessorTime`](crate::Round::ProcessorTime)).
    fn note_processor_time(&mut self, _used_ns: u64) {}

    /// Called by [`Handle::stop`]. The task should end now, or as soon as it can.
    fn stop(&mut self, context: &mut Context<'_>) {
        context.end();
    }

    /// Last callback, called after the task has [ended](Context::end) or when the engine ends. `pool` has
    /// threads that may block. Not called after a panic on the task's thread, which drops the task.
    fn end(self: Box<Self>, pool: &BlockingPool);
}

/// Readiness of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Token with which the descriptor was [added](Watcher::add).
    pub token: u32,
    /// Flags that epoll reported.
    pub flags: EventFlags,
}

/// State of an engine thread that its tasks use.
pub(crate) struct Core {
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) epoll: Arc<OwnedFd>,
    pub(crate) timers: TimerWheel,
    pub(crate) scheduler: Scheduler,
    pub(crate) pool: BlockingPool,
    pub(crate) counters: Arc<ThreadCounters>,
}

impl Core {
    /// Ends a task. The counters are updated before the task's last callback.
    pub(crate) fn conclude(&self, task: Box<dyn Task>, unit: TaskUnit) {
        drop(unit);
        task.end(&self.pool);
    }
}

/// Context of a callback, for requests of the task to its thread.
pub struct Context<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) key: usize,
    pub(crate) id: u64,
    pub(crate) requested_turn: Option<Option<u64>>,
    pub(crate) has_ended: bool,
}

impl Context<'_> {
    /// Sets the task's timer to a time in microseconds of CLOCK_MONOTONIC, and replaces an earlier setting.
    /// The timer fires at most a [tick](crate::TICK_US) late, never early.
    pub fn set_timer(&mut self, at_us: u64) {
        self.core.timers.set(self.key, at_us);
    }

    /// Clears the task's timer.
    pub fn clear_timer(&mut self) {
        self.core.timers.cancel(self.key);
    }

    /// Requests a turn.
    pub fn request_turn(&mut self) {
        self.requested_turn.get_or_insert(None);
    }

    /// Requests a turn that, under [`Policy::Deadline`](crate::Policy::Deadline), should be over by this time
    /// in microseconds of CLOCK_MONOTONIC.
    pub fn request_turn_by(&mut self, deadline_us: u64) {
        self.requested_turn = Some(Some(deadline_us));
    }

    /// Sets the limit of the task's reading rate from now on.
    pub fn set_rate(&mut self, rate: Option<Rate>, now_us: u64) {
        self.core.scheduler.set_rate(self.key, rate, now_us);
    }

    /// Ends the task after this callback.
    pub fn end(&mut self) {
        self.has_ended = true;
    }

    /// Returns a watcher of descriptors for this task.
    pub fn watcher(&self) -> Watcher {
        let (epoll, mailbox) = (Arc::clone(&self.core.epoll), Arc::clone(&self.core.mailbox));
        Watcher { epoll, mailbox, key: self.key, id: self.id }
    }

    /// Handle of the task. `T` must be the type of the task.
    pub fn handle<T: Task>(&self) -> Handle<T> {
        Handle::new(self.id, Arc::clone(&self.core.mailbox))
    }

    /// Adds a unit of load to this thread, as [`Engine::add_load`](crate::Engine::add_load) does.
    pub fn add_load(&self) -> LoadUnit {
        LoadUnit::new(&self.core.counters)
    }

    /// Pool of threads that may block.
    pub fn pool(&self) -> &BlockingPool {
        &self.core.pool
    }
}

/// Watches descriptors for a task, and makes [`Waker`]s for the task.
#[derive(Clone)]
pub struct Watcher {
    epoll: Arc<OwnedFd>,
    mailbox: Arc<Mailbox>,
    key: usize,
    id: u64,
}

impl Watcher {
    /// Watches a descriptor. Its events have this `token`. Descriptors that are always ready, such as
    /// `/dev/null`, have no events.
    ///
    /// # Errors
    /// `epoll_ctl` failed.
    pub fn add(&self, descriptor: BorrowedFd<'_>, token: u32, flags: EventFlags) -> Result<(), Errno> {
        let data = EventData::new_u64(u64::from(self.key as u32) | u64::from(token) << 32);
        match epoll::add(&self.epoll, descriptor, data, flags) {
            Ok(()) | Err(Errno::PERM) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Returns a waker that calls [`Task::wake`] with `token`.
    pub fn waker(&self, token: u64) -> Waker {
        Waker::new(self.id, Arc::clone(&self.mailbox), token)
    }

    /// Stops watching a descriptor. A descriptor that is not watched is not an error, since its owner may
    /// have closed the file.
    pub fn remove(&self, descriptor: impl AsFd) {
        if let Err(errno) = epoll::delete(&self.epoll, descriptor)
            && !matches!(errno, Errno::NOENT | Errno::PERM)
        {
            tracing::error!(%errno, "epoll_ctl failed to remove a descriptor");
        }
    }
}

/// Task key and token of an event.
pub(crate) fn parts(data: u64) -> (usize, u32) {
    (data as u32 as usize, (data >> 32) as u32)
}
