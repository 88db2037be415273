//! Handlers that are functions of Python.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wirepath_streams::{
    Common, Frame, Handler, HandlerError, MAX_PEEK_BYTES, Peek, Piece, Reach, Select, Verdict, handler_name,
};

use crate::errors::Refused;
use crate::record::{bytes_of, view};

/// The exception that ended a stream.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// Arguments of `handler(...)` besides the function.
pub(crate) struct Settings<'py> {
    pub(crate) name: Option<String>,
    /// Most bytes of a record that is given whole; pieces if there is no limit.
    pub(crate) whole: Option<usize>,
    /// Bytes of the beginning of a record, if the function sees only these.
    pub(crate) peek: Option<usize>,
    pub(crate) control: Option<Bound<'py, PyAny>>,
}

/// A handler that calls a function of Python.
struct PythonHandler {
    name: &'static str,
    whole: Option<usize>,
    peek_bytes: usize,
    function: Py<PyAny>,
    /// Function that gets control messages.
    control: Option<Py<PyAny>>,
    raised: Raised,
}

/// A handler that calls `function`.
pub(crate) fn handler(
    function: Bound<'_, PyAny>,
    settings: Settings<'_>,
    raised: Raised,
) -> PyResult<Handler> {
    let Settings { name, whole, peek, control } = settings;
    if !function.is_callable() {
        return Err(PyTypeError::new_err("a handler is a function of one argument, a record"));
    }
    if control.as_ref().is_some_and(|control| !control.is_callable()) {
        return Err(PyTypeError::new_err("control is a function of one argument, a message"));
    }
    if peek.is_some_and(|bytes| !(1..=MAX_PEEK_BYTES).contains(&bytes)) {
        return Err(PyValueError::new_err(format!("invalid peek: expected 1 to {MAX_PEEK_BYTES} bytes")));
    }
    let name = match name {
        Some(name) => name,
        None => function.getattr("__name__").and_then(|name| name.extract()).unwrap_or("handler".to_owned()),
    };
    let name = handler_name(&name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let handler = Box::new(PythonHandler {
        name,
        whole: whole.filter(|_| peek.is_none()),
        peek_bytes: peek.unwrap_or(0),
        function: function.unbind(),
        control: control.map(Bound::unbind),
        raised,
    });
    Ok(if peek.is_some() { Handler::Peek(handler) } else { Handler::Select(handler) })
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Fails in a handler: what waits for the thread of a stream would wait for the handler.
pub(crate) fn refuse_in_handler() -> PyResult<()> {
    let reason = "called from a handler: only stop() may be called there";
    if IN_HANDLER.get() { Err(PyRuntimeError::new_err(reason)) } else { Ok(()) }
}

/// Calls a function of Python on a thread that may be a stream's: what would wait for that is refused
/// meanwhile.
pub(crate) fn refusing_waits<T>(function: impl FnOnce() -> T) -> T {
    /// Resets the mark at the end of the call, also if it panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IN_HANDLER.set(self.0);
        }
    }
    let _before = Before(IN_HANDLER.replace(true));
    function()
}

/// Keeps the exception for who waits for the stream. Returns its text.
pub(crate) fn keep(py: Python<'_>, error: PyErr, raised: &Raised) -> String {
    let text = format!("{}: {}", error.get_type(py), error.value(py));
    raised.lock().get_or_insert(error);
    text
}

/// Answer of the function.
enum Answer {
    Pass,
    Drop,
    /// These bytes go on in place of the record.
    Instead(Bytes),
}

impl Common for PythonHandler {
    fn name(&self) -> &'static str {
        self.name
    }

    fn reach(&self) -> Reach {
        self.whole.map_or(Reach::Pieces, |limit| Reach::Records { limit })
    }

    fn control(&mut self, message: &[u8]) -> Result<Vec<u8>, HandlerError> {
        let Some(control) = &self.control else {
            return Err(HandlerError::Refused(format!("{} takes no control messages", self.name)));
        };
        self.attached(|py| {
            let message = PyBytes::new(py, message);
            let answer = refusing_waits(|| control.bind(py).call1((message,)))?;
            if answer.is_none() { Ok(Vec::new()) } else { Ok(bytes_of(&answer)?.to_vec()) }
        })
    }
}

impl Select for PythonHandler {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        let bytes = frame.share(piece.bytes).unwrap_or_else(|| Bytes::copy_from_slice(piece.bytes));
        match self.attached(|py| self.call(py, bytes))? {
            Answer::Pass => frame.keep_all(),
            Answer::Drop => {}
            Answer::Instead(bytes) if bytes.is_empty() => frame.pass_empty(),
            Answer::Instead(bytes) => frame.add(bytes),
        }
        Ok(())
    }
}

impl Peek for PythonHandler {
    fn length(&self) -> usize {
        self.peek_bytes
    }

    fn peek(&mut self, head: &[u8]) -> Result<Verdict, HandlerError> {
        self.attached(|py| {
            let head = PyBytes::new(py, head);
            let answer = refusing_waits(|| self.function.bind(py).call1((head,)))?;
            if answer.is_none() || answer.extract::<bool>()? { Ok(Verdict::Pass) } else { Ok(Verdict::Drop) }
        })
    }
}

impl PythonHandler {
    /// Calls Python. An exception that does not refuse is kept for who waits for the stream.
    fn attached<T>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, HandlerError> {
        let answer = Python::try_attach(|py| {
            call(py).map_err(|error| {
                if error.is_instance_of::<Refused>(py) {
                    HandlerError::Refused(error.value(py).to_string())
                } else {
                    HandlerError::Failed(keep(py, error, &self.raised))
                }
            })
        });
        answer.unwrap_or_else(|| Err(HandlerError::Failed("the interpreter is ending".to_owned())))
    }

    fn call(&self, py: Python<'_>, bytes: Bytes) -> PyResult<Answer> {
        let view = view(py, bytes)?;
        let answer = refusing_waits(|| self.function.bind(py).call1((view,)))?;
        if answer.is_none() {
            return Ok(Answer::Pass);
        }
        // Truth values of NumPy, which have a buffer, too.
        if !answer.is_instance_of::<PyBytes>()
            && let Ok(passes) = answer.extract::<bool>()
        {
            return Ok(if passes { Answer::Pass } else { Answer::Drop });
        }
        bytes_of(&answer).map(Answer::Instead)
    }
}
