//! Waiting for the descriptors of a stream on an engine thread: one epoll instance for all.

use rustix::event::epoll::EventFlags;

use super::{Output, Port, Stream, StreamError, nth_mut};
use crate::object::{Object, ObjectError};
use wirepath_engine::{StallDetector, Watcher};

/// What a stream waits for a port for. Edges: a port stays ready until a call says that it is not.
pub(super) const READING: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);
pub(super) const WRITING: EventFlags = EventFlags::OUT.union(EventFlags::ET);

/// Whether an output is waited for from the beginning. One of datagrams is only while it is full: epoll would be told of every datagram
/// that leaves, because each makes room (`sock_wfree`), and would wake us for it.
pub(super) fn is_watched_always(object: &Object) -> bool {
    !object.has_records()
}

/// Watches an object, unless it is always ready.
pub(super) fn watch(
    watcher: &Watcher,
    port: Port,
    object: &Object,
    flags: EventFlags,
) -> Result<(), ObjectError> {
    let Some(descriptor) = object.descriptor() else { return Ok(()) };
    let flags = if object.is_listening() { READING } else { flags };
    watcher.add(descriptor, port.token(), flags).map_err(|errno| object.error("epoll_ctl", errno))
}

impl Port {
    /// What comes back with events. Ports are counted up from 0; a stream does not have 2^32 of them at a time.
    fn token(self) -> u32 {
        self.0 as u32
    }

    /// The port that a token was made of.
    pub(crate) fn of_token(token: u32) -> Port {
        Port(token.into())
    }
}

impl Stream {
    /// Waits for all descriptors, also those that are attached later, by `watch`.
    pub(crate) fn watch(&mut self, watcher: Watcher) -> Result<(), StreamError> {
        // Kept first: what was added before one could not be is removed again when the stream ends.
        let watcher = self.watcher.insert(watcher);
        let inputs = self.inputs.iter().map(|input| (input.port, &input.object));
        let expected = self.expected.iter().map(|expected| (expected.port, &expected.object));
        for (port, object) in inputs.chain(expected) {
            watch(watcher, port, object, READING)?;
        }
        for output in self.outputs.iter_mut().chain(&mut self.leaving) {
            output.watched = is_watched_always(&output.object) || !output.writable;
            if output.watched {
                watch(watcher, output.port, &output.object, WRITING)?;
            }
        }
        Ok(())
    }

    /// Waits for an object that was attached.
    pub(super) fn watch_one(&mut self, port: Port, object: &Object, flags: EventFlags) {
        let Some(watcher) = &self.watcher else { return };
        if let Err(error) = watch(watcher, port, object, flags) {
            self.failed = Some(error.into());
        }
    }

    /// Waits for an output that is full, if that is not waited for anyway.
    pub(super) fn watch_full(&mut self, place: usize) -> Result<(), ObjectError> {
        let (watcher, output) = (&self.watcher, nth_mut(&mut self.outputs, &mut self.leaving, place));
        match (watcher, output) {
            (Some(watcher), Some(output)) if !output.writable && !output.watched => {
                output.watched = true;
                watch(watcher, output.port, &output.object, WRITING)
            }
            _ => Ok(()),
        }
    }

    /// Waits for an object no more, which may go on elsewhere.
    pub(super) fn release(watcher: Option<&Watcher>, object: &Object) {
        if let (Some(watcher), Some(descriptor)) = (watcher, object.descriptor()) {
            watcher.remove(descriptor);
        }
    }
}

impl Output {
    /// It has room again, perhaps.
    pub(super) fn note_room(&mut self, watcher: Option<&Watcher>) {
        self.writable = true;
        if self.watched && !is_watched_always(&self.object) {
            self.watched = false;
            Stream::release(watcher, &self.object);
        }
    }
}

impl Stream {
    /// Waits by the watch no more. Whoever waits next is not told what was ready before, so all is tried.
    pub(crate) fn unwatch(&mut self) {
        self.release_all();
        self.watcher = None;
        self.inputs.iter_mut().for_each(|input| input.readable = true);
        self.wake_inputs();
        self.expected.iter_mut().for_each(|expected| expected.readable = true);
        self.outputs.iter_mut().chain(&mut self.leaving).for_each(|output| output.writable = true);
        // Nobody looks while nobody runs it.
        let outputs = self.outputs.iter_mut().chain(&mut self.leaving);
        outputs.for_each(|output| output.stall_detector = StallDetector::default());
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
        objects.for_each(|object| Stream::release(self.watcher.as_ref(), object));
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.give_back();
        // A descriptor that was duplicated would stay in epoll after it is closed here.
        self.release_all();
    }
}
