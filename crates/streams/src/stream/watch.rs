//! Waiting for the descriptors of a stream on an engine thread: one epoll instance for all.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use super::{Output, Port, Stream, StreamError, nth_mut};
use crate::object::{Object, ObjectError};
use crate::standstill::Standstill;

/// Where a stream's descriptors are waited for.
pub(crate) struct Watch {
    epoll: Arc<OwnedFd>,
    key: usize,
}

/// What a stream waits for a port for. Edges: a port stays ready until a call says that it is not.
pub(super) const READING: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);
pub(super) const WRITING: EventFlags = EventFlags::OUT.union(EventFlags::ET);

/// Whether an output is waited for from the beginning. One of datagrams is only while it is full: epoll would be told of every datagram
/// that leaves, because each makes room (`sock_wfree`), and would wake us for it.
pub(super) fn is_watched_always(object: &Object) -> bool {
    !object.has_records()
}

/// What comes back with an event: the task's key below, and the port above.
fn data(key: usize, port: Port) -> u64 {
    u64::from(key as u32) | port.0 << 32
}

/// The task's key and the port of an event.
pub(crate) fn parts(data: u64) -> (usize, Port) {
    (data as u32 as usize, Port(data >> 32))
}

/// Begins to wait for an object, unless it is always ready.
pub(super) fn add(
    epoll: &OwnedFd,
    object: &Object,
    data: EventData,
    flags: EventFlags,
) -> Result<(), ObjectError> {
    let Some(descriptor) = object.descriptor() else { return Ok(()) };
    let flags = if object.is_listening() { READING } else { flags };
    match epoll::add(epoll, descriptor, data, flags) {
        // A device that is always ready, such as /dev/null.
        Ok(()) | Err(Errno::PERM) => Ok(()),
        Err(errno) => Err(object.error("epoll_ctl", errno)),
    }
}

impl Watch {
    /// For the task of this key.
    pub(crate) fn new(epoll: Arc<OwnedFd>, key: usize) -> Watch {
        Watch { epoll, key }
    }

    /// Begins to wait for an object, unless it is always ready.
    pub(super) fn add(&self, port: Port, object: &Object, flags: EventFlags) -> Result<(), ObjectError> {
        add(&self.epoll, object, EventData::new_u64(data(self.key, port)), flags)
    }

    /// Waits for an object no more.
    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) {
        // Whoever has the descriptor may have closed what it stood for, or it was one that is never waited for.
        if let Err(errno) = epoll::delete(&self.epoll, descriptor)
            && !matches!(errno, Errno::NOENT | Errno::PERM)
        {
            tracing::error!(%errno, "a descriptor could not be taken out of epoll");
        }
    }
}

impl Stream {
    /// Waits for all descriptors, also those that are attached later, by `watch`.
    pub(crate) fn watch(&mut self, watch: Watch) -> Result<(), StreamError> {
        // Kept first: what was added before one could not be is taken out again when the stream ends.
        let watch = self.watch.insert(watch);
        let inputs = self.inputs.iter().map(|input| (input.port, &input.object));
        let expected = self.expected.iter().map(|expected| (expected.port, &expected.object));
        for (port, object) in inputs.chain(expected) {
            watch.add(port, object, READING)?;
        }
        for output in self.outputs.iter_mut().chain(&mut self.leaving) {
            output.watched = is_watched_always(&output.object) || !output.writable;
            if output.watched {
                watch.add(output.port, &output.object, WRITING)?;
            }
        }
        Ok(())
    }

    /// Waits for an object that was attached.
    pub(super) fn watch_one(&mut self, port: Port, object: &Object, flags: EventFlags) {
        let Some(watch) = &self.watch else { return };
        if let Err(error) = watch.add(port, object, flags) {
            self.failed = Some(error.into());
        }
    }

    /// Waits for an output that is full, if that is not waited for anyway.
    pub(super) fn watch_full(&mut self, place: usize) -> Result<(), ObjectError> {
        let (watch, output) = (&self.watch, nth_mut(&mut self.outputs, &mut self.leaving, place));
        match (watch, output) {
            (Some(watch), Some(output)) if !output.writable && !output.watched => {
                output.watched = true;
                watch.add(output.port, &output.object, WRITING)
            }
            _ => Ok(()),
        }
    }

    /// Waits for an object no more, which may go on elsewhere.
    pub(super) fn release(watch: Option<&Watch>, object: &Object) {
        if let (Some(watch), Some(descriptor)) = (watch, object.descriptor()) {
            watch.remove(descriptor);
        }
    }
}

impl Output {
    /// It has room again, perhaps.
    pub(super) fn note_room(&mut self, watch: Option<&Watch>) {
        self.writable = true;
        if self.watched && !is_watched_always(&self.object) {
            self.watched = false;
            Stream::release(watch, &self.object);
        }
    }
}

impl Stream {
    /// Waits by the watch no more. Whoever waits next is not told what was ready before, so all is tried.
    pub(crate) fn unwatch(&mut self) {
        self.release_all();
        self.watch = None;
        self.inputs.iter_mut().for_each(|input| input.readable = true);
        self.wake_inputs();
        self.expected.iter_mut().for_each(|expected| expected.readable = true);
        self.outputs.iter_mut().chain(&mut self.leaving).for_each(|output| output.writable = true);
        // Nobody looks while nobody runs it.
        let outputs = self.outputs.iter_mut().chain(&mut self.leaving);
        outputs.for_each(|output| output.standstill = Standstill::default());
    }

    /// Whether somebody else has something of it: bytes to be written, or to be brought into memory.
    pub(crate) fn waits_for_storage(&self) -> bool {
        let mut outputs = self.outputs.iter().chain(&self.leaving);
        self.inputs.iter().any(|input| input.busy) || outputs.any(|output| output.busy)
    }

    /// Whether somebody else is writing for it.
    pub(crate) fn is_writing(&self) -> bool {
        self.outputs.iter().chain(&self.leaving).any(|output| output.busy)
    }

    /// Closes connections, so that their peers see it now. The rest may take its time to be closed.
    pub(crate) fn close_connections(&mut self) {
        self.unwatch();
        let objects = self.inputs.iter_mut().map(|input| &mut input.object);
        let outputs = self.outputs.iter_mut().chain(&mut self.leaving);
        objects.chain(outputs.map(|output| &mut output.object)).for_each(Object::close_connection);
    }

    fn release_all(&self) {
        let objects = self.inputs.iter().map(|input| &input.object);
        let objects = objects.chain(self.outputs.iter().chain(&self.leaving).map(|output| &output.object));
        let objects = objects.chain(self.expected.iter().map(|expected| &expected.object));
        objects.for_each(|object| Stream::release(self.watch.as_ref(), object));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.give_back();
        // A descriptor that was duplicated would stay in epoll after it is closed here.
        self.release_all();
    }
}
