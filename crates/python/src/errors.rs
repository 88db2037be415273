//! Exceptions.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use wirepath_streams::{HandlerChangeError, HandlerError, OptionError, Port};

create_exception!(wirepath, StreamError, PyException, "A stream ended with an error.");
create_exception!(wirepath, StreamStopped, StreamError, "A stream was stopped.");
create_exception!(wirepath, Refused, PyException, "A handler refuses a message or a record.");

pub(crate) fn busy() -> PyErr {
    PyRuntimeError::new_err("the stream is being started or changed by another thread or its own handler")
}

/// Error of a stream whose start or change panicked.
pub(crate) fn failed(message: &str) -> PyErr {
    StreamError::new_err(format!("the stream has failed, panic in a change of it: {message}; make a new one"))
}

pub(crate) fn no_port(kind: &str, port: Port) -> PyErr {
    PyValueError::new_err(format!(
        "no {kind} with port {port}: it is being detached, has been removed, or never existed"
    ))
}

pub(crate) fn option_error(error: OptionError) -> PyErr {
    match error {
        OptionError::Fixed(_) => PyRuntimeError::new_err(error.to_string()),
        OptionError::NoOutput(port) => no_port("output", port),
        error => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn change_error(error: HandlerChangeError) -> PyErr {
    match error {
        HandlerChangeError::Missing(id) => {
            PyValueError::new_err(format!("no handler {id}: it has been removed or never existed"))
        }
        HandlerChangeError::Busy(_) => PyRuntimeError::new_err(error.to_string()),
        HandlerChangeError::TooLong(_) => PyValueError::new_err(error.to_string()),
    }
}

pub(crate) fn handler_error(error: HandlerError) -> PyErr {
    match error {
        HandlerError::Refused(reason) => Refused::new_err(reason),
        HandlerError::Failed(reason) => StreamError::new_err(reason),
    }
}
