//! What every door of the server and of the relay does alike: connections are taken until it is told to drain, and HTTP clients are
//! heard within time limits and lent to the engine, which sends the bytes.

mod door;
mod http;

pub use door::{Listen, serve};
pub use http::{Connection, End, Limits, broken, now_s, turn_away};
