//! Data paths that a server or a stream chooses, or steps down to.

pub(crate) mod gso_writev;
pub mod interleaved;
pub(crate) mod kernel_module;
pub(crate) mod read_writev;
pub mod sendfile;
pub(crate) mod sendmmsg;
pub(crate) mod wire_mapping;
pub(crate) mod wire_sendfile;
pub(crate) mod wire_uring;
