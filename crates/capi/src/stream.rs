//! A stream: built, started, waited for.

use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use wirepath_streams::{
    Object, OutputOptions, RunningStream, Stream, StreamBuilder, StreamError, StreamEvents, StreamOptions,
};

use crate::call::{
    FAILED, Failure, OK, STATE, STOPPED, TIMEOUT, bytes, call, call_from_anywhere, reference,
    refuse_in_handler, text,
};
use crate::engine::SharedEngine;
use crate::handler::{self, RawHandler};
use crate::values::{self, RawEvent, RawFraming, RawStatus, handler_number, port_number};

/// Time for which a change of a running stream waits for its thread.
const ANSWER: Duration = Duration::from_secs(10);

/// `wp_stream`.
#[derive(Default)]
pub struct SharedStream {
    state: Mutex<State>,
    /// The started stream. Behind a lock of its own, in which no function of C is called: a handler, or the
    /// release of a context, may stop a stream whose state its caller changes.
    running: Mutex<Option<Running>>,
}

/// Threads of C share it.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<SharedStream>();
    is_shared::<SharedEngine>();
};

enum State {
    /// Order and pattern may be set.
    New(Box<StreamBuilder>),
    Built(Box<Stream>),
    Started,
}

impl Default for State {
    fn default() -> State {
        State::New(Box::default())
    }
}

#[derive(Clone)]
pub(crate) struct Running {
    stream: Arc<RunningStream>,
    events: StreamEvents,
    _engine: SharedEngine,
}

/// Receiver of the result of a change.
pub(crate) type Answers<T> = Sender<Result<T, Failure>>;

impl SharedStream {
    pub(crate) fn set(&self, set: impl FnOnce(StreamBuilder) -> StreamBuilder) -> Result<c_int, Failure> {
        match &mut *self.state.lock() {
            State::New(builder) => {
                **builder = set(mem::take(builder));
                Ok(OK)
            }
            _ => Err(Failure(
                STATE,
                "order and pattern are set before inputs, outputs and handlers".to_owned(),
            )),
        }
    }

    /// Changes the stream, on its thread if it runs.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Stream) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let running = match &mut *self.state.lock() {
            State::Started => self.running()?,
            built => return change(built.stream()?),
        };
        ask(&running, ANSWER, change)?
    }

    /// Makes a change that may wait for the end of a record, and returns what it sends.
    pub(crate) fn change_later<T: Send + 'static>(
        &self,
        limit: Duration,
        change: impl FnOnce(&mut Stream, Answers<T>) -> Result<(), Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, receiver) = channel();
        let change = move |stream: &mut Stream| {
            let refused = sender.clone();
            // Nobody may wait for it any more.
            change(stream, sender).unwrap_or_else(|failure| drop(refused.send(Err(failure))));
        };
        match &mut *self.state.lock() {
            State::Started => self.running()?.stream.with(change),
            built => change(built.stream()?),
        }
        let waits = "the change waits for the end of a record or for a handler; it is still made later";
        let gone = "the stream has ended, or the handler was removed by another change";
        receive(&receiver, limit, waits, gone)?
    }

    fn start(&self, engine: Option<&SharedEngine>) -> Result<c_int, Failure> {
        let mut state = self.state.lock();
        let events =
            state.stream()?.events().map_err(|error| Failure::failed(format!("eventfd: {error}")))?;
        let engine = engine.map_or_else(|| SharedEngine::start(1), |engine| Ok(engine.clone()))?;
        let threads = engine.engine()?;
        // Held until the stream is there: its handlers may stop it at once.
        let mut running = self.running.lock();
        if let State::Built(stream) = mem::replace(&mut *state, State::Started) {
            let options = StreamOptions::with_pace_of(&stream);
            let stream = Arc::new(stream.start(threads, options));
            *running = Some(Running { stream, events, _engine: engine });
        }
        Ok(OK)
    }

    pub(crate) fn running(&self) -> Result<Running, Failure> {
        let reason = "the stream has not been started: call wp_stream_start";
        self.running.lock().clone().ok_or_else(|| Failure(STATE, reason.to_owned()))
    }
}

impl State {
    /// The stream, which is built now if it was not.
    fn stream(&mut self) -> Result<&mut Stream, Failure> {
        if let State::New(builder) = self {
            *self = State::Built(Box::new(mem::take(&mut **builder).build()));
        }
        match self {
            State::Built(stream) => Ok(stream),
            State::New(_) | State::Started => {
                Err(Failure(STATE, "the stream was started already".to_owned()))
            }
        }
    }
}

/// Has the stream's thread answer.
fn ask<T: Send + 'static>(
    running: &Running,
    limit: Duration,
    question: impl FnOnce(&mut Stream) -> T + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = channel();
    // Nobody may wait for it any more.
    running.stream.with(move |stream| drop(sender.send(question(stream))));
    let waits = "the stream's thread does not answer: a handler may hold it";
    receive(&receiver, limit, waits, "the stream has ended")
}

