//! Changes of what a stream has: inputs and outputs that leave, handlers by number, options, trust.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use wirepath_streams::{
    Handler, HandlerChangeError, HandlerError, HandlerId, Object, OptionError, Stream, StreamOption,
};

use crate::call::{
    FAILED, Failure, OK, REFUSED, STATE, bytes, call, call_from_anywhere, reference, refuse_in_handler, text,
};
use crate::engine::drop_elsewhere;
use crate::handler::{self, RawHandler};
use crate::stream::{Answers, SharedStream, limit};
use crate::values::{self, RawOption, handler_number, no_handler, no_output, no_port, port};

/// Detaches an input or output.
///
/// # Safety
/// `stream` is NULL or of `wp_stream_new`, and was not freed. So of all functions that follow.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_detach(
    stream: *const SharedStream,
    number: i64,
    timeout_ms: i64,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        let port = port(number)?;
        stream.running()?; // only a stream that runs detaches
        let object = stream.change_later(limit(timeout_ms), move |stream, answers| {
            let of_input = answers.clone();
            let is_detached = stream.detach_output(port, move |object| answer(&answers, object))
                || stream.detach_input(port, move |object| answer(&of_input, object));
            if is_detached { Ok(()) } else { Err(no_port(number)) }
        })?;
        drop(object); // and with it the descriptor
        Ok(OK)
    })
}

/// Gives a detached object to the caller, to close it there: closing may block, and this is the stream's
/// thread.
fn answer(caller: &Answers<Object>, object: Object) {
    if let Err(unheard) = caller.send(Ok(object)) {
        drop_elsewhere("detach-end", unheard);
    }
}

/// Adds a handler of an output behind its others.
///
/// # Safety
/// See [`wp_stream_detach`]; `handler` is NULL, or what it points to is such as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_output_handler(
    stream: *const SharedStream,
    output: i64,
    trust_below: c_int,
    handler: *const RawHandler,
) -> i64 {
    call_from_anywhere(|| {
        // First, since its context is released whatever fails.
        // SAFETY: the caller vouches for it.
        let handler = unsafe { handler::handler(reference(handler, "handler")?) }?;
        refuse_in_handler()?;
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        let (port, below) = (port(output)?, values::trust(trust_below)?);
        stream.change(move |stream| {
            let added = match below.value() {
                0 => stream.add_output_handler(port, handler),
                _ => stream.add_output_handler_below(port, below, handler),
            };
            added.map(handler_number).ok_or_else(|| no_output(output))
        })
    })
}

/// Removes a handler.
///
/// # Safety
/// See [`wp_stream_detach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_remove_handler(
    stream: *const SharedStream,
    number: i64,
    timeout_ms: i64,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        change_handler(stream, number, timeout_ms, |stream, id, on_removed| {
            stream.remove_handler(id, on_removed)
        })
    })
}

/// Replaces a handler.
///
/// # Safety
/// As [`wp_stream_output_handler`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_replace_handler(
    stream: *const SharedStream,
    number: i64,
    handler: *const RawHandler,
    timeout_ms: i64,
) -> c_int {
    call_from_anywhere(|| {
        // First, since its context is released whatever fails.
        // SAFETY: the caller vouches for it.
        let handler = unsafe { handler::handler(reference(handler, "handler")?) }?;
        refuse_in_handler()?;
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        change_handler(stream, number, timeout_ms, |stream, id, on_removed| {
            stream.replace_handler(id, handler, on_removed)
        })
    })
}

/// Receiver of a handler that was removed.
type OnRemoved = Box<dyn FnOnce(Handler) + Send>;

/// Removes or replaces a handler, and releases its context on the caller's thread.
fn change_handler(
    stream: &SharedStream,
    number: i64,
    timeout_ms: i64,
    change: impl FnOnce(&mut Stream, HandlerId, OnRemoved) -> Result<(), HandlerChangeError> + Send + 'static,
) -> Result<c_int, Failure> {
    let id = values::handler_id(number)?;
    let removed = stream.change_later(limit(timeout_ms), move |stream, answers| {
        let on_removed = Box::new(move |handler| drop(answers.send(Ok(handler))));
        change(stream, id, on_removed).map_err(|error| change_failure(number, error))
    })?;
    drop(removed);
    Ok(OK)
}

