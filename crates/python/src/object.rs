//! Inputs and outputs that Python has: descriptors, and objects that have one.

use std::os::fd::{BorrowedFd, RawFd};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use wirepath_streams::Object;

/// The descriptor that an object is or has; None if it has none.
pub(crate) fn descriptor_of(object: &Bound<'_, PyAny>) -> PyResult<Option<RawFd>> {
    if let Ok(descriptor) = object.extract() {
        return Ok(Some(descriptor));
    }
    if !object.hasattr("fileno")? {
        return Ok(None);
    }
    if object.hasattr("flush")? {
        object.call_method0("flush")?; // what a file of Python has buffered goes before what a stream writes
    }
    object.call_method0("fileno")?.extract().map(Some)
}

/// An object for a duplicate of a descriptor.
pub(crate) fn object(name: &str, descriptor: RawFd) -> PyResult<Object> {
    if descriptor < 0 {
        return Err(PyValueError::new_err(format!("{name}: invalid descriptor {descriptor}")));
    }
    // SAFETY: it is not -1. If nothing is open by this number, duplicating fails, and nothing else is done.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let object = descriptor.try_clone_to_owned().and_then(|descriptor| Object::from_fd(name, descriptor));
    object.map_err(|error| PyOSError::new_err((error.raw_os_error(), format!("{name}: {error}"))))
}
