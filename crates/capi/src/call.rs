//! A call from C: its arguments, its result, and the reason of its failure.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Display;

use wirepath_streams::engine::catch_panic;

pub(crate) const OK: c_int = 0;
pub(crate) const INVALID: c_int = -1;
pub(crate) const FAILED: c_int = -2;
pub(crate) const STOPPED: c_int = -3;
pub(crate) const TIMEOUT: c_int = -4;
pub(crate) const STATE: c_int = -5;
pub(crate) const BUG: c_int = -6;
pub(crate) const REFUSED: c_int = -7;

/// Decision of a handler that fails.
pub(crate) const FAIL: c_int = -2;

/// Decision of a handler that refuses a record or a message.
pub(crate) const REFUSE: c_int = -3;

/// Failure of a call: its code, and its reason.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) c_int, pub(crate) String);

impl Failure {
    pub(crate) fn invalid(reason: impl Display) -> Failure {
        Failure(INVALID, reason.to_string())
    }

    pub(crate) fn failed(reason: impl Display) -> Failure {
        Failure(FAILED, reason.to_string())
    }
}

/// Result of a function of the header.
pub(crate) trait Answer {
    /// The result of a failure.
    fn failure(code: c_int) -> Self;
}

impl Answer for c_int {
    fn failure(code: c_int) -> c_int {
        code
    }
}

impl Answer for i64 {
    fn failure(code: c_int) -> i64 {
        code.into()
    }
}

impl<T> Answer for *mut T {
    fn failure(_: c_int) -> *mut T {
        std::ptr::null_mut()
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
    static FAIL_REASON: RefCell<Option<String>> = const { RefCell::new(None) };
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Does the work of a function of the header, and keeps the reason if it fails. What panics has failed.
pub(crate) fn call<T: Answer>(work: impl FnOnce() -> Result<T, Failure>) -> T {
    call_from_anywhere(|| {
        refuse_in_handler()?;
        work()
    })
}

/// Fails in a handler: what waits for the thread of a stream would wait for the handler.
pub(crate) fn refuse_in_handler() -> Result<(), Failure> {
    let reason = "called from a handler or a release: call it from another thread; \
                  wp_fail, wp_refuse and wp_stream_stop may be called";
    if IN_HANDLER.get() { Err(Failure(STATE, reason.to_owned())) } else { Ok(()) }
}

/// As [`call`], of a function that handlers may call, too: it waits for nothing.
pub(crate) fn call_from_anywhere<T: Answer>(work: impl FnOnce() -> Result<T, Failure>) -> T {
    answer(
        catch_panic(work)
            .unwrap_or_else(|message| Err(Failure(BUG, format!("the library panicked: {message}")))),
    )
}

fn answer<T: Answer>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|Failure(code, reason)| {
        // At the end of a thread, what is its own may be gone.
        drop(LAST_ERROR.try_with(|error| error.replace(without_zeros(&reason))));
        T::failure(code)
    })
}

/// Calls a function of a handler, from which the library is not called again, but for [`wp_fail`] and
/// [`wp_refuse`]. Returns its answer, and the reason for which it fails or refuses, if it gave one.
pub(crate) fn call_handler<T>(function: impl FnOnce() -> T) -> (T, Option<String>) {
    FAIL_REASON.set(None);
    (refusing_waits(function), FAIL_REASON.take())
}

/// Calls a function on a thread that may be a stream's: what would wait for that is refused meanwhile.
pub(crate) fn refusing_waits<T>(function: impl FnOnce() -> T) -> T {
    let before = IN_HANDLER.replace(true);
    let answer = function();
    IN_HANDLER.set(before);
    answer
}

/// Reason of this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn wp_last_error() -> *const c_char {
    // At the end of a thread, what is its own may be gone.
    LAST_ERROR.try_with(|error| error.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Sets the reason for which a handler fails.
///
/// # Safety
/// `reason` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_fail(reason: *const c_char) -> c_int {
    // SAFETY: the header asks for a string.
    unsafe { give_reason(reason) };
    FAIL
}

