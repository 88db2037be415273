//! Mailbox: commands to an engine thread, and handles for tasks on other threads.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use crate::counters::TaskUnit;
use crate::scheduler::Rate;
use crate::task::{Context, Task};

/// Call of a task, made between two of its callbacks.
pub(crate) type Act = Box<dyn FnOnce(&mut dyn Task, &mut Context<'_>) + Send>;

pub(crate) enum Command {
    Add { id: u64, task: Box<dyn Task>, unit: TaskUnit, class: usize, rate: Option<Rate> },
    With { id: u64, act: Act },
    Wake { id: u64, token: u64 },
    Stop { id: u64 },
    Quit,
}

/// Commands to an engine thread, and the descriptor that wakes the thread.
pub(crate) struct Mailbox {
    /// None after the thread has ended. Dropped commands drop their channel senders, so that receivers stop
    /// waiting.
    commands: Mutex<Option<Vec<Command>>>,
    pub(crate) eventfd: OwnedFd,
    is_signalled: AtomicBool,
    is_closed: AtomicBool,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox {
            commands: Mutex::new(Some(Vec::new())),
            eventfd,
            is_signalled: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Sends a command. Commands of the same caller run in order.
    pub(crate) fn send(&self, command: Command) {
        match &mut *self.commands.lock() {
            Some(commands) => commands.push(command),
            None => return,
        }
        if !self.is_signalled.swap(true, Ordering::AcqRel) {
            // A write fails only if the counter is at its limit, and the thread is then awake anyway.
            let written = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
            debug_assert!(written.is_ok());
        }
    }

    /// Moves all commands to `into`, which must be empty.
    pub(crate) fn take(&self, into: &mut Vec<Command>) {
        // The descriptor is read before the flag is cleared: a command sent in between wakes the thread
        // again.
        let mut count = [0; 8];
        let read = rustix::io::read(&self.eventfd, &mut count);
        debug_assert!(read.is_ok_and(|length| length == count.len()));
        self.is_signalled.store(false, Ordering::Release);
        if let Some(commands) = &mut *self.commands.lock() {
            std::mem::swap(commands, into);
        }
    }

    /// Returns whether the thread has ended. Takes no lock.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Closes the mailbox to further commands. Returns the remaining commands.
    pub(crate) fn close(&self) -> Vec<Command> {
        self.is_closed.store(true, Ordering::Relaxed);
        self.commands.lock().take().unwrap_or_default()
    }
}

/// Handle of a task. Dropping it does not end the task.
pub struct Handle<T> {
    id: u64,
    mailbox: Arc<Mailbox>,
    task: PhantomData<fn(T)>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Handle<T> {
        Handle::new(self.id, Arc::clone(&self.mailbox))
    }
}

impl<T> Handle<T> {
    pub(crate) fn new(id: u64, mailbox: Arc<Mailbox>) -> Handle<T> {
        Handle { id, mailbox, task: PhantomData }
    }

    /// Asks the task to end ([`Task::stop`]).
    pub fn stop(&self) {
        self.mailbox.send(Command::Stop { id: self.id });
    }

    /// Returns a waker that calls [`Task::wake`] with `token`.
    pub fn waker(&self, token: u64) -> Waker {
        Waker::new(self.id, Arc::clone(&self.mailbox), token)
    }
}

impl<T: Task> Handle<T> {
    /// Runs `act` on the task's thread, between two of the task's callbacks. `act` must not block. If the
    /// task has ended, `act` is dropped without being called.
    pub fn with(&self, act: impl FnOnce(&mut T, &mut Context<'_>) + Send + 'static) {
        let act: Act = Box::new(move |task, context| {
            let task: &mut dyn Any = task;
            let task = task.downcast_mut::<T>();
            act(task.expect("a handle has the type of its task"), context);
        });
        self.mailbox.send(Command::With { id: self.id, act });
    }
}

/// Wakes a task, from any thread and any number of times.
#[derive(Clone)]
pub struct Waker {
    id: u64,
    mailbox: Arc<Mailbox>,
    token: u64,
}

impl Waker {
    pub(crate) fn new(id: u64, mailbox: Arc<Mailbox>, token: u64) -> Waker {
        Waker { id, mailbox, token }
    }

    /// Makes the engine thread call [`Task::wake`]. Never blocks.
    pub fn wake(&self) {
        self.mailbox.send(Command::Wake { id: self.id, token: self.token });
    }
}

impl PartialEq for Waker {
    fn eq(&self, other: &Waker) -> bool {
        (self.id, self.token) == (other.id, other.token) && Arc::ptr_eq(&self.mailbox, &other.mailbox)
    }
}

impl Eq for Waker {}

impl Hash for Waker {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.id, self.token).hash(state);
    }
}

impl std::fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Waker").field("task", &self.id).field("token", &self.token).finish()
    }
}
