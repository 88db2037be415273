//! The stream service as a command: addresses as people know them, and how they are wired together; a cache.

mod address;
pub mod cache;
mod open;
mod spec;
mod wiring;

pub use address::{Address, AddressError};
pub use open::OpenError;
pub use spec::{FramingSpec, HandlerSpec, OrderSpec, PatternSpec, SpecError, WhenFullSpec};
pub use wiring::{Wiring, WiringError};
