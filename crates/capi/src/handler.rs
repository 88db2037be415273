//! Handlers whose functions are C.

use std::ffi::{c_char, c_int, c_void};

use wirepath_streams::{
    Common, Handler, HandlerError, MAX_PEEK_BYTES, Modify, Peek, Piece, PieceMut, Reach, Read, Rewrite,
    Verdict, handler_name,
};

use crate::call::{FAIL, Failure, REFUSE, call_handler, refusing_waits, text};

const PASS: c_int = 0;
const DROP: c_int = -1;

/// Decisions of a handler, for errors.
const DECISIONS: &str = "WP_PASS, WP_DROP, WP_REFUSE or WP_FAIL";

/// Most bytes of the answer to a control message.
const ANSWER_BYTES: usize = 64 * 1024;

/// `wp_piece`.
#[repr(C)]
pub struct RawPiece {
    bytes: *const u8,
    length: usize,
    begins: c_int,
    ends: c_int,
}

type ReadFunction = unsafe extern "C" fn(*mut c_void, *const RawPiece) -> c_int;
type PeekFunction = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int;
type ModifyFunction = unsafe extern "C" fn(*mut c_void, *mut u8, usize, c_int, c_int) -> c_int;
type RewriteFunction = unsafe extern "C" fn(*mut c_void, *const RawPiece, *mut u8, usize) -> i64;
type ControlFunction = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *mut c_void, usize) -> i64;
pub(crate) type ReleaseFunction = unsafe extern "C" fn(*mut c_void);

/// `wp_handler`.
#[repr(C)]
pub struct RawHandler {
    pub(crate) name: *const c_char,
    pub(crate) context: *mut c_void,
    pub(crate) whole: usize,
    pub(crate) read: Option<ReadFunction>,
    pub(crate) peek: Option<PeekFunction>,
    pub(crate) peek_bytes: usize,
    pub(crate) modify: Option<ModifyFunction>,
    pub(crate) rewrite: Option<RewriteFunction>,
    pub(crate) grows_by: usize,
    pub(crate) control: Option<ControlFunction>,
    pub(crate) release: Option<ReleaseFunction>,
}

/// The context of functions, which is released once.
pub(crate) struct Context {
    pointer: *mut c_void,
    release: Option<ReleaseFunction>,
}

impl Context {
    pub(crate) fn new(pointer: *mut c_void, release: Option<ReleaseFunction>) -> Context {
        Context { pointer, release }
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }
}

// SAFETY: the header says that the functions that get it are called on other threads, one at a time.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the header asks for a function that takes the context, and it is called this once.
            refusing_waits(|| unsafe { release(self.pointer) });
        }
    }
}

/// A handler that calls a function of C.
struct Callback<F> {
    name: &'static str,
    reach: Reach,
    function: F,
    /// Bytes of a record that the function peeks at, or by which it may make a piece longer.
    bytes: usize,
    control: Option<ControlFunction>,
    context: Context,
}

/// The handler that C describes. Its context is released if this fails.
///
/// # Safety
/// `raw.name` is NULL or a string, and the functions are such as the header asks for.
pub(crate) unsafe fn handler(raw: &RawHandler) -> Result<Handler, Failure> {
    let context = Context::new(raw.context, raw.release);
    // SAFETY: the caller vouches for it.
    let name = unsafe { text(raw.name, "handler->name") }?;
    let name = handler_name(name).map_err(Failure::invalid)?;
    let reach = match raw.whole {
        0 => Reach::Pieces,
        limit => Reach::Records { limit },
    };
    let (bytes, control) = (raw.grows_by, raw.control);
    match (raw.read, raw.peek, raw.modify, raw.rewrite) {
        (Some(function), None, None, None) => {
            Ok(Handler::Read(Box::new(Callback { name, reach, function, bytes, control, context })))
        }
        (None, Some(function), None, None) => {
            let (bytes, reach) = (peek_bytes(raw.peek_bytes)?, Reach::Pieces);
            Ok(Handler::Peek(Box::new(Callback { name, reach, function, bytes, control, context })))
        }
        (None, None, Some(function), None) => {
            Ok(Handler::Modify(Box::new(Callback { name, reach, function, bytes, control, context })))
        }
        (None, None, None, Some(function)) => {
            Ok(Handler::Rewrite(Box::new(Callback { name, reach, function, bytes, control, context })))
        }
        _ => Err(Failure::invalid(
            "set one of the handler's read, peek, modify and rewrite, and the others to NULL",
        )),
    }
}

