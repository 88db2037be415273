//! TLS termination: a client's connection is decrypted here, and continues as a loopback connection to code
//! that does not handle TLS ([why](../../../docs/decisions/0028-tls.md)).

mod certificate;
mod counters;
mod forward;
mod socket_pair;
mod terminator;

pub use certificate::{TlsError, TlsFiles};
pub use terminator::{DESCRIPTORS, Terminator};
