//! TLS termination: a client's connection is decrypted here, and goes on as a connection of the loopback device to
//! code that knows nothing of TLS ([why](../../../docs/decisions/0028-tls.md)).

mod certificate;
mod counters;
mod forward;
mod socket_pair;
mod terminator;

pub use certificate::{TlsError, TlsFiles};
pub use terminator::{DESCRIPTORS, Terminator};
