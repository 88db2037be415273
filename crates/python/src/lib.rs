//! The stream service for Python: the package `wirepath`. `python/wirepath/__init__.pyi` is its
//! documentation.
//!
//! Handlers run attached to the interpreter, on the thread of their stream; all else runs without it. Beside
//! `sys` and `capi`, the only crate with `unsafe`: Python gets records by pointers ([`record`]).

mod errors;
mod handler;
mod object;
mod order;
mod record;
mod stream;
mod values;

use pyo3::prelude::*;

/// Streams of records between sockets, pipes and files.
#[pymodule]
fn _wirepath(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("StreamError", module.py().get_type::<errors::StreamError>())?;
    module.add("StreamStopped", module.py().get_type::<errors::StreamStopped>())?;
    module.add("Refused", module.py().get_type::<errors::Refused>())?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<order::ByTag>()?;
    module.add_class::<order::JoinByKey>()?;
    module.add_class::<values::PythonOption>()?;
    module.add_class::<values::Framing>()?;
    module.add_class::<values::Status>()?;
    module.add_class::<values::Event>()
}
