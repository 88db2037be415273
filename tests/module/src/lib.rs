//! Model of the kernel module's output, from `kernel/module/Documentation/wirepath.rst` alone, and calls to
//! try the module with.
//!
//! Nothing here talks to the kernel: the tests in `guest/` do, and compare.

pub mod call;
pub mod content;
pub mod model;
pub mod random;
pub mod rtp;
pub mod vector;