/// Sends a control message to a handler.
///
/// # Safety
/// See [`wp_stream_detach`]; `message` is NULL or points to `length` bytes; `answer` is NULL or has room for
/// `room` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_control(
    stream: *const SharedStream,
    number: i64,
    message: *const c_void,
    length: usize,
    answer: *mut c_void,
    room: usize,
    timeout_ms: i64,
) -> i64 {
    call(|| {
        // SAFETY: the caller vouches for both.
        let (stream, message) = unsafe { (reference(stream, "stream")?, bytes(message, length, "message")?) };
        let id = values::handler_id(number)?;
        let to = place(answer.cast::<u8>(), room, "answer")?;
        let message = message.to_vec();
        let said = stream.change_later(limit(timeout_ms), move |stream, answers| {
            let sent = stream.control_handler(id, message, move |said| {
                drop(answers.send(said.map_err(handler_failure)));
            });
            sent.map_err(|error| change_failure(number, error))
        })?;
        // SAFETY: there is room for so many bytes, and nobody else has the answer.
        unsafe { std::ptr::copy_nonoverlapping(said.as_ptr(), to.as_ptr(), said.len().min(room)) };
        Ok(said.len() as i64)
    })
}

/// Sets the trust in the peer of an output.
///
/// # Safety
/// See [`wp_stream_detach`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_set_trust(
    stream: *const SharedStream,
    output: i64,
    trust: c_int,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        let (port, trust) = (port(output)?, values::trust(trust)?);
        stream.change(
            move |stream| {
                if stream.set_trust(port, trust) { Ok(OK) } else { Err(no_output(output)) }
            },
        )
    })
}

/// Options of the stream.
///
/// # Safety
/// See [`wp_stream_detach`]; `options` is NULL or has room for `room` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_options(
    stream: *const SharedStream,
    options: *mut RawOption,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        let to = place(options, room, "options")?;
        let found = stream.change(|stream| Ok(stream.options()))?;
        // SAFETY: the caller vouches for it.
        Ok(unsafe { write(&found, to, room) })
    })
}

/// Options of an output.
///
/// # Safety
/// As [`wp_stream_options`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_output_options(
    stream: *const SharedStream,
    output: i64,
    options: *mut RawOption,
    room: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller vouches for it.
        let stream = unsafe { reference(stream, "stream") }?;
        let (port, to) = (port(output)?, place(options, room, "options")?);
        let found =
            stream.change(move |stream| stream.output_options(port).ok_or_else(|| no_output(output)))?;
        // SAFETY: the caller vouches for it.
        Ok(unsafe { write(&found, to, room) })
    })
}

/// Sets an option of the stream.
///
/// # Safety
/// See [`wp_stream_detach`]; `key` and `value` are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_set_option(
    stream: *const SharedStream,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for all.
        let (stream, key, value) =
            unsafe { (reference(stream, "stream")?, text(key, "key")?, text(value, "value")?) };
        let (key, value) = (key.to_owned(), value.to_owned());
        stream.change(move |stream| stream.set_option(&key, &value).map_err(option_failure))?;
        Ok(OK)
    })
}

/// Sets an option of an output.
///
/// # Safety
/// As [`wp_stream_set_option`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_set_output_option(
    stream: *const SharedStream,
    output: i64,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller vouches for all.
        let (stream, key, value) =
            unsafe { (reference(stream, "stream")?, text(key, "key")?, text(value, "value")?) };
        let (port, key, value) = (port(output)?, key.to_owned(), value.to_owned());
        stream.change(move |stream| {
            stream.set_output_option(port, &key, &value).map_err(|error| match error {
                OptionError::NoOutput(_) => no_output(output),
                error => option_failure(error),
            })
        })?;
        Ok(OK)
    })
}

fn change_failure(number: i64, error: HandlerChangeError) -> Failure {
    match error {
        HandlerChangeError::Missing(_) => no_handler(number),
        HandlerChangeError::Busy(_) => Failure(STATE, error.to_string()),
        HandlerChangeError::TooLong(_) => Failure::invalid(error),
    }
}

fn handler_failure(error: HandlerError) -> Failure {
    match error {
        HandlerError::Refused(reason) => Failure(REFUSED, reason),
        HandlerError::Failed(reason) => Failure(FAILED, reason),
    }
}

fn option_failure(error: OptionError) -> Failure {
    match error {
        OptionError::Fixed(_) => Failure(STATE, error.to_string()),
        error => Failure::invalid(error),
    }
}

/// Target of results, which may be NULL if there is no room.
fn place<T>(pointer: *mut T, room: usize, name: &str) -> Result<NonNull<T>, Failure> {
    match NonNull::new(pointer) {
        Some(place) => Ok(place),
        None if room == 0 => Ok(NonNull::dangling()),
        None => Err(Failure::invalid(format!("{name} is NULL"))),
    }
}

/// Writes options for C, as many as there is room for. Returns how many there are.
///
/// # Safety
/// `to` has room for `room` of them.
unsafe fn write(options: &[StreamOption], to: NonNull<RawOption>, room: usize) -> i64 {
    for (place, option) in options.iter().take(room).enumerate() {
        // SAFETY: the caller vouches for it.
        unsafe { to.add(place).write(RawOption::from(option)) };
    }
    options.len() as i64
}