/// Waits for an answer. `waits` says what it waits for, `gone` why there will be none.
fn receive<T>(receiver: &Receiver<T>, limit: Duration, waits: &str, gone: &str) -> Result<T, Failure> {
    receiver.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => Failure(TIMEOUT, waits.to_owned()),
        RecvTimeoutError::Disconnected => Failure(STATE, gone.to_owned()),
    })
}

/// Time limit of a call, of which a negative one is none.
pub(crate) fn limit(timeout_ms: i64) -> Duration {
    u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis)
}

/// An object for a duplicate of a descriptor.
fn object(name: &str, descriptor: c_int) -> Result<Object, Failure> {
    if descriptor < 0 {
        return Err(Failure::invalid(format!("{name}: invalid descriptor {descriptor}")));
    }
    // SAFETY: it is not -1. If nothing is open by this number, duplicating fails, and nothing else is done.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let object = descriptor.try_clone_to_owned().and_then(|descriptor| Object::from_fd(name, descriptor));
    object.map_err(|error| Failure::failed(format!("{name}: {error}")))
}

fn attach_input(stream: &SharedStream, object: Object, framing: RawFraming) -> Result<i64, Failure> {
    let framing = framing.framing()?;
    stream.change(move |stream| match stream.attach_input(object, framing) {
        Ok(port) => Ok(port_number(port)),
        Err(error) => Err(Failure(STATE, error.to_string())),
    })
}

/// A stream without inputs and outputs.
#[unsafe(no_mangle)]
pub extern "C" fn wp_stream_new() -> *mut SharedStream {
    call(|| Ok(Box::into_raw(Box::default())))
}

/// Stops the stream if it runs, and gives back its memory.
///
/// # Safety
/// `stream` is NULL or of [`wp_stream_new`], and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_free(stream: *mut SharedStream) {
    if !stream.is_null() {
        // SAFETY: it is a box of `wp_stream_new`, and the caller has no other use of it.
        drop(unsafe { Box::from_raw(stream) });
    }
}

/// Sets the order of inputs.
///
/// # Safety
/// `stream` is NULL or of [`wp_stream_new`], and was not freed. So of all functions that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_order(stream: *const SharedStream, order: c_int) -> c_int {
    call(|| {
        let order = values::order(order)?;
        // SAFETY: the caller vouches for it.
        unsafe { reference(stream, "stream") }?.set(|builder| builder.order(order))
    })
}

/// Sets the pattern of outputs.
///
/// # Safety
/// See [`wp_stream_order`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_pattern(stream: *const SharedStream, pattern: c_int) -> c_int {
    call(|| {
        let pattern = values::pattern(pattern)?;
        // SAFETY: the caller vouches for it.
        unsafe { reference(stream, "stream") }?.set(|builder| builder.pattern(pattern))
    })
}

/// Attaches an input.
///
/// # Safety
/// See [`wp_stream_order`]; `name` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_input(
    stream: *const SharedStream,
    name: *const c_char,
    descriptor: c_int,
    framing: RawFraming,
) -> i64 {
    call(|| {
        // SAFETY: the caller vouches for both.
        let (stream, name) = unsafe { (reference(stream, "stream")?, text(name, "name")?) };
        attach_input(stream, object(name, descriptor)?, framing)
    })
}

/// Attaches bytes in memory as an input.
///
/// # Safety
/// As [`wp_stream_input`]; `bytes` is NULL or points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_input_memory(
    stream: *const SharedStream,
    name: *const c_char,
    bytes: *const c_void,
    length: usize,
    framing: RawFraming,
) -> i64 {
    call(|| {
        // SAFETY: the caller vouches for both.
        let (stream, name) = unsafe { (reference(stream, "stream")?, text(name, "name")?) };
        // SAFETY: the caller vouches for it.
        let bytes = unsafe { self::bytes(bytes, length, "bytes") }?;
        attach_input(stream, Object::memory(name, Bytes::copy_from_slice(bytes)), framing)
    })
}

/// Attaches an output.
///
/// # Safety
/// See [`wp_stream_input`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_output(
    stream: *const SharedStream,
    name: *const c_char,
    descriptor: c_int,
) -> i64 {
    call(|| {
        // SAFETY: the caller vouches for both.
        let (stream, name) = unsafe { (reference(stream, "stream")?, text(name, "name")?) };
        let object = object(name, descriptor)?;
        stream.change(|stream| Ok(port_number(stream.attach_output(object, OutputOptions::default()))))
    })
}

/// Adds a handler behind the others.
///
/// # Safety
/// See [`wp_stream_order`]; `handler` is NULL, or what it points to is such as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_handler(stream: *const SharedStream, handler: *const RawHandler) -> i64 {
    call_from_anywhere(|| {
        // First, since its context is released whatever fails.
        // SAFETY: the caller vouches for it.
        let handler = unsafe { handler::handler(reference(handler, "handler")?) }?;
        refuse_in_handler()?;
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        stream.change(|stream| Ok(handler_number(stream.add_handler(handler))))
    })
}

