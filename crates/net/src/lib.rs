//! Network services that server and relay share: listeners, limits on clients, authentication, HTTP connections,
//! metrics and status.

pub mod auth;
mod descriptors;
pub mod folder;
pub mod http;
mod http_threads;
mod limits;
mod listener;
mod log_limit;
pub mod metrics;
pub mod process;
pub mod program;
mod reserved_listener;
pub mod status;

pub use descriptors::{DescriptorBudget, DescriptorPermit, is_out_of_descriptors, raise_descriptor_limit};
pub use limits::{ClientLimits, Exceeded, Permit};
pub use listener::{Listen, any_address, bind, serve};
pub use log_limit::LogLimit;
pub use reserved_listener::ReservedListener;
