//! Network services shared by server and relay: listeners, limits on clients, authentication, HTTP
//! connections, metrics and status.

pub mod auth;
pub mod confinement;
mod descriptors;
pub mod folder;
pub mod handed_sockets;
pub mod handover;
pub mod http;
mod keepalive;
mod limits;
mod listener;
mod log_limit;
pub mod metrics;
pub mod process;
pub mod program;
mod reserved_listener;
mod runtime_threads;
pub mod status;
pub mod tls;

pub use descriptors::{DescriptorBudget, DescriptorPermit, is_out_of_descriptors, raise_descriptor_limit};
pub use keepalive::expect_acknowledgements;
pub use limits::{ClientLimits, Exceeded, Permit, client as counted_address};
pub use listener::{Addresses, Listen, any_address, bind, serve};
pub use log_limit::LogLimit;
pub use reserved_listener::ReservedListener;
pub use runtime_threads::RuntimeThreads;