/// Starts the stream.
///
/// # Safety
/// See [`wp_stream_order`]; `engine` is NULL, or of `wp_engine_new` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_start(stream: *const SharedStream, engine: *const SharedEngine) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for both.
        let (stream, engine) = unsafe { (reference(stream, "stream")?, engine.as_ref()) };
        stream.start(engine)
    })
}

/// Stops the stream.
///
/// # Safety
/// See [`wp_stream_order`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_stop(stream: *const SharedStream) -> c_int {
    call_from_anywhere(|| {
        // SAFETY: the caller vouches for it.
        unsafe { reference(stream, "stream") }?.running()?.stream.stop();
        Ok(OK)
    })
}

/// Waits for the end of the stream.
///
/// # Safety
/// See [`wp_stream_order`]; `status` is NULL or has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_wait(
    stream: *const SharedStream,
    timeout_ms: i64,
    status: *mut RawStatus,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for it.
        let running = unsafe { reference(stream, "stream") }?.running()?;
        let end = match u64::try_from(timeout_ms) {
            Ok(limit) => running.stream.wait_for(Duration::from_millis(limit)),
            Err(_) => Some(running.stream.wait()),
        };
        let end = end.ok_or_else(|| Failure(TIMEOUT, "the stream goes on".to_owned()))?;
        // SAFETY: the caller vouches for it.
        unsafe { write(status, RawStatus::from(&end.status)) };
        match end.result {
            Ok(()) => Ok(OK),
            Err(StreamError::Stopped) => Err(Failure(STOPPED, StreamError::Stopped.to_string())),
            Err(error) => Err(Failure(FAILED, error.to_string())),
        }
    })
}

/// Status so far.
///
/// # Safety
/// As [`wp_stream_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_status(
    stream: *const SharedStream,
    timeout_ms: i64,
    status: *mut RawStatus,
) -> c_int {
    call(|| {
        if status.is_null() {
            return Err(Failure::invalid("status is NULL"));
        }
        // SAFETY: the caller vouches for it.
        let running = unsafe { reference(stream, "stream") }?.running()?;
        let found = match ask(&running, limit(timeout_ms), |stream| RawStatus::from(&stream.status())) {
            Err(Failure(STATE, _)) => RawStatus::from(&running.stream.wait().status),
            answer => answer?,
        };
        // SAFETY: the caller vouches for it.
        unsafe { write(status, found) };
        Ok(OK)
    })
}

/// Descriptor for an event loop.
///
/// # Safety
/// See [`wp_stream_order`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_descriptor(stream: *const SharedStream) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for it.
        Ok(unsafe { reference(stream, "stream") }?.running()?.events.as_raw_fd())
    })
}

/// Takes the event that waits longest.
///
/// # Safety
/// See [`wp_stream_order`]; `event` is NULL or has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_event(stream: *const SharedStream, event: *mut RawEvent) -> c_int {
    call(|| {
        if event.is_null() {
            return Err(Failure::invalid("event is NULL"));
        }
        // SAFETY: the caller vouches for it.
        let events = unsafe { reference(stream, "stream") }?.running()?.events;
        // Asked first: events that came before the end are taken before it is told.
        let has_ended = events.has_ended();
        let taken = events.take().map_or_else(|| RawEvent::none(has_ended), RawEvent::from);
        // SAFETY: the caller vouches for it.
        unsafe { write(event, taken) };
        Ok(OK)
    })
}

/// Writes a value for C.
///
/// # Safety
/// `to` is NULL, and nothing is written, or has room for a `T`.
unsafe fn write<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { to.write(value) };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::call::call_handler;
    use crate::handler::RawPiece;

    unsafe extern "C" fn pass(_: *mut c_void, _: *const RawPiece) -> c_int {
        0
    }

    unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: the context is this.
        let released = unsafe { &*context.cast::<Cell<u32>>() };
        released.set(released.get() + 1);
        let waits = call(|| Ok(OK));
        assert_eq!(waits, STATE, "a function that may wait for this thread");
    }

    /// Promise: The context of a handler is released exactly once, even if adding it from another handler
    /// fails.
    #[test]
    fn a_context_is_released_if_its_handler_is_refused() {
        let released = Cell::new(0);
        let handler = RawHandler {
            name: c"late".as_ptr(),
            context: (&raw const released).cast_mut().cast(),
            whole: 0,
            read: Some(pass),
            peek: None,
            peek_bytes: 0,
            modify: None,
            rewrite: None,
            grows_by: 0,
            control: None,
            release: Some(release),
        };
        let stream = wp_stream_new();
        // SAFETY: stream and handler live.
        let (code, _) = call_handler(|| unsafe { wp_stream_handler(stream, &handler) });
        // SAFETY: it is not used again.
        unsafe { wp_stream_free(stream) };
        assert_eq!((code, released.get()), (STATE.into(), 1));
    }
}