/// Sets the reason for which a handler refuses a record or a message.
///
/// # Safety
/// `reason` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wp_refuse(reason: *const c_char) -> c_int {
    // SAFETY: the header asks for a string.
    unsafe { give_reason(reason) };
    REFUSE
}

/// Keeps the reason of a handler for its caller.
///
/// # Safety
/// `reason` is NULL or a string.
unsafe fn give_reason(reason: *const c_char) {
    // SAFETY: the caller vouches for it.
    let reason = unsafe { text(reason, "reason") };
    // As of the last error.
    drop(FAIL_REASON.try_with(|given| given.replace(reason.ok().map(str::to_owned))));
}

fn without_zeros(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// A string argument.
///
/// # Safety
/// `pointer` is NULL, or points to bytes that end with a zero and do not change during the call.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("{name} is NULL: a string is needed")));
    }
    // SAFETY: it is not NULL, and the caller vouches for the rest.
    let bytes = unsafe { CStr::from_ptr(pointer) };
    bytes.to_str().map_err(|error| Failure::invalid(format!("{name} is not UTF-8: {error}")))
}

/// Bytes of an argument.
///
/// # Safety
/// `pointer` is NULL, or points to `length` bytes that do not change during the call.
pub(crate) unsafe fn bytes<'a>(
    pointer: *const c_void,
    length: usize,
    name: &str,
) -> Result<&'a [u8], Failure> {
    match length {
        0 => Ok(&[]),
        1.. if pointer.is_null() => Err(Failure::invalid(format!("{name} is NULL"))),
        // SAFETY: it is not NULL, and the caller vouches for the length, which no memory exceeds.
        _ => Ok(unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length.min(isize::MAX as usize)) }),
    }
}

/// Target of a pointer argument.
///
/// # Safety
/// `pointer` is NULL, or points to a `T` that lives and does not change during the call.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller vouches for what is not NULL.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::invalid(format!("{name} is NULL")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_error() -> String {
        // SAFETY: what it returns is a string until the next failure of this thread.
        unsafe { CStr::from_ptr(wp_last_error()) }.to_str().unwrap_or_default().to_owned()
    }

    /// Promise: No panic of the library crosses the boundary to C: the call fails.
    #[test]
    fn a_panic_is_a_failure() {
        let code: c_int = call(|| panic!("no {}", "more"));
        assert_eq!((code, last_error().as_str()), (BUG, "the library panicked: no more"));
        let pointer: *mut u8 = call(|| Err(Failure::invalid("a\0b")));
        assert_eq!((pointer, last_error().as_str()), (std::ptr::null_mut(), "a b"));
    }

    #[test]
    fn a_handler_cannot_call_the_library() {
        let (code, reason) = call_handler(|| {
            // SAFETY: it is a string.
            unsafe { wp_fail(c"no header".as_ptr()) };
            call(|| Ok(OK))
        });
        assert_eq!((code, reason.as_deref()), (STATE, Some("no header")));
        assert_eq!(call(|| Ok(OK)), OK);
    }

    /// Promise: A call fails, and does not end the program, if it fails while a C thread is exiting.
    #[test]
    fn calls_may_fail_at_the_end_of_a_thread() {
        struct AtEnd;
        impl Drop for AtEnd {
            fn drop(&mut self) {
                // Destructors run in the opposite order, so the last error is gone.
                assert!(LAST_ERROR.try_with(|_| ()).is_err());
                let code: c_int = call(|| Err(Failure::invalid("late")));
                // SAFETY: it is a string.
                assert_eq!((code, unsafe { wp_fail(c"late".as_ptr()) }), (INVALID, FAIL));
                assert_eq!(last_error(), "");
            }
        }
        thread_local!(static AT_END: AtEnd = const { AtEnd });
        let thread = std::thread::spawn(|| {
            AT_END.with(|_| ());
            let code: c_int = call(|| Err(Failure::invalid("early")));
            assert_eq!((code, last_error().as_str()), (INVALID, "early"));
        });
        thread.join().expect("it ends");
    }
}
