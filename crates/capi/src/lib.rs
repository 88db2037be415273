//! The stream service for C, as a shared and a static library. `include/wirepath.h` is its documentation.
//!
//! Beside `sys` and the Python package, the only crate with `unsafe`: it takes pointers from C, and calls
//! what C gave it. No panic crosses the boundary ([`call`]).

mod call;
mod changes;
mod engine;
mod handler;
mod order;
mod stream;
mod values;

use std::ffi::{CStr, c_char};

/// Version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn wp_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!("a version has no zero byte"),
        };
    VERSION.as_ptr()
}