fn peek_bytes(bytes: usize) -> Result<usize, Failure> {
    match bytes {
        1..=MAX_PEEK_BYTES => Ok(bytes),
        other => Err(Failure::invalid(format!("invalid peek_bytes {other}: expected 1 to {MAX_PEEK_BYTES}"))),
    }
}

impl<F: Send> Common for Callback<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reach(&self) -> Reach {
        self.reach
    }

    fn control(&mut self, message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        let Some(control) = self.control else {
            return Err(HandlerError::Refused(format!("{} takes no control messages", self.name)));
        };
        let mut bytes = vec![0; ANSWER_BYTES];
        let (room, to) = (bytes.len(), bytes.as_mut_ptr().cast());
        // SAFETY: the function is of the header's kind, the context is its own; message and answer live
        // meanwhile, and nobody else has the answer.
        let (answer, reason) = call_handler(|| unsafe {
            control(self.context.pointer(), message.as_ptr().cast(), message.len(), to, room)
        });
        bytes.truncate(length(answer, room, reason, "a length, WP_REFUSE or WP_FAIL")?);
        Ok(bytes)
    }
}

impl Read for Callback<ReadFunction> {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        // SAFETY: the function is of the header's kind, the context is its own, the piece lives meanwhile.
        verdict(call_handler(|| unsafe { (self.function)(self.context.pointer(), &raw_piece(piece)) }))
    }
}

impl Peek for Callback<PeekFunction> {
    fn length(&self) -> usize {
        self.bytes
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        // SAFETY: as above.
        verdict(call_handler(|| unsafe {
            (self.function)(self.context.pointer(), head.as_ptr(), head.len())
        }))
    }
}

impl Modify for Callback<ModifyFunction> {
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
        let PieceMut { bytes, begins, ends } = piece;
        let (begins, ends) = (begins.into(), ends.into());
        // SAFETY: as above; nobody else has the bytes meanwhile.
        verdict(call_handler(|| unsafe {
            (self.function)(self.context.pointer(), bytes.as_mut_ptr(), bytes.len(), begins, ends)
        }))
    }
}

impl Rewrite for Callback<RewriteFunction> {
    fn room(&self, length: usize) -> usize {
        length.saturating_add(self.bytes)
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let room = self.room(piece.bytes.len()).min(out.len());
        // SAFETY: as above; `out` has this room, and nobody else has it meanwhile.
        let (answer, reason) = call_handler(|| unsafe {
            (self.function)(self.context.pointer(), &raw_piece(piece), out.as_mut_ptr(), room)
        });
        match answer {
            answer if answer == i64::from(DROP) => Ok(None),
            answer => length(answer, room, reason, "a length, WP_DROP, WP_REFUSE or WP_FAIL").map(Some),
        }
    }
}

fn raw_piece(piece: Piece<'_>) -> RawPiece {
    let Piece { bytes, begins, ends, .. } = piece;
    RawPiece { bytes: bytes.as_ptr(), length: bytes.len(), begins: begins.into(), ends: ends.into() }
}

fn verdict((answer, reason): (c_int, Option<String>)) -> Result<Verdict, HandlerError> {
    match answer {
        PASS => Ok(Verdict::Pass),
        DROP => Ok(Verdict::Drop),
        _ => Err(failed(answer.into(), reason, DECISIONS)),
    }
}

/// Number of bytes that a function says it has written.
fn length(answer: i64, room: usize, reason: Option<String>, expected: &str) -> Result<usize, HandlerError> {
    match usize::try_from(answer) {
        Ok(written) if written <= room => Ok(written),
        Ok(written) => Err(HandlerError::Failed(format!("it returned {written} bytes; the limit is {room}"))),
        Err(_) => Err(failed(answer, reason, expected)),
    }
}

/// The error of a function that fails, refuses, or answers nonsense.
pub(crate) fn failed(answer: i64, reason: Option<String>, expected: &str) -> HandlerError {
    let given = |function: &str| reason.unwrap_or_else(|| format!("it gave no reason; say it by {function}"));
    match answer {
        _ if answer == i64::from(REFUSE) => HandlerError::Refused(given("wp_refuse")),
        _ if answer == i64::from(FAIL) => HandlerError::Failed(given("wp_fail")),
        other => HandlerError::Failed(format!("it answered {other}; expected {expected}")),
    }
}
