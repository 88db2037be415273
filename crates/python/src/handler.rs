//! Handlers that are functions of Python.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use wirepath_streams::{Common, Frame, HandlerError, Piece, Reach, Select};

use crate::record::{bytes_of, view};

/// The exception that ended a stream.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

/// A handler that calls a function of Python.
pub(crate) struct PythonHandler {
    pub(crate) name: &'static str,
    /// Most bytes of a record that is given whole; pieces if there is no limit.
    pub(crate) whole: Option<usize>,
    pub(crate) function: Py<PyAny>,
    pub(crate) raised: Raised,
}

thread_local! {
    static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Fails in a handler: what waits for the thread of a stream would wait for the handler.
pub(crate) fn refuse_in_handler() -> PyResult<()> {
    let reason = "called from a handler: only stop() may be called there";
    if IN_HANDLER.get() { Err(PyRuntimeError::new_err(reason)) } else { Ok(()) }
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
}

impl Select for PythonHandler {
    fn select(&mut self, piece: Piece<'_>, frame: &mut Frame<'_>) -> Result<(), HandlerError> {
        let bytes = frame.share(piece.bytes).unwrap_or_else(|| Bytes::copy_from_slice(piece.bytes));
        let answer = Python::try_attach(|py| self.call(py, bytes).map_err(|error| self.failed(py, error)));
        match answer.unwrap_or_else(|| Err(HandlerError::Failed("the interpreter is ending".to_owned())))? {
            Answer::Pass => frame.keep_all(),
            Answer::Drop => {}
            Answer::Instead(bytes) if bytes.is_empty() => frame.pass_empty(),
            Answer::Instead(bytes) => frame.add(bytes),
        }
        Ok(())
    }
}

impl PythonHandler {
    fn call(&self, py: Python<'_>, bytes: Bytes) -> PyResult<Answer> {
        let view = view(py, bytes)?;
        IN_HANDLER.set(true);
        let answer = self.function.bind(py).call1((view,));
        IN_HANDLER.set(false);
        let answer = answer?;
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

    /// Keeps the exception for who waits for the stream.
    fn failed(&self, py: Python<'_>, error: PyErr) -> HandlerError {
        let reason = error.value(py).to_string();
        let reason = format!("{}: {reason}", error.get_type(py));
        self.raised.lock().get_or_insert(error);
        HandlerError::Failed(reason)
    }
}
