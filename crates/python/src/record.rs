//! A record as a buffer of Python: its bytes stay where the stream read them.

use std::ffi::{c_int, c_void};

use bytes::Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

/// Bytes of a record, or of a piece of one, for as long as Python has views of them.
#[pyclass(frozen, module = "wirepath")]
struct Record(Bytes);

#[pymethods]
impl Record {
    /// Fills in a view of the bytes, which nobody can change.
    ///
    /// # Safety
    /// `view` is NULL or has room for a view, as the interpreter promises.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        let bytes = &slf.get().0;
        let (start, length) = (bytes.as_ptr().cast_mut().cast::<c_void>(), bytes.len().cast_signed());
        // SAFETY: the view keeps this object, and so the bytes, which do not move or change; it is read-only.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// A read-only view of bytes of a stream.
pub(crate) fn view(py: Python<'_>, bytes: Bytes) -> PyResult<Bound<'_, PyMemoryView>> {
    PyMemoryView::from(Bound::new(py, Record(bytes))?.as_any())
}

/// The bytes of any object with a buffer: of `bytes`, which nobody can change, without a copy.
pub(crate) fn bytes_of(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    let bytes = match object.cast::<PyBytes>() {
        Ok(bytes) => bytes.clone(),
        Err(_) => PyMemoryView::from(object)?.call_method0("tobytes")?.cast_into::<PyBytes>()?,
    };
    Ok(Bytes::from_owner(Owner::new(bytes)))
}

/// Bytes of Python for a stream.
struct Owner {
    _object: Py<PyBytes>,
    start: *const u8,
    length: usize,
}

// SAFETY: the bytes never change, and an object may be released on any thread.
unsafe impl Send for Owner {}

impl Owner {
    fn new(bytes: Bound<'_, PyBytes>) -> Owner {
        let (start, length) = (bytes.as_bytes().as_ptr(), bytes.as_bytes().len());
        Owner { _object: bytes.unbind(), start, length }
    }
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the object lives as long as this, and its bytes never move or change.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}
