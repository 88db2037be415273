//! Orders of inputs by a number that a function of C reads from each record.

use std::ffi::{c_int, c_void};
use std::panic::resume_unwind;

use crate::call::{Failure, call_from_anywhere, call_handler, reference, refuse_in_handler};
use crate::handler::{Context, ReleaseFunction, failed};
use crate::stream::SharedStream;
use crate::values;

type TagFunction = unsafe extern "C" fn(*mut c_void, *const u8, usize, *mut u64) -> c_int;

/// `wp_tag`.
#[repr(C)]
pub struct RawTag {
    context: *mut c_void,
    tag: Option<TagFunction>,
    window: usize,
    waiting_bytes: usize,
    release: Option<ReleaseFunction>,
}

/// A function that reads the tag of a record.
struct Tag {
    function: TagFunction,
    context: Context,
}

impl Tag {
    /// The function that C describes. Its context is released if this fails.
    fn new(raw: &RawTag) -> Result<Tag, Failure> {
        let context = Context::new(raw.context, raw.release);
        refuse_in_handler()?;
        let function = raw.tag.ok_or_else(|| Failure::invalid("tag->tag is NULL"))?;
        if raw.window == 0 || raw.waiting_bytes == 0 {
            return Err(Failure::invalid("invalid tag: window or waiting_bytes is 0; expected at least 1"));
        }
        Ok(Tag { function, context })
    }

    /// The tag of a record, if it has one. The stream ends if the function fails.
    fn of(&self, record: &[u8]) -> Option<u64> {
        let mut tag = 0;
        // SAFETY: the function is of the header's kind, the context is its own, the record lives meanwhile.
        let (answer, reason) = call_handler(|| unsafe {
            (self.function)(self.context.pointer(), record.as_ptr(), record.len(), &raw mut tag)
        });
        match answer {
            0 => None,
            1 => Some(tag),
            // As if it had panicked, without a message on standard error: so functions of an order end a
            // stream.
            other => resume_unwind(Box::new(failed(other.into(), reason, "0, 1 or WP_FAIL").to_string())),
        }
    }
}

/// Sets the order of inputs to that of a tag.
///
/// # Safety
/// `stream` is NULL or of `wp_stream_new`, and was not freed; `tag` is NULL, or what it points to is such as
/// the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_order_by_tag(
    stream: *const SharedStream,
    tag: *const RawTag,
    late: c_int,
) -> c_int {
    call_from_anywhere(|| {
        // SAFETY: the caller vouches for it.
        let raw = unsafe { reference(tag, "tag") }?;
        let (tag, late) = (Tag::new(raw)?, values::late(late)?);
        let (window, waiting_bytes) = (raw.window, raw.waiting_bytes);
        // SAFETY: the caller vouches for it.
        unsafe { reference(stream, "stream") }?.set(move |builder| {
            builder.order_by_tag(window, waiting_bytes, late, move |record| tag.of(record))
        })
    })
}

/// Joins records with the same key.
///
/// # Safety
/// As [`wp_stream_order_by_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_stream_join_by_key(stream: *const SharedStream, key: *const RawTag) -> c_int {
    call_from_anywhere(|| {
        // SAFETY: the caller vouches for it.
        let raw = unsafe { reference(key, "key") }?;
        let key = Tag::new(raw)?;
        let (window, waiting_bytes) = (raw.window, raw.waiting_bytes);
        // SAFETY: the caller vouches for it.
        unsafe { reference(stream, "stream") }?
            .set(move |builder| builder.join_by_key(window, waiting_bytes, move |record| key.of(record)))
    })
}
