//! Handlers whose functions are C.

use std::ffi::{c_char, c_int, c_void};

use wirepath_streams::{
    Common, Handler, HandlerError, Modify, Piece, PieceMut, Reach, Read, Rewrite, Verdict, handler_name,
};

use crate::call::{FAIL, Failure, call_handler, refusing_waits, text};

const PASS: c_int = 0;
const DROP: c_int = -1;

/// `wp_piece`.
#[repr(C)]
pub struct RawPiece {
    bytes: *const u8,
    length: usize,
    begins: c_int,
    ends: c_int,
}

type ReadFunction = unsafe extern "C" fn(*mut c_void, *const RawPiece) -> c_int;
type ModifyFunction = unsafe extern "C" fn(*mut c_void, *mut u8, usize, c_int, c_int) -> c_int;
type RewriteFunction = unsafe extern "C" fn(*mut c_void, *const RawPiece, *mut u8, usize) -> i64;
type ReleaseFunction = unsafe extern "C" fn(*mut c_void);

/// `wp_handler`.
#[repr(C)]
pub struct RawHandler {
    pub(crate) name: *const c_char,
    pub(crate) context: *mut c_void,
    pub(crate) whole: usize,
    pub(crate) read: Option<ReadFunction>,
    pub(crate) modify: Option<ModifyFunction>,
    pub(crate) rewrite: Option<RewriteFunction>,
    pub(crate) grows_by: usize,
    pub(crate) release: Option<ReleaseFunction>,
}

/// The context of a handler, which is released once.
struct Context {
    pointer: *mut c_void,
    release: Option<ReleaseFunction>,
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
    /// Bytes that a rewritten piece may be longer.
    grows_by: usize,
    context: Context,
}

/// The handler that C describes. Its context is released if this fails.
///
/// # Safety
/// `raw.name` is NULL or a string, and the functions are such as the header asks for.
pub(crate) unsafe fn handler(raw: &RawHandler) -> Result<Handler, Failure> {
    let context = Context { pointer: raw.context, release: raw.release };
    // SAFETY: the caller vouches for it.
    let name = unsafe { text(raw.name, "handler->name") }?;
    let name = handler_name(name).map_err(Failure::invalid)?;
    let reach = match raw.whole {
        0 => Reach::Pieces,
        limit => Reach::Records { limit },
    };
    let grows_by = raw.grows_by;
    match (raw.read, raw.modify, raw.rewrite) {
        (Some(function), None, None) => {
            Ok(Handler::Read(Box::new(Callback { name, reach, function, grows_by, context })))
        }
        (None, Some(function), None) => {
            Ok(Handler::Modify(Box::new(Callback { name, reach, function, grows_by, context })))
        }
        (None, None, Some(function)) => {
            Ok(Handler::Rewrite(Box::new(Callback { name, reach, function, grows_by, context })))
        }
        _ => {
            Err(Failure::invalid("set one of the handler's read, modify and rewrite, and the others to NULL"))
        }
    }
}

impl<F: Send> Common for Callback<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reach(&self) -> Reach {
        self.reach
    }
}

impl Read for Callback<ReadFunction> {
    fn read(&mut self, piece: Piece<'_>) -> Result<Verdict, HandlerError> {
        // SAFETY: the function is of the header's kind, the context is its own, the piece lives meanwhile.
        verdict(call_handler(|| unsafe { (self.function)(self.context.pointer, &raw_piece(piece)) }))
    }
}

impl Modify for Callback<ModifyFunction> {
    fn modify(&mut self, piece: PieceMut<'_>) -> Result<Verdict, HandlerError> {
        let PieceMut { bytes, begins, ends } = piece;
        let (begins, ends) = (begins.into(), ends.into());
        // SAFETY: as above; nobody else has the bytes meanwhile.
        verdict(call_handler(|| unsafe {
            (self.function)(self.context.pointer, bytes.as_mut_ptr(), bytes.len(), begins, ends)
        }))
    }
}

impl Rewrite for Callback<RewriteFunction> {
    fn room(&self, length: usize) -> usize {
        length.saturating_add(self.grows_by)
    }

    fn rewrite(&mut self, piece: Piece<'_>, out: &mut [u8]) -> Result<Option<usize>, HandlerError> {
        let room = self.room(piece.bytes.len()).min(out.len());
        // SAFETY: as above; `out` has this room, and nobody else has it meanwhile.
        let (answer, reason) = call_handler(|| unsafe {
            (self.function)(self.context.pointer, &raw_piece(piece), out.as_mut_ptr(), room)
        });
        match (usize::try_from(answer), c_int::try_from(answer)) {
            (Ok(written), _) if written <= room => Ok(Some(written)),
            (Ok(written), _) => {
                Err(HandlerError::Failed(format!("it says {written} bytes: there was room for {room}")))
            }
            (Err(_), Ok(DROP)) => Ok(None),
            _ => Err(failed(answer, reason)),
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
        _ => Err(failed(answer.into(), reason)),
    }
}

fn failed(answer: i64, reason: Option<String>) -> HandlerError {
    let reason = reason.unwrap_or_else(|| match answer {
        _ if answer == i64::from(FAIL) => "it gave no reason; say it by wp_fail".to_owned(),
        other => format!("it answered {other}; expected WP_PASS, WP_DROP or WP_FAIL"),
    });
    HandlerError::Failed(reason)
}
